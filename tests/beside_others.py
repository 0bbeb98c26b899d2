"""The tables that set hfkv beside other tools, from what benchmarks/alternatives.py measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["answers", "measured", "off", "setting", "silences", "summary"]

DATA = Path(__file__).parent.parent / "benchmarks" / "alternatives.json"
# How far off still counts as right: of the weights, and of the cache, where implementations of
# one model differ by a few percent in what they keep of states and windows.
CLOSE = {"weights": 0.01, "kv": 0.05}


@cache
def measured() -> dict[str, Any]:
    """Return the data."""
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


def off(model: dict[str, Any], tool: str, figure: str) -> float | None:
    """Return an answer divided by the truth, None where there was none."""
    said, truth = model["answers"][tool][figure], model["truth"][figure]
    return None if said is None else said / truth


def setting() -> str:
    """Return when, with what and at which length it was measured."""
    data = measured()
    lengths = ", ".join(f"{model} {n:,}" for model, n in data["lengths"].items())
    versions = ", ".join(
        f"{tool} {version}" for tool, version in data["versions"].items() if tool != "hfkv"
    )
    return (
        f"Measured {data['date']}: one sequence of {data['tokens']:,} tokens ({lengths}), 16-bit "
        f"cache. Versions: {versions}."
    )


def summary() -> str:
    """Return one row a tool: how often it was right, wrong and silent."""
    models = measured()["models"]
    rows = [
        (tool, *_counted(models, tool, "weights"), *_counted(models, tool, "kv"))
        for tool in models[0]["answers"]
    ]
    names = ("weights right", "wrong", "no answer", "KV cache right", "wrong", "no answer")
    head = [f"| of {len(models)} models | {' | '.join(names)} |", f"|---|{'--:|' * len(names)}"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])


def _counted(models: list[dict[str, Any]], tool: str, figure: str) -> tuple[str, str, str]:
    found = [off(model, tool, figure) for model in models]
    right = sum(one is not None and abs(one - 1) <= CLOSE[figure] for one in found)
    silent = found.count(None)
    return str(right), str(len(found) - right - silent), str(silent)


def answers(figure: str) -> str:
    """Return one row a model: the truth, and each answer as a multiple of it."""
    models = measured()["models"]
    tools = list(models[0]["answers"])
    head = [
        f"| model | what it stands for | bytes | {' | '.join(tools)} |",
        f"|---|---|--:|{'--:|' * len(tools)}",
    ]
    rows = (
        f"| {model['id']} | {model['stands_for']} | {model['truth'][figure]:,} "
        f"| {' | '.join(_told(off(model, tool, figure), figure) for tool in tools)} |"
        for model in models
    )
    return "\n".join([*head, *rows])


def _told(multiple: float | None, figure: str) -> str:
    if multiple is None:
        return "–"
    shown = f"{multiple:.2f}" if multiple < 10 else f"{multiple:.0f}"
    return shown if abs(multiple - 1) <= CLOSE[figure] else f"**{shown}**"


def silences() -> str:
    """Return what tools said where they gave no answer."""
    return "\n".join(_silences())


def _silences() -> Iterator[str]:
    for model in measured()["models"]:
        for tool, answer in model["answers"].items():
            if said := answer.get("said"):
                yield f"* {tool}, {model['id']}: `{said.replace('`', chr(39))}`"
