"""What vLLM reserves beyond its oracle: plans, formats, blocks, older versions, decoding.

Expected figures are published (reference/vllm_kv.md of the facts this project was built
from, start-up logs) or arithmetic in the test.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from vllm_plans import GIB, LLAMA, cases, planned, published, read

from hfkv.core.engines.vllm import VLLM, admission, capacity
from hfkv.core.engines.vllm_options import VllmOptions, options_for
from hfkv.core.gpus import parse_gpu
from hfkv.core.workload import Deployment, Workload


def test_an_older_version_serves_what_the_newest_does_not() -> None:
    """Version 0.23 served MiniMax-Text-01: 10 layers of attention beside 70 states."""
    arch, precision = read(cases()["MiniMaxAI/MiniMax-Text-01"]["config"])
    plan = admission(arch, precision, VllmOptions(version=(0, 23)), max_model_len=4096)
    assert Counter(spec.kind.value for spec in plan.specs) == {"full": 10, "state": 70}


@pytest.mark.parametrize(
    ("tp", "per_token"), [(1, 131072), (2, 65536), (4, 32768), (8, 16384), (16, 16384)]
)
def test_kv_heads_are_split_and_then_copied(tp: int, per_token: int) -> None:
    """Llama-3.1-8B's 8 KV heads: half on 2 ranks, one on 8, copies from there on.

    Published: reference/vllm_kv.md section 9.
    """
    assert planned(LLAMA, tensor_parallel_size=tp).ideal_bytes == per_token * 131072


def test_pages_that_do_not_divide_are_padded() -> None:
    """A window page of 3 heads beside a full page of 2 is charged what the larger one takes."""
    mimo = {
        "model_type": "mimo_v2_flash",
        "dtype": "bfloat16",
        "num_hidden_layers": 4,
        "hidden_size": 1024,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "swa_num_key_value_heads": 3,
        "head_dim": 128,
        "v_head_dim": 128,
        "swa_head_dim": 128,
        "swa_v_head_dim": 128,
        "sliding_window": 128,
        "hybrid_layer_pattern": [0, 1, 0, 1],
    }
    plan = planned(mimo, length=4096)
    page = 16 * 3 * 256 * 2
    assert {(s.content_bytes, s.page_bytes) for g in plan.groups for s in g.specs} == {
        (page, page),
        (page * 2 // 3, page),
    }


def test_windows_are_cut_to_the_room_beside_the_rows() -> None:
    """DeepSeek-V4 with ratio 128 alone: 4 rows of 1,728 bytes a block, 65 times 576 a window.

    A window page (37,440) is the largest; one fits a block, and so does one buffer (8
    tokens of 4,096 bytes, padded to 32,832): 4 + 4 groups beside the one of the rows.
    """
    config = {
        **published("deepseek-ai--DeepSeek-V4-Flash"),
        "num_hidden_layers": 4,
        "compress_ratios": [128] * 4,
    }
    plan = planned(config, length=2**20)
    assert plan.pool_bytes_per_block == 37_440
    assert sorted(len(group.specs) for group in plan.groups) == [1] * 8 + [4]


def test_context_parallelism_shares_the_copies() -> None:
    """Llama-3.1-8B on 16 ranks has each KV head twice; dcp 2 halves what a copy holds."""
    whole = planned(LLAMA, tensor_parallel_size=16)
    halved = planned(LLAMA, tensor_parallel_size=16, decode_context_parallel_size=2)
    assert halved.max_memory_usage_bytes * 2 == whole.max_memory_usage_bytes


@pytest.mark.parametrize(
    ("kv", "per_head"),
    [
        ("fp8", 256),
        ("fp8_per_token_head", 264),
        ("int8_per_token_head", 264),
        ("int4_per_token_head", 136),
        ("nvfp4", 144),
    ],
)
def test_cache_formats_hold_their_scales(kv: str, per_head: int) -> None:
    """A key and a value of 128 take so many bytes (reference/vllm_kv.md section 3)."""
    assert planned(LLAMA, kv=kv).ideal_bytes == per_head * 8 * 32 * 131072


@pytest.mark.parametrize(
    ("name", "kv", "drafted", "block"),
    [
        ("Qwen--Qwen3.8-27B", "auto", 0, 784),
        ("Qwen--Qwen3.8-27B", "fp8", 0, 1568),
        ("Qwen--Qwen3.8-27B", "auto", 1, 800),
        ("Qwen--Qwen3.5-35B-A3B", "auto", 0, 1056),
        ("nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "auto", 0, 2096),
        ("LiquidAI--LFM2-1.2B", "auto", 0, 16),
    ],
)
def test_hybrid_blocks_are_what_vllm_logs(name: str, kv: str, drafted: int, block: int) -> None:
    """`Setting attention block size to N tokens`: N of published configs.

    784 and 1568 are in published logs; the others are measured (reference/vllm_kv.md 5, 11).
    """
    plan = planned(published(name), kv=kv, num_speculative_tokens=drafted)
    assert {spec.block_size for spec in plan.specs} == {block}


def test_deepseek_v4_packs_windows_and_buffers_beside_its_rows() -> None:
    """DeepSeek-V4-Flash: 10.06 GiB reserved at 1,048,576 tokens, 3.77 GiB needed.

    One block of the widest group: 21 layers of ratio 4 keep 64 rows of 584 bytes (37,440
    with padding to 576) and 64 index rows of 132 (8,640); 20 of ratio 128 keep 2 rows
    (1,728). Blocks: 4,096 of 256 tokens; two window groups of 64 tokens over 127 + 16,384;
    buffers of 4 tokens over 7 + 16,384 and of 8 over 127 + 16,384.
    """
    pool = 21 * (37_440 + 8_640) + 20 * 1_728
    blocks = 4_096 + 2 * (258 + 1) + (4_098 + 1) + (2_064 + 1)
    plan = planned(published("deepseek-ai--DeepSeek-V4-Flash"), length=1_048_576)
    assert plan.pool_bytes_per_block == pool
    assert plan.blocks_per_sequence == blocks
    assert round(plan.max_memory_usage_bytes / GIB, 2) == 10.06
    assert round(plan.ideal_bytes / GIB, 2) == 3.77


def test_deepseek_v4_reserves_less_for_smaller_batches() -> None:
    """5.40 GiB with --max-num-batched-tokens 2048, and the same on every of 4 ranks."""
    config = published("deepseek-ai--DeepSeek-V4-Flash")
    plan = planned(config, length=1_048_576, max_num_batched_tokens=2048)
    assert round(plan.max_memory_usage_bytes / GIB, 2) == 5.40
    split = planned(config, length=1_048_576, tensor_parallel_size=4)
    assert split.max_memory_usage_bytes == planned(config, length=1_048_576).max_memory_usage_bytes


@pytest.mark.parametrize(
    ("name", "length", "ideal", "reserved"),
    [
        ("google--gemma-3-4b-it", 131072, 2.61, 4.49),
        ("google--gemma-2-9b-it", 8192, 1.97, 2.63),
        ("mistralai--Mistral-7B-v0.1", 32768, 0.50, 2.50),
        ("Qwen--Qwen3-Next-80B-A3B-Instruct", 32768, 0.79, 0.83),
        ("deepseek-ai--DeepSeek-V3.2", 163840, 11.95, 11.95),
        ("deepseek-ai--DeepSeek-V4-Flash", 131072, 0.48, 6.7),
    ],
)
def test_published_models_need_and_reserve(
    name: str, length: int, ideal: float, reserved: float
) -> None:
    """Need and reserve in GiB at H100 defaults (reference/vllm_kv.md sections 4 and 6)."""
    plan = planned(published(name), length=length)
    assert plan.ideal_bytes / GIB == pytest.approx(ideal, abs=0.006)
    assert plan.max_memory_usage_bytes / GIB == pytest.approx(reserved, abs=0.02)


def test_dots3_pads_its_latents_to_the_widest() -> None:
    """13 full and 33 windowed layers in rows of 1,088 values, 132-byte index keys beside them.

    Groups of 17 windowed layers pad least: 26 full and index caches, 17 and 16 windows.
    Source: vLLM 0.32 models/dots3_note/nvidia/attention.py, kv_cache_utils.py.
    """
    plan = planned({"model_type": "dots3_note_text", "dtype": "bfloat16"}, length=524288)
    row, index = 1088 * 2, 132
    assert plan.ideal_bytes == 13 * (row + index) * 524288 + 33 * row * 512
    assert [len(group.specs) for group in plan.groups] == [26, 17, 16]
    assert plan.pool_bytes_per_block == 17 * 64 * row


@pytest.mark.parametrize(
    ("config", "kind", "size"),
    [
        # Kimi delta attention keeps float32; its convolution 3 columns of q, k and v
        ({"architectures": ["BailingMoeV3ForCausalLM"]}, "state", 3 * 3 * 512 * 2 + 4 * 128**2 * 4),
        # lightning attention keeps the model's dtype and no convolution
        ({"architectures": ["BailingMoeV2_5ForCausalLM"]}, "state", 4 * 128**2 * 2),
    ],
)
def test_ling_hybrids_keep_the_state_of_their_class(
    config: dict[str, Any], kind: str, size: int
) -> None:
    """Ling-2.5 and Ling-3 share a model type, and vLLM serves them with different states."""
    ling = {
        "model_type": "bailing_hybrid",
        "dtype": "bfloat16",
        "hidden_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    }
    plan = planned({**ling, **config}, length=1024)
    assert {spec.content_bytes for spec in plan.specs if spec.kind == kind} == {size}


def test_minicpm3_is_known_by_its_class_too() -> None:
    """The published MiniCPM3 has no model_type; 62 layers of 40 heads of 96 are kept."""
    plan = planned(published("openbmb--MiniCPM3-4B"), length=32768)
    assert plan.ideal_bytes == 62 * 40 * 2 * 96 * 2 * 32768


def test_one_shared_group_of_mamba_is_copied_to_every_rank() -> None:
    """Granite-4.0-h-tiny on 2 ranks: half of 3,072 channels and 48 heads, B and C whole."""
    config = cases()["ibm-granite/granite-4.0-h-tiny"]["config"]
    plan = planned(config, tensor_parallel_size=2)
    state = next(spec for spec in plan.specs if spec.kind == "state")
    assert state.content_bytes == 2 * (3 * (1536 + 2 * 128) + 24 * 64 * 128)


def test_a_chain_of_drafters_keeps_tokens_below_the_window() -> None:
    """Two next-token layers and 3 speculative tokens: 2 more tokens under each window."""
    config = {**LLAMA, "sliding_window": 4096, "num_nextn_predict_layers": 2}
    plan = planned(config, num_speculative_tokens=3, max_num_batched_tokens=2048)
    assert plan.demand.retained == 2
    assert plan.blocks_per_sequence == -(-(4095 + 2 + 2 * 2048) // 16) + 1


def test_states_follow_the_version_and_the_cache_of_prefixes() -> None:
    """Nemotron-Nano's Mamba-2 states: 1 up to 0.23, one a block in 0.26, 3 from 0.30 on."""
    config = cases()["nvidia/NVIDIA-Nemotron-Nano-9B-v2"]["config"]

    def held(**options: Any) -> int:
        plan = planned(config, length=131072, **options)
        return next(g.blocks(plan.demand) for g in plan.groups if g.specs[0].kind == "state")

    assert held(version=(0, 23)) == 1
    assert held(version=(0, 26)) == -(-131072 // 1312)
    assert held(version=(0, 32)) == 3
    assert held(enable_prefix_caching=False) == 1
    assert held(enable_prefix_caching=False, num_speculative_tokens=2) == 3


def test_versions_are_read_as_vllm_prints_them() -> None:
    """A patch release counts as its minor version; none stated is the newest known."""
    stated = [options_for(Deployment(engine_version=v)).version for v in ("0.19.1", "v0.30", None)]
    assert stated == [(0, 19), (0, 30), (0, 32)]


def test_tokens_in_flight_follow_the_version() -> None:
    """Up to 0.21 one step is reserved under a window, by 0.26 two, with stages one more."""
    config = {**LLAMA, "sliding_window": 4096}
    assert planned(config, version=(0, 21)).demand.in_flight == 8192
    assert planned(config, version=(0, 26)).demand.in_flight == 2 * 8192
    assert planned(config, pipeline_parallel_size=2).demand.in_flight == 3 * 8192
    assert planned(config, async_scheduling=False).demand.in_flight == 8192
    stages = planned(config, pipeline_parallel_size=2, async_scheduling=False)
    assert stages.demand.in_flight == 2 * 8192


def test_a_log_of_0_13_is_reproduced() -> None:
    """gemma-3-1b with 25.39 GiB at 2,048: 950,832 tokens and 461.19x.

    A published log says 950,864 and 461.21x: its 25.39 GiB is rounded. Seven groups, six
    of them windows that reserve one block more: 6 * 129 + 128 blocks.
    """
    config = cases()["google/gemma-3-1b-it"]["config"]
    plan = planned(config, length=2048, version=(0, 13))
    assert plan.blocks_per_sequence == 6 * 129 + 128
    found = capacity(plan, 27_262_304_911)
    assert found.num_blocks == 415_989
    assert found.kv_cache_size_tokens == 950_832
    assert round(float(found.max_concurrency), 2) == 461.19


def test_versions_between_counted_only_the_first_group() -> None:
    """From 0.14 to 0.19 the start-up check took the first group's blocks for all."""
    config = cases()["google/gemma-3-27b-it"]["config"]
    plan = planned(config, version=(0, 16), max_num_batched_tokens=2048)
    window = -(-(1023 + 2048) // 16) + 1
    assert plan.blocks(plan.demand) == window
    later = planned(config, version=(0, 20), max_num_batched_tokens=2048)
    assert later.blocks(later.demand) == 6 * window + 131072 // 16


def test_a_block_is_held_back_from_0_30_on() -> None:
    """Memory for exactly one sequence passed the check of 0.28, and no longer in 0.30."""
    exact = planned(LLAMA).max_memory_usage_bytes
    assert capacity(planned(LLAMA, version=(0, 28)), exact).fits
    later = capacity(planned(LLAMA), exact)
    assert not later.fits
    assert later.estimated_max_model_len == 131072 - 16


def test_no_memory_holds_nothing() -> None:
    """Without memory not even one token fits; a model without a cache needs none."""
    assert capacity(planned(LLAMA), 0).estimated_max_model_len == 0
    bert = planned(cases()["google-bert/bert-base-uncased"]["config"], length=512)
    found = capacity(bert, GIB)
    assert (found.num_blocks, found.fits, found.estimated_max_model_len) == (0, True, 512)


def test_decoding_holds_the_window_and_whole_blocks() -> None:
    """gemma-3-27b at 131,072 while decoding: 6 window groups of 65 blocks, 8,192 full ones.

    A block is 10 layers of 16 tokens, 16 heads, 2 x 128 values of 2 bytes.
    """
    case = cases()["google/gemma-3-27b-it"]
    arch, precision = read(case["config"])
    assert VLLM.rank is not None
    one = VLLM.rank(arch, Workload(engine="vllm"), precision).at(131072)
    pool = 10 * 16 * 16 * 256 * 2
    assert one.steady_bytes_per_sequence == pool * (6 * (1023 // 16 + 1 + 1) + 8192)
    assert one.ideal_bytes_per_sequence < one.steady_bytes_per_sequence
    assert one.steady_bytes_per_sequence < one.admission_bytes_per_sequence


def test_whisper_reserves_a_batch_and_holds_its_audio() -> None:
    """Whisper reserves 8,192 encoder positions; decoding holds the 1,500 there are."""
    arch, precision = read(cases()["openai/whisper-large-v3"]["config"])
    assert VLLM.rank is not None
    one = VLLM.rank(arch, Workload(engine="vllm"), precision).at(448)
    block = 32 * 16 * 20 * 128 * 2
    assert one.admission_bytes_per_sequence == block * (448 // 16 + 8192 // 16)
    assert one.steady_bytes_per_sequence == block * (448 // 16 + -(-1500 // 16))


def test_stages_report_the_fullest_one() -> None:
    """DeepSeek-V3 on 4 stages: 16 of 61 layers are on the fullest, 1,152 bytes a token each."""
    arch, precision = read(cases()["deepseek-ai/DeepSeek-V3"]["config"])
    work = Workload(engine="vllm", deployment=Deployment(pipeline_parallel_size=4))
    assert VLLM.rank is not None
    one = VLLM.rank(arch, work, precision).at(163840)
    assert one.ideal_bytes_per_sequence == 16 * 1152 * 163840
    assert one.admission_bytes_per_sequence == 16 * 1152 * 163840


@pytest.mark.parametrize(
    ("gpu", "tokens"), [("b200", 16384), ("h100-80", 8192), ("a100-80", 2048), ("l4", 2048)]
)
def test_batches_follow_the_gpu(gpu: str, tokens: int) -> None:
    """The API server's default step: 160 GiB and more, 70 and no A100, the others."""
    options = options_for(Deployment(gpus=parse_gpu(gpu)))
    assert options.step(131072)[0] == tokens


def test_latent_blocks_follow_the_gpu() -> None:
    """Dense latent attention: 16 tokens on Hopper, 64 with fp8, 32 on Blackwell."""
    config = cases()["deepseek-ai/DeepSeek-V3"]["config"]

    def block(kv: str, capability: int) -> set[int]:
        return {s.block_size for s in planned(config, kv=kv, compute_capability=capability).specs}

    assert block("auto", 9) == {16}
    assert block("fp8", 9) == {64}
    assert block("auto", 10) == {32}
    assert block("fp8", 8) == {16}


def test_longer_sequences_never_reserve_less() -> None:
    """Every case reserves at least as much for twice the length, and no less than it holds."""
    for name in ("google/gemma-3-27b-it", "Qwen/Qwen3-Next-80B-A3B-Instruct"):
        arch, precision = read(cases()[name]["config"])
        options = VllmOptions()
        sizes = [
            admission(arch, precision, options, max_model_len=2**n).max_memory_usage_bytes
            for n in range(18)
        ]
        assert sizes == sorted(sizes)
