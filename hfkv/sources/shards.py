"""The headers of a repository's weights: all in one request, or the start of every file."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import field

from hfkv.core.bundle import parse_bundle
from hfkv.core.files import RepoFile, check_name
from hfkv.core.headers import Shard, parse_shard
from hfkv.core.record import dataclass
from hfkv.errors import HfkvError, MalformedError
from hfkv.sources.environment import one_request
from hfkv.sources.guess import Guess, guess_by_name
from hfkv.sources.http import Answer
from hfkv.sources.listing import Listing
from hfkv.sources.order import Order
from hfkv.sources.repository import FirstRead, Header, Repository

__all__ = ["INDEX", "Early", "ask_early", "read_shards"]

INDEX = "model.safetensors.index.json"
_MOST = 10_000
_FEW = 8  # files whose headers are read by ranges as fast as by anything else
_WARM_FEW, _WARM_MANY = 4, 16
_HEAD_START = 0.25  # seconds that the endpoint for all headers has beyond the listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Early:
    """Answers that were asked for before the file list was there."""

    config: Future[Answer] | None
    starts: dict[str, Future[Answer]] = field(default_factory=dict)
    bundle: Future[Answer] | None = None


def ask_early(repo: Repository, order: Order, hosts: Sequence[str]) -> Early:
    """Ask for config.json and for whatever may hold the headers, and open connections.

    `hosts` are where the Hub is known to send those who read weights.
    """
    revision, submit = repo.asked.revision, repo.pool.submit
    config = submit(repo.ask, "config.json", revision) if order.config is None else None
    if order.frugal:
        return Early(config=config)
    guess = guess_by_name(repo.asked.repo) if order.file is None else Guess(True, False)
    name = order.file or "model.safetensors"
    stop = FirstRead(files=1).stop(None)
    early = Early(
        config=config,
        starts={name: submit(repo.ask, name, revision, 0, stop)} if guess.one_file else {},
        bundle=submit(repo.ask_bundle, INDEX) if guess.several and _may(repo, order) else None,
    )
    _warm(repo, guess, hosts, bundled=early.bundle is not None)
    return early


def _warm(repo: Repository, guess: Guess, hosts: Sequence[str], *, bundled: bool) -> None:
    """Open connections for the requests that the file list will lead to."""
    several = 0 if bundled else _WARM_FEW if guess.one_file else _WARM_MANY
    for host in (repo.asked.endpoint, *hosts):
        count = several or (guess.one_file and host in hosts)
        for spare in repo.client.spares(host, count):
            repo.pool.submit(spare)


def _may(repo: Repository, order: Order) -> bool:
    """Return whether the endpoint can answer: it knows the default branch of whole models."""
    return repo.asked.revision == "main" and order.file is None and one_request()


def read_shards(
    repo: Repository, listing: Listing, names: Sequence[str], early: Early, order: Order
) -> list[Shard]:
    """Return the headers of the named files, in their order."""
    if len(names) > _MOST:
        raise MalformedError(
            f"{len(names):,} weights files, and {_MOST:,} are read", where=listing.id
        )
    tell = order.progress or (lambda _done, _total, _what: None)
    tell(0, len(names), "headers")
    bundle = _from_bundle(repo, listing, names, early, order)
    if bundle is not None:
        tell(len(names), len(names), "headers")
        return bundle
    asked = _ask_starts(repo, listing, names, early)
    shards: dict[str, Shard] = {}
    # parsed here alone: threads that compute keep those that wait for the network from it
    for future in repo.as_done(asked):
        name, header = asked[future], future.result()
        repo.client.left()  # parsing counts too
        shards[name] = parse_shard(header.head, file_size=header.file_size, path=name)
        tell(len(shards), len(names), "headers")
    return [shards[name] for name in names]


def _from_bundle(
    repo: Repository, listing: Listing, names: Sequence[str], early: Early, order: Order
) -> list[Shard] | None:
    """Return all headers from the one-request endpoint; None unless they add up in time."""
    known = {file.path: file.size for file in listing.files if file.size is not None}
    if len(names) < 2 or INDEX not in known or not known.keys() >= set(names):
        return None
    asked = early.bundle
    if asked is None and len(names) > _FEW and _may(repo, order):
        asked = repo.pool.submit(repo.ask_bundle, INDEX)
    if asked is None:
        return None
    patience = min(_HEAD_START + 0.005 * len(names), 2.5, repo.client.left())
    try:
        answer = asked.result(timeout=patience)
        if answer.status != 200 or answer.commit not in {None, listing.sha}:
            return None
        return list(parse_bundle(answer.body, {name: known[name] or 0 for name in names}))
    except (TimeoutError, HfkvError):
        return None


def _ask_starts(
    repo: Repository, listing: Listing, names: Sequence[str], early: Early
) -> dict[Future[Header], str]:
    listed = {file.path: file for file in listing.files}
    first = FirstRead(files=len(names))
    for name in names:
        check_name(name, where=listing.id)
    return {
        repo.pool.submit(
            repo.read_header,
            listed.get(name, RepoFile(path=name)),
            listing.sha,
            first,
            early.starts.get(name),
        ): name
        for name in names
    }
