"""What the Hub's model tree lists as quantized from a model."""

from __future__ import annotations

from urllib.parse import urlencode

from hfkv.core.jsontext import parse
from hfkv.errors import MalformedError, UnreadableError, UsageError
from hfkv.sources.environment import endpoint, find_token, is_offline
from hfkv.sources.http import Client
from hfkv.sources.refusals import Asked, refusal
from hfkv.sources.targets import HubTarget
from hfkv.sources.targets import parse as parse_target
from hfkv.sources.wire import host_of

__all__ = ["variants"]

_WHERE = "model list"


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
        answer = client.fetch(f"{hub}/api/models?{urlencode(query)}")
    if answer.status != 200:
        raise refusal(asked, answer)
    names = _names(answer.body)[:limit]
    if not names:
        raise UnreadableError(
            f"{host_of(hub)} lists nothing that is quantized from {base.repo}",
            hint="check the spelling; the model tree on its page shows the same list",
            code="no-variants",
        )
    return names


def _names(body: bytes) -> list[str]:
    listed = parse(body, where=_WHERE)
    if not isinstance(listed, list):
        raise MalformedError("expected a list", where=_WHERE)
    return [_name(item, f"{_WHERE}[{index}].id") for index, item in enumerate(listed)]


def _name(item: object, where: str) -> str:
    name = item.get("id") if isinstance(item, dict) else None
    if not isinstance(name, str):
        raise MalformedError(f"expected a string, got {name!r:.40}", where=where)
    return name
