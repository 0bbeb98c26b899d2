"""A model on the Hub: its listing, its small files, and the headers of its weights.

Everything that does not depend on an answer is asked at once: first the listing, config.json
and whatever may hold the headers; then, at the commit that the listing names, side files and
the start of every weights file; then what was too long for the first read. Nothing that an
answer has ruled out is asked for, and nothing that is kept of that commit.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from hfkv.core.files import ModelFiles, Problem, Target
from hfkv.core.manifest import Index, Manifest, choose, index_name, needs_index, parse_index
from hfkv.errors import HfkvError, MalformedError, UnreadableError, UnsupportedError
from hfkv.sources.assemble import assemble, side_files
from hfkv.sources.cache import Cache, Key
from hfkv.sources.environment import find_token
from hfkv.sources.http import Answer
from hfkv.sources.listing import Listing, parse_listing
from hfkv.sources.order import Order
from hfkv.sources.pool import Share
from hfkv.sources.reading import MAX_INDEX
from hfkv.sources.refusals import Asked, is_rejected_token, no_hub, refusal
from hfkv.sources.repository import Repository
from hfkv.sources.session import Session
from hfkv.sources.shards import Early, ask_early, read_shards

__all__ = ["load_hub"]


def load_hub(
    key: Key,
    order: Order,
    *,
    token: str | None = None,
    cache: Cache,
    session: Session | None = None,
) -> ModelFiles:
    """Return a repository as read from its Hub, or as `cache` has it at the same commit.

    A gated repository without access gives what its public metadata says, with the problem
    `gated`. Raises HfkvError.
    """
    if key.file is not None and key.file.endswith(".gguf"):
        raise UnsupportedError(
            "GGUF files are not read yet",
            where=key.file,
            hint="inspect the original model that it was converted from",
            code="gguf",
        )
    with nullcontext(session) if session else Session(key.endpoint, find_token(token)) as line:
        share = Share(line.pool)
        repo = Repository(
            client=line.client.limited(order.timeout),
            pool=share,
            asked=Asked(
                endpoint=key.endpoint, repo=key.repo, revision=key.revision, token=line.token
            ),
        )
        try:
            return _load(repo, order, cache, key)
        finally:
            share.close()


def _load(repo: Repository, order: Order, cache: Cache, key: Key) -> ModelFiles:
    kept = cache.latest(key)
    info = repo.pool.submit(repo.ask_info)
    early = ask_early(repo, order, cache.hosts(key)) if kept is None else None
    if order.meanwhile is not None:
        repo.pool.submit(order.meanwhile)
    answer = repo.wait(info)
    if is_rejected_token(answer) and repo.asked.token is not None:
        return _load_without_token(repo, order, cache, key, refusal(repo.asked, answer))
    listing = _listing(repo, answer)
    if kept is None or kept.target.sha != listing.sha:
        kept = cache.find(key, listing.sha)
    if kept is None:
        files = _read(repo, order, listing, early or ask_early(repo, order, ()))
        cache.point_to_hosts(key, repo.client.elsewhere)
        _keep(files, order, cache, key)
    else:
        cache.point(key, listing.sha)
        files = replace(kept.with_config(order.config), target=_target(repo, order, listing))
    if listing.id == repo.asked.repo:
        return files
    return files.with_problems(
        Problem(code="renamed", message=f"{repo.asked.repo} is called {listing.id} on the Hub")
    )


def _keep(files: ModelFiles, order: Order, cache: Cache, key: Key) -> None:
    """Keep what is true of the commit, whoever asks; not what a closed gate leaves to see."""
    if order.config is None and all(problem.code != "gated" for problem in files.problems):
        cache.keep(key, files)


def _load_without_token(
    repo: Repository, order: Order, cache: Cache, key: Key, rejected: HfkvError
) -> ModelFiles:
    """Ask again as nobody: the Hub refuses a bad token even for what is public."""
    nobody = replace(repo, client=repo.client.as_nobody(), asked=replace(repo.asked, token=None))
    try:
        files = _load(nobody, order, cache, key)
    except UnreadableError as error:
        raise rejected if error.code == "not-found" else error from None
    return files.with_problems(
        Problem(code="token-rejected", message=rejected.what, hint=rejected.hint)
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


def _target(repo: Repository, order: Order, listing: Listing) -> Target:
    return Target(
        kind="hub",
        id=listing.id if order.file is None else f"{listing.id}:{order.file}",
        revision=repo.asked.revision,
        sha=listing.sha,
    )


def _read(repo: Repository, order: Order, listing: Listing, early: Early) -> ModelFiles:
    target = _target(repo, order, listing)
    try:
        return _read_all(repo, order, listing, target, early)
    except UnreadableError as error:
        if error.code != "gated":
            raise
        return _public_only(listing, target, order, error)


def _read_all(
    repo: Repository, order: Order, listing: Listing, target: Target, early: Early
) -> ModelFiles:
    config = order.config
    if early.config is not None and listing.metadata.get("gated"):
        # behind a closed gate nothing else needs to be asked for
        config = _config(repo, listing, early)
    side = {
        name: repo.pool.submit(repo.read_object, name, listing.sha)
        for name in side_files(listing.files)
    }
    index = _index(repo, order, listing)
    manifest = _choose(order, listing, index)
    shards = read_shards(repo, listing, manifest.weight_files, early, order)
    return assemble(
        target=target,
        files=listing.files,
        manifest=manifest,
        config=_config(repo, listing, early) if config is None else config,
        side={name: repo.wait(future) for name, future in side.items()},
        shards=shards,
        index=index,
        hub={key: value for key, value in listing.metadata.items() if key != "config"},
    )


def _choose(order: Order, listing: Listing, index: Index | None) -> Manifest:
    if order.file is not None:
        return Manifest(weight_files=(order.file,))
    return choose(listing.files, index)


def _index(repo: Repository, order: Order, listing: Listing) -> Index | None:
    """Return the index where names do not tell which files belong, or when it is asked for."""
    name = index_name(listing.files)
    if name is None or order.file is not None:
        return None
    if not (order.deep or needs_index(listing.files)):
        return None
    answer = repo.pool.in_time(repo.client.left, repo.ask, name, listing.sha, limit=MAX_INDEX)
    return parse_index(repo.checked(answer, name).body, path=name)


def _config(repo: Repository, listing: Listing, early: Early) -> dict[str, Any] | None:
    if early.config is None:
        return None
    answer = repo.wait(early.config)
    listed = any(file.path == "config.json" for file in listing.files)
    if answer.status == 404 and not listed:
        return None
    if answer.status == 404 or answer.commit not in {None, listing.sha}:
        # a push between the two requests: ask again, at the commit of the listing
        answer = repo.pool.in_time(repo.client.left, repo.ask, "config.json", listing.sha)
    return repo.parse_object(answer, "config.json")


def _public_only(
    listing: Listing, target: Target, order: Order, error: UnreadableError
) -> ModelFiles:
    """Return what the Hub shows of a gated repository to everybody: names, sizes, counts.

    Raises `error` where that is nothing.
    """
    manifest = _choose(order, listing, None)
    if not (manifest.weight_files or listing.metadata.get("safetensors") or order.config):
        raise error
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
