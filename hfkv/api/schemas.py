"""The JSON Schemas in the package: what every document of hfkv promises."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from hfkv.errors import UsageError

__all__ = ["SCHEMAS", "json_schema"]

SCHEMAS = (
    "cache",
    "check",
    "compare",
    "error",
    "families",
    "gpus",
    "inspect",
    "kv",
    "snapshot",
)


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a kind of document, such as "inspect".

    It is whole: the other schemas that it refers to are in its `$defs`, by their `$id`. A
    line of `hfkv scan` is an inspect or error document with an "id" beside it. Raises
    UsageError for a kind that does not exist.
    """
    if name not in SCHEMAS:
        raise UsageError(f"there is no schema '{name}'", hint="known: " + ", ".join(SCHEMAS))
    schema = _read(name)
    definitions = dict(schema.get("$defs", {}))
    for other in sorted(_referred(name) - {name}):
        definitions[_identity(other)] = _read(other)
    return {**schema, "$defs": definitions} if definitions else schema


def _referred(name: str) -> set[str]:
    """Return the schemas that one refers to, and those that these refer to."""
    found, wanted = set(), {name}
    while wanted:
        one = wanted.pop()
        found.add(one)
        text = json.dumps(_read(one))
        wanted |= {other for other in SCHEMAS if f'"{_identity(other)}' in text} - found
    return found


def _identity(name: str) -> str:
    """Return the `$id` by which schemas refer to one."""
    return f"urn:hfkv:{name}:1"


def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_text(name))
    return document


@cache
def _text(name: str) -> str:
    place = resources.files("hfkv").joinpath("schema", f"{name}-1.json")
    return place.read_text(encoding="utf-8")
