"""What the Hub's model tree lists as quantized from a model."""

from __future__ import annotations

from urllib.parse import urlencode

from hfkv.errors import UnreadableError, UsageError
from hfkv.sources.catalog import ask_for_list, names_in
from hfkv.sources.environment import endpoint, find_token, is_offline
from hfkv.sources.http import Client
from hfkv.sources.refusals import Asked
from hfkv.sources.targets import HubTarget
from hfkv.sources.targets import parse as parse_target
from hfkv.sources.wire import host_of

__all__ = ["variants"]


def variants(
    repo: str,
    *,
    limit: int = 10,
    token: str | None = None,
    offline: bool = False,
    timeout: float = 60.0,
) -> list[str]:
    """Return the repositories quantized from `repo`, the most downloaded first.

    Raises UsageError for what is no repository, UnreadableError when there is no list or it
    is empty, MalformedError for a list that is none.
    """
    hub = endpoint()
    base = parse_target(repo, endpoint=hub)
    if not isinstance(base, HubTarget) or base.file is not None:
        raise UsageError(
            f"{repo} is not a repository on the Hub", hint="give --variants org/name", code="target"
        )
    if offline or is_offline():
        raise UnreadableError(
            "offline: only the Hub knows what is quantized from a model", code="offline"
        )
    asked = Asked(endpoint=hub, repo=base.repo, revision="main", token=find_token(token))
    query = {
        "filter": f"base_model:quantized:{base.repo}",
        "sort": "downloads",
        "direction": "-1",
        "limit": str(limit),
    }
    with Client(hub, token=asked.token, timeout=timeout, connections=1) as client:
        answer = ask_for_list(client, asked, f"{hub}/api/models?{urlencode(query)}")
    names = names_in(answer)[:limit]
    if not names:
        raise UnreadableError(
            f"{host_of(hub)} lists nothing that is quantized from {base.repo}",
            hint="check the spelling; the model tree on its page shows the same list",
            code="no-variants",
        )
    return names
