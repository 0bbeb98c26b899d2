"""llama.cpp: the sizes it prints, to the MiB it prints them with.

Where nothing else is said, the printed size is a run of llama.cpp 0c1e57098 on the CPU with
a synthetic GGUF of the geometry in the test.
"""

from __future__ import annotations

from typing import Any

import pytest
from engine_cases import files_of, llama, mib, published, sized

from hfkv.core.engines.llama_cpp import window_cells
from hfkv.core.gpus import parse_gpu
from hfkv.core.report import analyze
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import UsageError

KV = "keys and values"
STATES = ("recurrent state", "convolution state")


def gemma3(**keys: object) -> dict[str, Any]:
    """Return a Gemma 3 of 12 layers: 2 full, 10 with a window of 1,024; 2 KV heads of 64."""
    return llama(
        model_type="gemma3_text",
        num_hidden_layers=12,
        sliding_window=1024,
        sliding_window_pattern=6,
        **keys,
    )


@pytest.mark.parametrize(
    ("kv_dtype", "printed"), [("auto", "16.00"), ("q8_0", "8.50"), ("q4_0", "4.50")]
)
def test_8000_tokens_take_8192_cells(kv_dtype: str, printed: str) -> None:
    """4 layers of 2 x 64 keys and as many values: 16.00 MiB in f16, 8.50 in q8_0, 4.50 in q4_0."""
    kv = sized("llama.cpp", llama(), 8000, kv_dtype=kv_dtype)
    assert f"{float(mib(kv)):.2f}" == printed
    assert kv.components[0].slots == 8192


def test_four_slots_of_2000_tokens_take_what_one_of_8000_does() -> None:
    """Each slot of 2,000 tokens is padded to 2,048 cells: 16.00 MiB for four."""
    assert mib(sized("llama.cpp", llama(), 2000, 4)) == 16


def test_the_cache_is_f16_whatever_the_model_computes_in() -> None:
    """A bf16 checkpoint has an f16 cache, and the report says whose default that is."""
    kv = sized("llama.cpp", llama(), 8000)
    assert (kv.dtype, kv.dtype_source) == ("float16", "default of llama.cpp")


@pytest.mark.parametrize(
    ("tokens", "sequences", "batch", "full", "window"),
    [
        (8192, 1, None, 8, "7.5"),  # 1536 cells
        (2048, 4, None, 8, "30"),  # not unified: 4 x 1536 cells
        (8192, 1, 2048, 8, "15"),  # --ubatch-size 2048: 3072 cells
    ],
)
def test_a_window_holds_a_micro_batch_more(
    *, tokens: int, sequences: int, batch: int | None, full: int, window: str
) -> None:
    """Gemma 3 with 2 full layers and 10 of a window of 1,024: both caches as printed."""
    kv = sized("llama.cpp", gemma3(), tokens, sequences, batch=batch)
    assert mib(kv, KV) == full
    assert float(mib(kv, f"{KV}, window 1024")) == float(window)


def test_a_unified_cache_holds_the_windows_of_all_its_sequences() -> None:
    """4 sequences in one cache of 8,192 cells: 4,608 window cells, 22.50 MiB over 10 layers."""
    cells = window_cells(8192, 1024, batch=512, sharing=4)
    assert cells == 4608
    assert 10 * cells * 2 * 2 * 64 * 2 == 22.5 * 2**20


def test_windows_that_are_not_honoured_cost_all_cells() -> None:
    """`swa_full`, and what Mistral or Qwen2 always get: 8 + 40 MiB in place of 8 + 7.5."""
    windowed = llama(num_hidden_layers=12, model_type="mistral", sliding_window=1024)
    assert mib(sized("llama.cpp", windowed, 8192)) == 48


def test_latents_have_no_values() -> None:
    """deepseek2 with `_mla` keys, 5 layers, 8,192 cells: K 45.00 MiB, V 0."""
    config = llama(
        model_type="deepseek_v3", num_hidden_layers=5, kv_lora_rank=512, qk_rope_head_dim=64
    )
    assert mib(sized("llama.cpp", config, 8192)) == 45


@pytest.mark.parametrize(("sequences", "printed"), [(1, "0.78"), (4, "3.11")])
def test_mamba2_states_are_float32(sequences: int, printed: str) -> None:
    """3 layers, inner width 512, states of 128, one group: 3 x (3 x 768 + 128 x 512) x 4 B."""
    config = {
        "model_type": "mamba2",
        "num_hidden_layers": 3,
        "hidden_size": 256,
        "expand": 2,
        "num_heads": 8,
        "head_dim": 64,
        "state_size": 128,
        "n_groups": 1,
        "conv_kernel": 4,
        "vocab_size": 1000,
        "torch_dtype": "bfloat16",
    }
    kv = sized("llama.cpp", config, 4096, sequences)
    assert f"{float(mib(kv)):.2f}" == printed


def test_a_hybrid_has_cells_and_rows() -> None:
    """qwen35 with 2 attention and 6 linear layers, 4 sequences: KV 8.00, state 3.28 MiB."""
    config = llama(
        model_type="qwen3_5_text",
        num_hidden_layers=8,
        full_attention_interval=4,
        linear_conv_kernel_dim=4,
        linear_num_key_heads=4,
        linear_key_head_dim=64,
        linear_num_value_heads=8,
        linear_value_head_dim=64,
    )
    kv = sized("llama.cpp", config, 2048, 4)
    assert mib(kv, KV) == 8
    assert f"{float(mib(kv, *STATES)):.2f}" == "3.28"


def test_qwen3_5_9b_as_a_user_logged_it() -> None:
    """262,144 cells in q8_0 over 8 layers: 4352 MiB; 2 sequences have 100.5 MiB of state."""
    config = published("masidyai--qwen3.5-9b-masidy")
    assert mib(sized("llama.cpp", config, 262_144, kv_dtype="q8_0"), KV) == 4352
    assert mib(sized("llama.cpp", config, 131_072, 2, kv_dtype="q8_0"), KV) == 4352
    assert float(mib(sized("llama.cpp", config, 131_072, 2), *STATES)) == 100.5


def test_qwen3_5_35b_as_a_server_with_four_slots_logged_it() -> None:
    """32,768 cells over 10 layers: 640 MiB; 4 rows over 30 layers: R 11.25 and S 240 MiB (L289)."""
    kv = sized("llama.cpp", published("Qwen--Qwen3.5-35B-A3B"), 8192, 4)
    assert mib(kv, KV) == 640
    assert float(mib(kv, "convolution state")) == 11.25
    assert mib(kv, "recurrent state") == 240


def test_smollm2_as_logged() -> None:
    """SmolLM2-135M, 32,768 cells: 720 MiB."""
    assert mib(sized("llama.cpp", published("HuggingFaceTB--SmolLM2-135M-Instruct"), 32_768)) == 720


def test_gpt_oss_as_logged() -> None:
    """16,384 cells on 12 layers are 384 MiB; a micro-batch of 1,024 gives windows 1,280 (L294).

    131,072 cells on 12 layers are the 3072 MiB that an LM Studio log shows for either half.
    """
    config = published("openai--gpt-oss-20b")
    kv = sized("llama.cpp", config, 16_384, batch=1024)
    assert mib(kv, KV) == 384
    assert mib(kv, f"{KV}, window 128") == 30
    assert mib(sized("llama.cpp", config, 131_072), KV) == 3072


@pytest.mark.parametrize(("inner", "layers", "printed"), [(4096, 48, "14.25"), (5120, 64, "23.75")])
def test_mamba_as_logged(inner: int, layers: int, printed: str) -> None:
    """Mamba 1.4B and 2.8B: 14.25 and 23.75 MiB a slot (L122, L123)."""
    config = {
        "model_type": "mamba",
        "num_hidden_layers": layers,
        "hidden_size": inner // 2,
        "intermediate_size": inner,
        "state_size": 16,
        "conv_kernel": 4,
        "torch_dtype": "float32",
    }
    assert f"{float(mib(sized('llama.cpp', config, 32_768))):.2f}" == printed


def test_deepseek_v4_as_logged() -> None:
    """64,000 tokens with a micro-batch of 4,096: windows of 4,352 cells, 182.75 MiB (L119).

    Compressed entries are padded by themselves: 16,128 and 512 cells of the 64,000 that 250
    multiples of 256 make; buffers are 2 x (2·512·8), 2 x (2·128·8) and 2 x (512·128) floats.
    """
    kv = sized("llama.cpp", published("deepseek-ai--DeepSeek-V4-Flash"), 64_000, batch=4096)
    slots = {part.name: (part.layers, part.slots) for part in kv.components}
    assert float(mib(kv, f"{KV}, window 128")) == 182.75
    assert slots[f"{KV}, window 128"] == (43, 4352)
    assert slots[f"{KV}, 1 in 4"] == (21, 16_128)
    assert slots["index keys, 1 in 4"] == (21, 16_128)
    assert slots[f"{KV}, 1 in 128"] == (20, 512)
    floats = 21 * 2 * (1024 * 8 + 256 * 8) + 20 * 2 * 512 * 128
    assert mib(kv, "recurrent state") * 2**20 == floats * 4


def test_minimax_m3_keeps_values_for_its_indexer_too() -> None:
    """Its index cache is an ordinary one: keys of 128 and values of 128 on sparse layers."""
    config = llama(
        model_type="minimax_m3_vl_text",
        index_head_dim=128,
        sparse_attention_config={"sparse_attention_freq": [0, 1, 1, 1], "sparse_index_dim": 128},
    )
    kv = sized("llama.cpp", config, 4096)
    index = next(part for part in kv.components if part.name == "index keys")
    assert (index.layers, index.elements_per_slot) == (3, 256)


def test_glm5_next_keeps_three_index_vectors() -> None:
    """Pooled index keys take three times the width of one."""
    kv = sized("llama.cpp", {"model_type": "glm5_next_text"}, 4096)
    index = next(part for part in kv.components if part.name == "index keys")
    assert index.elements_per_slot == 3 * 128


def test_one_more_token_costs_its_share_of_a_cell() -> None:
    """Padding does not change what a token costs on average: 2 x 4 x 2 x 64 x 2 bytes."""
    assert sized("llama.cpp", llama(), 8000).bytes_per_token == 2048
    assert sized("llama.cpp", gemma3(), 512).bytes_per_token == 12 * 512
    assert sized("llama.cpp", gemma3(), 8192).bytes_per_token == 2 * 512


def test_fp8_is_no_cache_type_of_llama_cpp() -> None:
    """`-ctk fp8` does not exist, and the refusal lists what does."""
    with pytest.raises(UsageError) as error:
        sized("llama.cpp", llama(), 4096, kv_dtype="fp8")
    assert str(error.value) == "llama.cpp keeps no cache in fp8"
    assert error.value.hint == (
        "it has float16, bfloat16, float32, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl"
    )


def test_several_gpus_share_the_layers() -> None:
    """On two cards each has two of the four layers; a rank holds what it needs and padding."""
    work = Workload(
        context=8000, engine="llama.cpp", deployment=Deployment(gpus=parse_gpu("2xrtx3090"))
    )
    kv = analyze(files_of(llama()), work).kv
    assert kv is not None
    assert kv.per_gpu.ideal_bytes_per_sequence == 8000 * 2 * 2 * 2 * 64 * 2
    assert kv.per_gpu.admission_bytes_per_sequence == 8192 * 2 * 2 * 2 * 64 * 2
    assert kv.per_gpu.steady_bytes_per_sequence == kv.per_gpu.admission_bytes_per_sequence
