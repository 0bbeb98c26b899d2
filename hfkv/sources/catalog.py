"""The list of models on a Hub, page by page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlencode, urljoin

from hfkv.core.jsontext import parse
from hfkv.errors import MalformedError
from hfkv.sources.environment import endpoint, find_token
from hfkv.sources.http import Answer, Client
from hfkv.sources.listing import REPOSITORY
from hfkv.sources.pool import Pool
from hfkv.sources.refusals import Asked, no_hub, refusal
from hfkv.sources.wire import origin_of

__all__ = ["ask_for_list", "list_models", "names_in"]

_WHERE = "model list"
_PAGE = 100
_NEXT = re.compile(r"<([^>]*)>\s*;\s*rel=\"?next\"?")


def list_models(
    *,
    author: str | None = None,
    filters: Sequence[str] = (),
    token: str | None = None,
    timeout: float = 60.0,
) -> Iterator[str]:
    """Yield the ids of the models of an author or with certain tags, most downloaded first.

    Pages are asked for as they are needed. Raises UnreadableError where there is no list,
    MalformedError for one that is none.
    """
    hub = endpoint()
    query = [("sort", "downloads"), ("direction", "-1"), ("limit", str(_PAGE))]
    query += [("author", author)] if author else []
    query += [("filter", tag) for tag in filters]
    url: str | None = f"{hub}/api/models?{urlencode(query)}"
    asked = Asked(endpoint=hub, repo="the list of models", revision="", token=find_token(token))
    with Client(hub, token=asked.token, timeout=timeout, connections=1, patient=True) as client:
        seen = set()
        while url is not None and url not in seen:  # pages in a circle have an end
            seen.add(url)
            answer = ask_for_list(client.limited(timeout), asked, url)
            yield from names_in(answer)
            url = _next_page(url, answer)


def ask_for_list(client: Client, asked: Asked, url: str) -> Answer:
    """Return a page of a list of models; raises UnreadableError where there is none."""
    pool = Pool(1)
    try:
        answer = pool.in_time(client.left, client.fetch, url)
    finally:
        pool.close()
    if answer.status != 200:
        raise refusal(asked, answer)
    return answer


def names_in(answer: Answer) -> list[str]:
    """Return the ids in a page, none of which can be a path that leads out of here."""
    try:
        listed = parse(answer.body, where=_WHERE)
    except MalformedError:
        raise no_hub(answer) from None
    if not isinstance(listed, list):
        raise MalformedError("expected a list", where=_WHERE)
    return [_id(item, f"{_WHERE}[{place}].id") for place, item in enumerate(listed)]


def _id(item: object, where: str) -> str:
    name = item.get("id") if isinstance(item, dict) else None
    if not isinstance(name, str):
        raise MalformedError(f"expected a string, got {name!r:.40}", where=where)
    if not re.fullmatch(REPOSITORY, name):
        raise MalformedError("not the name of a repository", where=where)
    return name


def _next_page(url: str, answer: Answer) -> str | None:
    """Return the address of the next page, None after the last; never one of another host."""
    match = _NEXT.search(answer.headers.get("Link", ""))
    if match is None:
        return None
    there = urljoin(url, match[1])
    return there if origin_of(there) == origin_of(url) else None
