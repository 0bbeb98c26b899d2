"""The `hfkv` command: a table of subcommands, each loaded only when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hfkv import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["COMMANDS", "COMPLETE", "NAMES", "Interrupted", "ManualGroup", "group"]

NAMES = ("hfkv", "hf-kv")  # `hf kv …` runs the second
COMPLETE = "_HFKV_COMPLETE"  # how a shell asks either of them for completions

_EXAMPLES = """\
hfkv inspect org/name --gpu a100-80
hfkv inspect ./folder --context 32k --concurrency 8 --json
hfkv compare org/one org/two --gpu rtx4090 --context 32k
hfkv check org/name --gpu rtx4090 --fail-on warn
hfkv kv --layers 32 --kv-heads 8 --head-dim 128 --context 32k
"""


class Entry(NamedTuple):
    """A subcommand: the module that defines it as `command`, and its line in --help."""

    module: str
    help: str


COMMANDS: dict[str, Entry] = {
    "inspect": Entry("hfkv.cli.inspect", "Size one model: weights, KV cache, and whether it fits."),
    "compare": Entry(
        "hfkv.cli.compare", "Compare several models under one workload, a row a model."
    ),
    "check": Entry(
        "hfkv.cli.check",
        "Check a model before it is downloaded: whole, safe, permitted, and will it fit.",
    ),
    "kv": Entry("hfkv.cli.kv", "Size the cache of a structure that has no repository."),
    "gpus": Entry("hfkv.cli.gpus", "List the GPUs that --gpu knows, with their memories."),
    "families": Entry(
        "hfkv.cli.families", "List the model types that are known, with their kinds of layers."
    ),
    "scan": Entry("hfkv.cli.scan", "Size many models, one line of JSON each, as they are read."),
    "snapshot": Entry("hfkv.cli.snapshot", "Save what was read of a model, to replay it offline."),
    "cache": Entry("hfkv.cli.cache", "Show or clear what is kept of models on the Hub."),
    "completion": Entry(
        "hfkv.cli.completion", "Write the script that completes hfkv in bash, zsh or fish."
    ),
}


class Interrupted(Exception):  # noqa: N818  it is no error
    """Ctrl-C, told apart from click's own answer to it, which writes an empty line first."""


class ManualGroup(click.Group):
    """A group whose --help ends with a manual, and is shown where nothing was asked."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; click's own error for none would be the help as one sentence."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples, exit codes and environment."""
        from hfkv.cli.manual import write_manual  # noqa: PLC0415  for --help only

        write_manual(ctx, formatter, self.epilog)


class LazyGroup(ManualGroup):
    """A group that knows its commands by name and imports only the one that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name, imported now."""
        del ctx
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = import_module(entry.module).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table alone."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin like this, from the table alone."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  for a shell only

        named = [
            CompletionItem(name, help=entry.help)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EXAMPLES
)
@click.version_option(__version__, "-V", "--version", message="hfkv %(version)s")
def group() -> None:
    """Say whether a Hugging Face model fits, at your context and concurrency, and why."""
