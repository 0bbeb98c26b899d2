"""`--weights-dtype`: the estimate agrees with what real quantizers store for the same model."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hfkv.core.files import ModelFiles, Target
from hfkv.core.headers import parse_shard
from hfkv.core.snapshots import loads
from hfkv.core.weights import WeightReport, weigh
from hfkv.core.what_if import WEIGHT_FORMATS, WhatIf, what_if
from hfkv.errors import UsageError

FIXTURES = Path(__file__).parent.parent / "fixtures"
# every parameter of the tiny Llama in fixtures/quantized
PARAMETERS = 1_246_464
MODULES = 14


@cache
def tiny(name: str) -> tuple[WeightReport, ModelFiles]:
    """Weigh the tiny Llama in one format."""
    folder = FIXTURES / "quantized" / name
    data = (folder / "model.safetensors.header").read_bytes()
    files = ModelFiles(
        target=Target(kind="folder", id=name),
        config=json.loads((folder / "config.json").read_text(encoding="utf-8")),
        tensors=parse_shard(data, file_size=None, path="model.safetensors").groups,
    )
    report = weigh(files)
    assert report is not None
    return report, files


def estimate(report: WeightReport, files: ModelFiles, name: str) -> WhatIf:
    """Estimate where there must be an answer."""
    found = what_if(report, files, name)
    assert found is not None
    return found


# format → the fixture that a real quantizer's layout gives, and bytes that the estimate
# leaves out: global scales and lookup tables that do not grow with the model.
REAL = {
    "fp8": ("fp8-block", 0),
    "int8": ("ct-w8a8", 0),
    "int4": ("awq-gemm", 0),
    "mxfp4": ("ct-mxfp4", 0),
    "mxfp8": ("ct-mxfp8", 0),
    "nvfp4": ("ct-nvfp4", MODULES * 2 * 4),
    "nf4": ("bnb-nf4-double", MODULES * (16 * 4 + 256 * 4 + 120)),
}


@pytest.mark.parametrize("name", REAL)
def test_the_estimate_is_what_a_quantizer_stores(name: str) -> None:
    """From the bf16 model, the estimate equals the quantized model's own bytes."""
    fixture, constant = REAL[name]
    assert estimate(*tiny("bf16"), name).bytes == tiny(fixture)[0].bytes - constant


def test_what_stays_is_said() -> None:
    """Embedding, head and norms stay 16 bit: 2 × (2 × 512 × 256 + 5 × 256) bytes."""
    found = estimate(*tiny("bf16"), "int4")
    assert found.unquantized_bytes == 2 * (2 * 512 * 256 + 5 * 256)
    first, second = found.assumptions
    assert first == (
        "matrices of attention, MLP and experts in int4, "
        "with a 16-bit scale and a zero point for every 128 values"
    )
    assert second == (
        "embeddings, output head, norms, routers, convolutions and towers stay as they are, "
        "in at most 16 bit"
    )


@pytest.mark.parametrize("fixture", ["gptq-4bit", "bnb-nf4", "exl3", "mlx-4bit", "fp8-block"])
def test_a_quantized_model_in_16_bit_is_the_original(fixture: str) -> None:
    """Unpacked, every format gives the size of the model it was made from."""
    assert estimate(*tiny(fixture), "bf16").bytes == 2 * PARAMETERS
    assert estimate(*tiny(fixture), "fp32").bytes == 4 * PARAMETERS


def test_the_same_estimate_from_any_format() -> None:
    """What is estimated depends on the model, not on the format it is stored in."""
    from_bf16 = estimate(*tiny("bf16"), "int4").bytes
    assert estimate(*tiny("gptq-4bit"), "int4").bytes == from_bf16
    assert estimate(*tiny("ct-nvfp4"), "int4").bytes == from_bf16


def snapshot(name: str) -> tuple[WeightReport, ModelFiles]:
    """Weigh one of the real-shaped models."""
    path = FIXTURES / "models" / f"{name}.hfkv.json"
    files = loads(path.read_bytes(), where=path.name)
    report = weigh(files)
    assert report is not None
    return report, files


def test_deepseek_v3_in_fp8_is_deepseek_v3() -> None:
    """DeepSeek-V3 is published in this format: only its float32 routers become 16 bit."""
    report, files = snapshot("deepseek-ai--DeepSeek-V3")
    routers = 58 * (256 * 7168 + 256) * 2
    assert estimate(report, files, "fp8").bytes == report.bytes - routers


def test_llama_31_8b_in_int4() -> None:
    """Llama-3.1-8B with 4-bit groups of 128: 5.73 GB, by hand from its shapes."""
    report, files = snapshot("meta-llama--Llama-3.1-8B")
    linear = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14_336)
    rest = 2 * 128_256 * 4096 + 65 * 4096
    bits = linear * 4 + linear // 128 * 20
    assert estimate(report, files, "int4").bytes == bits // 8 + 2 * rest


def test_routers_and_convolutions_stay() -> None:
    """Mixtral's routers and Jamba's convolutions are not quantized."""
    for name, module in (
        ("mistralai--Mixtral-8x7B-v0.1", "block_sparse_moe.gate"),
        ("ai21labs--AI21-Jamba-1.5-Mini", "mamba.conv1d"),
    ):
        report, files = snapshot(name)
        kept = estimate(report, files, "int4").unquantized_bytes
        found = [g for g in files.tensors if module in g.name]
        assert found
        others = replace(files, tensors=tuple(g for g in files.tensors if g not in found))
        assert kept - estimate(report, others, "int4").unquantized_bytes == sum(
            g.nbytes * g.count for g in found
        )


@pytest.mark.parametrize(
    ("spelling", "name"), [("AWQ", "int4"), ("bf16", "bfloat16"), ("w8a8", "int8"), ("fp8", "fp8")]
)
def test_spellings(spelling: str, name: str) -> None:
    """The field's names for a format are understood."""
    assert estimate(*tiny("bf16"), spelling).name == name


def test_without_shapes_every_parameter_counts() -> None:
    """From the Hub's count alone: 8,030,261,248 parameters × 4.15625 bits."""
    hub: dict[str, Any] = {"safetensors": {"parameters": {"BF16": 8_030_261_248}}}
    files = ModelFiles(target=Target(kind="hub", id="x/y"), hub=hub)
    report = weigh(files)
    assert report is not None
    found = estimate(report, files, "int4")
    assert found.bytes == 8_030_261_248 * 133 // 32 // 8
    assert found.assumptions[1] == ("shapes are not known, so nothing is taken to stay unquantized")
    assert estimate(report, files, "bf16").bytes == 2 * 8_030_261_248


def test_without_parameters_there_is_no_estimate() -> None:
    """An unknown packing gives no estimate rather than a wrong one."""
    report, files = tiny("bf16")
    assert what_if(replace(report, parameters=None), files, "int4") is None


def test_an_unknown_format_is_refused() -> None:
    """The message names the format and lists the known ones."""
    with pytest.raises(UsageError) as caught:
        what_if(*tiny("bf16"), "int1")
    assert str(caught.value) == "unknown weights dtype 'int1'"
    assert caught.value.hint == "known: bf16, fp16, fp32, " + ", ".join(WEIGHT_FORMATS)
