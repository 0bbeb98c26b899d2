"""Which rank holds which weights: against what vLLM printed after loading, and by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod

import pytest
from asked import GEMMA_27B, GIB, LLAMA_8B, QWEN3_30B, QWEN3_NEXT, fitted, gpt_oss_experts, stored
from fit_cases import LLAMA, cache_of, llama_cache

from hfkv.core.architecture import read_architecture
from hfkv.core.engines.torch_blocks import torch_waste
from hfkv.core.engines.vllm_mxfp4 import mxfp4_kernel
from hfkv.core.engines.vllm_tables import on_every_stage
from hfkv.core.files import ModelFiles, Target, TensorGroup
from hfkv.core.fit import fit
from hfkv.core.gpus import parse_gpu
from hfkv.core.loading import stored_portions
from hfkv.core.portions import Portion, in_roles
from hfkv.core.positions import position_elements
from hfkv.core.shares import Shares
from hfkv.core.weights import WeightReport, weigh
from hfkv.core.workload import Deployment, Workload

V2_LITE = "deepseek-ai--DeepSeek-V2-Lite"
MIXTRAL = "mistralai--Mixtral-8x7B-v0.1"
# Model, GPUs, TP and PP, what "Model loading took", log in fixtures/logs.
LOGS = [
    (LLAMA_8B, "h100", (1, 1), 14.99, "L017"),
    (LLAMA_8B, "h100:2", (2, 1), 7.51, "L026"),
    (LLAMA_8B, "h100:4", (4, 1), 3.77, "L027"),
    (LLAMA_8B, "h100:2", (1, 2), 7.51, "L024"),
    (LLAMA_8B, "h100:4", (1, 4), 4.26, "L025"),
    (QWEN3_30B, "h100", (1, 1), 56.88, "L050"),
    (QWEN3_30B, "h100:4", (4, 1), 14.25, "L072"),
    (MIXTRAL, "h100:2", (2, 1), 43.51, "L034"),
    (MIXTRAL, "h100:4", (4, 1), 21.76, "L068"),
    (GEMMA_27B, "h100", (1, 1), 51.45, "L010"),
]


@pytest.mark.parametrize(
    ("model", "gpu", "sizes", "printed"), [row[:4] for row in LOGS], ids=[row[4] for row in LOGS]
)
def test_what_vllm_says_it_loaded(
    model: str, gpu: str, sizes: tuple[int, int], printed: float
) -> None:
    """To the hundredth that it prints: ends on their stage, copies, rests of segments, positions.

    The report on logs has the others: published shapes, totals of an index, other cards.
    """
    tp, pp = sizes
    fit = fitted(
        model,
        gpu,
        "vllm",
        context=4096,
        tensor_parallel_size=tp,
        pipeline_parallel_size=pp,
        engine_version="0.19.0",
    )
    assert fit.answers is not None
    assert fit.answers.start_up is not None
    assert fit.answers.start_up.loaded_bytes == fit.weights_bytes_per_gpu
    assert (fit.weights_bytes_per_gpu or 0) / GIB == pytest.approx(printed, abs=0.0055)
    assert "weights are taken to be split evenly over the GPUs" not in fit.notes


def test_llama_to_the_hundredth() -> None:
    """8,030,261,248 parameters in 16 bit, and 131,072 positions of 128 in 16 bit."""
    fit = fitted(LLAMA_8B, "h100", "vllm", context=4096)
    assert fit.weights_bytes_per_gpu == 16_060_522_496 + 131_072 * 128 * 2
    assert fitted(LLAMA_8B, "h100", context=4096).weights_bytes_per_gpu == 16_060_522_496


def test_latent_projections_are_copied() -> None:
    """DeepSeek-V2-Lite's header set, by its shapes; all in 16 bit but the routers, in 32."""
    one, two = (
        fitted(V2_LITE, gpu, context=4096).weights_bytes_per_gpu or 0 for gpu in ("h100", "h100:2")
    )
    latents = 27 * (1536 + 576) * 2048
    norms = 27 * (2048 + 2048 + 1536 + 512) + 2048
    copied = 2 * (latents + norms) + 4 * 26 * 64 * 2048
    assert two == (one - copied) // 2 + copied


def test_key_value_heads_are_copied_where_they_are_fewer_than_ranks() -> None:
    """Llama-3.1-8B at TP 16: 8 KV heads of 128 x 4096, so a rank has an eighth, not a sixteenth."""
    fit = fitted(LLAMA_8B, "h100:16", context=4096, tensor_parallel_size=16)
    keys_values = 32 * 2 * 1024 * 4096 * 2
    norms = (32 * 2 + 1) * 4096 * 2
    rest = 16_060_522_496 - keys_values - norms
    assert fit.weights_bytes_per_gpu == rest // 16 + keys_values // 8 + norms


@pytest.mark.parametrize(
    ("cut", "tp", "share"),
    [
        ("evenly", 16, Fraction(1, 16)),
        ("copied", 16, Fraction(1)),
        ("by-kv-heads", 4, Fraction(1, 4)),
        ("by-kv-heads", 32, Fraction(1, 8)),
        # 32 query heads and 2 x 8 of keys and values: 2/3 are cut, 1/3 has 8 parts
        ("fused", 16, Fraction(2, 3) / 16 + Fraction(1, 3) / 8),
    ],
)
def test_cuts(cut: str, tp: int, share: Fraction) -> None:
    """Of the 32 query and 8 KV heads of a Llama layer."""
    portion = Portion(role="attention", bytes=4800, cut=cut, layers=tuple(range(32)))
    assert Shares((portion,), LLAMA).on_fullest_rank(tp=tp, pp=1) == 4800 * share


def test_stages() -> None:
    """32 layers on 3 stages are 11, 11 and 10 (vLLM); ends belong to theirs, towers to each."""
    layers = Portion(role="mlp", bytes=320, layers=tuple(range(32)))
    table = Portion(role="embedding", bytes=50, stage="first")
    tied = Portion(role="embedding", bytes=50, stage="ends")
    head = Portion(role="lm_head", bytes=70, stage="last")
    tower = Portion(role="vision", bytes=7)
    assert Shares((layers,), LLAMA).on_fullest_rank(tp=1, pp=3) == 110
    assert Shares((layers, table, head), LLAMA).on_fullest_rank(tp=1, pp=3) == 170
    assert Shares((layers, tied), LLAMA).on_fullest_rank(tp=1, pp=3) == 160
    assert Shares((layers, tied, tower), LLAMA).on_fullest_rank(tp=1, pp=3) == 167
    late = Portion(role="mlp", bytes=40, layers=(31, 32))  # a config that states a layer too few
    assert Shares((late,), LLAMA).on_fullest_rank(tp=1, pp=2) == 40


@pytest.mark.parametrize(
    ("model", "version", "tables"),
    [
        (QWEN3_30B, None, 2),  # qwen3_moe.py has no guard for its two tables
        (QWEN3_30B, "0.19", 2),
        (LLAMA_8B, None, 1),  # the first stage has one, the last the other
        ("bigcode--starcoder2-7b", "0.24", 2),
        ("bigcode--starcoder2-7b", "0.26", 1),  # transformers took it over
        (QWEN3_NEXT, None, 2),
        ("Qwen--Qwen3.5-27B", None, 2),  # the embeddings everywhere, the head on the last stage
    ],
)
def test_tables_on_every_stage(model: str, version: str | None, tables: int) -> None:
    """A stage in the middle has them too, where the class of vLLM builds them unasked."""
    files = stored(model)
    arch = read_architecture(files)
    everywhere = on_every_stage(arch, version)
    portions = [p for p in stored_portions(files) if p.role in ("embedding", "lm_head")]
    sizes = {p.role: p.bytes for p in portions}
    shares = Shares(portions, arch, everywhere=everywhere)
    assert shares.on_fullest_rank(tp=1, pp=4) == max(
        sum(sizes.values()) if tables == 2 else 0, *sizes.values()
    )
    plain = Shares(portions, arch)
    assert plain.on_fullest_rank(tp=1, pp=4) == max(sizes.values())
    work = {"context": 1024, "pipeline_parallel_size": 2, "engine_version": version}
    both, one = (fitted(model, "h200:2", engine, **work) for engine in ("vllm", "none"))
    assert (both.weights_bytes_per_gpu or 0) >= (one.weights_bytes_per_gpu or 0)


def test_the_vocabulary_is_padded() -> None:
    """GPT-2's 50,257 rows become 50,304, the next multiple of 64; both fit 8 ranks."""
    table = Portion(role="embedding", bytes=50_257 * 1536, rows=50_257)
    assert Shares((table,), LLAMA, padding=64).on_fullest_rank(tp=2, pp=1) == 50_304 * 1536 // 2
    named = replace(table, parameter="wte.weight")
    padded = Shares((named,), LLAMA, padding=64, waste=torch_waste)
    assert padded.on_fullest_rank(tp=1, pp=1) == 74 * 2**20  # of 73.7 MiB, in steps of 2


def test_drafting_loads_the_next_token_layers_on_the_last_stage() -> None:
    """DeepSeek writes them behind its layers; their eh_proj is whole on every rank (nn.Linear)."""
    shapes = {"eh_proj": (8, 16), "mlp.up_proj": (8, 8), "enorm": (8,)}
    tensors = [
        TensorGroup(name="model.layers.{}.mlp.up_proj.weight", dtype="BF16", shape=(8, 8),
                    nbytes=128, count=3, layers=(0, 1, 2)),
        *(
            TensorGroup(name=f"model.layers.{{}}.{name}.weight", dtype="BF16", shape=shape,
                        nbytes=2 * prod(shape), layers=(2,))
            for name, shape in shapes.items() if name != "mlp.up_proj"
        ),
    ]  # fmt: skip
    config = {"num_hidden_layers": 2}
    files = ModelFiles(target=Target(kind="file", id="x"), config=config, tensors=(*tensors,))
    two = replace(LLAMA, layers=LLAMA.layers[:2], num_hidden_layers=2)
    assert Shares(stored_portions(files), two).on_fullest_rank(tp=2, pp=2) == 128 // 2
    both = stored_portions(files, drafting=True)
    assert Shares(both, two).on_fullest_rank(tp=2, pp=2) == 128 // 2 + 128 // 2 + 256 + 16


def gpt_oss() -> WeightReport:
    """Return the experts of gpt-oss-20b: 24 layers of 32, 2880 wide both ways."""
    tensors = gpt_oss_experts()
    config = {"num_hidden_layers": 24, "quantization_config": {"quant_method": "mxfp4"}}
    files = ModelFiles(target=Target(kind="file", id="x"), config=config, tensors=tensors)
    report = weigh(files)
    assert report is not None
    return replace(report, portions=stored_portions(files))


# Everything else of gpt-oss-20b on one of `tp` ranks, from the published shapes: embeddings and
# head, attention with its biases and sinks, routers, norms, expert biases in 16 bit, rotary
# positions in float32.
def others(tp: int) -> int:
    """Return the bytes of what is not an expert matrix."""
    attention = 2880 * (2 * 4096 + 2 * 512) // tp + (4096 + 2 * 512) // tp + 2880 + 64 // tp
    layer = attention + 32 * 2880 + 32 + 2 * 2880 + 32 * (5760 // tp + 2880)
    return 2 * (2 * 201_088 * 2880 // tp + 24 * layer + 2880 + 131_072 * 64 * 2)


@pytest.mark.parametrize(
    ("gpu", "version", "tp", "printed", "close"),
    [
        ("a100-80", "0.19.0", 1, 13.72, 0.003),  # L138, Marlin
        ("gb10", "0.13.0", 1, 13.7193, 0.003),  # L192, Marlin
        ("h100:2", "0.19.0", 2, 7.01, 0.007),  # L039, Triton
        ("h100:4", "0.19.0", 4, 3.63, 0.013),  # L069, Triton; the rests of segments are left out
        ("h100", "0.27.0", 1, 13.03, 0.003),  # a later release, Triton: scales once
    ],
)
def test_mxfp4_experts_are_laid_out_for_the_kernel_of_the_gpu(
    gpu: str, version: str, tp: int, printed: float, close: float
) -> None:
    """What "Model loading took", in GiB a rank."""
    report, arch = gpt_oss(), replace(LLAMA, layers=LLAMA.layers[:24], num_hidden_layers=24)
    kernel = mxfp4_kernel(parse_gpu(gpu)[0], version)
    experts = Shares(report.portions, arch).on_fullest_rank(tp=tp, pp=1, kernel=kernel)
    assert float(experts + others(tp)) / GIB == pytest.approx(printed, rel=close)


def test_mxfp4_experts_by_hand() -> None:
    """Marlin pads 2880 to 3072 and 2944; Triton's matrices are whole tiles, its scales twice."""
    report, arch = gpt_oss(), replace(LLAMA, layers=LLAMA.layers[:24], num_hidden_layers=24)
    shares = Shares(report.portions, arch)
    stored_bytes = 24 * 32 * 3 * 2880 * 2880 * 17 // 32
    assert report.loaded_bytes == shares.mxfp4_bytes == stored_bytes == 10_152_345_600
    assert shares.on_fullest_rank(tp=2, pp=1) == stored_bytes // 2

    def laid_out(gpu: str, version: str, tp: int) -> Fraction:
        kernel = mxfp4_kernel(parse_gpu(gpu)[0], version)
        return shares.on_fullest_rank(tp=tp, pp=1, kernel=kernel)

    assert laid_out("a100-80", "0.32", 1) == 24 * 32 * 3 * 3072 * 2944 * 17 // 32
    assert laid_out("a100-80", "0.32", 2) == 24 * 32 * 3 * 3072 * 1536 * 17 // 32
    assert laid_out("h100", "0.10.1", 2) == laid_out("a100-80", "0.32", 2)  # no triton_kernels yet
    assert laid_out("mi300x", "0.26", 4) == 24 * 32 * 3 * 3072 * 768 * 17 // 32
    assert laid_out("b200", "0.26", 2) == 24 * 32 * 3 * 3072 * 1536 * 17 // 32
    assert laid_out("b200", "0.26", 4) == 24 * 32 * 3 * 3072 * 768 * 17 // 32
    assert laid_out("b200", "0.32", 1) == 24 * 32 * 3 * 3072 * 2944 * 17 // 32
    # 720 columns become 768: gate and up 1536 rows of 1472 bytes, down 2880 of 384
    values = 1536 * 1472 + 2880 * 384
    scales = 1536 * 90 + 3072 * 24  # 256 rows at a time
    assert laid_out("h100", "0.32", 4) == 24 * 32 * (values + scales)
    loaded = 1536 * 90 + 2880 * 24
    assert laid_out("h100", "0.19", 4) == 24 * 32 * (values + scales + loaded)


@pytest.mark.parametrize(
    ("gpu", "version", "note"),
    [
        ("h100", "0.32.0", "mxfp4 experts are counted as Triton lays them out"),
        ("rtx5090", "0.19.0", "mxfp4 experts are counted as Marlin lays them out"),
        ("rtx5090", "0.32.0", "mxfp4 experts are counted as Marlin lays them out, an estimate"),
        ("b200", "0.32.0", "mxfp4 experts are counted as TRT-LLM lays them out, an estimate"),
        ("24gib", None, "mxfp4 experts are counted as Marlin lays them out, an estimate"),
    ],
)
def test_a_note_names_the_kernel(gpu: str, version: str | None, note: str) -> None:
    """And says where the release or the card leaves another one possible."""
    report, arch = gpt_oss(), replace(LLAMA, layers=LLAMA.layers[:24], num_hidden_layers=24)
    (choice,) = parse_gpu(gpu)
    work = Workload(
        context=4096, engine="vllm", deployment=Deployment(gpus=(choice,), engine_version=version)
    )
    found = fit(arch, report, cache_of(4096), work, choice, measure=llama_cache)
    assert [text for text in found.notes if "mxfp4" in text] == [note]


@pytest.mark.parametrize(
    ("model", "elements"),
    [
        (LLAMA_8B, 131_072 * 128),
        (V2_LITE, 4096 * 40 * 64),  # yarn, and only the rope part of a head
        (GEMMA_27B, 131_072 * 8 * 128 + 131_072 * 128),  # linear, and a local one
        ("Qwen--Qwen2.5-VL-7B-Instruct", 128_000 * 4 * 128),  # mrope
        ("Qwen--Qwen3-Next-80B-A3B-Instruct", 262_144 * 64),  # a quarter of 256
        ("microsoft--Phi-3-mini-128k-instruct", (4096 + 131_072) * 96),  # short and long
        # full layers of 512 dims, of which a quarter is turned, and windows of 256
        ("google--gemma-4-26B-A4B", 262_144 * (512 + 256)),
        ("google--gemma-4-E2B-it", 131_072 * (512 + 256)),
        ("openai-community--gpt2", 0),
        ("mosaicml--mpt-7b", 0),
    ],
)
def test_position_tables(model: str, elements: int) -> None:
    """Positions x rotated dims, as the config states them."""
    files = stored(model)
    assert position_elements(files.config or {}, read_architecture(files)) == elements


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", "factor": float("nan")},
        {"rope_type": "linear", "factor": -1},
        {"rope_type": "linear", "factor": "8"},
        {"rope_type": "yarn", "factor": 4},
        {"rope_type": "no such rope"},
        {"rope_type": ["default"]},
    ],
)
def test_a_rope_that_is_not_known_counts_nothing(rope: dict[str, object]) -> None:
    """A guess would be printed as a fact."""
    files = stored(LLAMA_8B)
    config = {**(files.config or {}), "rope_scaling": rope}
    assert position_elements(config, read_architecture(files)) == 0


def test_another_format_keeps_the_shares() -> None:
    """Half of the experts, the same embedding; what the estimate has no figure for is dropped."""
    experts = Portion(role="experts", bytes=600, layers=(0,))
    router = Portion(role="experts", bytes=200, cut="copied", layers=(0,))
    table = Portion(role="embedding", bytes=50)
    found = in_roles((experts, router, table), {"experts": 400})
    assert [portion.bytes for portion in found] == [300, 100]
