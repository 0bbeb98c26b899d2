"""The weights that servers say they loaded, against the headers or index of the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from statistics import median

from log_cases import GIB, LogCase, config_of

from hfkv.core.engines.mxfp4 import UNPADDED
from hfkv.core.engines.vllm_mxfp4 import mxfp4_kernel
from hfkv.core.files import ModelFiles, Target, TensorGroup
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
}
# Why a printed figure is more than 1 % off, by log.
_ROCM = (
    "on ROCm vLLM prints what the device has in use, contexts and libraries included "
    "(platforms/rocm.py, `get_current_memory_usage` is total - free); CUDA prints what torch "
    "allocated"
)
WEIGHTS_EXPLAINED = {
    "L250": _ROCM,
    "L251": _ROCM,
    "L069": "torch hands out steps of 2 MiB and splits off no less than 1: of the 60 MiB missing, "
    "30 are the rest of two expert matrices a layer (69.0 in 70, 33.75 in 34), 6 float32 biases",
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


def gpt_oss_20b() -> ModelFiles:
    """Return gpt-oss-20b as it was published, by its shapes: the header set at hand is in bf16.

    They sum to the 13,761,264,768 bytes that its index claims.
    """
    attention = {"q_proj": (4096, 2880), "o_proj": (2880, 4096)}
    attention |= dict.fromkeys(("k_proj", "v_proj"), (512, 2880))
    shapes: dict[str, tuple[int, ...]] = {"self_attn.sinks": (64,)}
    for name, (rows, columns) in {**attention, "router": (32, 2880)}.items():
        path = "mlp.router" if name == "router" else f"self_attn.{name}"
        shapes |= {f"{path}.weight": (rows, columns), f"{path}.bias": (rows,)}
    shapes |= dict.fromkeys(("input_layernorm.weight", "post_attention_layernorm.weight"), (2880,))
    for name, rows in (("gate_up_proj", 5760), ("down_proj", 2880)):
        path = f"mlp.experts.{name}"
        shapes |= {f"{path}_blocks": (32, rows, 90, 16), f"{path}_scales": (32, rows, 90)}
        shapes |= {f"{path}_bias": (32, rows)}
    tensors = [_group(f"model.layers.{{}}.{name}", shape, 24) for name, shape in shapes.items()]
    tensors += [_group("model.norm.weight", (2880,))]
    tensors += [
        _group(f"{name}.weight", (201_088, 2880)) for name in ("lm_head", "model.embed_tokens")
    ]
    config = config_of("openai--gpt-oss-20b")
    target = Target(kind="file", id="openai/gpt-oss-20b")
    return ModelFiles(target=target, config=config, tensors=tuple(tensors))


def _group(name: str, shape: tuple[int, ...], layers: int = 0) -> TensorGroup:
    packed = name.endswith(("_blocks", "_scales"))
    return TensorGroup(
        name=name,
        dtype="U8" if packed else "BF16",
        shape=shape,
        nbytes=prod(shape) * (1 if packed else 2),
        count=layers or 1,
        layers=tuple(range(layers)),
    )


def weights_off(cases: list[LogCase]) -> Iterator[tuple[LogCase, str, float, float]]:
    """Yield printed weights and those of the headers or index at hand, GiB a rank."""
    at_hand = {path.name.removesuffix(".hfkv.json"): path for path in MODELS.glob("*.hfkv.json")}
    aliases = {"meta-llama--Meta-Llama-3.1-8B": "meta-llama--Llama-3.1-8B"}
    for c in cases:
        path = at_hand.get(aliases.get(c.model, c.model))
        printed = c.row.get("weights_gib")
        if not printed or c.engine != "vllm" or "dtype" in c.options:
            continue
        if c.model in INDEXED:
            size = weights_per_rank(c.arch, INDEXED[c.model], tp=c.ranks[0], pp=c.ranks[1])
            yield c, f"{c.model} (index)", printed, (size + 2 * c.positions) / GIB
            continue
        name, files = c.model, None
        if "gpt-oss" in c.model:
            name, files = f"{c.model} (published shapes)", gpt_oss_20b()
        elif path is not None and not c.row.get("quantization"):
            name, files = path.name, loads(path.read_bytes(), where=path.name)
        report = weigh(files) if files else None
        if report is not None:
            tp, pp = c.ranks
            shares = Shares(report.portions, c.arch, padding=64)
            kernel = mxfp4_kernel(c.gpu, c.version) if c.gpu else UNPADDED
            size = weights_per_rank(
                c.arch, report.loaded_bytes, shares, tp=tp, pp=pp, kernel=kernel
            )
            yield c, name, printed, (size + 2 * c.positions) / GIB


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
