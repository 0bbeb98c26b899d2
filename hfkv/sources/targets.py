"""One grammar for everything a command can be pointed at."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from hfkv.core.files import check_name
from hfkv.core.record import dataclass
from hfkv.errors import MalformedError, UnreadableError, UsageError

__all__ = ["HubTarget", "LocalTarget", "listed", "parse", "path_text", "shown"]

_HUB_HOSTS = {"huggingface.co", "www.huggingface.co", "hf.co"}
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_REPO = rf"{_PART}(?:/{_PART})?"
_WRITTEN = r"(?s)(?P<repo>[^@:]+)(?:@(?P<revision>[^:]*))?(?::(?P<file>.*))?"
_LOCAL_ENDS = (".json", ".safetensors", ".gguf")
_SHARD = r"-[0-9]+-of-[0-9]+\.safetensors$"
_PLACES = {"tree", "blob", "resolve", "raw", "blame", "commit", "commits"}
_FORMS = "org/name, org/name@revision, a Hub address, a folder or a file"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubTarget:
    """A model repository; `file` narrows it to one weights file."""

    repo: str
    revision: str = "main"
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTarget:
    """An existing file or folder."""

    path: Path


def path_text(path: object, *, what: str = "target") -> str:
    """Return the text of a target or of a path, which may be a path object.

    Raises UsageError for anything else.
    """
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise UsageError(f"text or a path is expected, not {type(path).__name__}", where=what)
    return text


def listed(targets: object) -> Iterable[Any]:
    """Return several targets; one alone is a list of itself, and not of its letters.

    Raises UsageError for what is no list.
    """
    if isinstance(targets, str | bytes | os.PathLike):
        return [targets]
    if not isinstance(targets, Iterable):
        raise UsageError(
            f"a list is expected, not {type(targets).__name__}",
            where="targets",
            hint='such as ["org/one", "org/two"]',
        )
    return targets


def parse(
    argument: str, *, revision: str | None = None, endpoint: str = "https://huggingface.co"
) -> HubTarget | LocalTarget:
    """Return what an argument means; an existing path wins over a repository of that name.

    Raises UsageError for what is written wrongly, UnreadableError for a path that is not
    there.
    """
    if not argument.strip() or not argument.isprintable():
        raise UsageError(f"{argument!r:.80} names no model", hint=f"give {_FORMS}", code="target")
    if "://" in argument:
        return _with_revision(_parse_address(argument, endpoint), revision)
    if os.path.lexists(argument):
        if revision is not None:
            raise UsageError(
                f"{argument} is a local path, which has no revisions",
                hint="leave --revision out, or write the repository as hf://org/name",
                code="target",
            )
        return LocalTarget(path=Path(argument))
    written = re.fullmatch(_WRITTEN, argument)
    if _looks_local(argument) or written is None:
        raise UnreadableError(f"no such file or folder: {argument}", code="not-found")
    return _with_revision(
        _hub(written["repo"].rstrip("/"), written["revision"], written["file"], argument), revision
    )


def _looks_local(argument: str) -> bool:
    return (
        argument.startswith((".", "/", "~"))
        or "\\" in argument
        or (argument.endswith(_LOCAL_ENDS) and ":" not in argument)
    )


def _parse_address(address: str, endpoint: str) -> HubTarget:
    try:
        parts = urlsplit(address)
        host = parts.netloc.lower()
    except ValueError:
        raise _wrong(address) from None
    if parts.scheme == "hf":
        written = re.fullmatch(_WRITTEN, address.removeprefix("hf://").removeprefix("models/"))
        if written is None:
            raise _wrong(address)
        return _hub(written["repo"].rstrip("/"), written["revision"], written["file"], address)
    home = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or host not in {*_HUB_HOSTS, home.netloc.lower()}:
        raise UsageError(
            f"{_without_secrets(address)} is not an address at {endpoint}",
            hint=f"give {_FORMS}; a mirror goes into HF_ENDPOINT",
            code="target",
        )
    path = parts.path
    if host == home.netloc.lower():
        path = path.removeprefix(home.path)
    return _from_path([unquote(step) for step in path.strip("/").split("/")], address)


def _from_path(steps: list[str], address: str) -> HubTarget:
    if steps[0] in {"datasets", "spaces"}:
        raise UsageError(
            f"{_without_secrets(address)} is not a model", hint=f"give {_FORMS}", code="target"
        )
    if steps[0] == "models":
        steps = steps[1:]
    cut = next((i for i, step in enumerate(steps[:3]) if i and step in _PLACES), len(steps[:2]))
    repo, place, rest = "/".join(steps[:cut]), steps[cut : cut + 1], steps[cut + 1 :]
    if not place or place[0] not in _PLACES:
        return _hub(repo, None, None, address)
    length = 3 if rest[:2] == ["refs", "pr"] else 1
    file = "/".join(rest[length:])
    # The page of one shard means the model: nobody wants the size of shard 3 of 4.
    one_file = file.endswith((".safetensors", ".gguf")) and not re.search(_SHARD, file)
    return _hub(repo, "/".join(rest[:length]) or None, file if one_file else None, address)


def _hub(repo: str, revision: str | None, file: str | None, written: str) -> HubTarget:
    if (
        not re.fullmatch(_REPO, repo)
        or len(repo.rpartition("/")[2]) > 96
        or "--" in repo
        or ".." in repo
        or repo.endswith(".git")
    ):
        raise _wrong(written)
    if revision is not None:
        _check_revision(revision, written)
    if file is not None:
        _check_file(file, written)
    return HubTarget(repo=repo, revision=revision or "main", file=file)


def _check_revision(revision: str, written: str) -> None:
    if (
        not 0 < len(revision) <= 255
        or not re.fullmatch(r"[^\s~^:?*\[\\]+", revision)
        or ".." in revision
        or "//" in revision
        or revision.startswith(("/", "-"))
        or revision.endswith(("/", ".lock"))
        or not revision.isprintable()
    ):
        raise UsageError(
            f"{revision!r:.80} is not the name of a revision",
            where=written if revision not in written else None,
            hint="give a branch, a tag, a commit or refs/pr/N",
            code="target",
        )


def _check_file(file: str, written: str) -> None:
    try:
        check_name(file, where=written)
    except MalformedError:
        raise _wrong(written) from None
    if not file.endswith((".safetensors", ".gguf")):
        raise UsageError(
            f"{file!r:.80} is not a weights file",
            hint="a file after the colon ends in .safetensors; leave it out for the whole model",
            code="target",
        )


def _with_revision(target: HubTarget, revision: str | None) -> HubTarget:
    if revision is None:
        return target
    _check_revision(revision, revision)
    if target.revision not in {"main", revision}:
        raise UsageError(
            f"two revisions are given: {target.revision} and {revision}", code="target"
        )
    return HubTarget(repo=target.repo, revision=revision, file=target.file)


def _wrong(written: str) -> UsageError:
    return UsageError(
        f"{shown(written)[:120]} is neither a path that exists nor a repository",
        hint=f"give {_FORMS}",
        code="target",
    )


def shown(written: str) -> str:
    """Return a target as it may be shown and kept: an address without what may be secret."""
    return _without_secrets(written) if "://" in written else written


def _without_secrets(address: str) -> str:
    """Return an address without the name, password and query that may stand in it."""
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return re.split(r"[?#]", f"{scheme}://{host.rpartition('@')[2]}{slash}{path}", maxsplit=1)[0]
