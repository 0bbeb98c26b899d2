"""The options that commands share, in the sections that --help shows them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from hfkv.cli import params
from hfkv.cli.params import EngineName, Written, complete_gpu

__all__ = [
    "SectionedCommand",
    "chatter_options",
    "engine_options",
    "gpu_options",
    "inspect_options",
    "network_options",
    "option",
    "output_options",
    "source_options",
    "together",
    "work_options",
]

_COUNT = Written("n", params.whole)
_SOURCE = "Where it is read from"

Function = TypeVar("Function", bound=Callable[..., Any])


class SectionedOption(click.Option):
    """An option that knows the section of --help it belongs to."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose --help lists its options by section."""

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
            help="Use this config.json instead of the target's.",
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
            type=Written("seconds", params.seconds),
            default="60",
            show_default=True,
            section=_SOURCE,
            help="Seconds until the network is given up.",
        ),
    )(function)


def work_options(function: Function) -> Function:
    """Add what says how much is to be kept."""
    section = "What it has to hold"
    return together(
        option(
            "-c",
            "--context",
            "--max-model-len",
            "--ctx",
            "context",
            type=Written("tokens", params.context),
            section=section,
            help="Tokens of each sequence: 8192, 32k, 1m, max. [default: the model's maximum]",
        ),
        option(
            "-b",
            "--concurrency",
            "--batch",
            "--batch-size",
            "concurrency",
            type=_COUNT,
            section=section,
            help="Sequences resident at once. [default: 1]",
        ),
        option(
            "--seq-lens",
            type=Written("lengths", params.lengths),
            section=section,
            help="The real lengths instead: 1200,8k,32k.",
        ),
        option(
            "--kv-dtype",
            "--kv-cache-dtype",
            "kv_dtype",
            default="auto",
            metavar="DTYPE",
            section=section,
            help="auto, bf16, fp16, fp32, fp8, int8, q8_0, q4_0, int4, nvfp4 … [default: auto,"
            " what the checkpoint declares]",
        ),
        option(
            "--source-tokens",
            type=Written("tokens", params.source_tokens),
            section=section,
            help="Encoder or image positions under cross-attention. [default: the model's maximum]",
        ),
    )(function)


def engine_options(function: Function) -> Function:
    """Add what says by which engine it is kept, and under which of its limits."""
    section = "By which engine"
    return together(
        option(
            "--engine",
            type=EngineName(),
            default="none",
            show_default=True,
            section=section,
            help="none is the raw need; an engine adds its own rules.",
        ),
        option(
            "--engine-version",
            metavar="VERSION",
            section=section,
            help="Release whose rules apply. [default: the newest known]",
        ),
        option(
            "--max-num-batched-tokens",
            type=_COUNT,
            section=section,
            help="The engine's limit of tokens a step. [default: the engine's]",
        ),
        option(
            "--max-num-seqs",
            type=_COUNT,
            section=section,
            help="The engine's limit of sequences. [default: the engine's]",
        ),
    )(function)


def gpu_options(function: Function) -> Function:
    """Add what says on which hardware, and how it is shared out."""
    section = "On which hardware"
    return together(
        option(
            "-g",
            "--gpu",
            "gpus",
            metavar="GPU",
            shell_complete=complete_gpu,
            multiple=True,
            section=section,
            help="a100-80, h100:4, 4xrtx4090, 24gb, 24gib:2, auto (this machine), all. Repeatable.",
        ),
        option(
            "--tp",
            "--tensor-parallel-size",
            "tensor_parallel_size",
            type=_COUNT,
            section=section,
            help="Tensor parallel size. [default: the number of GPUs]",
        ),
        option(
            "--pp",
            "--pipeline-parallel-size",
            "pipeline_parallel_size",
            type=_COUNT,
            default=1,
            show_default=True,
            section=section,
            help="Pipeline parallel size.",
        ),
        option(
            "--utilization",
            "--gpu-memory-utilization",
            "utilization",
            type=Written("share", params.share),
            section=section,
            help="Share of each GPU the engine may take. [default: the engine's, else 0.9]",
        ),
        option(
            "--overhead",
            type=Written("size", params.size),
            section=section,
            help="Activations and runtime on each GPU, such as 2gib. [default: estimated]",
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
            help="[default: text]",
        ),
        option("--json", "as_json", is_flag=True, section=section, help="The same as -f json."),
        option(
            "-o",
            "--output",
            "output_path",
            metavar="FILE",
            section=section,
            help="Write there instead of to standard output.",
        ),
        option("--no-color", is_flag=True, section=section, help="No colour (as with NO_COLOR)."),
    )
