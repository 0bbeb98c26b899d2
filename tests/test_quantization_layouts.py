"""Every quantization format gives back the model it was made from: headers of one tiny Llama.

fixtures/quantized holds that model in each format (make_quantized_fixtures.py). The truth is
arithmetic on the original layers, done here by hand.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hfkv.core.files import ModelFiles, Target, TensorGroup
from hfkv.core.headers import parse_shard
from hfkv.core.quantization import read_scheme, unpack
from hfkv.core.quantization.layouts import LAYOUTS, split_name
from hfkv.core.quantization.methods import METHODS
from hfkv.core.weights import QuantizationReport, WeightReport, weigh

FOLDER = Path(__file__).parent.parent / "fixtures" / "quantized"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/model.safetensors.header"))

# q and o 256 x 256, k and v 128 x 256, gate, up and down 384 x 256
LINEAR = 2 * 65_536 + 2 * 32_768 + 3 * 98_304
# two layers with two norms each, embedding and head of 512 x 256, the last norm
LLAMA = 2 * (LINEAR + 2 * 256) + 2 * 512 * 256 + 256
OTHERS = {
    # embedding, k_proj, four experts of 768 x 256 and 256 x 384 with biases
    "mxfp4-gpt-oss": 512 * 256 + 128 * 256 + 4 * (768 * 256 + 768) + 4 * (256 * 384 + 256),
    # embedding, head, wq_a, router, four experts of three 384 x 256 matrices
    "fp8-deepseek-v4": 2 * 512 * 256 + 128 * 256 + 4 * 256 + 4 * 3 * 384 * 256,
}


@cache
def load(name: str) -> ModelFiles:
    """Read one fixture the way a source would."""
    folder = FOLDER / name
    data = (folder / "model.safetensors.header").read_bytes()
    shard = parse_shard(data, file_size=None, path="model.safetensors")
    side = {
        path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")
    }
    return ModelFiles(
        target=Target(kind="folder", id=name),
        weight_files=("model.safetensors",),
        config=side.pop("config.json"),
        side=side,
        tensors=shard.groups,
        headers=(shard.info,),
    )


def weighed(name: str) -> WeightReport:
    """Return the weight report of one fixture."""
    report = weigh(load(name))
    assert report is not None
    return report


def quantized(name: str) -> QuantizationReport:
    """Return the quantization part of that report."""
    report = weighed(name).quantization
    assert report is not None
    return report


def test_there_are_fixtures_for_every_format() -> None:
    """No layout and no method goes without a fixture."""
    assert len(NAMES) == 60
    seen = {name: read_scheme(load(name)) for name in NAMES}
    methods = {scheme.method for scheme in seen.values() if scheme}
    # sinq writes HQQ's tensors; nvfp4 as a method of its own quantizes while loading
    assert set(METHODS) - methods == {"sinq", "nvfp4"}
    rules = {layout.rule for layout in LAYOUTS}
    used = {
        layout.rule
        for layout in LAYOUTS
        for name in NAMES
        if any(split_name(g.name)[1] == layout.key for g in load(name).tensors)
    }
    # embedding_quantized is gemma's rule too
    assert used == rules


@pytest.mark.parametrize("name", NAMES)
def test_logical_parameters_are_those_of_the_original(name: str) -> None:
    """A packed model has as many parameters as the model it was made from."""
    assert weighed(name).parameters == OTHERS.get(name, LLAMA)


@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_the_data_of_the_file(name: str) -> None:
    """Bytes never need the format: they are the end of the last tensor."""
    assert weighed(name).bytes == load(name).headers[0].data_bytes


# Stored bits per weight, scales included, of all linear layers: hand arithmetic.
# Per group of g values: 16/g for a 16-bit scale; per row: 16/in.
EFFECTIVE = {
    "auto-round-gptq": 4 + 16 / 128 + 4 / 128,
    "awq-gemm": 4 + 16 / 128 + 4 / 128,
    "ct-mxfp4": 4 + 8 / 32,
    "ct-mxfp6": 6 + 8 / 32,
    "ct-mxfp8": 8 + 8 / 32,
    "mlx-4bit": 4 + 2 * 16 / 64,
    "mlx-6bit": 6 + 2 * 16 / 64,
    "mlx-mxfp4": 4 + 8 / 32,
    "gptq-8bit": 8 + 16 / 32 + 8 / 32,
    "quanto-int4": 4 + 2 * 16 / 128,
    "mxfp4-gpt-oss": 4 + 8 / 32,
}


@pytest.mark.parametrize("name", sorted(EFFECTIVE))
def test_effective_bits_count_scales_and_zero_points(name: str) -> None:
    """The stored bits of a format are what its scales and zero points add up to."""
    bits, parameters = quantized(name).effective_bits or (0, 1)
    assert bits == EFFECTIVE[name] * parameters


def test_effective_bits_of_double_quantization() -> None:
    """Bitsandbytes with double quantization: 4 bits, a byte and 1/256 float per 64, tables."""
    bits, parameters = quantized("bnb-nf4-double").effective_bits or (0, 0)
    modules = 14
    # 32-bit nested absmax, rounded up by module: 4 blocks for 65,536 values and so on
    nested = 2 * (2 * 4 + 2 * 2 + 3 * 6)
    tables = modules * 8 * (16 * 4 + 256 * 4 + 120)
    assert parameters == 2 * LINEAR
    assert bits == 4 * parameters + 8 * parameters // 64 + 32 * nested + tables


def test_what_stayed_unquantized_is_named() -> None:
    """Modules with plain matrices are listed as templates."""
    assert quantized("gptq-4bit").unquantized_modules == ("lm_head", "model.embed_tokens")
    assert quantized("mlx-4bit").unquantized_modules == ()
    assert quantized("fp8-deepseek-v4").unquantized_modules == (
        "embed",
        "head",
        "layers.{}.ffn.gate",
    )


def test_scales_are_a_role_of_their_own_without_parameters() -> None:
    """Scales, zero points and g_idx are bytes without parameters."""
    report = weighed("gptq-4bit")
    role = report.by_role["quantization"]
    # per layer: scales 2 bytes and zeros half a byte per group of 128, g_idx 4 bytes per input
    groups = LINEAR // 128
    inputs = 6 * 256 + 384
    assert role.bytes == 2 * (groups * 2 + groups // 2 + inputs * 4)
    assert role.parameters == 0


# Formats whose headers alone tell the packing. The others keep the one number that is
# data (compressed-tensors' weight_shape, HQQ's group size) or need the block (VPTQ).
_NEEDS_CONFIG = {
    "ct-w3a16",
    "ct-w3a16-old",
    "ct-w4a16",
    "ct-w4a16-zero-point",
    "ct-w8a16",
    "gemma-qat",
    "hqq-3bit",
    "hqq-4bit",
    "awq-gemv",
    "metal",
    "mlx-4bit",
    "mlx-6bit",
    "mlx-mxfp4",
    "quanto-int4",
    "torchao-int4",
    "vptq",
}


@pytest.mark.parametrize("name", NAMES)
def test_without_a_config_the_header_decides_or_nothing_does(name: str) -> None:
    """With the block deleted the parameters are right or not known, never wrong."""
    report = weigh(replace(load(name), config=None, side={}))
    assert report is not None
    expected = None if name in _NEEDS_CONFIG else OTHERS.get(name, LLAMA)
    assert report.parameters == expected


def test_a_lying_config_does_not_change_what_the_header_shows() -> None:
    """A block that claims AWQ over GPTQ tensors is overruled, and the report says so."""
    files = load("gptq-4bit")
    config = dict(files.config or {})
    config["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": 128}
    report = weigh(replace(files, config=config))
    assert report is not None
    assert report.parameters == LLAMA
    assert report.quantization is not None
    assert report.quantization.format == "gptq"
    assert report.quantization.declared == "awq"
    (sentence,) = report.quantization.disagreements
    assert sentence == (
        "config.json: quantization_config declares awq, but "
        "`model.layers.{}.mlp.down_proj.qweight` is stored as gptq"
    )


def test_a_wrong_bit_width_is_said() -> None:
    """A block that says 4 bits over 8-bit tensors is overruled too."""
    files = load("gptq-8bit")
    config = dict(files.config or {})
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    report = weigh(replace(files, config=config))
    assert report is not None
    assert report.parameters == LLAMA
    assert report.quantization is not None
    (sentence,) = report.quantization.disagreements
    assert sentence == (
        "config.json: quantization_config declares 4 bits, but "
        "`model.layers.{}.mlp.down_proj.qweight` holds 8 bits a weight"
    )


def test_a_block_over_plain_tensors_is_said() -> None:
    """A block that claims mxfp4 over bf16 tensors: the format is none, and the report says so."""
    files = load("bf16")
    config = {**(files.config or {}), "quantization_config": {"quant_method": "mxfp4"}}
    report = weigh(replace(files, config=config))
    assert report is not None
    assert report.quantization == QuantizationReport(
        format="none",
        bits=None,
        group_size=None,
        source="config.json: quantization_config",
        declared="mxfp4",
        disagreements=(
            "config.json: quantization_config declares mxfp4, but every weight is plain BF16",
        ),
    )


def group(
    name: str, dtype: str, *shape: int, count: int = 1, layers: tuple[int, ...] = ()
) -> TensorGroup:
    """Make a tensor group; its bytes do not matter here."""
    return TensorGroup(name=name, dtype=dtype, shape=shape, nbytes=1, count=count, layers=layers)


def test_an_unknown_packing_has_no_parameters_rather_than_wrong_ones() -> None:
    """Integer matrices that no rule knows are not counted, and are named."""
    strange = group("layers.{}.ffn.weight", "U8", 64, 32)
    files = ModelFiles(target=Target(kind="file", id="x"), tensors=(strange,))
    report = weigh(files)
    assert report is not None
    assert report.parameters is None
    assert report.quantization is not None
    assert report.quantization.disagreements == (
        "`layers.{}.ffn.weight` is U8 64x32 in a packing that hfkv does not know",
    )


def test_scales_are_matched_by_layer_when_shapes_differ() -> None:
    """Layers of two widths: each takes the scales of its own layers."""
    tensors = (
        group("h.{}.k.weight", "U8", 64, 128, layers=(0, 2)),
        group("h.{}.k.weight", "U8", 64, 96, layers=(1, 3)),
        group("h.{}.k.weight_scale", "U8", 64, 8, layers=(0, 2)),
        group("h.{}.k.weight_scale", "U8", 64, 4, layers=(1, 3)),
    )
    found = [(s.layout, s.shape) for s in unpack(tensors, None)]
    assert found[0] == ("mxfp4", (64, 256))
    assert found[1] == ("mxfp6", (64, 128))


def test_buffers_are_not_parameters() -> None:
    """Causal masks, position ids and rotary tables are no parameters; a bias vector is."""
    tensors = (
        group("h.{}.attn.bias", "F32", 1, 1, 1024, 1024),
        group("h.{}.attn.masked_bias", "F32"),
        group("embeddings.position_ids", "I64", 1, 512),
        group("layers.{}.self_attn.rotary_emb.inv_freq", "F32", 64),
        group("decoder.attn.bias", "F32", 64),
        group("router.scale", "BF16", 2816),
    )
    stored = unpack(tensors, None)
    assert [s.layout for s in stored] == ["buffer"] * 4 + ["plain"] * 2


def test_three_dimensional_experts_may_have_no_suffix() -> None:
    """Experts that are one bare parameter are recognised by what stands beside them."""
    tensors = (
        group("layers.{}.experts.gate_up_proj", "U8", 8, 256, 64),
        group("layers.{}.experts.gate_up_proj_weight_scale", "F8_E4M3", 8, 256, 8),
        group("layers.{}.experts.gate_up_proj_weight_scale_2", "F32"),
        group("layers.{}.experts.gate_up_proj_bias", "BF16", 8, 256),
    )
    found = [(s.layout, s.parameters) for s in unpack(tensors, None)]
    assert found == [
        ("nvfp4", 8 * 256 * 128),
        ("overhead", 0),
        ("overhead", 0),
        ("plain", 8 * 256),
    ]
