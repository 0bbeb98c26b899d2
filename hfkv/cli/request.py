"""Parsed options → what the core and the sources take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hfkv.api import request
from hfkv.cli.output import told_apart
from hfkv.core.workload import Workload

__all__ = ["workload_of"]


def workload_of(given: Mapping[str, Any]) -> Workload:
    """Return the workload that the options describe; `--output 1k` states tokens as well.

    Raises UsageError for what cannot be meant, before anything is read.
    """
    stated = given["output_tokens"]
    output = told_apart(given)[1] if stated is None else stated
    return request.workload_of({**given, "output_tokens": output})
