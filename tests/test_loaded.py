"""What vLLM says it loaded beyond the weights: rests of segments, workspaces, positions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod

import pytest
from asked import GEMMA_27B, LLAMA_8B, asked, fitted
from fit_cases import LLAMA

from hfkv.core.engines.mxfp4 import ExpertMatrix
from hfkv.core.engines.torch_blocks import torch_waste
from hfkv.core.engines.vllm_mxfp4 import mxfp4_kernel
from hfkv.core.files import ModelFiles, Target, TensorGroup
from hfkv.core.fused import fused
from hfkv.core.gpus import parse_gpu
from hfkv.core.loading import stored_portions
from hfkv.core.overhead import loaded_beside_weights
from hfkv.core.portions import portions_of
from hfkv.core.report import analyze
from hfkv.core.shares import Shares
from hfkv.core.workload import Deployment, Workload
from hfkv.render.style import Style
from hfkv.render.text import inspect_text

MIB = 2**20
V3 = "deepseek-ai--DeepSeek-V3"


def mib(*sizes: float) -> list[int]:
    """Return sizes in bytes."""
    return [int(size * MIB) for size in sizes]


@pytest.mark.parametrize(
    ("tensors", "waste"),
    [
        ((441,), 1),  # 442 in steps of 2: the rest is too small to be split off
        ((220.5,), 0),  # of 222 the rest of 1.5 is
        ((10,), 0),
        ((10.75,), 0),
        ((11,), 1),
        ((0.75, 1), 0),  # small ones share segments of 2 MiB and are split to the byte
        ((7.59375, 2.53125), 0),  # of 20 MiB: 9.875 are left
        ((7.59375, 2.53125, 9.45703125), 0.41796875),  # and then 0.418, which is too little
        ((9.5, 9.5, 9.5), 1),  # a rest of exactly 1 MiB is not split off; the third begins anew
        ((2, 12), 0),  # a large one takes the rest of 18
        ((2, 17.5), 0.5),
        ((12.5, 1.5), 0),  # 1.5 are left of 14, and serve
        ((20, 9, 9), 0),
        ((6, 9, 6, 9, 4.5), 0.5),  # 5 and 5 are left: the smallest that is large enough
    ],
)
def test_rests_of_segments(tensors: tuple[float, ...], waste: float) -> None:
    """By hand, from the rules of CUDACachingAllocator.cpp."""
    assert torch_waste(mib(*tensors)) == int(waste * MIB)


def test_gemma_3_27b_by_hand() -> None:
    """62 layers have gate and up of 441 MiB in 442; the tower in MiB, in the order of siglip.py.

    Embeddings of 1.292 and 9 leave 9.708 of a segment, and a layer has 7.594, 2.531 and twice
    9.457. The first leaves 8.012 of one segment and 10.543 of another. Each of the 26 others
    has its 7.594 from 8.012, which wastes 0.418; and again it leaves an 8.012, with the 2.531
    and one 9.457 in a segment or with 2.531 in 10.543. The projector's 11.8125 are in 12. Of
    the 2,688.656 of the tied table in 2,690 and of 220.5 in 222 the rest is split off.
    """
    fit, plain = (fitted(GEMMA_27B, "h100", engine, context=4096) for engine in ("vllm", "none"))
    positions = 131_072 * (8 * 128 + 128) * 2
    wasted = (62 + 26 * Fraction(107, 256) + Fraction(3, 16)) * MIB
    assert (fit.weights_bytes_per_gpu or 0) - (plain.weights_bytes_per_gpu or 0) == (
        positions + wasted
    )


@pytest.mark.parametrize(
    ("module", "kept"),
    [
        ("model.layers.{}.self_attn.v_proj", "model.layers.{}.self_attn.qkv_proj"),
        ("layers.{}.attention.wk", "layers.{}.attention.qkv_proj"),
        ("model.layers.{}.mlp.gate_proj", "model.layers.{}.mlp.gate_up_proj"),
        ("layers.{}.feed_forward.w3", "layers.{}.feed_forward.gate_up_proj"),
        ("layers.{}.block_sparse_moe.experts.{}.w1", "layers.{}.block_sparse_moe.experts.w13"),
        ("model.layers.{}.mlp.experts.{}.down_proj", "model.layers.{}.mlp.experts.w2"),
        ("a.self_attn.kv_a_proj_with_mqa", "a.self_attn.fused_qkv_a_proj"),
        ("a.linear_attn.in_proj_z", "a.linear_attn.in_proj_qkvz"),
        ("a.linear_attn.in_proj_b", "a.linear_attn.in_proj_ba"),
        ("model.layers.{}.self_attn.o_proj", "model.layers.{}.self_attn.o_proj"),
        ("transformer.h.{}.attn.c_attn", "transformer.h.{}.attn.c_attn"),
        ("q_proj", "qkv_proj"),
    ],
)
def test_what_engines_keep_as_one(module: str, kept: str) -> None:
    """As the classes of vLLM name their parameters."""
    assert fused(module) == kept


@pytest.mark.parametrize(
    ("gpu", "version", "size"),
    [
        ("h100", "0.19", 128),
        ("a100-80", "0.24", 128),
        ("h100", "0.25", 0),  # made when it is used
        ("h100", "0.10", 0),  # no such backend yet
        ("b200", "0.19", 256),  # CUTLASS's as well
        ("b200", "0.32", 128),
        ("b200", "0.10", 0),
        ("rtx5090", "0.20", 128),
        ("24gib", "0.20", 128),
    ],
)
def test_mla_workspaces(gpu: str, version: str, size: int) -> None:
    """MiB that the backends of an MLA model allocate when vLLM looks at them."""
    (choice,) = parse_gpu(gpu)
    latent = replace(LLAMA, attention="MLA")
    found = loaded_beside_weights(latent, choice, engine="vllm", version=version)
    assert sum(part.bytes for part in found if part.loaded) == size * MIB
    assert loaded_beside_weights(latent, choice, engine="sglang", version=version) == ()
    assert loaded_beside_weights(LLAMA, choice, engine="vllm", version=version) == ()


def test_rocm_prints_what_the_device_has_in_use_up_to_0_20() -> None:
    """Beyond the weights: 324 MiB in L250, 60 MiB in L204; later it is not in that figure."""
    for version, loaded in (("0.9", True), ("0.20", True), ("0.21", False), (None, False)):
        (part,) = loaded_beside_weights(
            LLAMA, parse_gpu("mi300x")[0], engine="vllm", version=version
        )
        assert part.loaded == loaded
        assert part.low <= 64 * MIB
        assert part.high >= 324 * MIB


def test_the_workspace_is_overhead_and_in_what_is_logged() -> None:
    """It is a part of the overhead with its own name, and not of the weights."""
    fit = fitted(V3, "h200:16", "vllm", context=4096, engine_version="0.20")
    parts = {part.name: part.bytes for part in fit.overhead_parts}
    assert parts["MLA workspace"] == 128 * MIB
    assert fit.answers is not None
    assert fit.answers.start_up is not None
    assert fit.answers.start_up.loaded_bytes == (fit.weights_bytes_per_gpu or 0) + 128 * MIB
    stated = fitted(
        V3, "h200:16", "vllm", context=4096, engine_version="0.20", overhead_bytes=2 * 2**30
    )
    assert stated.answers is not None
    assert stated.answers.start_up is not None
    assert stated.answers.start_up.loaded_bytes == fit.answers.start_up.loaded_bytes


def test_without_known_weights_nothing_is_said_to_be_loaded() -> None:
    """A config alone says nothing of the weights."""
    files = ModelFiles(target=Target(kind="file", id="x"), config=dict(llama_config()))
    work = Workload(engine="vllm", context=4096, deployment=Deployment(gpus=parse_gpu("h100")))
    (fit,) = analyze(files, work).fit
    assert fit.answers is not None
    assert fit.answers.start_up is not None
    assert fit.answers.start_up.loaded_bytes is None


def llama_config() -> dict[str, object]:
    """Return the config of Llama-3.1-8B."""
    return asked(LLAMA_8B).files.config or {}


def test_positions_in_float32() -> None:
    """gpt_oss.py asks for them: 131,072 x 64 take 32 MiB, not 16."""
    config = {
        "model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "num_hidden_layers": 1,
        "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
        "max_position_embeddings": 131_072, "torch_dtype": "bfloat16", "vocab_size": 1000,
        "rope_theta": 150_000, "rope_scaling": {
            "rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096},
    }  # fmt: skip
    shape = (1000, 2880)
    table = TensorGroup(
        name="model.embed_tokens.weight", dtype="BF16", shape=shape, nbytes=2 * prod(shape)
    )
    files = ModelFiles(target=Target(kind="file", id="x"), config=config, tensors=(table,))
    deployment = Deployment(gpus=parse_gpu("h100"))
    (fit,) = analyze(files, Workload(engine="vllm", context=64, deployment=deployment)).fit
    rows = 1024  # the next multiple of 64
    assert fit.weights_bytes_per_gpu == 2 * rows * 2880 + 131_072 * 64 * 4


def test_biases_of_mxfp4_experts() -> None:
    """Triton makes them float32; of 16-bit experts with the same names it is not asked."""
    bias = TensorGroup(
        name="model.layers.{}.mlp.experts.gate_up_proj_bias", dtype="BF16", shape=(32, 5760),
        nbytes=2 * 32 * 5760, count=24, layers=tuple(range(24)),
    )  # fmt: skip
    blocks = TensorGroup(
        name="model.layers.{}.mlp.experts.gate_up_proj_blocks", dtype="U8",
        shape=(32, 5760, 90, 16), nbytes=32 * 5760 * 90 * 16, count=24, layers=tuple(range(24)),
    )  # fmt: skip
    config = {"num_hidden_layers": 24, "quantization_config": {"quant_method": "mxfp4"}}
    target = Target(kind="file", id="x")
    arch = replace(LLAMA, layers=LLAMA.layers[:24], num_hidden_layers=24)
    triton = mxfp4_kernel(parse_gpu("h100")[0], "0.32")
    for tensors, width in (((bias, blocks), 2), ((bias,), 1)):
        portions = stored_portions(ModelFiles(target=target, config=config, tensors=tensors))
        biases = [p for p in portions if p.bytes == 24 * bias.nbytes]
        size = Shares(biases, arch).on_fullest_rank(tp=1, pp=1, kernel=triton)
        assert size == width * 24 * bias.nbytes
    down = ExpertMatrix(hidden=2880, inner=0, down=True, part="bias")
    marlin = mxfp4_kernel(parse_gpu("a100-80")[0], "0.32")
    assert marlin.growth(down, 1) * 2880 == 3072
    assert portions_of((), tied=False) == ()


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("down_proj_blocks", (5, 0, 2, 16)),
        ("down_proj_bias", (5, 0)),
        ("gate_up_proj_blocks", (5, 1, 1, 16)),  # one row is no gate beside an up
        ("gate_up_proj_blocks", (5, 64, 0, 16)),
        ("gate_up_proj_bias", (5, 1)),
        ("gate_up_proj_scales", (1, 1, 1, 1, 1)),
    ],
)
@pytest.mark.parametrize("engine", ["none", "vllm", "llama.cpp"])
def test_experts_that_have_nothing_to_lay_out(
    name: str, shape: tuple[int, ...], engine: str
) -> None:
    """Hostile headers: nothing grows, and nothing is divided by nothing."""
    tensors = [
        TensorGroup(
            name=f"model.layers.{{}}.mlp.experts.{part}", dtype="U8", shape=size,
            nbytes=prod(size), count=2, layers=(0, 1),
        )
        for part, size in {"gate_up_proj_blocks": (5, 64, 1, 16), name: shape}.items()
    ]  # fmt: skip
    config = {
        "model_type": "gpt_oss", "num_hidden_layers": 2, "hidden_size": 64, "head_dim": 16,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    }  # fmt: skip
    files = ModelFiles(target=Target(kind="file", id="x"), config=config, tensors=(*tensors,))
    deployment = Deployment(gpus=parse_gpu("h100"))
    (fit,) = analyze(files, Workload(engine=engine, context=64, deployment=deployment)).fit
    assert (fit.weights_bytes_per_gpu or 0) >= sum(2 * tensor.nbytes for tensor in tensors)


def test_a_buffer_that_is_called_an_embedding_is_not_left_with_the_host() -> None:
    """llama.cpp leaves what is loaded of the table there, and no more than that."""
    tensors = (
        TensorGroup(name="model.embed_tokens.weight", dtype="U8", shape=(2**41,), nbytes=2**41),
        TensorGroup(
            name="model.layers.{}.mlp.up_proj.weight", dtype="BF16", shape=(64, 64),
            nbytes=8192, count=2, layers=(0, 1),
        ),
    )  # fmt: skip
    config = {**llama_config(), "num_hidden_layers": 2}
    files = ModelFiles(target=Target(kind="file", id="x"), config=config, tensors=tensors)
    deployment = Deployment(gpus=parse_gpu("h100"))
    (fit,) = analyze(files, Workload(engine="llama.cpp", context=64, deployment=deployment)).fit
    assert fit.weights_bytes_per_gpu == 2 * 8192


def test_what_is_not_estimated_is_not_called_so() -> None:
    """Where the engine's source has the size, it has no range."""
    report = asked(V3, "h200:16", "vllm", context=4096, engine_version="0.20")
    text = " ".join(inspect_text(report, Style(width=80), explain=True).split())
    assert "− MLA workspace 134,217,728 B exactly, as its source has it" in text
    assert "− libraries 268,435,456 B estimated, 0 B to 512 MiB" in text
