"""What a completing shell is offered for each value; nothing here asks a network.

Each function takes click's (context, parameter, what was typed). It runs at every press of the
key: what it needs is imported inside it, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "check",
    "engine",
    "file",
    "gpu",
    "kv_dtype",
    "model_type",
    "repository",
    "target",
    "weights_dtype",
]


def gpu(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return GPUs by their short names, after a count such as `4x` too; and auto, all."""
    del ctx, param
    from hfkv.core.gpus import table  # noqa: PLC0415

    match = re.match(r"(?i)[0-9]+x", incomplete)
    several = match[0] if match else ""
    words = {} if several else {"auto": "the GPUs of this machine", "all": "every GPU there is"}
    names = {**words, **{one.slug: one.name for one in table()}}
    return [
        _item(several + name, help=help_)
        for name, help_ in names.items()
        if name.startswith(incomplete[len(several) :].lower())
    ]


def engine(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the engines whose rules are known."""
    del ctx, param
    from hfkv.core.engines.registry import ENGINES  # noqa: PLC0415

    return _beginning(incomplete, ENGINES)


def kv_dtype(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the formats of a cache, as people write them; `kv` has no checkpoint to go by."""
    del param
    from hfkv.core.dtypes import KV_DTYPES  # noqa: PLC0415

    plain = ("bf16", "fp16", "fp32")
    auto = () if ctx.command.name == "kv" else ("auto",)
    packed = (name for name in KV_DTYPES if not name.startswith(("float", "bfloat")))
    return _beginning(incomplete, (*auto, *plain, *packed))


def weights_dtype(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the formats that weights can be estimated in."""
    del ctx, param
    from hfkv.core.what_if import WEIGHT_FORMATS  # noqa: PLC0415

    return _beginning(incomplete, ("bf16", "fp16", "fp32", *WEIGHT_FORMATS))


def model_type(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the model types that a family reads."""
    del ctx, param
    from hfkv.core.families.catalogue import catalogue  # noqa: PLC0415

    types = {one for family in catalogue() for one in family.model_types}
    return _beginning(incomplete, sorted(types))


def check(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the checks by their ids."""
    del ctx, param
    from hfkv.core.checks import CHECKS  # noqa: PLC0415

    return _beginning(incomplete, CHECKS)


def file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave it to the shell, which knows its files."""
    del ctx, param
    return [_item(incomplete, type="file")]


def repository(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the models of the Hub that were met on this machine before."""
    del ctx, param
    return _beginning(incomplete, _met(incomplete))


def target(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return models that were met before; where none begins like this, the shell's files.

    A shell cannot be told of both, so files of this folder stand beside the models.
    """
    models = repository(ctx, param, incomplete)
    if not models:
        return file(ctx, param, incomplete)
    from hfkv.sources.known import local_names  # noqa: PLC0415

    return [*models, *_beginning(incomplete, local_names())]


def _met(incomplete: str) -> Iterable[str]:
    if incomplete.startswith((".", "/", "~")):
        return ()
    from hfkv.sources.known import known_models  # noqa: PLC0415

    return known_models()


def _beginning(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    """Return those that begin like this, whatever the case."""
    start = incomplete.lower()
    return [_item(name) for name in names if name.lower().startswith(start)]


def _item(value: str, **more: str) -> CompletionItem:
    from click.shell_completion import CompletionItem  # noqa: PLC0415  for a shell only

    return CompletionItem(value, **more)
