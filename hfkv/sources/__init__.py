"""Where files come from: the Hub, a folder, a file, a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hfkv.core.files import ModelFiles
from hfkv.sources.environment import endpoint, is_offline
from hfkv.sources.local import load_path
from hfkv.sources.reading import read_object
from hfkv.sources.snapshot import save_snapshot
from hfkv.sources.targets import LocalTarget, parse

__all__ = ["load", "save_snapshot"]


def load(
    target: str,
    *,
    revision: str | None = None,
    token: str | None = None,
    offline: bool = False,
    timeout: float = 60.0,
    config_path: str | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> ModelFiles:
    """Return everything that is to be read of the model that `target` names.

    `timeout` is the deadline in seconds of all network work together; `config_path` is a
    config.json to use instead of the target's; `progress` is told (done, total, what).
    Raises HfkvError.
    """
    hub = endpoint()
    wanted = parse(target, revision=revision, endpoint=hub)
    config = None if config_path is None else read_object(Path(config_path), config_path)
    if isinstance(wanted, LocalTarget):
        return load_path(wanted.path, config=config)
    if offline or is_offline():
        from hfkv.sources.downloaded import load_downloaded  # noqa: PLC0415

        return load_downloaded(wanted, config=config)
    from hfkv.sources.hub import load_hub  # noqa: PLC0415  no HTTP for what is local

    return load_hub(
        wanted,
        endpoint=hub,
        token=token,
        timeout=timeout,
        config=config,
        progress=progress,
    )
