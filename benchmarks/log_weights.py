"""The weights that servers say they loaded, against the headers or index of the checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
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


def weights_off(cases: list[LogCase]) -> Iterator[tuple[LogCase, str, float, float]]:
    """Yield what vLLM printed as loaded and what hfkv says it will print, GiB a rank."""
    for c in cases:
        printed = c.row.get("weights_gib")
        if not printed or c.engine != "vllm" or c.options.keys() & {"dtype", "pooling"}:
            continue
        if c.model in INDEXED:
            size = weights_per_rank(c.arch, INDEXED[c.model], tp=c.ranks[0], pp=c.ranks[1])
            yield c, f"{c.model} (index)", printed, (size + 2 * c.positions) / GIB
            continue
        found = _checkpoint(c)
        if found is not None:
            name, files = found
            yield c, name, printed, _loaded(c, files) / GIB


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


def _loaded(case: LogCase, files: ModelFiles) -> int:
    """Return what hfkv says that vLLM will say it loaded."""
    answers = _fit(case, files).answers
    assert answers is not None
    assert answers.start_up is not None
    assert answers.start_up.loaded_bytes is not None
    return answers.start_up.loaded_bytes


def pools_off(cases: list[LogCase]) -> list[float]:
    """Return how far the memory for the cache is off by hfkv's weights, not the printed ones."""
    off = []
    for c in cases:
        plain = c.engine == "vllm" and "dtype" not in c.options
        found, served = (pool(c), _checkpoint(c)) if plain else (None, None)
        if found and served:
            room = _fit(c, served[1]).kv_pool_bytes_per_gpu / GIB
            off.append(abs(room / found.printed - 1))
    return sorted(off)


def unexplained_weights(cases: list[LogCase]) -> Iterator[str]:
    """Yield what is further off than it may be."""
    for c, name, printed, predicted in weights_off(cases):
        if abs(predicted / printed - 1) > WEIGHTS:
            yield f"weights, {c.id} ({name}): {predicted / printed - 1:+.1%}"


def weight_lines(cases: list[LogCase]) -> Iterator[str]:
    """Yield the report on weights, one by one."""
    yield "\n## Weights against header sets\n"
    found = list(weights_off(cases))
    off = [abs(predicted / printed - 1) for _, _, printed, predicted in found]
    close = sum(error <= WEIGHTS for error in off)
    yield (
        f"What vLLM printed as `Model loading took` and what hfkv says it will print: {close} of "
        f"{len(off)}\nare within 1 %, the median is {median(off):.2%} off. {_COUNTED}"
    )
    yield heading("log", "header set", "TP x PP", "printed", "predicted", "error")
    for c, name, printed, predicted in found:
        tp, pp = c.ranks
        yield (
            f"| {c.id} | {name} | {tp} x {pp} | {printed:.2f} "
            f"| {predicted:.2f} | {predicted / printed - 1:+.2%} |"
        )
    pools = pools_off(cases)
    yield (
        "\nBy these weights, not the printed ones, the memory for the cache is "
        f"{median(pools):.2%} off in the\nmedian of {len(pools)} logs and "
        f"{pools[math.ceil(len(pools) * 0.9) - 1]:.2%} at the 90th percentile.\n"
    )
