"""inspect(), compare() and analyze(): the questions, in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, Signature
from os import PathLike
from typing import Any, TypedDict, TypeVar, Unpack, get_type_hints

from hfkv.api.reports import Comparison, Report
from hfkv.api.request import NOT_SAID, read, read_all, workload_of
from hfkv.core import report, written
from hfkv.core.files import ModelFiles
from hfkv.core.workload import Workload
from hfkv.errors import UsageError

__all__ = [
    "CompareOptions",
    "InspectOptions",
    "WorkloadOptions",
    "analyze",
    "compare",
    "inspect",
    "workload",
]

Function = TypeVar("Function", bound=Callable[..., Any])
Path = str | PathLike[str]


class WorkloadOptions(TypedDict, total=False):
    """What is to be held, by which engine, on which hardware: the command line's names.

    A text is written as there (`"32k"`, `"2gib"`, `"90%"`), a number is itself: tokens,
    sequences, bytes, a share. None is as if nothing had been said.
    """

    context: int | str | None
    concurrency: int | str | None
    seq_lens: Sequence[int | str] | str | None
    prompt: int | str | None
    output_tokens: int | str | None
    shared_prefix: int | str | None
    beams: int | str | None
    source_tokens: int | str | None
    kv_dtype: str | None
    weights_dtype: str | None
    engine: str | None
    engine_version: str | None
    max_num_batched_tokens: int | str | None
    max_num_seqs: int | str | None
    block_size: int | str | None
    enable_prefix_caching: bool | None
    num_speculative_tokens: int | str | None
    dcp: int | str | None
    disable_hybrid_kv_cache_manager: bool | None
    async_scheduling: bool | None
    enforce_eager: bool | None
    gpu: str | Sequence[str] | None
    tp: int | str | None
    pp: int | str | None
    utilization: float | str | None
    overhead: int | str | None
    offload: str | None
    cpu_kv: int | str | None


class NetworkOptions(TypedDict, total=False):
    """How the Hub is asked; `timeout` in seconds is for all of it together."""

    token: str | None
    offline: bool | None
    timeout: float | str | None


class InspectOptions(WorkloadOptions, NetworkOptions, total=False):
    """What inspect() can be told beside the target."""

    revision: str | None
    config: Path | None
    deep: bool | None


class CompareOptions(WorkloadOptions, NetworkOptions, total=False):
    """What compare() can be told beside the targets."""

    sort: str | None


_NETWORK: dict[str, Any] = {"token": None, "offline": False, "timeout": 60.0}
_INSPECT: dict[str, Any] = {**NOT_SAID, "revision": None, "config": None, "deep": False, **_NETWORK}
_COMPARE: dict[str, Any] = {**NOT_SAID, "sort": None, **_NETWORK}


def _told_by(defaults: Mapping[str, Any], options: type) -> Callable[[Function], Function]:
    """Give a function of `**options` a signature that help() and editors can read.

    A name that is none of them is refused as Python refuses it.
    """

    def decorate(function: Function) -> Function:
        types = get_type_hints(options)
        plain = Signature.from_callable(function)
        first = [p for p in plain.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        keywords = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=value, annotation=types[name])
            for name, value in defaults.items()
        ]
        function.__signature__ = plain.replace(  # type: ignore[attr-defined]
            parameters=[*first, *keywords]
        )
        return function

    return decorate


@_told_by(_INSPECT, InspectOptions)
def inspect(target: Path, **options: Unpack[InspectOptions]) -> Report:
    """Read a model and say what it takes and whether it fits, as `hfkv inspect` does.

    `target` and every option are written as on the command line (`hfkv inspect --help` says
    what each means): `inspect("org/name", gpu="h100:4", tp=4, context="32k",
    concurrency=64)`. Raises HfkvError; a report without a cache (`report.kv is None`) is
    what the command exits with 5 for.
    """
    from hfkv.sources import load  # noqa: PLC0415  the loaders of files
    from hfkv.sources.targets import path_text  # noqa: PLC0415

    given = _given("inspect", _INSPECT, options)
    asked = workload_of(given)
    config = given["config"]
    files = load(
        target,
        revision=given["revision"],
        config_path=None if config is None else path_text(config, what="config"),
        deep=given["deep"],
        **_network(given),
    )
    return analyze(files, asked)


@_told_by(_COMPARE, CompareOptions)
def compare(targets: Path | Sequence[Path], **options: Unpack[CompareOptions]) -> Comparison:
    """Read several models and answer for each, as `hfkv compare` does.

    A model that cannot be read has an `error` in its row where others have a `report`. `sort`
    is a figure, best first: name, parameters, weights, kv-per-token, kv, sequences, context.
    """
    from hfkv.core.comparison import compare_models  # noqa: PLC0415
    from hfkv.sources import load  # noqa: PLC0415
    from hfkv.sources.several import load_several  # noqa: PLC0415
    from hfkv.sources.shared import Shared  # noqa: PLC0415
    from hfkv.sources.targets import listed, path_text, shown  # noqa: PLC0415

    given = _given("compare", _COMPARE, options)
    asked = workload_of(given)
    wanted = [path_text(target) for target in listed(targets)]
    with Shared() as shared:
        outcomes = load_several(wanted, partial(load, shared=shared, **_network(given)))
    names = [shown(target) for target in wanted]
    return Comparison.of(compare_models(names, outcomes, asked, sort=given["sort"]))


def analyze(files: ModelFiles, workload: Workload | None = None) -> Report:
    """Answer for files that are already there: pure, deterministic, picklable.

    Raises HfkvError. `hfkv.workload(…)` makes the workload from the command line's names.
    """
    if not isinstance(files, ModelFiles):
        raise UsageError(
            f"a model's files are expected, not {type(files).__name__}",
            where="analyze",
            hint="hfkv.load(target) reads them; hfkv.inspect(target) does both",
        )
    if workload is not None and not isinstance(workload, Workload):
        raise UsageError(
            f"a workload is expected, not {type(workload).__name__}",
            where="analyze",
            hint='hfkv.workload(context="32k") makes one',
        )
    return Report.of(report.analyze(files, workload))


@_told_by(NOT_SAID, WorkloadOptions)
def workload(**options: Unpack[WorkloadOptions]) -> Workload:
    """Return the workload that `inspect` would make of these options.

    Raises UsageError for what cannot be meant.
    """
    return workload_of(_given("workload", NOT_SAID, options))


def _given(name: str, known: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    foreign = next((option for option in options if option not in known), None)
    if foreign is not None:
        raise TypeError(f"{name}() got an unexpected keyword argument {foreign!r}")
    return {**known, **read_all(options)}


def _network(given: Mapping[str, Any]) -> dict[str, Any]:
    timeout = read("timeout", given["timeout"], written.seconds)
    return {"token": given["token"], "offline": given["offline"], "timeout": timeout}
