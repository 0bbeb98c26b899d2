"""List of file names → which of them make up the model, and what does not add up.

The index decides; without one a complete `name-i-of-n` series; else `model.safetensors`; else
the only safetensors file; else Mistral's own `consolidated*`. Never counted: other formats of the
same weights (`original/`, `model.fp16.safetensors`, `consolidated*` beside others), adapters,
training state, anything in a subfolder that the index does not name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from hfkv.core.counts import counted, kind_of
from hfkv.core.files import IndexInfo, Problem, RepoFile, check_name
from hfkv.core.headers import Shard
from hfkv.core.jsontext import parse_object
from hfkv.core.record import dataclass
from hfkv.errors import MalformedError

__all__ = [
    "Index",
    "Manifest",
    "check_shards",
    "choose",
    "index_name",
    "needs_index",
    "parse_index",
    "without_weights",
]

_SERIES = re.compile(r"(?P<prefix>.+?)-(?P<number>[0-9]{1,9})-of-(?P<total>[0-9]{1,9})")
# Not weights of the model itself, by how the name begins: other loaders' copies, adapters,
# what a trainer keeps to resume.
_ASIDE = re.compile(
    r"consolidated|adapter|.*lora|optimizer|optim|scheduler|rng_state|random_states|training_|ema_"
)
_VARIANT = re.compile(r"model\.[a-z_]\w*|.*\.(fp16|bf16|fp32|f16|f32|fp8|int8|int4|non_ema|ema)")
# Mistral's own format: a copy where there are other weights, the model where there are none.
_NATIVE = re.compile(r"consolidated(?:-[0-9]{1,9}-of-[0-9]{1,9})?")
_PICKLE = (".bin", ".pth", ".pt", ".ckpt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A parsed index: what it claims, and the file of every tensor."""

    info: IndexInfo
    weight_map: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files to read, sorted, and what is odd about the choice."""

    weight_files: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def index_name(files: Sequence[RepoFile]) -> str | None:
    """Return the index to read: `model.safetensors.index.json`, else the only one there is."""
    found = [
        file.path
        for file in files
        if file.path.endswith(".safetensors.index.json")
        and "/" not in file.path
        and not _ASIDE.match(file.path)
    ]
    if "model.safetensors.index.json" in found:
        return "model.safetensors.index.json"
    if not found and all(_NATIVE.match(path) for path in _candidates(files)):
        found = [f.path for f in files if f.path == "consolidated.safetensors.index.json"]
    return found[0] if len(found) == 1 else None


def parse_index(raw: bytes, *, path: str) -> Index:
    """Return the index in a JSON text; raises MalformedError, also for unsafe file names."""
    data = parse_object(raw, where=path)
    weight_map = data.get("weight_map")
    if not isinstance(weight_map, dict):
        raise MalformedError("expected an object", where=f"{path}: weight_map")
    files: dict[str, int] = {}
    for name, file in weight_map.items():
        if not isinstance(file, str):
            raise MalformedError(
                f"expected a file name, got {kind_of(file)}",
                where=f"{path}: weight_map.{name[:80]!r}",
            )
        files[file] = files.get(file, 0) + 1
    for file in files:
        check_name(file, where=path)
    info = IndexInfo(
        path=path, total_size=_total_size(data.get("metadata")), files=dict(sorted(files.items()))
    )
    return Index(info=info, weight_map=weight_map)


def needs_index(files: Sequence[RepoFile]) -> bool:
    """Return whether the names alone leave open which files belong to the model."""
    candidates = _candidates(files)
    chosen = _choose_by_name(candidates)
    # no candidate at all: an index may name files in subfolders
    return not candidates or bool(chosen.problems) or candidates != list(chosen.weight_files)


def choose(files: Sequence[RepoFile], index: Index | None = None) -> Manifest:
    """Return the files that make up the model.

    No file is chosen when there are none, or when nothing tells which; `without_weights`
    then says why. Files named by the index that are not in the list are left out and told.
    """
    candidates = _candidates(files)
    by_name = _choose_by_name(candidates)
    if index is None:
        return _with_unlisted(by_name, candidates, "the series")
    named = set(index.info.files)
    present = named & {file.path for file in files}
    problems = _missing(sorted(named - present), index.info.path)
    if not present:
        return Manifest(weight_files=by_name.weight_files, problems=problems + by_name.problems)
    chosen = Manifest(weight_files=tuple(sorted(present)), problems=problems)
    return _with_unlisted(chosen, candidates, index.info.path)


def check_shards(shards: Sequence[Shard], index: Index | None) -> tuple[Problem, ...]:
    """Compare the headers with one another and with the index, tensor by tensor."""
    seen: dict[str, str] = {}
    twice: list[str] = []
    for shard in shards:
        twice += [name for name in shard.names if name in seen]
        seen.update(dict.fromkeys(shard.names, shard.info.path))
    problems = [
        _tensors("duplicate-tensor", "stored in two files", twice, "its bytes are counted twice")
    ]
    if index is not None:
        path = index.info.path
        read = {shard.info.path for shard in shards}
        promised = {name for name, file in index.weight_map.items() if file in read}
        hint = "loaders that trust the index and loaders that read the files will disagree"
        lacking = sorted(promised - seen.keys())
        extra = sorted(seen.keys() - index.weight_map.keys())
        moved = sorted(
            name for name in promised & seen.keys() if index.weight_map[name] != seen[name]
        )
        problems += [
            _tensors("index-mismatch", f"named by {path}, in no file", lacking, hint),
            _tensors("index-mismatch", f"in the files, not in {path}", extra, hint),
            _tensors("index-mismatch", f"in another file than {path} says", moved, hint),
            _total_mismatch(shards, index) if read >= index.info.files.keys() else None,
        ]
    return tuple(problem for problem in problems if problem is not None)


def without_weights(files: Sequence[RepoFile]) -> Problem:
    """Say why no file was chosen, in words that tell what to do instead."""
    names = [file.path for file in files]
    root = {name for name in names if "/" not in name}
    candidates = _candidates(files)
    if len(candidates) > 1:
        return Problem(
            code="ambiguous-weights",
            message=(
                f"{len(candidates)} safetensors files and nothing that says "
                f"which make up the model: {_some(candidates)}"
            ),
            hint="name one of them, as org/name:FILE or by its path",
        )
    if "model_index.json" in root:
        return Problem(
            code="diffusers",
            message="a diffusers pipeline: its models lie in subfolders",
            hint="give the folder of its text encoder, which has a config.json of its own",
        )
    if "adapter_config.json" in root or any(name.startswith("adapter_model") for name in root):
        return Problem(
            code="adapter",
            message="an adapter: it adds to the weights of another model",
            hint="inspect the base model, named in its adapter_config.json",
        )
    if ggufs := [name for name in names if name.endswith(".gguf")]:
        return Problem(
            code="gguf",
            message=f"only GGUF files, which hfkv does not read yet: {_some(ggufs)}",
            hint="inspect the original model that they were converted from",
        )
    if pickles := [name for name in names if name.endswith(_PICKLE)]:
        return Problem(
            code="pickle-weights",
            message=f"only pickled weights, whose sizes cannot be read safely: {_some(pickles)}",
            hint="convert them to safetensors, or look for a revision that has been converted",
        )
    return Problem(code="no-weights", message="no weight files", hint=None)


def _candidates(files: Iterable[RepoFile]) -> list[str]:
    plain: list[str] = []
    variants: list[str] = []
    native: list[str] = []
    for file in files:
        stem = file.path.removesuffix(".safetensors")
        if stem == file.path or "/" in stem:
            continue
        if _ASIDE.match(stem.lower()):
            if _NATIVE.fullmatch(stem):
                native.append(file.path)
            continue
        series = _SERIES.match(stem)
        name = series["prefix"] if series else stem
        is_variant = _VARIANT.fullmatch(name.lower()) or _VARIANT.fullmatch(stem.lower())
        (variants if is_variant else plain).append(file.path)
    return sorted(plain or variants or native)


def _choose_by_name(candidates: list[str]) -> Manifest:
    series: dict[tuple[str, int], dict[int, str]] = {}
    for path in candidates:
        if match := _SERIES.fullmatch(path.removesuffix(".safetensors")):
            key = (match["prefix"], int(match["total"]))
            series.setdefault(key, {})[int(match["number"])] = path
    whole = "model.safetensors" if "model.safetensors" in candidates else None
    if series:
        key = max(series, key=lambda key: (key[0] == "model", len(series[key]) >= key[1], key))
        members = series[key]
        start = 0 if 0 in members else 1
        gaps = key[1] - sum(start <= number < start + key[1] for number in members)
        if gaps <= 0 or whole is None:
            shortage = _gap(f"{key[0]}-…-of-{key[1]:05}.safetensors", gaps, key[1])
            return Manifest(weight_files=tuple(sorted(members.values())), problems=shortage)
    if whole is not None:
        return Manifest(weight_files=(whole,))
    return Manifest(weight_files=tuple(candidates) if len(candidates) == 1 else ())


def _with_unlisted(chosen: Manifest, candidates: list[str], by: str) -> Manifest:
    extra = [path for path in candidates if path not in chosen.weight_files]
    if not extra or not chosen.weight_files:
        return chosen
    problem = Problem(
        code="unlisted-shard",
        message=f"not part of the model by {by}, so not counted: {_some(extra)}",
        hint="name a file as org/name:FILE or by its path to size it alone",
    )
    return Manifest(weight_files=chosen.weight_files, problems=(*chosen.problems, problem))


def _missing(names: list[str], path: str) -> tuple[Problem, ...]:
    if not names:
        return ()
    return (
        Problem(
            code="missing-shard",
            message=f"{path} names files that are not there: {_some(names)}",
            hint="the upload or download is incomplete; the weights shown are only a part",
        ),
    )


def _gap(series: str, gaps: int, total: int) -> tuple[Problem, ...]:
    if gaps <= 0:
        return ()
    return (
        Problem(
            code="missing-shard",
            message=f"{gaps:,} of the {total:,} files {series} are not there",
            hint="the upload or download is incomplete; the weights shown are only a part",
        ),
    )


def _total_mismatch(shards: Sequence[Shard], index: Index) -> Problem | None:
    claimed, found = index.info.total_size, sum(shard.info.data_bytes for shard in shards)
    if claimed is None or claimed == found:
        return None
    return Problem(
        code="index-total-mismatch",
        message=f"{index.info.path} claims {claimed:,} bytes, and the headers sum to {found:,}",
        hint="the figures here are from the headers, which are what gets loaded",
    )


def _tensors(code: str, what: str, names: list[str], hint: str) -> Problem | None:
    if not names:
        return None
    shown = _some([repr(name[:80]) for name in names])
    return Problem(code=code, message=f"{counted(len(names), 'tensor')} {what}: {shown}", hint=hint)


def _total_size(metadata: Any) -> int | None:
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    # old transformers wrote it as a float
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    return size if type(size) is int and size >= 0 else None


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3:,} more"
