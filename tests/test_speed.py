"""A bound on decoding: bytes that must be read for a token, over the memory's bandwidth."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asked import DEEPSEEK_V3, GEMMA_27B, LLAMA_8B, QWEN3_30B, QWEN3_NEXT, asked, fitted, stored
from fit_cases import LLAMA, weights_of

from hfkv.core.dtypes import KV_DTYPES
from hfkv.core.precision import Precision
from hfkv.core.report import analyze
from hfkv.core.speed import SpeedCeiling, SpeedPart, speed_ceiling
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role
from hfkv.core.weights import RoleTotal
from hfkv.core.workload import Deployment, Workload

BF16 = Precision(
    cache=KV_DTYPES["bfloat16"],
    cache_source="test",
    compute=KV_DTYPES["bfloat16"],
    compute_source="test",
)
# 8,030,261,248 parameters without the input embedding of 128,256 x 4,096
LLAMA_READ = (8_030_261_248 - 128_256 * 4096) * 2


def ceiling(model: str, gpu: str, **given: object) -> SpeedCeiling:
    """Return the bound of a model that fits."""
    found = fitted(model, gpu, **given).speed  # type: ignore[arg-type]
    assert found is not None
    return found


def test_llama_on_an_a100_by_hand() -> None:
    """2,039 GB/s over all weights but the embedding table, and 1 GiB of cache: 127 tokens/s."""
    found = ceiling(LLAMA_8B, "a100-80", context=8192)
    assert found.bandwidth_bytes_per_s == 2_039_000_000_000
    assert found.parts == (
        SpeedPart(name="weights", bytes=LLAMA_READ),
        SpeedPart(name="cache", bytes=8192 * 131_072),
    )
    assert found.bytes_per_step == LLAMA_READ + 2**30
    assert found.tokens_per_s_per_sequence == 126.775
    assert found.tokens_per_s == 126.775
    assert (found.tokens, found.sequences) == (8192, 1)


def test_a_batch_reads_the_weights_once() -> None:
    """Sixteen sequences read their own caches and share the weights."""
    found = ceiling(LLAMA_8B, "a100-80", context=8192, sequences=16)
    assert found.bytes_per_step == LLAMA_READ + 16 * 2**30
    rate = 2_039_000_000_000 / found.bytes_per_step
    assert found.tokens_per_s_per_sequence == round(rate, 3)
    assert found.tokens_per_s == round(16 * rate, 3)
    lengths = ceiling(LLAMA_8B, "a100-80", seq_lens=(1024, 1024, 6144))
    assert lengths.bytes_per_step == LLAMA_READ + 2**30
    assert (lengths.tokens, lengths.sequences) == (6144, 3)


def test_tensor_parallel_ranks_read_their_share() -> None:
    """Two GPUs read half of the weights and of the heads at the same time."""
    found = ceiling(LLAMA_8B, "a100-80:2", context=8192)
    assert found.bytes_per_step == (LLAMA_READ + 2**30) // 2


def test_stages_work_on_different_sequences_at_the_same_time() -> None:
    """A token passes both stages one after the other; two groups of sequences are under way."""
    alone = ceiling(LLAMA_8B, "a100-80:2", context=8192, pipeline_parallel_size=2)
    assert alone.bytes_per_step == LLAMA_READ + 2**30
    many = ceiling(LLAMA_8B, "a100-80:2", context=8192, sequences=8, pipeline_parallel_size=2)
    assert many.bytes_per_step == LLAMA_READ + 4 * 2**30


def test_a_token_reads_the_experts_it_uses() -> None:
    """Qwen3-30B-A3B: 8 of 128 experts, 3.3 billion active parameters with the embedding."""
    found = ceiling(QWEN3_30B, "h100", context=4096)
    dense = 48 * (2 * 2048 * 4096 + 2 * 2048 * 512 + 2 * 128 + 2 * 2048) + 2048 + 151_936 * 2048
    dense += 48 * 128 * 2048  # the routers
    experts = 48 * 8 * 3 * 2048 * 768
    assert found.parts[:2] == (
        SpeedPart(name="weights", bytes=2 * dense),
        SpeedPart(name="active experts", bytes=2 * experts),
    )
    assert (dense + experts + 151_936 * 2048) / 1e9 == pytest.approx(3.3, abs=0.06)


def test_shared_experts_are_read_whole() -> None:
    """DeepSeek-V3 in fp8: one shared expert beside 8 of 256, in 58 of 61 layers; 35.6 billion."""
    found = ceiling(DEEPSEEK_V3, "h200:8", context=4096)
    attention = 1536 * 7168 + 1536 * 128 * 192 + 576 * 7168 + 512 * 128 * 256 + 7168 * 128 * 128
    expert = 3 * 7168 * 2048
    passed = 61 * attention + 3 * 3 * 7168 * 18_432 + 58 * expert
    sixteen = 129_280 * 7168 + 61 * (2 * 7168 + 1536 + 512) + 7168
    routers = 4 * 58 * (256 * 7168 + 256)  # this header set has them in float32
    weights, active = found.parts[:2]
    assert active == SpeedPart(name="active experts", bytes=58 * expert)  # on each of 8 GPUs
    assert weights.bytes == pytest.approx((passed + 2 * sixteen + routers) / 8, rel=1e-6)
    assert round((passed + 58 * 8 * expert) / 1e9, 1) == 35.6


def test_a_tied_embedding_is_read_as_the_output_head() -> None:
    """Llama-3.2-1B: all 1,235,814,400 parameters are passed."""
    found = ceiling("meta-llama--Llama-3.2-1B-Instruct", "a100-80", context=1024)
    assert found.parts[0] == SpeedPart(name="weights", bytes=2 * 1_235_814_400)


def test_towers_are_not_read() -> None:
    """The vision tower of gemma-3-27b has done its work before the first token."""
    report = asked(GEMMA_27B, "h100", context=8192)
    assert report.weights is not None
    tower = report.weights.by_role["vision"].bytes
    assert tower > 0
    speed = report.fit[0].speed
    assert speed is not None
    assert speed.parts[0].bytes <= report.weights.loaded_bytes - tower


def test_states_are_read_and_written() -> None:
    """Qwen3-Next: 36 layers of float32 states and bf16 convolution columns, both ways."""
    found = ceiling(QWEN3_NEXT, "h200:2", context=4096)
    # on one of two ranks: 16 heads x 128 x 128 values, 4,096 channels x 3 columns, one KV head
    states = 36 * (16 * 128 * 128 * 4 + 4096 * 3 * 2)
    assert found.parts[-2:] == (
        SpeedPart(name="cache", bytes=4096 * 12 * 2 * 256 * 2),
        SpeedPart(name="states, read and written", bytes=2 * states),
    )


def test_a_common_prefix_is_read_at_least_once() -> None:
    """Kernels that read it once for all exist: the bound must not count more."""
    given = {"context": 4096, "sequences": 4, "shared_prefix": 2048}
    found = ceiling(LLAMA_8B, "h100", engine="vllm", **given)
    assert found.parts[1].bytes == (2048 + 4 * 2048) * 131_072


def test_a_cast_checkpoint_is_read_as_it_is_loaded() -> None:
    """Weights that halve on loading halve the bytes."""
    weights = replace(
        weights_of(8 * 10**9),
        loaded_bytes=4 * 10**9,
        by_role={"mlp": RoleTotal(bytes=8 * 10**9, parameters=2 * 10**9)},
    )
    found = speed_ceiling(
        LLAMA, weights, Workload(), BF16, gpu="h100-80", ranks=(1, 1), lengths={1: 1}
    )
    assert found is not None
    assert found.parts[0].bytes == 4 * 10**9


def test_an_index_chooses_what_is_read_of_the_rest() -> None:
    """Sparse attention reads all index keys, and of the latents nobody knows how many."""
    index = Grows(key=128, role=Role.INDEX)
    sparse = Layer(
        kind=LayerKind.SPARSE_LATENT, heads=128, stores=(Grows(key=576, role=Role.LATENT), index)
    )
    arch = replace(LLAMA, layers=(sparse,) * 10)
    weights = replace(
        weights_of(10**9), by_role={"mlp": RoleTotal(bytes=10**9, parameters=10**9 // 2)}
    )
    found = speed_ceiling(
        arch, weights, Workload(), BF16, gpu="h100-80", ranks=(1, 1), lengths={1000: 1}
    )
    assert found is not None
    assert found.parts[1] == SpeedPart(name="cache", bytes=10 * 1000 * 128 * 2)


def test_nothing_is_said_where_too_little_is_known() -> None:
    """No bandwidth, no weights, no roles, names that tell nothing, an encoder beside a decoder."""
    assert fitted(LLAMA_8B, "80gib", context=8192).speed is None
    bare = stored(LLAMA_8B)
    bare = replace(bare, tensors=(), files=(), headers=(), hub={})
    gpus = Deployment(gpus=asked(LLAMA_8B, "h100").workload.deployment.gpus)
    assert analyze(bare, Workload(context=8192, deployment=gpus)).fit[0].speed is None
    assert fitted("google-t5--t5-small", "h100").speed is None
    assert fitted(LLAMA_8B, "t4", context=8192).speed is None  # it does not fit
    for roles in ({}, {"other": RoleTotal(bytes=10**9, parameters=1)}):
        weights = replace(weights_of(10**9), by_role=roles)
        assert (
            speed_ceiling(
                LLAMA, weights, Workload(), BF16, gpu="h100-80", ranks=(1, 1), lengths={1: 1}
            )
            is None
        )


def test_experts_of_unknown_number_are_not_guessed() -> None:
    """Weights of experts under a config that names none."""
    weights = replace(
        weights_of(10**9), by_role={"experts": RoleTotal(bytes=10**9, parameters=10**9 // 2)}
    )
    assert (
        speed_ceiling(LLAMA, weights, Workload(), BF16, gpu="h100-80", ranks=(1, 1), lengths={1: 1})
        is None
    )


@pytest.mark.parametrize("model", [LLAMA_8B, QWEN3_30B, DEEPSEEK_V3, QWEN3_NEXT])
def test_the_parts_sum_and_the_bound_falls_with_the_context(model: str) -> None:
    """More tokens in the cache never make it faster."""
    short, long = (ceiling(model, "b200:8", context=n) for n in (1024, 32_768))
    for found in (short, long):
        assert found.bytes_per_step == sum(part.bytes for part in found.parts)
    assert long.tokens_per_s < short.tokens_per_s


def test_a_state_without_heads_is_whole_on_every_rank() -> None:
    """Only what has heads is split: the bytes are those of one rank."""
    state = Layer(kind=LayerKind.STATE_SPACE, stores=(Fixed(elements=1000),))
    arch = replace(LLAMA, layers=(state,) * 4)
    weights = replace(weights_of(10**9), by_role={"mlp": RoleTotal(bytes=10**9, parameters=1)})
    found = speed_ceiling(
        arch, weights, Workload(), BF16, gpu="h100-80", ranks=(2, 1), lengths={10: 1}
    )
    assert found is not None
    assert found.parts == (
        SpeedPart(name="weights", bytes=5 * 10**8),
        SpeedPart(name="states, read and written", bytes=2 * 4 * 1000 * 2),
    )
