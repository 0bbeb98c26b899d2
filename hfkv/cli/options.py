"""The options that commands share, in the sections that --help shows them in.

What says how much is kept, by which engine and on which hardware is in `workload_options`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from hfkv.cli import complete
from hfkv.cli.params import Written
from hfkv.core import written

__all__ = [
    "SectionedCommand",
    "chatter_options",
    "inspect_options",
    "network_options",
    "option",
    "output_options",
    "source_options",
    "together",
]

_SOURCE = "Where it is read from"

Function = TypeVar("Function", bound=Callable[..., Any])


class SectionedOption(click.Option):
    """An option that knows the section of --help it belongs to."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose --help lists its options by section, and ends with a manual."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list per section, in order of first appearance."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                section = getattr(param, "section", "Other")
                sections.setdefault(section, []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records, col_max=26)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples, exit codes and environment."""
        from hfkv.cli.manual import write_manual  # noqa: PLC0415  for --help only

        write_manual(ctx, formatter, self.epilog)


def option(*names: str, section: str, **kwargs: Any) -> Callable[[Function], Function]:
    """Return the decorator that adds one option to a section of --help."""
    return click.option(*names, cls=SectionedOption, section=section, **kwargs)


def together(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Return the decorator that adds all of the options, in this order."""

    def decorate(function: Function) -> Function:
        for add in reversed(options):
            function = add(function)
        return function

    return decorate


def source_options(function: Function) -> Function:
    """Add what says where one model is read from."""
    return together(
        option(
            "--revision",
            section=_SOURCE,
            metavar="REV",
            help="Branch, tag or commit. [default: main]",
        ),
        option(
            "--config",
            "config_path",
            section=_SOURCE,
            metavar="FILE",
            shell_complete=complete.file,
            help="Use this config.json instead of the target's.",
        ),
        option(
            "--deep",
            is_flag=True,
            section=_SOURCE,
            help="Read the index too, and compare it with the headers name by name.",
        ),
        network_options,
    )(function)


def network_options(function: Function) -> Function:
    """Add what says how the Hub is asked."""
    return together(
        option(
            "--token",
            section=_SOURCE,
            metavar="TOKEN",
            help="Hub token. [default: HF_TOKEN or the stored login]",
        ),
        option(
            "--offline", is_flag=True, section=_SOURCE, help="Use what is on this machine only."
        ),
        option(
            "--timeout",
            type=Written("seconds", written.seconds),
            default="60",
            show_default=True,
            section=_SOURCE,
            help="Seconds until the network is given up.",
        ),
    )(function)


def inspect_options(function: Function) -> Function:
    """Add what a verdict on one model can be asked beside its figures."""
    section = "How it is told"
    return together(
        option(
            "--explain", is_flag=True, section=section, help="For each figure, the path it took."
        ),
        option(
            "--speed",
            is_flag=True,
            section=section,
            help="How fast decoding cannot be: the bound of the memory's bandwidth.",
        ),
        option(
            "--fail-if-not-fit",
            is_flag=True,
            section=section,
            help="Exit with 1 when no given GPU holds it.",
        ),
    )(function)


def chatter_options(function: Function) -> Function:
    """Add what is said on stderr beside the answer."""
    section = "How it is told"
    return together(
        option("-q", "--quiet", is_flag=True, section=section, help="Only errors on stderr."),
        option(
            "-v",
            "--verbose",
            is_flag=True,
            section=section,
            help="Say on stderr what was read and how long it took.",
        ),
        option("--no-progress", is_flag=True, section=section, help="No progress on a terminal."),
    )(function)


def output_options(*formats: str) -> Callable[[Function], Function]:
    """Return the decorator that adds how the answer is written, in one of `formats`."""
    section = "How it is told"
    return together(
        option(
            "-f",
            "--format",
            "output_format",
            type=click.Choice(formats),
            section=section,
            help="How the answer is written. [default: text]",
        ),
        option("--json", "as_json", is_flag=True, section=section, help="The same as -f json."),
        option(
            "-o",
            "--output",
            "output_path",
            multiple=True,
            metavar="FILE",
            shell_complete=complete.file,
            section=section,
            help="Write there instead of to standard output.",
        ),
        option("--no-color", is_flag=True, section=section, help="No colour (as with NO_COLOR)."),
    )
