"""What click needs to know of option values; how they are written is in `hfkv.core.written`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

__all__ = ["EngineName", "Written"]

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # generic only since click 8.5


class Written(_ParamType):
    """An option value that one of the functions below reads."""

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name = name
        self.read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what was written, as the core takes it."""
        if not isinstance(value, str):
            return value
        try:
            return self.read(value.strip())
        except ValueError as error:
            self.fail(str(error), param, ctx)


class EngineName(Written):
    """The name of an engine; --help shows those there are."""

    def __init__(self) -> None:
        super().__init__("engine", _engine)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the names in the registry, which only --help needs to load."""
        del param, ctx
        from hfkv.core.engines.registry import ENGINES  # noqa: PLC0415

        return f"[{'|'.join(ENGINES)}]"


def _engine(text: str) -> str:
    from hfkv.core.engines.registry import engine_named  # noqa: PLC0415

    return engine_named(text).name
