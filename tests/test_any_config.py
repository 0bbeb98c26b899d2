"""Whatever a config.json holds, the answer is a report or a sentence, within a second."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hfkv.core.config import known_model_types
from hfkv.core.engines.registry import ENGINES
from hfkv.core.families.registry import FAMILIES
from hfkv.core.files import ModelFiles, Target
from hfkv.core.report import analyze
from hfkv.core.workload import Workload
from hfkv.errors import HfkvError

FIXTURES = Path(__file__).parent.parent / "fixtures"
REAL: list[dict[str, Any]] = [
    json.loads(path.read_bytes()) for path in sorted((FIXTURES / "configs").glob("*/config.json"))
]


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Return every object in a JSON value, the value itself first."""
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value:
        if isinstance(child, (dict, list)):
            yield from objects(child)


KEYS = sorted({key for config in REAL for part in objects(config) for key in part if key})
TYPES = sorted(known_model_types() | {name for row in FAMILIES for name in row.model_types})

numbers = st.one_of(
    st.integers(0, 64),
    st.integers(-3, 2**20),
    st.sampled_from((2**31, 2**53, 2**53 + 1, 10**18, 10**400, -(10**400))),
    st.sampled_from((32.0, 0.5, -0.0, 1e308, float("inf"), float("-inf"), float("nan"))),
)
words = st.one_of(
    st.sampled_from(TYPES),
    st.sampled_from(
        (
            *("full_attention", "sliding_attention", "linear_attention", "mamba", "moe", "conv"),
            *("chunked_attention", "indexed_attention", "hybrid", "shared", "full", "auto"),
            *("M-*E", "bfloat16", "float8_e4m3fn", "fp8", "", "\x00", "\ud800", "32"),
        )
    ),
    st.text(max_size=8),
)
leaves = st.one_of(st.none(), st.booleans(), numbers, words)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=8),
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=8),
        st.dictionaries(st.text(max_size=4), inner, max_size=3),
    ),
    max_leaves=12,
)
keys = st.one_of(st.sampled_from(KEYS), st.text(max_size=6))
invented = st.dictionaries(keys, values, max_size=24)
named = st.builds(
    lambda config, name: {**config, "model_type": name}, invented, st.sampled_from(TYPES)
)
workloads = st.builds(
    Workload,
    kv_dtype=st.sampled_from(("auto", "bf16", "fp8", "q4_0", "nvfp4", "nonsense")),
    context=st.sampled_from((None, 1, 32_768, 2**40)),
    source_tokens=st.sampled_from((None, 0, 1500)),
    engine=st.sampled_from(sorted(ENGINES)),
)


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a real config with one to four of its values replaced, removed or renamed."""
    config: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(REAL)))
    for _ in range(draw(st.integers(1, 4))):
        part = draw(st.sampled_from(list(objects(config))))
        if not part:
            continue
        key = draw(st.sampled_from(sorted(part)))
        if draw(st.booleans()):
            part[key] = draw(values)
        else:
            value = part.pop(key)
            part[draw(keys)] = draw(st.sampled_from((value, None)))
    return config


def answer(config: dict[str, Any], workload: Workload) -> None:
    """Ask for a report; only an HfkvError with a sentence may come instead."""
    files = ModelFiles(target=Target(kind="file", id="any"), config=config)
    try:
        report = analyze(files, workload)
    except HfkvError as error:
        told = error.message
    else:
        told = "".join(report.architecture.doubts) if report.kv is None else "a report"
        assert report.kv is None or report.kv.bytes >= 0
    assert told
    assert len(told) < 1000


within_a_second = settings(
    deadline=1000, max_examples=80, suppress_health_check=[HealthCheck.too_slow]
)


@within_a_second
@given(st.one_of(invented, named), workloads)
@example({}, Workload())
@example({"model_type": "llama", "num_hidden_layers": float("inf")}, Workload())
def test_any_object_is_answered(config: dict[str, Any], workload: Workload) -> None:
    """Real key names with any values, for every model type."""
    answer(config, workload)


@within_a_second
@given(mutated(), workloads)
def test_any_change_to_a_real_config_is_answered(
    config: dict[str, Any], workload: Workload
) -> None:
    """One wrong value in a config that is otherwise true."""
    answer(config, workload)


def test_real_configs_are_there_to_be_changed() -> None:
    """The strategies draw from all fixtures, and from keys that matter."""
    assert len(REAL) >= 267
    assert {"num_hidden_layers", "sliding_window", "kv_lora_rank", "layer_types"} <= set(KEYS)
