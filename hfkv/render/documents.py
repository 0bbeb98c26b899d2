"""JSON text, and the document of an error."""

from __future__ import annotations

import json
import re
from typing import Any

from hfkv.render.units import escaped

__all__ = ["dumps", "dumps_line", "error_document"]


def dumps(document: dict[str, Any]) -> str:
    """Return the document as text: one space of indent, UTF-8, nothing that steers a terminal."""
    lines = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).split("\n")
    # json escapes C0 only: a terminal obeys C1 and bidirectional marks as well
    return "".join(escaped(line, _escape) + "\n" for line in lines)


def dumps_line(document: dict[str, Any]) -> str:
    """Return the document as one line, as safe to show as the text of `dumps`."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return escaped(text, _escape) + "\n"


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def error_document(code: str, message: str, hint: str | None) -> dict[str, Any]:
    """Return an `hfkv.error/1` document."""
    return {
        "schema": "hfkv.error/1",
        "error": {"code": code, "message": message, "hint": hint},
    }
