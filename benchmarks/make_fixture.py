"""Turn a header-only checkpoint folder into a snapshot under fixtures/models.

    python benchmarks/make_fixture.py FOLDER... [--into fixtures/models]

A folder `org--name` holds config.json and, for each weights file, FILE.header.gz: its first
bytes (8-byte length and header JSON), compressed. The size of the whole file is what its
header says: the header and everything up to the largest data offset.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

from hfkv.core.files import ModelFiles, RepoFile, Target
from hfkv.core.headers import Shard, parse_shard
from hfkv.core.jsontext import parse_object
from hfkv.core.manifest import Index, choose, index_name, parse_index
from hfkv.core.snapshots import dumps
from hfkv.sources.assemble import assemble, side_files

# headers/ names these repositories as they were called before the Hub renamed them
RENAMED = {
    "meta-llama--Meta-Llama-3.1-8B": "meta-llama--Llama-3.1-8B",
    "meta-llama--Meta-Llama-3.1-70B": "meta-llama--Llama-3.1-70B",
}


def read(folder: Path, repo: str) -> ModelFiles:
    """Return what the Hub source would read of this model."""
    shards = [_shard(path) for path in sorted(folder.glob("*.header.gz"))]
    files = [RepoFile(path=path.name, size=path.stat().st_size) for path in folder.glob("*.json")]
    files += [
        RepoFile(path=shard.info.path, size=shard.info.header_bytes + shard.info.data_bytes)
        for shard in shards
    ]
    files.sort(key=lambda file: file.path)
    index = _index(folder, files)
    manifest = choose(files, index)
    return assemble(
        target=Target(kind="hub", id=repo, revision="main"),
        files=files,
        manifest=manifest,
        config=parse_object((folder / "config.json").read_bytes(), where="config.json"),
        side={
            name: parse_object((folder / name).read_bytes(), where=name)
            for name in side_files(files)
        },
        shards=[shard for shard in shards if shard.info.path in manifest.weight_files],
        index=index,
    )


def _shard(path: Path) -> Shard:
    first = gzip.decompress(path.read_bytes())
    return parse_shard(first, file_size=None, path=path.name.removesuffix(".header.gz"))


def _index(folder: Path, files: list[RepoFile]) -> Index | None:
    name = index_name(files)
    return None if name is None else parse_index((folder / name).read_bytes(), path=name)


def main() -> None:
    """Write one snapshot for each folder and print its size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--into", type=Path, default=Path("fixtures/models"))
    options = parser.parse_args()
    for folder in options.folders:
        name = RENAMED.get(folder.name, folder.name)
        files = read(folder, name.replace("--", "/", 1))
        text = dumps(files)
        (options.into / f"{name}.hfkv.json").write_text(text, encoding="utf-8")
        total = sum(header.data_bytes for header in files.headers)
        print(f"{len(text):>7,} {len(files.tensors):>5} groups {total:>16,}  {name}")
        for problem in files.problems:
            print(f"        {problem.code}: {problem.message}")


if __name__ == "__main__":
    main()
