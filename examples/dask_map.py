"""Size a list of models with Dask, on a laptop or on a cluster: one row a model.

    pip install dask
    HF_ENDPOINT=http://127.0.0.1:8080 python examples/dask_map.py models.txt 'rows/*.jsonl'

Reading is the only part that touches the network, and `analyze` is pure: what goes between
processes is plain data (`ModelFiles` and reports can be pickled). Each partition shares one
set of connections and waits out the Hub's rate limits; give it a few hundred models, and no
more partitions at a time than the limit of your token allows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from hfkv import HfkvError, Workload, analyze, load_many

A_PARTITION = 200  # models


def row(target: str, outcome: Any, workload: Workload) -> dict[str, Any]:
    """Return what is wanted of one model, as plain data."""
    try:
        if isinstance(outcome, HfkvError):
            raise outcome
        report = analyze(outcome, workload)
    except HfkvError as error:
        return {"id": target, "error": error.code}
    return {
        "id": target,
        "weights_bytes": report.weights.bytes if report.weights else None,
        "cache_bytes": report.kv.bytes if report.kv else None,
    }


def size(targets: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each model of a partition."""
    workload = Workload(context=32_768)
    for target, outcome in load_many(targets, patient=True):
        yield row(target, outcome, workload)


def main(listed: str, written: str) -> None:
    """Read the ids in one file, write rows as JSON lines, a file for each partition."""
    bag = import_module("dask.bag")  # not needed for the work of a partition
    ids = Path(listed).read_text(encoding="utf-8").split()
    rows = bag.from_sequence(ids, partition_size=A_PARTITION).map_partitions(size)
    rows.map(json.dumps).to_textfiles(written)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python dask_map.py FILE_OF_IDS 'FOLDER/*.jsonl'")
    main(*sys.argv[1:])
