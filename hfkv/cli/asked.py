"""Answer a shell that completes a command line, or asks for its script.

click does it, but for `--gpu=a100`: bash makes three words of it, zsh and fish take the answer
for the whole word.
"""

from __future__ import annotations

import os

from click.shell_completion import (
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

from hfkv.cli.group import COMPLETE, NAMES, group

__all__ = ["answer_shell"]


class _WholeWord(ShellComplete):
    """Completions that have what stands before the `=` too."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return what may stand in place of the whole word."""
        found = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if not (equals and option.startswith("-")):
            return found
        return [
            CompletionItem(f"{option}={item.value}", item.type, item.help)
            for item in found
            if item.type == "plain"
        ]


class _Zsh(_WholeWord, ZshComplete):
    """As click's."""


class _Fish(_WholeWord, FishComplete):
    """As click's."""


def answer_shell() -> int:
    """Write what may come next; a failure must not write into somebody's command line."""
    add_completion_class(_Zsh)
    add_completion_class(_Fish)
    _join_options()
    try:
        group.main([], prog_name=NAMES[0], complete_var=COMPLETE)
    except SystemExit as done:
        return int(done.code or 0)
    except Exception:  # noqa: BLE001  nothing to offer
        return 1


def _join_options() -> None:
    """Take the word `=` out of what bash says: click expects the option and its value."""
    place = os.environ.get("COMP_CWORD", "")
    if os.environ[COMPLETE] != "bash_complete" or not place.isdecimal():
        return
    typed = os.environ.get("COMP_WORDS", "")
    between = "\n" if "\n" in typed else " "
    words = typed.split(between)
    before = [word for word in words[: int(place)] if word != "="]
    os.environ["COMP_WORDS"] = between.join((*before, *words[int(place) :]))
    os.environ["COMP_CWORD"] = str(len(before))
