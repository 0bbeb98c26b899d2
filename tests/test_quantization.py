"""What a quantization block says, wherever it stands, and how a broken one is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfkv.core.dtypes import KV_DTYPES
from hfkv.core.files import ModelFiles, Target, TensorGroup
from hfkv.core.quantization import Scheme, loadable, read_scheme
from hfkv.core.quantization.methods import METHODS, canonical_method
from hfkv.errors import MalformedError


def files(
    config: dict[str, Any] | None = None,
    side: dict[str, Any] | None = None,
    tensors: tuple[TensorGroup, ...] = (),
) -> ModelFiles:
    """Make files with this config.json and these side files."""
    target = Target(kind="folder", id="x")
    return ModelFiles(target=target, config=config, side=side or {}, tensors=tensors)


def read(config: dict[str, Any] | None = None, side: dict[str, Any] | None = None) -> Scheme:
    """Read a scheme that must be there."""
    scheme = read_scheme(files(config, side))
    assert scheme is not None
    return scheme


# Verbatim from public files; the repositories are named.
MODELOPT_FP8 = {  # nvidia/Llama-3.1-70B-Instruct-FP8, hf_quant_config.json
    "producer": {"name": "modelopt", "version": "0.23.0"},
    "quantization": {
        "quant_algo": "FP8",
        "kv_cache_quant_algo": "FP8",
        "exclude_modules": ["lm_head"],
    },
}
MODELOPT_IN_CONFIG = {  # Qwen/Qwen3-32B-FP8-Static-PerTensor, config.json
    "config_groups": {
        "group_0": {
            "input_activations": {"dynamic": False, "num_bits": 8, "type": "float"},
            "weights": {"dynamic": False, "num_bits": 8, "type": "float"},
        }
    },
    "ignore": ["lm_head"],
    "quant_algo": "FP8",
    "kv_cache_scheme": "FP8",
    "producer": {"name": "modelopt", "version": "0.31.0"},
}
GPTQ_SIDE = {  # Tele-AI/telechat-7B-int4, quantize_config.json
    "bits": 4,
    "group_size": 128,
    "damp_percent": 0.01,
    "desc_act": False,
    "sym": True,
    "true_sequential": True,
    "model_name_or_path": None,
    "model_file_base_name": None,
}
KIMI = {  # moonshotai/Kimi-K2.5, config.json: text_config
    "config_groups": {
        "group_0": {
            "input_activations": None,
            "output_activations": None,
            "targets": ["Linear"],
            "weights": {
                "actorder": None,
                "dynamic": False,
                "group_size": 32,
                "num_bits": 4,
                "strategy": "group",
                "symmetric": True,
                "type": "int",
            },
        }
    },
    "format": "pack-quantized",
    "ignore": ["lm_head", "re:.*self_attn.*"],
    "kv_cache_scheme": None,
    "quant_method": "compressed-tensors",
}
MLX = {"group_size": 64, "bits": 4}  # mlx-community/Qwen3-14B-4bit, twice in config.json
NF4 = {  # reubzdubz/Molmo7B_D_NF4Quant, config.json
    "bnb_4bit_quant_type": "nf4",
    "bnb_4bit_use_double_quant": False,
    "llm_int8_skip_modules": ["model.vision_backbone"],
    "load_in_4bit": True,
    "load_in_8bit": False,
    "quant_method": "bitsandbytes",
}

# config.json, side files, then: method, bits, group size, ignored, source
BLOCKS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "modelopt side file": (
        {"model_type": "llama"},
        {"hf_quant_config.json": MODELOPT_FP8},
        ("modelopt", 8, None, ("lm_head",), "hf_quant_config.json: quantization"),
    ),
    "modelopt in config.json": (
        {"quantization_config": MODELOPT_IN_CONFIG},
        {"hf_quant_config.json": MODELOPT_FP8},
        ("modelopt", 8, None, ("lm_head",), "config.json: quantization_config"),
    ),
    "gptq side file": (
        {"model_type": "telechat"},
        {"quantize_config.json": GPTQ_SIDE},
        ("gptq", 4, 128, (), "quantize_config.json"),
    ),
    "awq side file": (
        None,
        {"quant_config.json": {"w_bit": 4, "q_group_size": 128, "zero_point": True}},
        ("awq", 4, 128, (), "quant_config.json"),
    ),
    "exl3 side file": (
        {},
        {"quantization_config.json": {"tensor_storage": {}}},
        ("exl3", None, None, (), "quantization_config.json"),
    ),
    "nested in text_config": (
        {"text_config": {"quantization_config": KIMI}},
        {},
        (
            "compressed-tensors",
            4,
            32,
            ("lm_head", "re:.*self_attn.*"),
            "config.json: text_config.quantization_config",
        ),
    ),
    "nested in thinker_config.text_config": (
        {"thinker_config": {"text_config": {"quantization_config": NF4}}},
        {},
        (
            "bitsandbytes",
            4,
            None,
            ("model.vision_backbone",),
            "config.json: thinker_config.text_config.quantization_config",
        ),
    ),
    "compression_config": (
        {"compression_config": {k: v for k, v in KIMI.items() if k != "quant_method"}},
        {},
        (
            "compressed-tensors",
            4,
            32,
            ("lm_head", "re:.*self_attn.*"),
            "config.json: compression_config",
        ),
    ),
    "mlx twice": (
        {"quantization": MLX, "quantization_config": MLX},
        {},
        ("mlx", 4, 64, (), "config.json: quantization_config"),
    ),
    "mlx once": ({"quantization": MLX}, {}, ("mlx", 4, 64, (), "config.json: quantization")),
    "the outer block before the nested one": (
        {
            "quantization_config": {"quant_method": "fp8"},
            "text_config": {"quantization_config": NF4},
        },
        {},
        ("fp8", 8, None, (), "config.json: quantization_config"),
    ),
    "an unknown method keeps its name": (
        {"quantization_config": {"quant_method": "New_Thing", "bits": 5}},
        {},
        ("new_thing", 5, None, (), "config.json: quantization_config"),
    ),
    "widths that differ by group are no one width": (
        {
            "quantization_config": {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "a": {"targets": ["re:.*attn.*"], "weights": {"num_bits": 8}},
                    "b": {"targets": ["re:.*mlp.*"], "weights": {"num_bits": 4, "group_size": 32}},
                },
            }
        },
        {},
        ("compressed-tensors", None, None, (), "config.json: quantization_config"),
    ),
    "an average is no bit width": (
        {"quantization_config": {"quant_method": "exl3", "bits": 4.25}},
        {},
        ("exl3", None, None, (), "config.json: quantization_config"),
    ),
    "an integral float is a bit width": (
        {"quantization_config": {"quant_method": "gptq", "bits": 4.0, "group_size": -1}},
        {},
        ("gptq", 4, None, (), "config.json: quantization_config"),
    ),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_the_block_is_found_and_read(case: str) -> None:
    """Every place and spelling of a block gives the same facts."""
    config, side, expected = BLOCKS[case]
    s = read(config, side)
    assert (s.method, s.bits, s.group_size, s.ignored, s.source) == expected


@pytest.mark.parametrize(
    ("config", "side"),
    [
        (None, {}),
        ({}, {}),
        ({"quantization_config": None}, {}),
        ({"quantization_config": {}}, {}),
        ({"text_config": None}, {"hf_quant_config.json": {}}),
    ],
)
def test_no_block_is_no_scheme(config: dict[str, Any] | None, side: dict[str, Any]) -> None:
    """Null and empty blocks are no quantization."""
    assert read_scheme(files(config, side)) is None


def quark(name: str) -> dict[str, Any]:
    """Make a quark block whose k and v projections quantize their output."""
    layer = {"output_tensors": {"dtype": name}}
    return {"quant_method": "quark", "layer_quant_config": {"*k_proj": layer, "*v_proj": layer}}


def scheme(bits: int, kind: str) -> dict[str, Any]:
    """Make a compressed-tensors block with a cache scheme."""
    cache = {"num_bits": bits, "type": kind, "strategy": "tensor"}
    return {"quant_method": "compressed-tensors", "kv_cache_scheme": cache}


_SCHEME = "config.json: quantization_config.kv_cache_scheme"
_ALGO = "hf_quant_config.json: quantization.kv_cache_quant_algo"
KV: dict[str, tuple[Any, Any, str | None, str | None]] = {
    "float 8": (scheme(8, "float"), {}, "fp8", _SCHEME),
    "int 8": (scheme(8, "int"), {}, "int8", _SCHEME),
    "float 4": (scheme(4, "float"), {}, "nvfp4", _SCHEME),
    "a name": (MODELOPT_IN_CONFIG, {}, "fp8", _SCHEME),
    "null": (KIMI, {}, None, None),
    "modelopt": (None, MODELOPT_FP8, "fp8", _ALGO),
    "modelopt int8": (
        None,
        {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "INT8"}},
        "int8",
        _ALGO,
    ),
    "modelopt nvfp4": (
        None,
        {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "NVFP4_AFFINE"}},
        "nvfp4",
        _ALGO,
    ),
    "modelopt none": (
        None,
        {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None}},
        None,
        None,
    ),
    "modelopt says none in words": (
        None,
        {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "None"}},
        None,
        None,
    ),
    "the side file speaks where config.json is silent": (
        {"quant_method": "fp8"},
        MODELOPT_FP8,
        "fp8",
        _ALGO,
    ),
    "quark": (
        quark("fp8_e4m3"),
        {},
        "fp8",
        "config.json: quantization_config.layer_quant_config.*k_proj.output_tensors.dtype",
    ),
    "awq says nothing": ({"quant_method": "awq", "bits": 4}, {}, None, None),
}


@pytest.mark.parametrize("case", KV)
def test_the_declared_cache_format(case: str) -> None:
    """The declared KV format has a canonical name and names its place."""
    block, modelopt, dtype, source = KV[case]
    config = {"quantization_config": block} if block else None
    found = read(config, {"hf_quant_config.json": modelopt} if modelopt else {})
    assert (found.kv_dtype, found.kv_source) == (dtype, source)
    assert dtype is None or dtype in KV_DTYPES
    assert found.disagreements == ()


def test_scale_tensors_alone_do_not_declare_a_cache_format() -> None:
    """k_scale and v_scale are there for whoever asks for fp8; they do not ask."""
    tensors = tuple(
        TensorGroup(name=f"model.layers.{{}}.self_attn.{n}", dtype="F32", shape=(), nbytes=4)
        for n in ("k_scale", "v_scale", "k_proj.output_scale")
    )
    config = {"quantization_config": {"quant_method": "fp8"}}
    found = read_scheme(files(config, tensors=tensors))
    assert found is not None
    assert (found.kv_dtype, found.kv_source) == (None, None)


def test_two_different_cache_formats_are_a_disagreement() -> None:
    """config.json wins over the side file, and the report says that they differ."""
    side = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "INT8"}}
    found = read({"quantization_config": scheme(8, "float")}, {"hf_quant_config.json": side})
    assert found.kv_dtype == "fp8"
    (sentence,) = found.disagreements
    assert sentence == f"{_SCHEME} declares a fp8 cache, {_ALGO} int8"


def test_an_unknown_cache_format_is_named_and_not_guessed() -> None:
    """A format nobody knows declares nothing."""
    side = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP2"}}
    found = read({}, {"hf_quant_config.json": side})
    assert found.kv_dtype is None
    assert found.disagreements == (f'{_ALGO} is "FP2", which is no cache format hfkv knows',)


BROKEN: dict[str, tuple[Any, Any, str]] = {
    "a list for the block": (
        {"quantization_config": [1]},
        {},
        "config.json: quantization_config: expected an object, got a list",
    ),
    "text for bits": (
        {"quantization_config": {"quant_method": "gptq", "bits": "4"}},
        {},
        'config.json: quantization_config.bits: expected a whole number, got "4"',
    ),
    "no such width": (
        {"quantization_config": {"quant_method": "gptq", "bits": 64}},
        {},
        "config.json: quantization_config.bits: 64 is no bit width",
    ),
    "true is no number": (
        {"quantization_config": {"quant_method": "gptq", "group_size": True}},
        {},
        "config.json: quantization_config.group_size: expected a whole number, got true",
    ),
    "a number for the method": (
        {"quantization_config": {"quant_method": 4}},
        {},
        "config.json: quantization_config.quant_method: expected a string, got a number",
    ),
    "text for the ignore list": (
        {"quantization_config": {"quant_method": "fp8", "ignored_layers": "lm_head"}},
        {},
        'config.json: quantization_config.ignored_layers: expected a list, got "lm_head"',
    ),
    "an object in the ignore list": (
        {"text_config": {"quantization_config": {"quant_method": "fp8", "ignore": ["a", {}]}}},
        {},
        "config.json: text_config.quantization_config.ignore[1]: expected a string, got an object",
    ),
    "a list for a nested object": (
        {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": [1]}},
        {},
        "config.json: quantization_config.config_groups: expected an object, got a list",
    ),
    "text for a flag": (
        {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": "yes"}},
        {},
        'config.json: quantization_config.load_in_8bit: expected true or false, got "yes"',
    ),
    "a number for the cache scheme": (
        {"quantization_config": {"quant_method": "fp8", "kv_cache_scheme": 8}},
        {},
        f"{_SCHEME}: expected an object or a name, got a number",
    ),
    "a list for a side file": (
        {},
        {"hf_quant_config.json": [1, 2]},
        "hf_quant_config.json: expected an object, got a list",
    ),
    "text in a side file": (
        {},
        {"hf_quant_config.json": {"quantization": "FP8"}},
        'hf_quant_config.json: quantization: expected an object, got "FP8"',
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_block_of_wrong_types_is_refused_with_its_path(case: str) -> None:
    """The message names the file, the dotted key, what was expected and what stands there."""
    config, side, message = BROKEN[case]
    with pytest.raises(MalformedError) as caught:
        read_scheme(files(config, side))
    assert str(caught.value) == message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = st.sampled_from(
    (
        "bits",
        "config_for_layers",
        "config_groups",
        "dynamic",
        "extra_config",
        "global_quant_config",
        "group_size",
        "ignore",
        "in_group_size",
        "kv_cache_scheme",
        "layer_quant_config",
        "module_quant_configs",
        "num_bits",
        "quant_algo",
        "quant_config",
        "quant_type",
        "weights",
    )
)


@given(method=st.sampled_from(sorted(METHODS)), block=st.dictionaries(KEYS, JSON, max_size=4))
def test_only_the_documented_error_escapes(method: str, block: dict[str, Any]) -> None:
    """Whatever stands in a block, it is read or refused with MalformedError."""
    config = {"quantization_config": {"quant_method": method, **block}}
    with suppress(MalformedError):
        found = read_scheme(files(config))
        assert found is not None
        assert found.method == method


@pytest.mark.parametrize(
    ("spelling", "method"),
    [
        ("gptq_marlin", "gptq"),
        ("AWQ", "awq"),
        ("intel/auto-round", "auto-round"),
        ("compressed_tensors", "compressed-tensors"),
        ("modelopt_fp4", "modelopt"),
        ("fbgemm_fp8", "fbgemm_fp8"),
        ("something-else", "something-else"),
    ],
)
def test_spellings_of_one_method(spelling: str, method: str) -> None:
    """Engines and exporters spell the same method differently."""
    assert canonical_method(spelling) == method


# Support lists: transformers 5.24.0, vLLM 0.32.0 core, SGLang 0.5.23
@pytest.mark.parametrize(
    ("method", "transformers", "vllm", "sglang"),
    [
        ("gptq", True, True, True),
        ("bitsandbytes", True, False, True),
        ("hqq", True, False, False),
        ("aqlm", True, False, False),
        ("modelopt", False, True, True),
        ("exl3", False, False, False),
        ("mlx", False, False, False),
        ("torchao", True, True, False),
        ("none", True, True, True),
        ("from-the-future", None, None, None),
    ],
)
def test_which_engine_loads_it(
    method: str, transformers: bool | None, vllm: bool | None, sglang: bool | None
) -> None:
    """An engine's list decides; for a method newer than the lists nobody knows."""
    assert loadable(method, "transformers") is transformers
    assert loadable(method, "vllm") is vllm
    assert loadable(method, "sglang") is sglang
    assert loadable(method, "llama.cpp") is None
