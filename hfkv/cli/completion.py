"""`hfkv completion [SHELL]`: what a shell has to read to complete commands, options and values."""

from __future__ import annotations

import os
import re
from pathlib import PurePath

import click
from click.shell_completion import get_completion_class

from hfkv.cli.group import COMPLETE, NAMES, group
from hfkv.cli.options import SectionedCommand
from hfkv.cli.output import write_stdout
from hfkv.errors import UsageError

__all__ = ["command"]

_SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = """\
hfkv completion bash > hfkv.bash            # then source it in ~/.bashrc
hfkv completion zsh > _hfkv                 # into a folder of $fpath
hfkv completion fish > hfkv.fish            # into ~/.config/fish/conf.d
eval "$(hfkv completion bash)"              # for this shell only
"""


@click.command("completion", cls=SectionedCommand, epilog=_EXAMPLES)
@click.argument("shell", required=False, type=click.Choice(_SHELLS))
def command(shell: str | None) -> int:
    """Write the script that completes hfkv in bash, zsh or fish.

    Without SHELL, for the shell in the variable SHELL. It completes commands, options, GPUs,
    engines, formats, model types, local files, and models that this machine has met. It is
    for hfkv and hf-kv, and asks no network.
    """
    chosen = shell or PurePath(os.environ.get("SHELL", "")).name
    maker = get_completion_class(chosen) if chosen in _SHELLS else None
    if maker is None:
        raise UsageError(
            f"the shell '{chosen}' is not known" if chosen else "which shell is not known",
            hint=f"say which: {', '.join(_SHELLS)}",
            code="shell",
        )
    write_stdout(_for_both(maker(group, {}, NAMES[0], COMPLETE).source()))
    return 0


def _for_both(script: str) -> str:
    """Register click's function for hf-kv, the second name of the same program, as well.

    In fish, what is offered is one word, a comma and the rest, whose own commas stay.
    """
    first, second = NAMES
    lines = []
    for line in script.splitlines():
        word = line.lstrip().split(" ", 1)[0]
        names_both = word in {"#compdef", "compdef"}  # zsh
        lines.append(f"{line.rstrip(';')} {second}" if names_both else line)
        if 'string split ","' in line:  # fish
            lines[-1] = line.replace("string split", "string split --max 1")
        if word == "complete":  # bash, fish
            lines.append(re.sub(rf"\b{first}\b", second, line))
    return "\n".join(lines) + "\n"
