"""A model on the Hub: its listing, its small files, and the headers of its weights.

Everything that does not depend on an answer is asked at once: first the listing, config.json
and the start of model.safetensors; then, at the commit that the listing names, side files,
index and the start of every weights file; then what was too long for the first read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, as_completed
from dataclasses import dataclass, replace
from typing import Any

from hfkv.core.files import ModelFiles, Problem, RepoFile, Target
from hfkv.core.headers import Shard
from hfkv.core.manifest import (
    Index,
    Manifest,
    check_name,
    choose,
    index_name,
    needs_index,
    parse_index,
)
from hfkv.errors import HfkvError, MalformedError, UnreadableError, UnsupportedError
from hfkv.sources.assemble import SIDE_FILES, assemble, with_problems
from hfkv.sources.environment import find_token
from hfkv.sources.http import Answer, Client
from hfkv.sources.listing import Listing, parse_listing
from hfkv.sources.pool import Pool
from hfkv.sources.reading import MAX_INDEX
from hfkv.sources.refusals import Asked, is_rejected_token, no_hub, refusal
from hfkv.sources.repository import Repository
from hfkv.sources.targets import HubTarget

__all__ = ["load_hub"]

_WORKERS = 32
_INDEX_ALWAYS = 10_000_000  # a larger index is read only when it decides which files belong
_FIRST_FEW = 32_768  # one round trip under TCP slow start
_FIRST_MANY = 98_304  # in mixtures of experts, 72 kB of header a file is typical
_FEW = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What is wanted: `file` alone or the whole model, with a config of the user's own or not."""

    file: str | None
    config: dict[str, Any] | None
    progress: Callable[[int, int, str], None] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Early:
    """Answers that were asked for before anything was known."""

    config: Future[Answer] | None
    weights: dict[str, Future[Answer]]


def load_hub(
    wanted: HubTarget,
    *,
    endpoint: str,
    token: str | None = None,
    timeout: float = 60.0,
    config: dict[str, Any] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> ModelFiles:
    """Return a repository as read from the Hub at `endpoint`, within `timeout` seconds.

    `config` stands in for its config.json. A gated repository without access gives what its
    public metadata says, with the problem `gated`. Raises HfkvError.
    """
    if wanted.file is not None and wanted.file.endswith(".gguf"):
        raise UnsupportedError(
            "GGUF files are not read yet",
            where=wanted.file,
            hint="inspect the original model that it was converted from",
            code="gguf",
        )
    asked = Asked(
        endpoint=endpoint, repo=wanted.repo, revision=wanted.revision, token=find_token(token)
    )
    order = _Order(file=wanted.file, config=config, progress=progress)
    pool = Pool(_WORKERS)
    try:
        with Client(endpoint, token=asked.token, timeout=timeout, connections=_WORKERS) as client:
            return _load(Repository(client=client, pool=pool, asked=asked), order)
    finally:
        pool.close()


def _load(repo: Repository, order: _Order) -> ModelFiles:
    info = repo.pool.submit(repo.ask_info)
    early = _ask_early(repo, order)
    answer = repo.wait(info)
    if is_rejected_token(answer) and repo.asked.token is not None:
        return _load_without_token(repo, order, refusal(repo.asked, answer))
    listing = _listing(repo, answer)
    target = Target(
        kind="hub",
        id=listing.id if order.file is None else f"{listing.id}:{order.file}",
        revision=repo.asked.revision,
        sha=listing.sha,
    )
    try:
        files = _read(repo, order, listing, target, early)
    except UnreadableError as error:
        if error.code != "gated":
            raise
        files = _public_only(listing, target, order, error)
    if listing.id == repo.asked.repo:
        return files
    return with_problems(
        files,
        Problem(code="renamed", message=f"{repo.asked.repo} is called {listing.id} on the Hub"),
    )


def _load_without_token(repo: Repository, order: _Order, rejected: HfkvError) -> ModelFiles:
    """Ask again as nobody: the Hub refuses a bad token even for what is public."""
    repo.client.token = None
    nobody = replace(repo, asked=replace(repo.asked, token=None))
    try:
        files = _load(nobody, order)
    except UnreadableError as error:
        raise rejected if error.code == "not-found" else error from None
    return with_problems(
        files, Problem(code="token-rejected", message=rejected.what, hint=rejected.hint)
    )


def _ask_early(repo: Repository, order: _Order) -> _Early:
    name = order.file or "model.safetensors"
    revision, submit = repo.asked.revision, repo.pool.submit
    return _Early(
        config=submit(repo.ask, "config.json", revision) if order.config is None else None,
        weights={name: submit(repo.ask, name, revision, 0, _FIRST_FEW)},
    )


def _listing(repo: Repository, answer: Answer) -> Listing:
    if answer.status != 200:
        raise refusal(repo.asked, answer)
    try:
        return parse_listing(answer.body)
    except MalformedError as error:
        if error.where == "model info":  # no JSON object at all
            raise no_hub(answer) from None
        raise


def _read(
    repo: Repository, order: _Order, listing: Listing, target: Target, early: _Early
) -> ModelFiles:
    names = {file.path for file in listing.files}
    side = {
        name: repo.pool.submit(repo.read_object, name, listing.sha)
        for name in SIDE_FILES
        if name in names
    }
    asked_index = _ask_index(repo, order, listing)
    headers: dict[str, Future[Shard]] = {}
    if asked_index is None or not needs_index(listing.files):
        # the names alone tell which files belong: no need to wait for the index
        likely = _choose(order, listing, None).weight_files
        _ask_headers(repo, listing, likely, early, headers)
    config = order.config if early.config is None else _config(repo, listing, early.config)
    index = None if asked_index is None else repo.wait(asked_index)
    manifest = _choose(order, listing, index)
    _ask_headers(repo, listing, manifest.weight_files, early, headers)
    return assemble(
        target=target,
        files=listing.files,
        manifest=manifest,
        config=config,
        side={name: repo.wait(future) for name, future in side.items()},
        shards=_collect(repo, order, [headers[name] for name in manifest.weight_files]),
        index=index,
        hub={key: value for key, value in listing.metadata.items() if key != "config"},
    )


def _choose(order: _Order, listing: Listing, index: Index | None) -> Manifest:
    if order.file is not None:
        return Manifest(weight_files=(order.file,))
    return choose(listing.files, index)


def _ask_index(repo: Repository, order: _Order, listing: Listing) -> Future[Index] | None:
    name = index_name(listing.files)
    if name is None or order.file is not None:
        return None
    size = next((file.size for file in listing.files if file.path == name), None) or 0
    if size > _INDEX_ALWAYS and not needs_index(listing.files):
        return None
    return repo.pool.submit(_index, repo, name, listing.sha)


def _index(repo: Repository, name: str, sha: str) -> Index:
    answer = repo.ask(name, sha, limit=MAX_INDEX)
    return parse_index(repo.checked(answer, name).body, path=name)


def _config(repo: Repository, listing: Listing, asked: Future[Answer]) -> dict[str, Any] | None:
    answer = repo.wait(asked)
    listed = any(file.path == "config.json" for file in listing.files)
    if answer.status == 404 and not listed:
        return None
    if answer.status == 404 or answer.commit not in {None, listing.sha}:
        # a push between the two requests: ask again, at the commit of the listing
        answer = repo.ask("config.json", listing.sha)
    return repo.parse_object(answer, "config.json")


def _ask_headers(
    repo: Repository,
    listing: Listing,
    names: Iterable[str],
    early: _Early,
    headers: dict[str, Future[Shard]],
) -> None:
    """Begin to read the headers of those files that have not been asked for yet."""
    listed = {file.path: file for file in listing.files}
    todo = [name for name in names if name not in headers]
    guess = _FIRST_FEW if len(todo) <= _FEW else _FIRST_MANY
    for name in todo:
        check_name(name, where=listing.id)
        headers[name] = repo.pool.submit(
            repo.read_shard,
            listed.get(name, RepoFile(path=name)),
            listing.sha,
            guess,
            early.weights.get(name),
        )


def _collect(repo: Repository, order: _Order, asked: list[Future[Shard]]) -> list[Shard]:
    tell = order.progress or (lambda _done, _total, _what: None)
    tell(0, len(asked), "headers")
    try:
        for done, future in enumerate(as_completed(asked, timeout=repo.client.left()), start=1):
            future.result()  # the first failure ends the run, whatever the others do
            tell(done, len(asked), "headers")
    except TimeoutError:
        raise repo.client.timed_out() from None
    return [future.result() for future in asked]


def _public_only(
    listing: Listing, target: Target, order: _Order, error: UnreadableError
) -> ModelFiles:
    """Return what the Hub shows of a gated repository to everybody: names, sizes, counts."""
    manifest = _choose(order, listing, None)
    return ModelFiles(
        target=target,
        files=listing.files,
        weight_files=manifest.weight_files,
        config=order.config,
        hub=listing.metadata,
        problems=(
            Problem(code="gated", message=error.what, hint=error.hint),
            *manifest.problems,
        ),
    )
