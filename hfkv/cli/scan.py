"""`hfkv scan`: many models, one line of JSON each, as they are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click

from hfkv.cli import complete
from hfkv.cli.exits import Exit
from hfkv.cli.options import (
    SectionedCommand,
    chatter_options,
    network_options,
    option,
    together,
)
from hfkv.cli.output import Chatter, checked_path, note, problem, told_apart, write_stdout
from hfkv.cli.params import Written
from hfkv.cli.progress import Progress
from hfkv.cli.reading import listed_in
from hfkv.cli.request import workload_of
from hfkv.cli.workload_options import engine_options, gpu_options, work_options
from hfkv.core import written
from hfkv.core.counts import counted
from hfkv.core.report import analyze
from hfkv.core.workload import Workload
from hfkv.errors import HfkvError, UsageError
from hfkv.render.documents import dumps_line, error_document
from hfkv.render.json import inspect_document
from hfkv.sources import load
from hfkv.sources.reading import reason
from hfkv.sources.several import side_by_side
from hfkv.sources.shared import Shared
from hfkv.sources.targets import shown

__all__ = ["command"]

_EXAMPLES = """\
hfkv scan --from models.txt -o models.jsonl --context 32k
hfkv scan --author Qwen --limit 50 -g h100 -o qwen.jsonl
hfkv scan --filter text-generation --filter awq --limit 1000 -o awq.jsonl
"""
_WHICH = "Which models"

# Failures that say nothing of the model: it is tried again when the scan goes on.
_PASSING = frozenset(
    {
        "bug",
        "connection",
        "dns",
        "not-a-hub",
        "offline",
        "proxy",
        "rate-limit",
        "server-error",
        "timeout",
        "tls",
        "token-rejected",
        "transfer",
    }
)

_BEGINNING = b'{"id":'  # of every line that a scan writes

_scan_options = together(
    option(
        "--from",
        "listed_in",
        metavar="FILE",
        shell_complete=complete.file,
        section=_WHICH,
        help="Those that a file lists, one a line (# begins a remark, - is stdin).",
    ),
    option("--author", metavar="ORG", section=_WHICH, help="Those of a user or organization."),
    option(
        "--filter",
        "filters",
        metavar="TAG",
        multiple=True,
        section=_WHICH,
        help="Those on the Hub that have a tag; several tags must all be there.",
    ),
    option(
        "--limit",
        type=Written("n", written.whole),
        section=_WHICH,
        help="At most so many, the most downloaded of a list on the Hub first.",
    ),
    option(
        "-o",
        "--output",
        "output_path",
        metavar="FILE",
        shell_complete=complete.file,
        multiple=True,  # beside --prompt it may also state a number of tokens
        section="How it is told",
        help="Add the lines to FILE, and leave out models that it holds already.",
    ),
)


@click.command("scan", cls=SectionedCommand, epilog=_EXAMPLES)
@click.argument("targets", nargs=-1, shell_complete=complete.target)
@_scan_options
@network_options
@work_options
@engine_options
@gpu_options
@chatter_options
def command(targets: tuple[str, ...], **given: Any) -> int:
    """Size many models, one line of JSON each, as they are read.

    Each line is what inspect --json writes, or an error, with the target as "id". Rate
    limits are waited out. With -o, a scan that was interrupted goes on where it was.
    """
    chatter, path = Chatter.of(given), checked_path(told_apart(given)[0])
    workload = workload_of(given)
    done = _resume(path) if path is not None else frozenset()
    if done and not chatter.quiet:
        note(f"{counted(len(done), 'model')} in {path} already")
    wanted = (target for target in _wanted(targets, given) if shown(target) not in done)
    tally = {"lines": 0, "errors": 0, "bugs": 0}
    write = _writer(path)
    with Progress() if chatter.progress else nullcontext() as progress:
        for line in _lines(wanted, given, workload):
            write(dumps_line(line))
            tally["lines"] += 1
            tally["errors"] += "error" in line
            tally["bugs"] += line.get("error", {}).get("code") == "bug"
            if progress is not None:
                progress(tally["lines"], tally["lines"], "models")
    return _exit(tally, chatter)


def _wanted(targets: Iterable[str], given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is to be read, each once, as far as it is asked for."""
    if not (targets or given["listed_in"] or given["author"] or any(given["filters"])):
        raise UsageError(
            "there is nothing to scan", hint="name models, or give --from, --author or --filter"
        )
    named = chain(targets, listed_in(given["listed_in"]), _on_the_hub(given))
    return islice(_each_once(named), given["limit"])


def _each_once(targets: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for target in targets:
        if target not in seen:
            seen.add(target)
            yield target


def _on_the_hub(given: Mapping[str, Any]) -> Iterator[str]:
    filters = [tag for tag in given["filters"] if tag]  # an empty one is the whole Hub
    if not (given["author"] or filters):
        return iter(())
    from hfkv.sources.catalog import list_models  # noqa: PLC0415  no HTTP for what is local

    return list_models(
        author=given["author"],
        filters=filters,
        token=given["token"],
        timeout=given["timeout"],
    )


def _lines(
    wanted: Iterable[str], given: Mapping[str, Any], workload: Workload
) -> Iterator[dict[str, Any]]:
    """Yield the document of each model as soon as it is there."""

    def one(target: str) -> dict[str, Any]:
        return {"id": shown(target), **_document(target, given, workload, shared)}

    with Shared(patient=True) as shared:
        for _, _, line in side_by_side(wanted, one):
            yield line


def _document(
    target: str, given: Mapping[str, Any], workload: Workload, shared: Shared
) -> dict[str, Any]:
    try:
        files = load(
            target,
            token=given["token"],
            offline=given["offline"],
            timeout=given["timeout"],
            shared=shared,
        )
        return inspect_document(analyze(files, workload))
    except HfkvError as error:
        return error_document(error.code, error.message, error.hint)
    except Exception as error:  # noqa: BLE001  one bug must not end a scan of thousands
        return error_document("bug", f"{type(error).__name__}: {error}", None)


def _resume(path: Path) -> frozenset[str]:
    """Return the models that a file holds; a line that was cut off is taken out of it."""
    done = set()
    try:
        if not path.is_file():  # new, or a device or pipe, which holds nothing
            return frozenset()
        with path.open("r+b") as file:
            end = 0
            for raw in file:
                if not raw.endswith(b"\n"):
                    _check_cut(raw, path)
                    break
                end += len(raw)
                done |= _finished(raw, path)
            file.truncate(end)
    except OSError as error:
        raise UsageError(reason(error), where=str(path), code="output") from None
    return frozenset(done)


def _finished(raw: bytes, path: Path) -> set[str]:
    """Return the model that a line answers for, if it does once and for all."""
    try:
        line = json.loads(raw)
        name, passing = line["id"], line.get("error", {}).get("code") in _PASSING
        ours = line["schema"].startswith("hfkv.")  # or a list that somebody else made
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _foreign(path) from None
    if not ours:
        raise _foreign(path)
    return set() if passing or not isinstance(name, str) else {name}


def _check_cut(raw: bytes, path: Path) -> None:
    """Raise UsageError for a line without an end that is not the beginning of a scan's."""
    if not (raw.startswith(_BEGINNING) or _BEGINNING.startswith(raw)):
        raise _foreign(path)
    if raw.endswith(b"}"):
        with suppress(ValueError, RecursionError):
            json.loads(raw)
            _finished(raw, path)


def _foreign(path: Path) -> UsageError:
    return UsageError(
        "it holds lines that no scan has written",
        where=str(path),
        hint="name a new file, or the one that the scan began",
        code="output",
    )


def _writer(path: Path | None) -> Callable[[str], None]:
    """Return what writes one line, so that it is whole in the file or not there."""
    if path is None:
        return write_stdout

    def append(text: str) -> None:
        try:
            with path.open("ab", buffering=0) as file:
                left = memoryview(text.encode("utf-8", "backslashreplace"))
                while left:  # a disk that fills up takes a part, and says so only when asked again
                    left = left[file.write(left) :]
        except OSError as error:
            raise UsageError(reason(error), where=str(path), code="output") from None

    return append


def _exit(tally: Mapping[str, int], chatter: Chatter) -> Exit:
    """Say how it went; what cannot be read is an answer too, as long as something can."""
    lines, errors = tally["lines"], tally["errors"]
    if tally["bugs"]:
        problem(f"{tally['bugs']:,} of {lines:,} met a bug in hfkv: see the lines with it")
        return Exit.BUG
    if lines and errors == lines:
        problem(f"none of {counted(lines, 'model')} could be read")
        return Exit.UNREADABLE
    if not chatter.quiet:
        note(f"{counted(lines, 'model')}, {errors:,} of them could not be read")
    return Exit.DONE
