"""SGLang: bytes per token of its pools, as its logs print them or its source computes them."""

from __future__ import annotations

import pytest
from engine_cases import MIB, files_of, llama, mib, published, sized

from hfkv.core.engines.engine import PerGpu
from hfkv.core.gpus import parse_gpu
from hfkv.core.report import analyze
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import UsageError

KV = "keys and values"
GIB = 2**30


@pytest.mark.parametrize(
    ("fixture", "kv_dtype", "size"),
    [
        # L166: 2,454,421 tokens in 160.63 GiB of each rank at TP 8
        ("moonshotai--Kimi-K2-Instruct", "auto", 61 * 576 * 2),
        # bf16 latents and 132 bytes of index key; in fp8 a row is 656 bytes
        ("deepseek-ai--DeepSeek-V3.2", "auto", 61 * (1152 + 132)),
        ("deepseek-ai--DeepSeek-V3.2", "fp8", 61 * (656 + 132)),
        ("deepseek-ai--DeepSeek-V3", "fp8", 61 * 576),
        ("meta-llama--Meta-Llama-3.1-8B", "fp8", 65_536),
    ],
)
def test_bytes_per_token(fixture: str, kv_dtype: str, size: int) -> None:
    """A cell is latents, or heads x (key + value), over all layers."""
    kv = sized("sglang", published(fixture), 8192, kv_dtype=kv_dtype)
    assert kv.bytes_per_token == size
    assert kv.bytes == 8192 * size


def test_kimi_as_logged() -> None:
    """2,454,421 tokens of 70,272 bytes are the 160.63 GiB that the log prints (L166)."""
    size = sized("sglang", published("moonshotai--Kimi-K2-Instruct"), 4096).bytes_per_token
    assert f"{2_454_421 * size / GIB:.2f}" == "160.63"


def test_gemma_4_31b_keeps_window_tokens_for_four_fifths() -> None:
    """10 full layers of 4 x 512 and 50 windowed of 16 x 256: 81,920 + 0.8 x 819,200 a token.

    The logged pools hold 81,920 and 819,200 bytes a token over both ranks (L278: 167,877 in
    6.40 and 5,036 in 1.92 GiB a rank, with a ratio of 0.03).
    """
    assert f"{167_877 * 40_960 / GIB:.2f}" == "6.40"
    assert f"{5036 * 409_600 / GIB:.2f}" == "1.92"
    config = llama(
        model_type="gemma4_text",
        num_hidden_layers=60,
        num_attention_heads=32,
        num_key_value_heads=16,
        head_dim=256,
        num_global_key_value_heads=4,
        global_head_dim=512,
        attention_k_eq_v=True,
        sliding_window=1024,
        sliding_window_pattern=6,
    )
    kv = sized("sglang", config, 100_000)
    full, window = kv.components
    if full.name != KV:
        full, window = window, full
    assert (full.layers * full.bytes_per_slot, full.slots) == (81_920, 100_000)
    assert (window.layers * window.bytes_per_slot, window.slots) == (819_200, 80_000)
    assert kv.bytes_per_token == 81_920 + 655_360


def test_a_short_sequence_still_needs_its_window() -> None:
    """100 tokens of gpt-oss are 100 window tokens, not 80."""
    kv = sized("sglang", published("openai--gpt-oss-20b"), 100)
    assert {part.slots for part in kv.components} == {100}


@pytest.mark.parametrize(
    ("model_type", "windowed"), [("gemma3_text", 5), ("gemma2", 3), ("mistral", 6)]
)
def test_windows_outside_the_list_are_kept_in_full(model_type: str, windowed: int) -> None:
    """Gemma-2, Gemma-3 and Mistral have full caches on all layers."""
    config = llama(model_type=model_type, num_hidden_layers=6, sliding_window=1024)
    need = sized("none", config, 8192)
    assert sum(p.layers for p in need.components if p.slots == 1024) == windowed
    assert sized("sglang", config, 8192).bytes == 6 * 8192 * 2 * 2 * 64 * 2


def test_qwen3_5_9b_as_logged() -> None:
    """32,768 bytes a token on both ranks, and 48 MiB a state, of which a request has three.

    L167, at TP 2: 327,310 tokens in 5.00 GiB, 187 states in 4.38 GiB of ssm and 0.10 of conv.
    """
    kv = sized("sglang", published("masidyai--qwen3.5-9b-masidy"), 8192)
    assert kv.bytes_per_token == 32_768
    assert f"{327_310 * 32_768 / 2 / GIB:.2f}" == "4.99"  # printed as twice 2.50
    assert mib(kv, "recurrent state") == 3 * 48
    assert f"{187 * 48 / 2 / 1024:.2f}" == "4.38"
    conv = mib(kv, "convolution state") / 3
    assert f"{float(187 * conv / 2 / 1024):.2f}" == "0.10"


def test_deepseek_v4_costs_what_its_configurator_says() -> None:
    """43 layers of 584-byte rows: a tenth for the window, 1/4 and 1/128 compressed, buffers.

    Source: DSV4PoolConfigurator._get_bytes_per_full_token of SGLang: 21 layers of ratio 4 and
    20 of 128; 8 buffer rows of 2·2·512 and 2·2·128 floats per page of 128 window tokens.
    """
    kv = sized("sglang", published("deepseek-ai--DeepSeek-V4-Flash"), 1_024_000)
    tokens = 1_024_000
    hand = (
        43 * 584 * tokens // 10
        + 21 * (584 + 132) * tokens // 4
        + 20 * 584 * tokens // 128
        + 21 * (2048 + 512) * 4 * tokens // 160
    )
    request = 20 * 2 * 512 * 128 * 4  # the other buffers belong to a request
    assert kv.bytes == hand + request


def test_a_format_sglang_does_not_have_is_refused() -> None:
    """q8_0 is a format of llama.cpp."""
    with pytest.raises(UsageError) as error:
        sized("sglang", llama(), 4096, kv_dtype="q8_0")
    assert str(error.value) == "SGLang keeps no cache in q8_0"
    assert error.value.hint == "it has bfloat16, float16, fp8, fp8_e4m3, fp8_e5m2, nvfp4"


def test_a_hybrid_is_admitted_by_the_fuller_of_two_pools() -> None:
    """Tokens get 10/19 of the memory and states 9/19: at 4,096 tokens the states decide.

    On each of two ranks a token takes 16,384 bytes, a state 24 MiB and half of 1.125 MiB.
    """
    config = published("masidyai--qwen3.5-9b-masidy")
    state = 3 * (24 * MIB + 24 * 4096 * 3 * 2)
    for tokens, admitted in (
        (4096, -(-state * 19 // 9)),
        (131_072, 131_072 * 16_384 * 19 // 10 + 1),
    ):
        work = Workload(
            context=tokens,
            engine="sglang",
            deployment=Deployment(gpus=parse_gpu("2xrtx3090")),
        )
        kv = analyze(files_of(config), work).kv
        assert kv is not None
        assert kv.per_gpu.admission_bytes_per_sequence == admitted
        assert kv.per_gpu.steady_bytes_per_sequence == tokens * 16_384 + state
        assert kv.per_gpu.ideal_bytes_per_sequence == tokens * 16_384 + state // 3


def test_ranks_share_heads_and_stages_layers() -> None:
    """Four layers of 2 KV heads on 2 x 2 GPUs: one head of two layers on each."""
    work = Workload(
        context=1000,
        engine="sglang",
        deployment=Deployment(gpus=parse_gpu("4xrtx3090"), pipeline_parallel_size=2),
    )
    kv = analyze(files_of(llama()), work).kv
    assert kv is not None
    size = 1000 * 2 * 2 * 64 * 2
    assert kv.per_gpu == PerGpu(
        ideal_bytes_per_sequence=size,
        admission_bytes_per_sequence=size,
        steady_bytes_per_sequence=size,
    )
