"""TensorRT-LLM: blocks of 32 tokens, windows of their own, and sizes from its logs."""

from __future__ import annotations

import pytest
from engine_cases import llama, mib, published, sized

GIB = 2**30


def test_deepseek_v3_in_fp8_as_logged() -> None:
    """A log prints 35,136 bytes per token: 61 layers of 576."""
    kv = sized("trtllm", published("deepseek-ai--DeepSeek-V3"), 8192, kv_dtype="fp8")
    assert kv.bytes_per_token == 35_136


def test_llama_3_1_8b_as_logged() -> None:
    """220,480 tokens are the 26.91 GiB that were allocated (L170)."""
    kv = sized("trtllm", published("meta-llama--Meta-Llama-3.1-8B"), 220_480)
    assert kv.bytes == 220_480 * 131_072
    assert f"{kv.bytes / GIB:.2f}" == "26.91"


@pytest.mark.parametrize(("tokens", "slots"), [(1, 32), (32, 32), (33, 64)])
def test_tokens_come_in_blocks_of_32(tokens: int, slots: int) -> None:
    """33 tokens take two blocks."""
    assert sized("trtllm", llama(), tokens).components[0].slots == slots


def test_windows_of_gemma_3_are_pools_of_their_own() -> None:
    """2 full layers of 8,192 tokens and 10 of 1,024, 512 bytes each in a layer: 8 and 5 MiB."""
    windowed = {"num_hidden_layers": 12, "sliding_window": 1024, "sliding_window_pattern": 6}
    assert mib(sized("trtllm", llama(model_type="gemma3_text", **windowed), 8192)) == 13
    assert mib(sized("trtllm", llama(model_type="mistral", **windowed), 8192)) == 48


def test_nvfp4_is_half_a_byte_and_a_scale_for_each_sixteen() -> None:
    """9 bytes hold 16 values: 4 layers x 256 values x 9/16."""
    assert sized("trtllm", llama(), 4096, kv_dtype="nvfp4").bytes_per_token == 576
