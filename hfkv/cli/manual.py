"""What --help says below the options: examples, exit codes, environment, what else to look at.

A command's own are in `MANUALS`; the words that several share stand here once.
"""

from __future__ import annotations

from typing import NamedTuple

import click

__all__ = ["MANUALS", "Manual", "write_manual"]

_EXITS = {
    0: "Done.",
    1: "A given GPU was to hold it, and none does (--fail-if-not-fit).",
    2: "Wrong usage, or the output cannot be written.",
    3: "Nothing could be read: not found, private, offline, network, rate limit.",
    4: "It was read and is malformed: bad JSON, a lying header, a truncated file.",
    5: "It was read, and its cache cannot be sized honestly; what is known is told.",
    70: "A bug in hfkv: please report the lines above the message.",
    130: "Interrupted.",
}
_ENDS = (0, 2, 70, 130)

_HUB = {
    "HF_ENDPOINT": "The Hub, or a mirror of it. [default: https://huggingface.co]",
    "HF_TOKEN": "The token, before the login that `hf auth login` stored.",
    "HF_TOKEN_PATH": "The file of the stored login. [default: HF_HOME/token]",
    "HF_OIDC_RESOURCE": "In CI: have a token made for it, as a trusted publisher.",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1: send no token but that of --token.",
    "HF_HOME": "Where `hf` keeps its things. [default: ~/.cache/huggingface]",
    "HF_HUB_CACHE": "What `hf` has downloaded; read when offline. [default: HF_HOME/hub]",
    "HF_HUB_OFFLINE": "1: as --offline; TRANSFORMERS_OFFLINE too.",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1: as --no-progress.",
    "HFKV_CACHE": "Where hfkv keeps what it read, without weights or tokens.",
    "HFKV_ONE_REQUEST": "0: do not ask the Hub for all headers at once.",
    "HTTPS_PROXY, NO_PROXY": "The way out, and what needs none.",
    "REQUESTS_CA_BUNDLE": "Certificates that a server is trusted by.",
}
_ENVIRONMENT = {
    **_HUB,
    "NO_COLOR": "Anything: as --no-color.",
    "COLUMNS": "How wide text is. [default: the terminal's width, else 80]",
    "GITHUB_ACTIONS": "Set by GitHub: failures and warnings are annotations too.",
    "SHELL": "The shell, when none is named.",
}
_SCREEN = ("NO_COLOR", "COLUMNS")


class Manual(NamedTuple):
    """Exit codes (words of its own where they differ), environment variables, see also."""

    exits: dict[int, str]
    environment: tuple[str, ...]
    see: tuple[str, ...]


def _exits(*more: int, **own: str) -> dict[int, str]:
    words = {int(code.removeprefix("_")): said for code, said in own.items()}
    return {code: words.get(code, _EXITS[code]) for code in sorted({*_ENDS, *more, *words})}


_CACHE = Manual(_exits(), ("HFKV_CACHE",), ("hfkv inspect --help", "hf cache --help"))

# command, as it is written after hfkv → what its manual says; "" is hfkv alone
MANUALS: dict[str, Manual] = {
    "": Manual(
        _exits(3, 4, 5, _1="A check failed, or no given GPU holds it."),
        (*_HUB, *_SCREEN),
        ("hfkv COMMAND --help", "hf --help"),
    ),
    "inspect": Manual(
        _exits(1, 3, 4, 5),
        (*_HUB, *_SCREEN),
        ("hfkv compare --help", "hfkv check --help", "hfkv gpus"),
    ),
    "compare": Manual(
        _exits(3, 4, 5, _0="At least one model was read; else the code of the first that was not."),
        (*_HUB, *_SCREEN),
        ("hfkv inspect --help", "hfkv scan --help"),
    ),
    "check": Manual(
        _exits(_0="All checks passed.", _1="A check failed, or warned under --fail-on warn."),
        (*_HUB, *_SCREEN, "GITHUB_ACTIONS"),
        ("hfkv inspect --help", "hf download --help"),
    ),
    "kv": Manual(_exits(), _SCREEN, ("hfkv inspect --help", "hfkv gpus")),
    "gpus": Manual(_exits(), _SCREEN, ("hfkv inspect --help",)),
    "families": Manual(_exits(), _SCREEN, ("hfkv inspect --help",)),
    "scan": Manual(
        _exits(
            _0="Done, also where some models could not be read: their lines say why.",
            _3="None of them could be read.",
        ),
        tuple(_HUB),
        ("hfkv inspect --help", "hfkv compare --help"),
    ),
    "snapshot": Manual(_exits(3, 4), tuple(_HUB), ("hfkv inspect --help",)),
    "cache": _CACHE,
    "cache info": _CACHE,
    "cache clear": _CACHE,
    "completion": Manual(_exits(), ("SHELL",), ("hfkv --help", "hf --install-completion")),
}


def write_manual(ctx: click.Context, formatter: click.HelpFormatter, examples: str | None) -> None:
    """Write what stands below the options of the command that is asked about."""
    name = " ".join(_below_root(ctx))
    manual = MANUALS[name]
    if examples:
        with formatter.section("Examples"):
            for line in examples.splitlines():
                formatter.write(f"  {line}\n" if line else "\n")
    with formatter.section("Exit codes"):
        formatter.write_dl([(str(code), said) for code, said in manual.exits.items()])
    with formatter.section("Environment"):
        formatter.write_dl([(one, _ENVIRONMENT[one]) for one in manual.environment], col_max=20)
    with formatter.section("See also"):
        formatter.write_text(", ".join(manual.see))


def _below_root(ctx: click.Context) -> list[str]:
    names: list[str] = []
    while ctx.parent is not None:
        names.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    return names
