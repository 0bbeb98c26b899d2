"""Where files come from: the Hub, a folder, a file, a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from hfkv.core.files import ModelFiles
from hfkv.sources.cache import Cache, Key, cache_root
from hfkv.sources.environment import endpoint, is_offline
from hfkv.sources.order import Order
from hfkv.sources.targets import HubTarget, LocalTarget, parse, path_text

if TYPE_CHECKING:
    from hfkv.sources.shared import Shared

__all__ = ["load"]


def load(
    target: str | PathLike[str],
    *,
    revision: str | None = None,
    token: str | None = None,
    offline: bool = False,
    timeout: float = 60.0,
    config_path: str | None = None,
    deep: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    meanwhile: Callable[[], object] | None = None,
    shared: Shared | None = None,
) -> ModelFiles:
    """Return everything that is to be read of the model that `target` names.

    `timeout` is the deadline in seconds of all network work together; `config_path` is a
    config.json to use instead of the target's; `deep` compares a repository's index with
    its headers, name by name. `progress` is told (done, total, what); `meanwhile` is called
    in a thread while answers are waited for; `shared` is what several models are read with. Raises
    HfkvError.
    """
    hub = endpoint()
    wanted = parse(path_text(target), revision=revision, endpoint=hub)
    config = None
    if config_path is not None:
        from hfkv.sources.reading import read_object  # noqa: PLC0415  most bring no config

        config = read_object(Path(config_path), config_path)
    if isinstance(wanted, LocalTarget):
        from hfkv.sources.local import load_path  # noqa: PLC0415  parsers of headers

        files = load_path(wanted.path, config=config)
        return files if config_path is None else replace(files, config_name=config_path)
    order = Order(
        file=wanted.file,
        config=config,
        deep=deep,
        frugal=shared is not None,
        timeout=timeout,
        progress=progress,
        meanwhile=meanwhile,
    )
    files = _load_repository(wanted, hub, order, token, shared, offline=offline or is_offline())
    return files if config_path is None else replace(files, config_name=config_path)


def _load_repository(
    wanted: HubTarget,
    hub: str,
    order: Order,
    token: str | None,
    shared: Shared | None,
    *,
    offline: bool,
) -> ModelFiles:
    """Return a repository: what is known of its commit, else what its Hub answers."""
    cache = Cache(cache_root())
    key = Key(
        endpoint=hub,
        repo=wanted.repo,
        revision=wanted.revision,
        file=wanted.file,
        deep=order.deep,
    )
    kept = cache.latest(key) if offline or key.is_commit else None
    if kept is not None:
        return kept.with_config(order.config)
    if offline:
        return _load_offline(wanted, cache, key, order)
    from hfkv.sources.hub import load_hub  # noqa: PLC0415  no HTTP for what is known

    session = None if shared is None else shared.session(hub, token)
    return load_hub(key, order, token=token, cache=cache, session=session)


def _load_offline(wanted: HubTarget, cache: Cache, key: Key, order: Order) -> ModelFiles:
    """Return what huggingface_hub has downloaded; raises UnreadableError where that is nothing."""
    from hfkv.errors import UnreadableError  # noqa: PLC0415  not needed online
    from hfkv.sources.downloaded import load_downloaded  # noqa: PLC0415  the same

    try:
        return load_downloaded(wanted, config=order.config)
    except UnreadableError:
        if not key.deep or cache.latest(replace(key, deep=False)) is None:
            raise
        raise UnreadableError(
            f"offline, and {wanted.repo} was kept without its index, which --deep needs",
            hint="leave --deep out, or look once online with it",
            code="offline",
        ) from None
