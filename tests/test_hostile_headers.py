"""Headers that no writer makes: many names and shapes at once give right figures, and soon.

How soon is in docs/faults.md; what a slow answer would come from is tested here by size.
"""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfkv.core.files import ModelFiles, Target, TensorGroup
from hfkv.core.headers import parse_shard
from hfkv.core.quantization import read_scheme, unpack
from hfkv.core.quantization.layouts import KEYS, split_name
from hfkv.core.readings import Confidence
from hfkv.core.record import replace
from hfkv.core.report import analyze
from hfkv.core.snapshots import from_json, to_json
from hfkv.core.templates import merge_groups
from hfkv.errors import MalformedError

_SUFFIXES = sorted(KEYS)


def group(name: str, dtype: str, shape: tuple[int, ...], *layers: int) -> TensorGroup:
    """Return tensors of a template, one in each of the layers."""
    size = 1
    for dim in shape:
        size *= dim
    width = {"U8": 1, "I8": 1, "F8_E4M3": 1, "F32": 4}.get(dtype, 2)
    return TensorGroup(
        name=name, dtype=dtype, shape=shape, nbytes=size * width, count=len(layers), layers=layers
    )


def files(*tensors: TensorGroup) -> ModelFiles:
    """Return a model without a config."""
    return ModelFiles(target=Target(kind="file", id="x"), tensors=tensors)


def test_every_layer_with_a_shape_of_its_own() -> None:
    """20,000 modules of one name: each finds its own scale among 20,000 (int8: one a row)."""
    count = 20_000
    tensors = [group("m.{}.weight", "I8", (1, 1 + i), i) for i in range(count)]
    tensors += [group("m.{}.weight_scale", "F32", (1, 1 + i), i) for i in range(count)]
    stored = unpack(tuple(tensors), None)
    assert {s.layout for s in stored[:count]} == {"int8"}
    assert sum(s.parameters or 0 for s in stored) == count * (count + 1) // 2


def test_the_scale_that_shares_most_layers_is_the_one_beside() -> None:
    """Scales split by shape: layers 0 and 1 are nearer to (0, 1, 5) than to (1, 2, 3)."""
    values = group("m.{}.weight", "U8", (8, 16), 0, 1)
    far = group("m.{}.weight_scale", "F32", (8, 1), 1, 2, 3)
    near = group("m.{}.weight_scale", "F8_E4M3", (8, 2), 0, 1, 5)
    stored = unpack((values, far, near), None)
    # float8 scales of blocks of 16 make it nvfp4: two values a byte
    assert (stored[0].layout, stored[0].parameters) == ("nvfp4", 8 * 16 * 2)


def test_the_same_tensors_under_another_config_are_read_again() -> None:
    """What was unpacked is remembered for the same hints only."""
    tensors = (group("m.weight", "U8", (8, 16), 0),)
    plain = unpack(tensors, None)
    config = {"quantization_config": {"quant_method": "bitnet"}}
    scheme = read_scheme(ModelFiles(target=Target(kind="file", id="x"), config=config))
    assert [s.layout for s in (*plain, *unpack(tensors, scheme))] == ["unknown", "bitnet"]


@given(st.lists(st.sampled_from(["a", "{}", "x_y", *_SUFFIXES]), min_size=1, max_size=5))
def test_names_are_split_at_the_longest_suffix(words: list[str]) -> None:
    """The module is as short as it can be: what a lazy regular expression over all keys finds."""
    name = ".".join(words)
    keys = "|".join(map(re.escape, sorted(KEYS, key=len, reverse=True)))
    found = re.fullmatch(rf"(.+?)[._]({keys})", name)
    assert split_name(name) == ((found[1], found[2]) if found else (name, "weight"))


def test_a_layer_number_is_not_a_number_of_layers() -> None:
    """Layer 999,999,999 of a model without a config: no table of a thousand million layers."""
    parts = [
        group(f"model.layers.{{}}.self_attn.{p}_proj.weight", "BF16", (64, 64), 0, 999_999_999)
        for p in "qkvo"
    ]
    report = analyze(files(*parts))
    assert report.architecture.confidence is Confidence.UNKNOWN
    assert report.weights is not None
    assert report.weights.bytes == 8 * 64 * 64 * 2


def _header(count: int) -> bytes:
    """Return a header of so many tensors of one byte, no two of them called alike."""
    tree = {
        f"model.layers.{i % 64}.w{i}x.weight": {
            "dtype": "U8", "shape": [1], "data_offsets": [i, i + 1],
        }
        for i in range(count)
    }  # fmt: skip
    raw = json.dumps(tree).encode()
    return len(raw).to_bytes(8, "little") + raw


def test_more_names_than_any_model_has() -> None:
    """The largest known has 8,192; each name is looked at many times, so 50,000 are the most."""
    shard = parse_shard(_header(50_000), file_size=None, path="a.safetensors")
    assert len(shard.groups) == 50_000
    sentence = "its tensors have more than 50,000 different names and shapes"
    with pytest.raises(MalformedError) as caught:
        parse_shard(_header(50_001), file_size=None, path="b.safetensors")
    assert caught.value.message == f"b.safetensors: {sentence}, not counting numbers in names"


def test_more_names_in_all_files_and_in_a_snapshot() -> None:
    """Two files with 30,000 each are as many; so is a snapshot that says so."""
    one = parse_shard(_header(30_000), file_size=None, path="a.safetensors").groups
    other = tuple(replace(part, name=f"n.{part.name}") for part in one)
    merged = merge_groups((one, one), where="org/name")
    assert [part.count for part in merged] == [2] * 30_000
    with pytest.raises(MalformedError, match=r"^org/name: its tensors have more than 50,000 "):
        merge_groups((one, other), where="org/name")
    data = to_json(files(*one, *other))
    with pytest.raises(MalformedError, match=r"^snap: its tensors have more than 50,000 "):
        from_json(data, where="snap")
