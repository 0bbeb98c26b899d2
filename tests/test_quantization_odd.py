"""Mixed, per-module and malformed quantization: counted right, or not at all."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfkv.core.files import ModelFiles, Target, TensorGroup
from hfkv.core.quantization import Scheme, Stored, read_scheme, unpack
from hfkv.core.quantization.layouts import LAYOUTS
from hfkv.core.quantization.methods import METHODS

Row = tuple[str, str, tuple[int, ...]]


def read(block: dict[str, Any] | None, *rows: Row) -> tuple[Scheme | None, dict[str, Stored]]:
    """Read a scheme and what each tensor holds; rows are (name, dtype, shape)."""
    tensors = tuple(
        TensorGroup(name=name, dtype=dtype, shape=shape, nbytes=_bytes(dtype, shape), layers=(0,))
        for name, dtype, shape in rows
    )
    config = {"quantization_config": block} if block else None
    files = ModelFiles(target=Target(kind="file", id="x"), config=config, tensors=tensors)
    scheme = read_scheme(files)
    return scheme, {s.group.name: s for s in unpack(tensors, scheme)}


def _bytes(dtype: str, shape: tuple[int, ...]) -> int:
    total = 4 if dtype in {"F32", "I32", "U32"} else 2 if dtype in {"BF16", "F16", "I16"} else 1
    for dim in shape:
        total *= dim
    return total


def test_two_widths_in_one_checkpoint() -> None:
    """compressed-tensors groups: 8-bit rows for attention, 4-bit groups of 32 for the MLP."""
    block = {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "a": {"targets": ["re:.*mlp.*"], "weights": {"num_bits": 4, "group_size": 32}},
            "b": {"targets": ["re:.*attn.*"], "weights": {"num_bits": 8}},
        },
    }
    scheme, found = read(
        block,
        ("model.layers.{}.self_attn.q_proj.weight_packed", "I32", (64, 64)),
        ("model.layers.{}.self_attn.q_proj.weight_scale", "BF16", (64, 1)),
        ("model.layers.{}.mlp.up_proj.weight_packed", "I32", (96, 32)),
        ("model.layers.{}.mlp.up_proj.weight_scale", "BF16", (96, 8)),
    )
    assert scheme is not None
    assert scheme.disagreements == ()
    assert found["model.layers.{}.self_attn.q_proj.weight_packed"].shape == (64, 256)
    assert found["model.layers.{}.mlp.up_proj.weight_packed"].shape == (96, 256)


def test_mlx_modules_with_a_width_of_their_own() -> None:
    """MLX: 4 bits everywhere, 8 for the router, told by the number of scales."""
    gate = "model.layers.0.mlp.gate"
    _, found = read(
        {"bits": 4, "group_size": 64, gate: {"bits": 8, "group_size": 32}, "quant_method": "mlx"},
        ("model.layers.{}.mlp.gate.weight", "U32", (8, 64)),
        ("model.layers.{}.mlp.gate.scales", "BF16", (8, 8)),
        ("model.layers.{}.mlp.up_proj.weight", "U32", (96, 32)),
        ("model.layers.{}.mlp.up_proj.scales", "BF16", (96, 4)),
    )
    assert found["model.layers.{}.mlp.gate.weight"].shape == (8, 256)
    assert found["model.layers.{}.mlp.up_proj.weight"].shape == (96, 256)


def test_gemma_modules_with_a_width_of_their_own() -> None:
    """Gemma QAT: 4 bits, 2 for the MLP by a pattern, int8 where the dtype says so."""
    block = {
        "quant_method": "gemma",
        "num_bits": 4,
        "module_quant_configs": {r".*\.mlp\..*": {"num_bits": 2}, "(": {"num_bits": 2}},
    }
    _, found = read(
        block,
        ("model.layers.{}.self_attn.q_proj.weight", "U8", (64, 128)),
        ("model.layers.{}.self_attn.q_proj.weight_scale", "F32", (64, 1)),
        ("model.layers.{}.mlp.up_proj.weight", "U8", (96, 64)),
        ("model.layers.{}.mlp.up_proj.weight_scale", "F32", (96, 1)),
        ("model.embed_tokens.embedding_quantized", "I8", (512, 256)),
        ("model.embed_tokens.embedding_scale", "F32", (512, 1)),
    )
    assert found["model.layers.{}.self_attn.q_proj.weight"].shape == (64, 256)
    assert found["model.layers.{}.mlp.up_proj.weight"].shape == (96, 256)
    assert found["model.embed_tokens.embedding_quantized"].shape == (512, 256)
    assert found["model.embed_tokens.embedding_scale"].parameters == 0


_FP8 = ("layers.{}.attn.wq.weight", "F8_E4M3", (64, 256))
_NVFP4: tuple[Row, ...] = (
    ("layers.{}.mlp.up.weight", "U8", (96, 128)),
    ("layers.{}.mlp.up.weight_scale", "F8_E4M3", (96, 16)),
    ("layers.{}.mlp.up.weight_scale_2", "F32", ()),
)


def test_a_mixture_without_a_block_is_named_by_the_method_that_holds_it() -> None:
    """fp8 attention with nvfp4 experts and no config: ModelOpt or the fp8 method writes both."""
    scheme, _ = read(None, _FP8, *_NVFP4)
    assert scheme is not None
    assert (scheme.method, scheme.declared, scheme.bits) == ("fp8", None, None)
    assert scheme.source == "safetensors header"


def test_one_width_is_told_by_the_header() -> None:
    """Without a block, bits are what every packed tensor spends on a weight."""
    scheme, _ = read(None, *_NVFP4)
    assert scheme is not None
    assert (scheme.method, scheme.bits) == ("modelopt", 4)


def test_an_unknown_method_over_known_tensors() -> None:
    """A quant_method from the future: the tensors still tell what they are."""
    scheme, found = read({"quant_method": "tomorrow"}, _FP8)
    assert scheme is not None
    assert scheme.declared == "tomorrow"
    assert scheme.disagreements[0] == (
        "config.json: quantization_config declares tomorrow, which hfkv does not know; "
        "the tensors are fp8"
    )
    assert found[_FP8[0]].parameters == 64 * 256


def test_modelopt_mixtures_are_one_method() -> None:
    """Per-layer algorithms (MIXED_PRECISION) need no map: each tensor shows its own."""
    scheme, _ = read({"quant_algo": "MIXED_PRECISION", "quantized_layers": {}}, _FP8, *_NVFP4)
    assert scheme is not None
    assert (scheme.method, scheme.bits, scheme.disagreements) == ("modelopt", None, ())


def test_int8_with_exponent_scales_per_32_may_be_one_or_two_values() -> None:
    """An int8 byte with a scale for 32 columns of it is one value, for 16 of it two."""
    _, found = read(
        None,
        ("a.{}.w1.weight", "I8", (64, 128)),
        ("a.{}.w1.scale", "F8_E8M0", (64, 8)),
        ("a.{}.w2.weight", "I8", (64, 128)),
        ("a.{}.w2.scale", "F8_E8M0", (64, 4)),
        ("a.{}.w3.weight", "I8", (64, 128)),
        ("a.{}.w3.scale", "F8_E8M0", (64, 3)),
    )
    assert found["a.{}.w1.weight"].shape == (64, 256)
    assert found["a.{}.w2.weight"].shape == (64, 128)
    assert found["a.{}.w3.weight"].parameters is None


# Shapes that no writer makes: the layout is recognised by its names and then refused.
IMPOSSIBLE: dict[str, tuple[dict[str, Any] | None, tuple[Row, ...]]] = {
    "gptq with one dimension": (
        None,
        (("h.{}.q.qweight", "I32", (8,)), ("h.{}.q.scales", "F16", (8,))),
    ),
    "awq whose columns do not divide": (
        None,
        (("h.{}.q.qweight", "I32", (256, 7)), ("h.{}.q.scales", "F16", (2, 30))),
    ),
    "3-bit rows that are cut": (
        {"quant_method": "gptq", "bits": 3},
        (("h.{}.q.qweight", "I32", (7, 64)), ("h.{}.q.scales", "F16", (1, 64))),
    ),
    "packed words that fit no stated width": (
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"a": {"weights": {"num_bits": 4, "group_size": 128}}},
        },
        (
            ("h.{}.q.weight_packed", "I32", (64, 33)),
            ("h.{}.q.weight_scale", "BF16", (64, 2)),
        ),
    ),
    "mlx words that fit no width": (
        {"quant_method": "mlx", "bits": 4, "group_size": 64},
        (("h.{}.q.weight", "U32", (64, 33)), ("h.{}.q.scales", "BF16", (64, 4))),
    ),
    "nvfp4 with too many scales": (
        None,
        (
            ("h.{}.q.weight_packed", "U8", (64, 128)),
            ("h.{}.q.weight_scale", "F8_E4M3", (64, 17)),
        ),
    ),
    "mxfp4 with too many scales": (
        None,
        (("h.{}.q.weight_packed", "U8", (64, 128)), ("h.{}.q.weight_scale", "U8", (64, 9))),
    ),
    "quanto bits that are not stated": (
        {"quant_method": "quanto"},
        (("h.{}.q.weight._data._data", "U8", (64, 128)),),
    ),
    "gemma bits that are not stated": (
        {"quant_method": "gemma"},
        (("h.{}.q.weight", "U8", (64, 128)), ("h.{}.q.weight_scale", "F32", (64, 1))),
    ),
    "aqlm with flat codes": (
        None,
        (("h.{}.q.codes", "I16", (64,)), ("h.{}.q.codebooks", "F16", (1, 256, 1, 8))),
    ),
    "exl3 with a flat trellis": (None, (("h.{}.q.trellis", "I16", (64,)),)),
    "exl2 without a permutation": (None, (("h.{}.q.q_weight", "I32", (64, 64)),)),
    "higgs with flat scales": (
        None,
        (
            ("h.{}.q.weight", "I16", (64, 256)),
            ("h.{}.q.scales", "F16", (64,)),
            ("h.{}.q.tables", "F16", (16,)),
        ),
    ),
    "hqq without scales": (
        {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"group_size": 64}}},
        (("h.{}.q.W_q", "U8", (64, 64)),),
    ),
    "a scalar where bytes should be": (
        None,
        (("h.{}.q.weight", "U8", ()), ("h.{}.q.weight_scale_2", "F32", ())),
    ),
    "no outputs at all": (
        None,
        (("h.{}.q.qweight", "I32", (8, 4)), ("h.{}.q.scales", "F16", (2, 0))),
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_impossible_shapes_are_not_counted(case: str) -> None:
    """A tensor that fits no rule has no parameters rather than wrong ones."""
    block, rows = IMPOSSIBLE[case]
    _, found = read(block, *rows)
    assert found[rows[0][0]].parameters is None


SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)
DTYPES = st.sampled_from(["BF16", "F16", "F32", "F8_E4M3", "I16", "I32", "I64", "I8", "U32", "U8"])
SUFFIXES = st.sampled_from(
    sorted({layout.key for layout in LAYOUTS} | {key for one in LAYOUTS for key in one.needs})
)
BLOCKS = st.sampled_from([None, *({"quant_method": m, "bits": 4} for m in sorted(METHODS))])


@given(
    block=BLOCKS,
    rows=st.lists(st.tuples(SUFFIXES, DTYPES, SHAPES), min_size=1, max_size=5),
)
def test_no_header_makes_it_fail(
    block: dict[str, Any] | None, rows: list[tuple[str, str, tuple[int, ...]]]
) -> None:
    """Whatever suffixes, dtypes and shapes stand together, every tensor gets an answer."""
    _, found = read(block, *((f"h.{{}}.q.{key}", dtype, shape) for key, dtype, shape in rows))
    for stored in found.values():
        assert stored.parameters is None or stored.parameters >= 0
        assert stored.shape is None or prod(stored.shape) == stored.parameters


@pytest.mark.parametrize(
    ("block", "bits", "group_size"),
    [
        (
            {
                "quant_method": "quark",
                "global_quant_config": {"weight": [{"dtype": "fp4", "group_size": 32}, {}]},
            },
            4,
            32,
        ),
        ({"quant_method": "quark"}, None, None),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only"}, 4, None),
        ({"quant_method": "torchao", "quant_type": 4}, None, None),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8, None),
        ({"quant_method": "modelopt", "config_groups": {}}, None, None),
        ({"quant_method": "vptq", "config_for_layers": {"q": {"vector_lens": [8]}}}, None, None),
        ({"quant_method": "sinq", "nbits": 4, "group_size": 64}, 4, 64),
        ({"quant_method": "auto-round", "bits": 4, "extra_config": {"q": {"bits": 8}}}, 4, None),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": {}}}, None, None),
    ],
)
def test_spellings_of_widths(
    block: dict[str, Any], bits: int | None, group_size: int | None
) -> None:
    """Each method states its width in its own way, or not at all."""
    scheme, _ = read(block)
    assert scheme is not None
    assert (scheme.bits, scheme.group_size) == (bits, group_size)
