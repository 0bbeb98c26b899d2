"""Sizes of one, two or nothing: a store without elements is no store, and the JSON is valid."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_any_config import REAL, TYPES, objects
from test_schema import complaints

from hfkv.core.architecture import read_architecture
from hfkv.core.engines.registry import ENGINES
from hfkv.core.evidence import witness
from hfkv.core.files import ModelFiles, Target, TensorGroup
from hfkv.core.gpus import parse_gpu
from hfkv.core.readings import Confidence
from hfkv.core.report import Report, analyze
from hfkv.core.stores import Fixed
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import HfkvError
from hfkv.render.json import inspect_document


def _files(config: dict[str, Any]) -> ModelFiles:
    return ModelFiles(target=Target(kind="file", id="small"), config=config)


def _has_state(config: dict[str, Any]) -> bool:
    layers = read_architecture(_files(config)).layers
    return any(isinstance(store, Fixed) for layer in layers for store in layer.stores)


STATES = [config for config in REAL if _has_state(config)]
# The keys of whole numbers in all of them: sizes, and what is none.
SIZES = sorted(
    {k for config in STATES for part in objects(config) for k, v in part.items() if type(v) is int}
)

sizes = st.dictionaries(st.sampled_from(SIZES), st.sampled_from((1, 1, 2, 3, 4, 0, 0.01)))
invented = st.builds(
    lambda name, hidden, given: {
        "model_type": name, "num_hidden_layers": 2, "hidden_size": hidden, **given,
    },
    st.sampled_from(TYPES), st.integers(1, 4), sizes,
)  # fmt: skip


@st.composite
def shrunk(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a real config with states, some of its whole numbers made tiny."""
    config: dict[str, Any] = json.loads(json.dumps(draw(st.sampled_from(STATES))))
    nested = [part for part in config.values() if isinstance(part, dict)]
    for part in (config, *nested):
        keys = sorted(key for key in part if type(part[key]) is int and "id" not in key)
        for key in draw(st.lists(st.sampled_from(keys), max_size=6)) if keys else ():
            if key not in ("num_hidden_layers", "n_layer"):
                part[key] = draw(st.integers(0, 4))
    return config


workloads = st.builds(
    lambda engine, context, gpus, tp: Workload(
        engine=engine,
        context=context,
        deployment=Deployment(gpus=gpus, tensor_parallel_size=tp),
    ),
    st.sampled_from(sorted(ENGINES)),
    st.sampled_from((1, 5, 4096)),
    st.sampled_from([parse_gpu(text) for text in ("24gb", "24gb:4")]),
    st.sampled_from((None, 1)),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(shrunk(), invented), workloads)
@example({"model_type": "olmo_hybrid", "num_hidden_layers": 4, "hidden_size": 1,
          "num_attention_heads": 1}, Workload(engine="transformers", context=5))  # fmt: skip
@example({"model_type": "mamba2", "num_hidden_layers": 1, "hidden_size": 1, "expand": 1,
          "num_heads": 2, "n_groups": 1, "conv_kernel": 1}, Workload(context=5))  # fmt: skip
@example({"model_type": "lfm2", "num_hidden_layers": 1, "hidden_size": 1, "conv_L_cache": 1,
          "layer_types": ["conv"]}, Workload(context=5))  # fmt: skip
def test_every_answer_about_small_states_keeps_to_the_schema(
    config: dict[str, Any], workload: Workload
) -> None:
    """Whatever the sizes: a sentence, or a document of stores that have elements."""
    try:
        report = analyze(_files(config), workload)
    except HfkvError:
        return
    document = json.loads(json.dumps(inspect_document(report)))
    assert complaints(document) == []
    for part in (document["kv_cache"] or {"components": ()})["components"]:
        assert part["elements_per_slot"] > 0
        assert part["shards_by_heads"] != 0


# --- a kernel of one --------------------------------------------------------------------------


def _sized(config: dict[str, Any], engine: str = "none") -> Report:
    return analyze(_files({"dtype": "bfloat16", **config}), Workload(engine=engine, context=5))


def _parts(report: Report) -> list[tuple[str, int]]:
    assert report.kv is not None
    return [(part.name, part.bytes) for part in report.kv.components]


def test_a_kernel_of_one_looks_at_no_past() -> None:
    """K - 1 = 0 columns; transformers allocates K, here 1 column of 64 channels in 16 bit."""
    config = {"model_type": "lfm2", "num_hidden_layers": 1, "hidden_size": 64, "conv_L_cache": 1,
              "layer_types": ["conv"]}  # fmt: skip
    assert _parts(_sized(config)) == []
    assert _parts(_sized(config, "transformers")) == [("convolution state", 128)]


def test_the_state_stays_where_the_convolution_has_none() -> None:
    """Mamba: 2 x 8 channels with a float32 state of 4 each, and a kernel of 1."""
    config = {"model_type": "mamba", "num_hidden_layers": 1, "hidden_size": 8, "state_size": 4,
              "intermediate_size": 16, "conv_kernel": 1}  # fmt: skip
    assert _parts(_sized(config)) == [("recurrent state", 16 * 4 * 4)]


# --- heads without a width --------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "mamba2": (
        {"hidden_size": 2, "expand": 1, "num_heads": 4, "head_dim": None},
        "mamba_head_dim",
        "inner width 2 does not divide by 4 heads, and no mamba_head_dim is stated",
    ),
    "zamba": (
        {"hidden_size": 1, "num_attention_heads": 4},
        "head_dim",
        "attention width 2 does not divide by 4 heads, and no head_dim is stated",
    ),
    "bart": (
        {"d_model": 2, "decoder_attention_heads": 16},
        "head_dim",
        "hidden_size 2 does not divide by 16 heads, and no head_dim is stated",
    ),
    "olmo_hybrid": (
        {"hidden_size": 1, "num_attention_heads": 1},
        "linear_key_head_dim",
        "key width 0 does not divide by 1 head, and no linear_key_head_dim is stated",
    ),
    "xlstm": (
        {"hidden_size": 8, "num_heads": 128},
        "qk_dim_factor",
        "a width of 64 does not divide by 128 heads",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_heads_without_a_width(name: str) -> None:
    """More heads than there is width to share out is a contradiction, not a cache of nothing."""
    config, key, why = REFUSED[name]
    found = read_architecture(_files({"model_type": name, "num_hidden_layers": 4, **config}))
    assert found.confidence is Confidence.UNKNOWN
    assert found.doubts[0] == f"config.json: {key}: {why}"


def test_a_latent_without_rows_is_no_layer() -> None:
    """Where only tensors tell the layers, a projection onto nothing tells none."""
    name = "model.layers.{}.self_attn.kv_a_proj_with_mqa.weight"
    for rows, layers in ((0, 0), (576, 1)):
        group = TensorGroup(
            name=name, dtype="BF16", shape=(rows, 64), nbytes=rows * 128, count=1, layers=(0,)
        )
        files = ModelFiles(target=Target(kind="file", id="small"), tensors=(group,))
        assert len(witness(read_architecture(files), files)[0].layers) == layers


# --- widths that are rounded ------------------------------------------------------------------


def test_widths_of_xlstm_are_multiples_of_64() -> None:
    """96 x 0.5 = 48 becomes 64, 96 becomes 128: 4 heads of 16 and 32; 16 x 32 + 16 + 1 each."""
    config = {"model_type": "xlstm", "num_hidden_layers": 1, "hidden_size": 96, "num_heads": 4}
    (layer,) = read_architecture(_files(config)).layers
    assert [store.elements for store in layer.stores] == [4 * (16 * 32 + 16 + 1)]


def test_keys_of_olmo_hybrid_are_shared_out_to_its_own_heads() -> None:
    """3/4 of 64 is 48: 24 for each of 2 key heads, and values are twice as wide: 48 x 4 heads."""
    config = {"model_type": "olmo_hybrid", "num_hidden_layers": 1, "hidden_size": 64,
              "num_attention_heads": 4, "linear_num_key_heads": 2,
              "layer_types": ["linear_attention"]}  # fmt: skip
    (layer,) = read_architecture(_files(config)).layers
    assert [store.elements for store in layer.stores] == [(2 * 2 * 24 + 4 * 48) * 3, 4 * 24 * 48]
