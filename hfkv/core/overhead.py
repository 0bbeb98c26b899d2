"""What an engine spends on neither weights nor cache, in parts, each with a range.

Every figure is an estimate. `benchmarks/fit_overhead.py` derives the constants from start-up
logs of real servers and shows how far off they are (`benchmarks/logs_report.md`); most of
the logs are vLLM's. A person who disagrees with one part can see it by itself.
"""

from __future__ import annotations

from fractions import Fraction

from hfkv.core.architecture import Architecture
from hfkv.core.engines.llama_cpp import cells
from hfkv.core.engines.vllm_options import parse_version
from hfkv.core.gpus import BLACKWELL, capability, row_of
from hfkv.core.record import dataclass
from hfkv.core.workload import GpuChoice

__all__ = [
    "GRAPHS_COUNT_FROM",
    "EngineStep",
    "OverheadPart",
    "estimate_overhead",
    "loaded_beside_weights",
]

_MIB = 2**20
_GIB = 2**30

# From this version on vLLM takes captured graphs out of its share.
# Source: vLLM 0.20, v1/worker/gpu_worker.py.
GRAPHS_COUNT_FROM = (0, 20)

# Releases of vLLM whose MLA backends allocate 128 MiB as soon as they are looked at, FlashInfer's
# and CUTLASS's, and from which on ROCm's print is what torch allocated, as CUDA's always was.
# Source: vLLM 0.11 to 0.32, v1/attention/backends/mla/flashinfer_mla.py (`g_fi_workspace`) and
# cutlass_mla.py (`g_sm100_workspace`), platforms/cuda.py (`_get_backend_priorities`) and
# rocm.py (`get_current_memory_usage`).
_WORKSPACE = 128 * _MIB
_FLASHINFER_EAGERLY, _CUTLASS_EAGERLY = ((0, 11), (0, 25)), (0, 11)
_ROCM_PRINTS_TORCH = (0, 21)

_CAPTURES_GRAPHS = ("none", "vllm", "sglang", "trtllm")
_LLAMA_CPP = ("llama.cpp", "ollama")

# Cards from here on belong in servers: NVLink, larger workspaces, larger default batches.
_SERVER_CARD = 70 * _GIB

# Activation peak, fitted to vLLM 0.19 on H100s and to others whose profile was all prompt:
# bytes a token and hidden channel that stay alive, and that one layer adds; bytes a sequence
# and vocabulary entry of the sampler; what nothing explains.
_CARRIED = Fraction(5, 2)
_ATTENTION = Fraction(21, 2)
_MLP = 14  # split by tensor parallelism
_SAMPLER = Fraction(29, 2)
_EXPERT = 4  # two 16-bit vectors a token and active expert, kept for all layers
_REST = 41 * _MIB
# A vision or audio tower is profiled with its largest input: up to so much more.
_TOWER = 3 * _GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class OverheadPart:
    """One part of what is neither weights nor cache, in bytes per GPU.

    `bytes` is the likely figure; `low_bytes` and `high_bytes` are what one log in ten falls
    short of or exceeds (None: as likely). What is `loaded` is in the engine's own figure of
    what it loaded.
    """

    name: str
    bytes: int
    low_bytes: int | None = None
    high_bytes: int | None = None
    loaded: bool = False

    @property
    def low(self) -> int:
        """Return the least it may be."""
        return self.bytes if self.low_bytes is None else self.low_bytes

    @property
    def high(self) -> int:
        """Return the most it may be."""
        return self.bytes if self.high_bytes is None else self.high_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStep:
    """What an engine keeps memory ready for: tokens computed and sequences sampled at once."""

    batched_tokens: int
    max_num_seqs: int


def estimate_overhead(
    architecture: Architecture,
    step: EngineStep,
    gpu: GpuChoice,
    *,
    engine: str,
    version: str | None,
    budget: int,
    ranks: int,
    tokens: int = 0,
    eager: bool = False,
) -> tuple[OverheadPart, ...]:
    """Estimate what one GPU spends besides weights and cache, part by part.

    `budget` is the engine's share in bytes, `ranks` the tensor-parallel size, `tokens` the
    context of a sequence; who is `eager` captures no graphs. Parts that come to nothing are
    left out. SGLang takes its share of what is free once the context is made, and pays for the
    rest from outside of it.
    """
    if engine == "sglang":
        found = [_context(gpu, 0, ranks), _system(gpu)]
        parts = [_share_of(part, budget, gpu.memory_bytes) for part in found]
    else:
        parts = [_context(gpu, gpu.memory_bytes - budget, ranks)]
        parts += loaded_beside_weights(architecture, gpu, engine=engine, version=version)
    if engine in _LLAMA_CPP:
        parts += [_compute_buffer(architecture, step, tokens), _KEPT_FREE, _system(gpu)]
    elif engine != "sglang":
        parts += [
            _libraries(gpu),
            _communication(gpu, ranks),
            _activation_peak(architecture, step, ranks),
        ]
        outside = engine == "vllm" and parse_version(version) < GRAPHS_COUNT_FROM
        if engine in _CAPTURES_GRAPHS and not eager and not outside:
            parts.append(_graphs(step))
    return tuple(part for part in parts if part.high)


def loaded_beside_weights(
    architecture: Architecture, gpu: GpuChoice, *, engine: str, version: str | None
) -> tuple[OverheadPart, ...]:
    """Return what vLLM comes to hold beside the weights while it loads them.

    On ROCm up to 0.20 it prints what the device has in use, which was 324 MiB beyond the
    weights on an MI300X and 60 on an RX 9070.
    """
    if engine != "vllm":
        return ()
    release, row = parse_version(version), row_of(gpu.slug)
    if row is not None and row.vendor == "amd":
        return (
            OverheadPart(
                name="ROCm runtime",
                bytes=192 * _MIB,
                low_bytes=64 * _MIB,
                high_bytes=352 * _MIB,
                loaded=release < _ROCM_PRINTS_TORCH,
            ),
        )
    if architecture.attention != "MLA":
        return ()
    first, lazy = _FLASHINFER_EAGERLY
    size = _WORKSPACE if first <= release < lazy else 0
    if capability(gpu) == BLACKWELL and release >= _CUTLASS_EAGERLY:
        size += _WORKSPACE
    return (OverheadPart(name="MLA workspace", bytes=size, loaded=True),)


def _context(gpu: GpuChoice, unshared: int, ranks: int) -> OverheadPart:
    """Return what the device's context and its connections take beyond what is not shared.

    They are made before the share is counted and normally fit beside it: 0.51 GiB on an H100
    alone, 1.5 to 2.05 with others, 4.4 on a 288 GB card among eight; 300 MiB at least.
    """
    wired = ranks > 1 and gpu.memory_bytes >= _SERVER_CARD
    sizes = (300 * _MIB, 1536 * _MIB if wired else 512 * _MIB, _GIB)
    if wired:
        sizes = (sizes[0], sizes[1], max(2100 * _MIB, gpu.memory_bytes // 64))
    low, likely, high = (max(0, size - unshared) for size in sizes)
    return OverheadPart(name="device context", bytes=likely, low_bytes=low, high_bytes=high)


def _system(gpu: GpuChoice) -> OverheadPart:
    """Return what other programs hold of a memory that the GPU shares with them.

    A GB10 had 112.3 GiB of 119 to 122 free when a server began, another 101.5 of 121.7. A
    Metal limit already leaves room for them.
    """
    row = row_of(gpu.slug)
    shared = row is not None and row.unified and row.vendor != "apple"
    low, likely, high = (size * _GIB if shared else 0 for size in (1, 7, 20))
    return OverheadPart(name="other programs", bytes=likely, low_bytes=low, high_bytes=high)


def _share_of(part: OverheadPart, share: int, whole: int) -> OverheadPart:
    low, likely, high = (size * share // whole for size in (part.low, part.bytes, part.high))
    return OverheadPart(name=part.name, bytes=likely, low_bytes=low, high_bytes=high)


def _libraries(gpu: GpuChoice) -> OverheadPart:
    """Return workspaces of cuBLAS and attention kernels: 0.25 GiB on an H100, near none on a T4.

    An MI300X had 0.66 GiB.
    """
    row = row_of(gpu.slug)
    most = 676 if row is not None and row.vendor == "amd" else 256
    likely = min(gpu.memory_bytes // 150, most * _MIB)
    return OverheadPart(name="libraries", bytes=likely, low_bytes=0, high_bytes=likely + 256 * _MIB)


def _communication(gpu: GpuChoice, ranks: int) -> OverheadPart:
    """Return buffers between GPUs: 1.8 GiB with NVLink, else a hundredth of a card per peer."""
    if ranks < 2:
        return OverheadPart(name="communication", bytes=0, low_bytes=0, high_bytes=0)
    if gpu.memory_bytes < _SERVER_CARD:
        likely = min(gpu.memory_bytes // 100 * (ranks - 1), 1863 * _MIB)
        low, high = 0, 3 * likely
    else:
        likely, low, high = 1863 * _MIB, 256 * _MIB, 2048 * _MIB
    return OverheadPart(name="communication", bytes=likely, low_bytes=low, high_bytes=high)


def _activation_peak(architecture: Architecture, step: EngineStep, ranks: int) -> OverheadPart:
    """Return the larger of one layer's and the sampler's working memory, and what stays alive.

    The two are not alive at the same time. At 1,024 sequences the sampler decides: it sorts
    float32 logits of the whole vocabulary. Routed experts keep their buffers throughout.
    """
    hidden, tokens = architecture.hidden_size or 0, step.batched_tokens
    active = (architecture.experts.active or 0) if architecture.experts else 0
    layer = tokens * hidden * (_ATTENTION + Fraction(_MLP, ranks))
    sampler = step.max_num_seqs * (architecture.vocab_size or 0) * _SAMPLER
    kept = tokens * hidden * (_CARRIED + active * _EXPERT)
    likely = _REST + int(kept + max(layer, sampler))
    high = likely * 5 // 4 + 512 * _MIB
    if architecture.text_model_type != architecture.model_type:
        high += _TOWER
    return OverheadPart(
        name="activation peak", bytes=likely, low_bytes=likely * 3 // 4, high_bytes=high
    )


def _graphs(step: EngineStep) -> OverheadPart:
    """Return the pool of captured graphs; it grows with the batch sizes that are captured."""
    seqs = step.max_num_seqs
    likely = (100 if seqs <= 30 else 360 if seqs < 256 else 512 if seqs == 256 else 922) * _MIB
    return OverheadPart(
        name="captured graphs", bytes=likely, low_bytes=likely // 4, high_bytes=likely * 2
    )


# `--fit` is on by default and moves layers to the host rather than take this.
# Source: llama.cpp 0c1e57098, common/fit.cpp, `--fit-target`.
_KEPT_FREE = OverheadPart(name="kept free", bytes=1024 * _MIB, low_bytes=0, high_bytes=1024 * _MIB)


def _compute_buffer(architecture: Architecture, step: EngineStep, tokens: int) -> OverheadPart:
    """Return llama.cpp's buffer for one micro-batch, the larger of its two phases.

    Output: float32 logits of one token a slot, but no more than are computed at once, and
    two hidden states. A layer: sixteen float32 vectors a token, and the mask. Before mid 2026
    there were logits of every token; those and a layer, and a quarter more, were never
    exceeded in logs.
    Source: runs of llama.cpp 0c1e57098 on the CPU.
    """
    hidden, vocab = architecture.hidden_size or 0, architecture.vocab_size or 0
    batch = step.batched_tokens
    output = min(step.max_num_seqs, batch) * vocab * 4 + 2 * batch * hidden * 4
    layer = batch * 16 * hidden * 4 + cells(tokens) * batch * 2
    likely = max(output, layer)
    high = (batch * vocab * 4 + 2 * batch * hidden * 4 + layer) * 5 // 4
    return OverheadPart(name="compute buffer", bytes=likely, low_bytes=likely // 2, high_bytes=high)
