"""Names of tensors collapse to templates, and nothing is lost but the names."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hfkv.core.files import TensorGroup
from hfkv.core.templates import group_rows, merge_groups, template


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "model.layers.3.mlp.experts.17.w1.weight",
            ("model.layers.{}.mlp.experts.{}.w1.weight", 3),
        ),
        ("h.0.attn.bias", ("h.{}.attn.bias", 0)),
        ("0.weight", ("{}.weight", 0)),
        ("blocks.007", ("blocks.{}", 7)),
        ("conv1.weight", ("conv1.weight", None)),
        ("a.1234567890.b", ("a.1234567890.b", None)),
        ("a.٣.b", ("a.٣.b", None)),
        ("", ("", None)),
        ("..", ("..", None)),
    ],
)
def test_template(name: str, expected: tuple[str, int | None]) -> None:
    """Only whole components of ASCII digits become placeholders; the first is the layer."""
    assert template(name) == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.lists(
            st.sampled_from(["a", "w1", "w2", "{}", "a{}", "0", "1", "12", "007", "²"]), min_size=1
        ).map(".".join),
        unique=True,
    )
)
def test_grouping_is_the_sum_of_templates(names: list[str]) -> None:
    """Collapsing a whole file gives what naming each tensor alone would give."""
    groups = group_rows([(0, 0, name, "U8", (0,)) for name in names])
    counted: dict[str, int] = {}
    layers: dict[str, set[int]] = {}
    for name in names:
        pattern, first = template(name)
        counted[pattern] = counted.get(pattern, 0) + 1
        layers.setdefault(pattern, set()).update([] if first is None else [first])
    assert {g.name: g.count for g in groups} == counted
    assert {g.name: set(g.layers) for g in groups} == layers


def test_shards_merge_by_template() -> None:
    """The layers of one template that lie in two files become one group, sorted."""
    first = TensorGroup(name="l.{}.w", dtype="F16", shape=(2,), nbytes=4, count=2, layers=(2, 3))
    second = TensorGroup(name="l.{}.w", dtype="F16", shape=(2,), nbytes=4, count=1, layers=(0,))
    other = TensorGroup(name="l.{}.w", dtype="F32", shape=(2,), nbytes=8, count=1, layers=(1,))
    assert merge_groups([(first, other), (second,)]) == (
        TensorGroup(name="l.{}.w", dtype="F16", shape=(2,), nbytes=4, count=3, layers=(0, 2, 3)),
        other,
    )
