"""`hfkv kv`: the calculator, for structures that have no repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from hfkv.api.request import hardware_of
from hfkv.cli import complete
from hfkv.cli.options import (
    SectionedCommand,
    option,
    output_options,
    together,
)
from hfkv.cli.output import Output
from hfkv.cli.params import Written
from hfkv.cli.workload_options import gpu_options
from hfkv.core import written
from hfkv.core.account import Account, Request, account, stated_weights
from hfkv.core.calculator import derive

__all__ = ["command"]

_EXAMPLES = """\
hfkv kv --layers 32 --kv-heads 8 --head-dim 128 --context 32k --batch 4
hfkv kv --layers 32 --hidden 4096 --heads 32 -c 4k,32k,128k -b 1,8
hfkv kv --layers 61 --mla 512+64 -c 128k --kv-dtype fp8
hfkv kv --layers 62 --kv-heads 16 --head-dim 128 --window 1024:5/6 -c 128k
hfkv kv --layers 32 --kv-heads 8 --head-dim 128 -c 8k \\
  --gpu 24gib --parameters 8b --weights-dtype int4
"""

_COUNT = Written("n", written.whole)
_BUILT, _HELD, _WEIGHTS = "How it is built", "What it has to hold", "The weights beside it"

_structure_options = together(
    option("--layers", type=_COUNT, required=True, section=_BUILT, help="Number of layers."),
    option("--kv-heads", type=_COUNT, section=_BUILT, help="KV heads. [default: all heads]"),
    option("--head-dim", type=_COUNT, section=_BUILT, help="Head width. [default: hidden/heads]"),
    option("--heads", type=_COUNT, section=_BUILT, help="Attention heads."),
    option("--hidden", type=_COUNT, section=_BUILT, help="Hidden size."),
    option(
        "--mla",
        "latent",
        type=Written("n+n", written.latent),
        section=_BUILT,
        help="Latent attention: the width of its vector, such as 512+64.",
    ),
    option(
        "--window",
        type=Written("tokens[:n/n]", written.window),
        section=_BUILT,
        help="Window: 4096, or 4096:5/6 in 5 of every 6 layers.",
    ),
)
_work_options = together(
    option(
        "-c",
        "--context",
        "--max-model-len",
        "--ctx",
        "contexts",
        type=Written("lengths", written.lengths),
        multiple=True,
        section=_HELD,
        help="Tokens of each sequence, or several: 4k,32k. Repeatable. [default: 4096]",
    ),
    option(
        "-b",
        "--batch",
        "--concurrency",
        "--batch-size",
        "batches",
        type=Written("counts", written.counts),
        multiple=True,
        section=_HELD,
        help="Sequences resident at once, or several: 1,8. Repeatable. [default: 1]",
    ),
    option(
        "--kv-dtype",
        "--kv-cache-dtype",
        "kv_dtype",
        default="bf16",
        show_default=True,
        metavar="DTYPE",
        shell_complete=complete.kv_dtype,
        section=_HELD,
        help="bf16, fp16, fp32, fp8, int8, q8_0, q4_0, int4, nvfp4 …",
    ),
    option(
        "--in-use",
        type=Written("share", written.share),
        section=_HELD,
        help="Share of the reserved cache that holds tokens, such as 80% under paging.",
    ),
)
_weights_options = together(
    option(
        "--weights",
        type=Written("size", written.size),
        section=_WEIGHTS,
        help="Their size, such as 16gib.",
    ),
    option(
        "--parameters",
        type=Written("n", written.parameters),
        section=_WEIGHTS,
        help="Or their number: 7b, 350m.",
    ),
    option(
        "--weights-dtype",
        metavar="DTYPE",
        shell_complete=complete.weights_dtype,
        section=_WEIGHTS,
        help="Format of the parameters, without scales. [default: bf16]",
    ),
)


@click.command("kv", cls=SectionedCommand, epilog=_EXAMPLES)
@_structure_options
@_work_options
@_weights_options
@gpu_options
@output_options("text", "json", "md", "csv")
def command(**given: Any) -> int:
    """Size the cache of a structure that has no repository.

    Several contexts or batches give a table; the savings are shown one after the other. The
    full answer is for the longest context at the largest batch.
    """
    output = Output.of(given)
    output.write(_told(_answer(given), output))
    return 0


def _answer(given: Mapping[str, Any]) -> Account:
    names = ("layers", "kv_heads", "heads", "head_dim", "hidden", "latent", "window")
    weights = stated_weights(
        size=given["weights"], parameters=given["parameters"], dtype=given["weights_dtype"]
    )
    request = Request(
        contexts=tuple(n for lengths in given["contexts"] for n in lengths) or (4096,),
        sequences=tuple(n for counts in given["batches"] for n in counts) or (1,),
        kv_dtype=given["kv_dtype"],
        weights=weights,
        in_use=given["in_use"],
        deployment=hardware_of(given),
    )
    return account(derive(**{name: given[name] for name in names}), request)


def _told(answer: Account, output: Output) -> str:
    """Return the answer in the format that was asked for; only that one is imported."""
    if output.format == "json":
        from hfkv.render.documents import dumps  # noqa: PLC0415
        from hfkv.render.kv import kv_document  # noqa: PLC0415

        return dumps(kv_document(answer))
    if output.format in ("md", "csv"):
        from hfkv.render.kv import kv_csv, kv_markdown  # noqa: PLC0415

        return kv_csv(answer) if output.format == "csv" else kv_markdown(answer)
    from hfkv.render.text_kv import kv_text  # noqa: PLC0415

    return kv_text(answer, output.style)
