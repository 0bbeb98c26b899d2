"""The weights that servers say they loaded, against the headers or index of the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from log_cases import GIB, LogCase

from hfkv.core.parallel import weights_per_rank
from hfkv.core.portions import Shares
from hfkv.core.snapshots import loads
from hfkv.core.weights import weigh

MODELS = Path(__file__).parent.parent / "fixtures" / "models"
WEIGHTS = 0.01  # of what a server says it loaded

# Total sizes that the index of a checkpoint claims, where its headers are not at hand: a key
# of cases.tsv, bytes in 16 bit, and what the log's own checkpoint has in common with it.
INDEXED = {
    "google--gemma-2-2b-it": 5_228_683_776,
    "microsoft--phi-2": 11_118_735_360 // 2,  # stored in float32
    "microsoft/Phi-3-mini-4k-instruct": 7_642_159_104,  # the index of the 128k one: same shapes
    "openai--gpt-oss-20b": 13_761_264_768,
}
# Why a printed figure is more than 1 % off, by log.
_ROCM = (
    "on ROCm vLLM prints what the device has in use, contexts and libraries included "
    "(platforms/rocm.py, `get_current_memory_usage` is total - free); CUDA prints what torch "
    "allocated"
)
_MXFP4 = (
    "vLLM pads mxfp4 experts for its kernels (quantization/mxfp4.py): Marlin rounds 2880 to 3072 "
    "hidden and 2944 intermediate, 9.46 GiB of experts become 10.31, and all of it 13.69"
)
WEIGHTS_EXPLAINED = {
    "L250": _ROCM,
    "L251": _ROCM,
    "L138": _MXFP4,
    "L192": _MXFP4,
    "L039": "mxfp4 experts are padded as in L138; 1440 a rank become 1536",
    "L069": "mxfp4 experts are padded as in L138; 720 a rank become 768 or more",
}


def heading(*names: str) -> str:
    """Return the first two lines of a Markdown table."""
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}"


# 31,412,968,448 bytes; of those 71 MB are copied, and 20 MiB of positions come on top.
_LATENT = """
The header set of DeepSeek-V2-Lite has query projections of rank 1536; the published config has none
(`q_lora_rank` is null), and by its shapes the three are -0.5, -1.0 and -1.7 % off: 0.13 to 0.15 GiB
on a rank, at TP 4 as at TP 1, that nobody has explained.
"""


def weights_off(cases: list[LogCase]) -> Iterator[tuple[LogCase, str, float, float]]:
    """Yield printed weights and those of the headers or index at hand, GiB a rank."""
    at_hand = {path.name.removesuffix(".hfkv.json"): path for path in MODELS.glob("*.hfkv.json")}
    aliases = {"meta-llama--Meta-Llama-3.1-8B": "meta-llama--Llama-3.1-8B"}
    for c in cases:
        path = at_hand.get(aliases.get(c.model, c.model))
        printed = c.row.get("weights_gib")
        if not printed or c.engine != "vllm" or "dtype" in c.options:
            continue
        if c.model in INDEXED:  # the header set of gpt-oss is in bf16, the checkpoint in mxfp4
            size = weights_per_rank(c.arch, INDEXED[c.model], tp=c.ranks[0], pp=c.ranks[1])
            yield c, f"{c.model} (index)", printed, (size + 2 * c.positions) / GIB
            continue
        if path is None or c.row.get("quantization"):
            continue
        report = weigh(loads(path.read_bytes(), where=path.name))
        if report is not None:
            tp, pp = c.ranks
            shares = Shares(report.portions, c.arch, padding=64)
            size = weights_per_rank(c.arch, report.loaded_bytes, shares, tp=tp, pp=pp)
            yield c, path.name, printed, (size + 2 * c.positions) / GIB


def unexplained_weights(cases: list[LogCase]) -> Iterator[str]:
    """Yield what is further off than it may be, and nobody knows why."""
    for c, name, printed, predicted in weights_off(cases):
        if abs(predicted / printed - 1) > WEIGHTS and c.id not in WEIGHTS_EXPLAINED:
            yield f"weights, {c.id} ({name}): {predicted / printed - 1:+.1%}"


def weight_lines(cases: list[LogCase]) -> Iterator[str]:
    """Yield the report on weights, one by one."""
    yield "\n## Weights against header sets\n"
    found = list(weights_off(cases))
    off = [abs(predicted / printed - 1) for _, _, printed, predicted in found]
    close = sum(error <= WEIGHTS for error in off)
    yield (
        f"{close} of {len(off)} are within 1 %, the median is {median(off):.2%} off. With the\n"
        "tables of rotary positions that vLLM builds and counts as loaded.\n"
    )
    yield heading("log", "header set", "TP x PP", "printed", "predicted", "error", "why")
    for c, name, printed, predicted in found:
        tp, pp = c.ranks
        why = "" if abs(predicted / printed - 1) <= WEIGHTS else WEIGHTS_EXPLAINED.get(c.id)
        yield (
            f"| {c.id} | {name.removesuffix('.hfkv.json')} | {tp} x {pp} | {printed:.2f} "
            f"| {predicted:.2f} | {predicted / printed - 1:+.2%} "
            f"| {'not explained' if why is None else why} |"
        )
    yield _LATENT
