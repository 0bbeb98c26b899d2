"""What to type: the asked length, concurrency and cache format as each engine's own flags."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator
from fractions import Fraction

from hfkv.core.architecture import Architecture
from hfkv.core.engines.registry import engine_named
from hfkv.core.engines.vllm_options import parse_version
from hfkv.core.engines.vllm_releases import FLAG_SINCE, FORMAT_SINCE
from hfkv.core.files import ModelFiles
from hfkv.core.fit import FitReport
from hfkv.core.kv import KVReport
from hfkv.core.record import dataclass
from hfkv.core.workload import Deployment, Workload

__all__ = ["commands_for"]

_GIB = 2**30
# Where an engine spells a cache format otherwise than hfkv does; None: there is no such flag.
_SPELLED: dict[str, dict[str, str | None]] = {
    "sglang": {"fp8": "fp8_e4m3", "float16": None, "nvfp4": "fp4_e2m1"},
    "trtllm": {"fp8_e4m3": "fp8", "bfloat16": None, "float16": None},
    "llama.cpp": {"float16": "f16", "bfloat16": "bf16", "float32": "f32"},
    "ollama": {"float16": "f16"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """What is started: the files, the work, and the answer for one choice of GPU."""

    files: ModelFiles
    architecture: Architecture
    workload: Workload
    kv: KVReport
    found: FitReport


def commands_for(
    files: ModelFiles,
    architecture: Architecture,
    workload: Workload,
    kv: KVReport,
    found: FitReport,
) -> tuple[str, ...]:
    """Return the lines that start the engine for the asked work; none for engine "none".

    llama.cpp and Ollama want a GGUF file: where the repository has none, its name stands for
    the one that is to be made. Source of the flags: vLLM 0.32 engine/arg_utils.py (older
    ones: engines/vllm_releases.py); SGLang 0.5.23 srt/server_args.py; llama.cpp 0c1e57098
    common/arg.cpp; TensorRT-LLM commands/serve.py; Ollama 00f6d620 envconfig/config.go.
    """
    write = _WRITERS.get(workload.engine)
    start = _Start(files=files, architecture=architecture, workload=workload, kv=kv, found=found)
    return tuple(write(start)) if write else ()


def _joined(*words: object) -> str:
    return " ".join(shlex.quote(str(word)) for word in words)


def _flag(name: str, value: object, *, unless: object = None) -> tuple[object, ...]:
    """Return a flag and its value, nothing for no value and for the default."""
    return () if value is None or value == unless else (name, value)


def _model(files: ModelFiles, workload: Workload) -> tuple[object, ...]:
    """Return what an engine loads; a lone config.json is no model, nor is a what-if."""
    if files.target.kind == "file" or workload.weights_dtype is not None:
        return ("MODEL",)
    return files.target.id, *_flag("--revision", files.target.revision, unless="main")


def _gguf(files: ModelFiles) -> str:
    target = files.target
    if target.id.lower().endswith(".gguf"):
        return target.id
    return target.id.rstrip("/").split("/")[-1] + ".gguf" if target.kind != "file" else "MODEL.gguf"


def _format(workload: Workload, kv: KVReport) -> str | None:
    """Return the cache format as the engine spells it, None where it is its own choice."""
    if workload.kv_dtype == "auto" or kv.dtype is None:
        return None
    return _SPELLED.get(workload.engine, {}).get(kv.dtype, kv.dtype)


def _share(deployment: Deployment) -> str | None:
    return None if deployment.utilization is None else f"{float(deployment.utilization):g}"


def _gib(size: int) -> str:
    """Return GiB with as many decimals as it takes, rounded up in the third."""
    return f"{float(Fraction(-(-size * 1000 // _GIB), 1000)):g}"


def _per_gpu(found: FitReport) -> str | None:
    """Return the GiB of weights that each GPU leaves to the host."""
    size = -(-found.host_weights_bytes // found.count)
    return _gib(size) if size else None


def _beyond(start: _Start, allowance: str) -> tuple[str, ...]:
    """Return what a server must be told to go beyond the model's own maximum."""
    arch, workload = start.architecture, start.workload
    served = engine_named(workload.engine).default_context
    own = max(arch.max_context or 0, (served and served(arch, workload.deployment)) or 0)
    return (allowance,) if own and start.kv.tokens > own else ()


def _vllm(start: _Start) -> Iterator[str]:
    workload, kv, found = start.workload, start.kv, start.found
    deployment = workload.deployment
    host, kind = deployment.host_kv_bytes, _format(workload, kv)
    named = parse_version(deployment.engine_version) >= FORMAT_SINCE.get(kind or "", (0, 0))
    yield _joined(
        *_beyond(start, "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"),
        *("vllm", "serve", *_model(start.files, workload)),
        *("--max-model-len", kv.tokens),
        *_flag("--kv-cache-dtype" if named else "--dtype", kind),
        *_flag("--tensor-parallel-size", found.tensor_parallel_size, unless=1),
        *_flag("--pipeline-parallel-size", found.pipeline_parallel_size, unless=1),
        *_flag("--gpu-memory-utilization", _share(deployment)),
        *_flag("--max-num-seqs", deployment.max_num_seqs),
        *_flag("--max-num-batched-tokens", deployment.max_num_batched_tokens),
        *_cache_flags(deployment, start.architecture),
        *_flag("--cpu-offload-gb", _per_gpu(found)),
        *_flag("--kv-offloading-backend", "native" if host else None),
        *_flag("--kv-offloading-size", _gib(host) if host else None),
    )


def _cache_flags(deployment: Deployment, architecture: Architecture) -> Iterator[object]:
    """Yield vLLM's flags that change what it holds; a model that cannot draft needs a drafter.

    A release that has no flag to switch something off has nothing to switch off.
    """
    version = parse_version(deployment.engine_version)
    yield from _flag("--block-size", deployment.block_size)
    off = []
    if deployment.enable_prefix_caching:
        yield "--enable-prefix-caching"
    elif deployment.enable_prefix_caching is not None:
        off.append("--no-enable-prefix-caching")
    if not deployment.hybrid_kv_cache_manager:
        off.append("--disable-hybrid-kv-cache-manager")
    if deployment.async_scheduling:
        yield "--async-scheduling"
    elif deployment.async_scheduling is not None:
        off.append("--no-async-scheduling")
    yield from (flag for flag in off if version >= FLAG_SINCE[flag])
    if deployment.enforce_eager:
        yield "--enforce-eager"
    yield from _flag(
        "--decode-context-parallel-size", deployment.decode_context_parallel_size, unless=1
    )
    drafted = deployment.num_speculative_tokens
    if drafted and version < FLAG_SINCE["--speculative-config"]:
        yield from ("--speculative-model", "DRAFTER", "--num-speculative-tokens", drafted)
    elif drafted:
        own, other = '"method": "mtp"', '"method": "eagle3", "model": "DRAFTER"'
        method = own if architecture.mtp_layers else other
        yield from ("--speculative-config", f'{{{method}, "num_speculative_tokens": {drafted}}}')


def _sglang(start: _Start) -> Iterator[str]:
    workload, kv, found = start.workload, start.kv, start.found
    deployment = workload.deployment
    host = deployment.host_kv_bytes // found.count
    yield _joined(
        *_beyond(start, "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"),
        *("python", "-m", "sglang.launch_server", "--model-path"),
        *_model(start.files, workload),
        *("--context-length", kv.tokens),
        *_flag("--kv-cache-dtype", _format(workload, kv)),
        *_flag("--tp", found.tensor_parallel_size, unless=1),
        *_flag("--pp-size", found.pipeline_parallel_size, unless=1),
        *_flag("--mem-fraction-static", _share(deployment)),
        *("--max-running-requests", deployment.max_num_seqs or kv.sequences),
        *_flag("--chunked-prefill-size", deployment.max_num_batched_tokens),
        *_flag("--cpu-offload-gb", _per_gpu(found)),
        # decimal GB for each rank
        *(("--enable-hierarchical-cache", "--hicache-size", host // 10**9) if host else ()),
    )


def _trtllm(start: _Start) -> Iterator[str]:
    """Yield the server's line, after the file that alone can name a cache format."""
    workload, kv, found = start.workload, start.kv, start.found
    deployment, kind = workload.deployment, _format(workload, kv)
    share, host = _share(deployment) or "0.9", deployment.host_kv_bytes // found.count
    lines = [f"free_gpu_memory_fraction: {share}"]
    lines += [f"dtype: {kind}"] if kind else []
    lines += [f"host_cache_size: {host}"] if host else []
    config = len(lines) > 1
    if config:
        inner = "".join(f"  {line}\\n" for line in lines)
        yield f"printf 'kv_cache_config:\\n{inner}' > kv.yaml"
    yield _joined(
        *("trtllm-serve", *_model(start.files, workload)),
        *("--max_seq_len", kv.tokens),
        *("--max_batch_size", deployment.max_num_seqs or kv.sequences),
        *_flag("--max_num_tokens", deployment.max_num_batched_tokens),
        *_flag("--tp_size", found.tensor_parallel_size, unless=1),
        *_flag("--pp_size", found.pipeline_parallel_size, unless=1),
        *(("--extra_llm_api_options", "kv.yaml") if config else ()),
        *_flag("--kv_cache_free_gpu_memory_fraction", None if config else _share(deployment)),
    )


def _llama_cpp(start: _Start) -> Iterator[str]:
    """Yield llama-server's line: a slot for each sequence, each with cells of its own."""
    workload, kv = start.workload, start.kv
    kind = _format(workload, kv)
    quantized = kind is not None and kind not in ("f16", "bf16", "f32")
    yield _joined(
        *("llama-server", "-m", _gguf(start.files), "-ngl", _on_gpus(start)),
        *("-c", kv.tokens * kv.sequences, "-np", kv.sequences),
        *(("-ctk", kind, "-ctv", kind) if kind else ()),
        *(("-fa", "on") if quantized else ()),  # a quantized V needs it
        *_flag("-ub", workload.deployment.max_num_batched_tokens),
    )


def _on_gpus(start: _Start) -> int:
    """Return how many layers are on the GPUs; 99 is the habit for all, and the head is one more."""
    layers, share = len(start.architecture.layers), start.workload.deployment.offloaded_weights
    return math.floor(layers * (1 - share)) if share else max(99, layers + 1)


def _ollama(start: _Start) -> Iterator[str]:
    """Yield the server's line: Ollama is told by its environment."""
    workload, kv = start.workload, start.kv
    kind = _format(workload, kv)
    quantized = kind is not None and kind != "f16"
    words = [f"OLLAMA_CONTEXT_LENGTH={kv.tokens}", f"OLLAMA_NUM_PARALLEL={kv.sequences}"]
    words += [f"OLLAMA_KV_CACHE_TYPE={kind}"] if kind else []
    words += ["OLLAMA_FLASH_ATTENTION=1"] if quantized else []
    yield _joined(*words, "ollama", "serve")


_WRITERS: dict[str, Callable[[_Start], Iterator[str]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "trtllm": _trtllm,
    "llama.cpp": _llama_cpp,
    "ollama": _ollama,
}
