"""Headers and index are compared tensor by tensor."""

from __future__ import annotations

import json
from typing import Any

from hfkv.core.files import HeaderInfo, Problem
from hfkv.core.headers import Shard
from hfkv.core.manifest import (
    Index,
    check_shards,
    parse_index,
)


def index(*weights: str, total: Any = None, path: str = "model.safetensors.index.json") -> Index:
    """Return an index of `tensor=file` entries."""
    weight_map = dict(weight.split("=") for weight in weights)
    data = {"metadata": {"total_size": total}, "weight_map": weight_map}
    return parse_index(json.dumps(data).encode(), path=path)


def shard(path: str, *names: str, size: int = 100) -> Shard:
    """Return a parsed header with these tensors."""
    info = HeaderInfo(path=path, header_bytes=10, data_bytes=size, tensors=len(names))
    return Shard(info=info, groups=(), names=names)


def test_headers_agree_with_the_index() -> None:
    """Nothing is reported when everything matches."""
    shards = [shard("x", "a", "c"), shard("y", "b")]
    assert check_shards(shards, index("a=x", "b=y", "c=x", total=200)) == ()
    assert check_shards(shards, None) == ()


def test_headers_disagree_with_the_index() -> None:
    """Tensors missing, extra or elsewhere, and the total, each with names."""
    shards = [shard("x", "a", "e1", "e2", "e3", "e4"), shard("y", "b", size=1)]
    odd = index("a=y", "b=y", "ghost=x", total=5_000)
    hint = "loaders that trust the index and loaders that read the files will disagree"
    name = "model.safetensors.index.json"
    assert check_shards(shards, odd) == (
        Problem(
            code="index-mismatch",
            message=f"1 tensor named by {name}, in no file: 'ghost'",
            hint=hint,
        ),
        Problem(
            code="index-mismatch",
            message=f"4 tensors in the files, not in {name}: 'e1', 'e2', 'e3' and 1 more",
            hint=hint,
        ),
        Problem(
            code="index-mismatch",
            message=f"1 tensor in another file than {name} says: 'a'",
            hint=hint,
        ),
        Problem(
            code="index-total-mismatch",
            message=f"{name} claims 5,000 bytes, and the headers sum to 101",
            hint="the figures here are from the headers, which are what gets loaded",
        ),
    )


def test_missing_files_are_not_told_twice() -> None:
    """What lies in a file that is not there is no further mismatch."""
    assert check_shards([shard("x", "a")], index("a=x", "b=gone", total=999)) == ()


def test_tensor_in_two_files() -> None:
    """A tensor that two files hold is reported, index or not."""
    assert check_shards([shard("x", "a"), shard("y", "a", "b")], None) == (
        Problem(
            code="duplicate-tensor",
            message="1 tensor stored in two files: 'a'",
            hint="its bytes are counted twice",
        ),
    )


def test_hostile_tensor_name_is_escaped() -> None:
    """Names of tensors are shown quoted."""
    problems = check_shards([shard("x", "\x1b[2J"), shard("y", "\x1b[2J")], None)
    assert problems[0].message == "1 tensor stored in two files: '\\x1b[2J'"
