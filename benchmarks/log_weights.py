"""The weights that servers say they loaded, against the headers or index of the checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from log_cases import GIB, LogCase, pool
from published_shapes import deepseek_v2_lite, dense, gpt_oss_20b

from hfkv.core.files import ModelFiles
from hfkv.core.fit import FitReport
from hfkv.core.gpus import parse_gpu
from hfkv.core.report import analyze
from hfkv.core.shares import weights_per_rank
from hfkv.core.snapshots import loads

MODELS = Path(__file__).parent.parent / "fixtures" / "models"
WEIGHTS = 0.01  # of what a server says it loaded

# Total sizes that the index of a checkpoint claims, where its headers are not at hand: a key
# of cases.tsv, bytes in 16 bit, and what the log's own checkpoint has in common with it.
INDEXED = {
    "microsoft--phi-2": 11_118_735_360 // 2,  # stored in float32
    "microsoft/Phi-3-mini-4k-instruct": 7_642_159_104,  # the index of the 128k one: same shapes
}
# Checkpoints of which no header set is at hand, or that of something else.
PUBLISHED: dict[str, Callable[[], ModelFiles]] = {
    "openai--gpt-oss-20b": gpt_oss_20b,
    "deepseek-ai--DeepSeek-V2-Lite": deepseek_v2_lite,
    **{
        model: partial(dense, model)
        for model in (
            "moonshotai/Kimi-Dev-72B",
            "Qwen/Qwen2.5-14B-Instruct",
            "Qwen/Qwen2.5-32B-Instruct",
            "Qwen--Qwen3-8B",
        )
    },
    **{
        model: partial(dense, model, tied=True)
        for model in (
            "google--gemma-2-2b-it",
            "google/gemma-7b",
            "ibm-granite/granite-3.3-8b-instruct",
            "Qwen/Qwen2.5-1.5B-Instruct",
            "Qwen/Qwen2.5-3B-Instruct",
        )
    },
}
# Header sets of the same shapes under other names: the model of a log.
_SAME_SHAPES = {
    "google/gemma-4-26B-A4B-it": "google--gemma-4-26B-A4B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama--Llama-3.1-8B",
}
# Those of which there are logs in 8 bit, and what such a log says of its format.
_EIGHT_BIT = ("compressed-tensors", "fp8")
_IN_EIGHT_BIT = (
    "meta-llama/Llama-3.3-70B-Instruct",
    "meta-llama--Meta-Llama-3.1-8B",
    "Qwen--Qwen2.5-7B-Instruct",
)


_COUNTED = """Beside the weights
it counts the tables of rotary positions, the rests of segments that torch does not split off, and
128 MiB of MLA workspace. Where only the total of an index is known (index) the rests are not. Where
no header set is at hand, or one of something else (gpt-oss-20b in bf16, and DeepSeek-V2-Lite with
query projections of rank 1536 that the published config does not have), the shapes are those that
the class makes of the published config; of those two they sum to the bytes of the index. On the
MI300X (L250, L251) vLLM up to 0.20 prints what the device has in use; what ROCm takes of that is
estimated from these two logs (324 MiB) and one of an RX 9070 (60 MiB): 192 MiB are counted.
"""


def heading(*names: str) -> str:
    """Return the first two lines of a Markdown table."""
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}"


@dataclass(frozen=True)
class Served:
    """What a log's vLLM printed as loaded and what hfkv says it will, GiB a rank.

    `room` is what hfkv leaves for the cache by these weights, `printed_room` what the log did;
    None where the log has none, or only the total of an index is known.
    """

    case: LogCase
    name: str
    printed: float
    predicted: float
    room: float | None = None
    printed_room: float | None = None

    @property
    def error(self) -> float:
        """Return how far the prediction is off, as a share of what was printed."""
        return self.predicted / self.printed - 1


def served(cases: list[LogCase]) -> list[Served]:
    """Return the logs of vLLM whose checkpoints are known, in the order of the cases."""
    return [found for case in cases if (found := _served(case))]


def _served(c: LogCase) -> Served | None:
    printed = c.row.get("weights_gib")
    if not printed or c.engine != "vllm" or c.options.keys() & {"dtype", "pooling"}:
        return None
    if c.model in INDEXED:
        size = weights_per_rank(c.arch, INDEXED[c.model], tp=c.ranks[0], pp=c.ranks[1])
        return Served(c, f"{c.model} (index)", printed, (size + 2 * c.positions) / GIB)
    checkpoint, memory = _checkpoint(c), pool(c)
    if checkpoint is None:
        return None
    name, files = checkpoint
    answer = _fit(c, files)
    assert answer.answers is not None
    assert answer.answers.start_up is not None
    assert answer.answers.start_up.loaded_bytes is not None
    return Served(
        case=c,
        name=name,
        printed=printed,
        predicted=answer.answers.start_up.loaded_bytes / GIB,
        room=answer.kv_pool_bytes_per_gpu / GIB,
        printed_room=memory.printed if memory else None,
    )


def _checkpoint(case: LogCase) -> tuple[str, ModelFiles] | None:
    """Return the checkpoint of a log by its published shapes or its headers, with its name."""
    quantization = case.row.get("quantization")
    if case.model in PUBLISHED:
        return f"{case.model} (published shapes)", PUBLISHED[case.model]()
    if quantization in _EIGHT_BIT and case.model in _IN_EIGHT_BIT:
        return f"{case.model} (shapes, in 8 bit)", dense(case.model, eight_bit=True)
    name = _SAME_SHAPES.get(case.row["model"], case.model)
    path = MODELS / f"{name}.hfkv.json"
    if quantization or not path.exists():
        return None
    return name, loads(path.read_bytes(), where=path.name)


def _fit(case: LogCase, files: ModelFiles) -> FitReport:
    """Return hfkv's answer for what was served; a card that is not named is an H100."""
    work, (tp, pp) = case.workload, case.ranks
    if not work.deployment.gpus:
        gpu = replace(parse_gpu("h100")[0], count=tp * pp)
        work = replace(work, deployment=replace(work.deployment, gpus=(gpu,)))
    return analyze(files, work).fit[0]


def unexplained_weights(found: list[Served]) -> Iterator[str]:
    """Yield what is further off than it may be."""
    for x in found:
        if abs(x.error) > WEIGHTS:
            yield f"weights, {x.case.id} ({x.name}): {x.error:+.1%}"


def weight_lines(found: list[Served]) -> Iterator[str]:
    """Yield the report on weights, one by one."""
    yield "\n## Weights against header sets\n"
    off = [abs(x.error) for x in found]
    close = sum(error <= WEIGHTS for error in off)
    yield (
        f"What vLLM printed as `Model loading took` and what hfkv says it will print: {close} of "
        f"{len(off)}\nare within 1 %, the median is {median(off):.2%} off. {_COUNTED}"
    )
    yield heading("log", "header set", "TP x PP", "printed", "predicted", "error")
    for x in found:
        tp, pp = x.case.ranks
        yield (
            f"| {x.case.id} | {x.name} | {tp} x {pp} | {x.printed:.2f} "
            f"| {x.predicted:.2f} | {x.error:+.2%} |"
        )
    pools = sorted(abs(x.room / x.printed_room - 1) for x in found if x.room and x.printed_room)
    yield (
        "\nBy these weights, not the printed ones, the memory for the cache is "
        f"{median(pools):.2%} off in the\nmedian of {len(pools)} logs and "
        f"{pools[math.ceil(len(pools) * 0.9) - 1]:.2%} at the 90th percentile.\n"
    )
