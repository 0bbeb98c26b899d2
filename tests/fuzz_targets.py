"""What may be given any bytes: a result or an HfkvError, nothing else, and in no time.

Used by tests/test_fuzz.py (the corpus, and hypothesis) and benchmarks/fuzz_inputs.py (atheris).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import safetensors

from hfkv.core.bundle import parse_bundle
from hfkv.core.files import ModelFiles, RepoFile, Target, check_name
from hfkv.core.headers import parse_shard
from hfkv.core.jsontext import parse_object
from hfkv.core.manifest import choose, parse_index, without_weights
from hfkv.core.report import analyze
from hfkv.core.snapshots import dumps, loads
from hfkv.core.workload import Workload
from hfkv.errors import HfkvError, MalformedError
from hfkv.render.documents import dumps as dumps_document
from hfkv.render.json import inspect_document
from hfkv.sources.cache import _unpack
from hfkv.sources.listing import parse_listing

TARGET = Target(kind="hub", id="org/name", sha="c" * 40)
SIZES = {"model-00001-of-00002.safetensors": 153, "model-00002-of-00002.safetensors": 242}


def header(raw: bytes) -> None:
    """Read a safetensors file; the safetensors package must agree, and nothing be lost."""
    try:
        shard = parse_shard(raw, file_size=len(raw), path="x.safetensors")
    except MalformedError:
        shard = None
    if shard is None:
        with suppress(safetensors.SafetensorError):
            safetensors.deserialize(raw)  # type: ignore[no-untyped-call]
            raise AssertionError("refused what safetensors reads")
    elif not shard.problems:  # a dtype that safetensors does not know is read all the same
        tensors = safetensors.deserialize(raw)  # type: ignore[no-untyped-call]
        assert shard.info.tensors == len(tensors) == len(shard.names)
        assert shard.info.data_bytes == sum(g.nbytes * g.count for g in shard.groups)


def config(raw: bytes) -> None:
    """Size the model that a config.json describes, and write the answer."""
    _report(ModelFiles(target=TARGET, config=parse_object(raw, where="config.json")))


def index(raw: bytes) -> None:
    """Read an index; every file that it names must be one of the repository."""
    found = parse_index(raw, path="model.safetensors.index.json")
    for name in found.info.files:
        check_name(name, where="index")
    files = [RepoFile(path=name) for name in found.info.files]
    chosen = choose(files, found)
    assert set(chosen.weight_files) <= set(found.info.files)


def listing(raw: bytes) -> None:
    """Read the Hub's model info, and choose its weights."""
    found = parse_listing(raw)
    chosen = choose(found.files)
    assert set(chosen.weight_files) <= {file.path for file in found.files}
    without_weights(found.files)
    files = ModelFiles(
        target=TARGET, files=found.files, weight_files=chosen.weight_files, hub=found.metadata
    )
    _report(files)


def bundle(raw: bytes) -> None:
    """Read all headers of a model of two files."""
    shards = parse_bundle(raw, SIZES)
    assert [shard.info.path for shard in shards] == list(SIZES)
    for shard in shards:
        assert shard.info.header_bytes + shard.info.data_bytes == SIZES[shard.info.path]


def snapshot(raw: bytes) -> None:
    """Read a snapshot, write it again, read that: the same; then size it."""
    files = loads(raw, where="x.hfkv.json")
    assert loads(dumps(files).encode(), where="again") == files or "NaN" in dumps(files)
    _report(files)


def entry(raw: bytes) -> None:
    """Read an entry of the cache."""
    files = _unpack(raw)
    if files is not None:
        _report(files)


def _report(files: ModelFiles) -> None:
    dumps_document(inspect_document(analyze(files, Workload(context=128))))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "header": header,
    "config": config,
    "index": index,
    "listing": listing,
    "bundle": bundle,
    "snapshot": snapshot,
    "entry": entry,
}


def run(name: str, raw: bytes) -> None:
    """Give one target some bytes; what it refuses in a sentence is fine."""
    with suppress(HfkvError):
        TARGETS[name](raw)
