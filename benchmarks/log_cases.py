"""The start-up logs in fixtures/logs as cases: what was printed, and what hfkv predicts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from hfkv.core.architecture import Architecture, read_architecture
from hfkv.core.engines.registry import engine_named
from hfkv.core.engines.vllm import admission, capacity
from hfkv.core.engines.vllm_options import options_for
from hfkv.core.files import ModelFiles, Target
from hfkv.core.fit import FitReport, fit
from hfkv.core.gpus import find_gpu, parse_gpu
from hfkv.core.kv import KVReport, size_cache
from hfkv.core.positions import position_elements
from hfkv.core.precision import Precision, choose_precision
from hfkv.core.ranks import rank_of
from hfkv.core.stores import Grows, Layer, Store
from hfkv.core.weights import WeightReport
from hfkv.core.workload import Deployment, GpuChoice, Workload
from hfkv.errors import UsageError

ROOT = Path(__file__).parent.parent
LOGS = ROOT / "fixtures" / "logs"
GIB, MIB = 2**30, 2**20

ENGINES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt-llm": "trtllm",
    "llama.cpp": "llama.cpp",
    "ik_llama.cpp": "llama.cpp",
    "transformers": "transformers",
}


@dataclass(frozen=True)
class LogCase:
    """One log and the model it is about."""

    row: dict[str, Any]
    model: str
    options: dict[str, str]
    note: str

    @property
    def id(self) -> str:
        """Return the id of the log."""
        return str(self.row["id"])

    @property
    def swept(self) -> bool:
        """Tell the runs of one accuracy sweep: vLLM 0.19.0 on H100s."""
        return self.row.get("engine_version") == "0.19.0" and self.row.get("gpu") == "H100-80GB"

    @property
    def engine(self) -> str:
        """Return hfkv's name of the engine."""
        return ENGINES[self.row["engine"]]

    @property
    def version(self) -> str | None:
        """Return the version, None where the log has none that is one."""
        text = str(self.row.get("engine_version") or "")
        return text if self.engine == "vllm" and re.match(r"v?\d+\.\d+", text) else None

    @cached_property
    def arch(self) -> Architecture:
        """Return the architecture of the model."""
        arch = read_architecture(self._files)
        if "pooling" in self.options:  # profiled without a sampler
            return replace(arch, vocab_size=0)
        return replace(arch, layers=tuple(self._layer(layer) for layer in arch.layers))

    def _layer(self, layer: Layer) -> Layer:
        """Return a layer as a program without windows, or without latents, has it."""
        if self.options.get("windows") == "no":
            kept = [replace(s, window=None) if isinstance(s, Grows) else s for s in layer.stores]
            return replace(layer, stores=tuple(kept))
        if "expanded" in self.options:
            key, value = map(int, self.options["expanded"].split("+"))
            return replace(layer, stores=(Grows(heads=layer.heads, key=key, value=value),))
        return layer

    @property
    def _files(self) -> ModelFiles:
        config = config_of(self.model)
        if "dtype" in self.options:
            config = {**config, "torch_dtype": self.options["dtype"]}
        return ModelFiles(target=Target(kind="file", id=self.model), config=config)

    @property
    def positions(self) -> int:
        """Return the elements of the position tables that vLLM builds."""
        return position_elements(self._files.config or {}, self.arch)

    @property
    def tokens(self) -> int:
        """Return the length that sequences were served at."""
        return self.row.get("max_model_len") or self.arch.max_context or 4096

    @property
    def ranks(self) -> tuple[int, int]:
        """Return tensor and pipeline parallel sizes."""
        return self.row.get("tp") or 1, self.row.get("pp") or 1

    @property
    def gpu(self) -> GpuChoice | None:
        """Return the GPUs of the log with the total it prints, None where it names none."""
        name = str(self.row.get("gpu") or "").split("(")[0].replace(" (WSL)", "").strip()
        try:
            slug = find_gpu(name).slug
        except UsageError:
            return None
        tp, pp = self.ranks
        choice = replace(parse_gpu(slug)[0], count=tp * pp)
        total = self.row.get("total_gpu_memory_gib")
        return choice if total is None else replace(choice, memory_bytes=int(total * GIB))

    @property
    def workload(self) -> Workload:
        """Return what the server was started for."""
        gpu = self.gpu
        tp, pp = self.ranks
        share = self.row.get("gpu_memory_utilization") or self.row.get("mem_fraction_static")
        batch = self.options.get("batch") or self.row.get("max_num_batched_tokens")
        return Workload(
            context=self.tokens,
            engine=self.engine,
            deployment=Deployment(
                gpus=(gpu,) if gpu else (),
                tensor_parallel_size=tp,
                pipeline_parallel_size=pp,
                utilization=Fraction(str(share)) if share else None,
                engine_version=self.version,
                max_num_batched_tokens=int(batch) if batch else None,
                max_num_seqs=self.row.get("max_num_seqs"),
                enforce_eager=bool(self.row.get("enforce_eager")),
            ),
        )

    def precision(self, kv_dtype: str | None = None) -> Precision:
        """Return the formats of the run; a log's "auto" is the model's own."""
        logged = str(self.row.get("kv_cache_dtype") or "auto")
        logged = {"16-bit": "auto", "f16": "auto"}.get(logged, logged)
        wanted = kv_dtype or self.options.get("kv_dtype") or logged.split("/")[0]
        engine = engine_named(self.engine)
        if "dtype" in self.options:
            engine = replace(engine, serves_float32=True)
        return choose_precision(self.arch, self._files, engine, wanted=wanted)

    def cache(self, kv_dtype: str | None = None, *, half: str = "") -> KVReport:
        """Return the cache of one sequence at the length that was served, or its K or V."""
        engine, arch = engine_named(self.engine), self.arch
        precision = self.precision(kv_dtype)
        if half:
            layers = (
                replace(x, stores=tuple(_half(s, half) for s in x.stores)) for x in arch.layers
            )
            arch = replace(arch, layers=tuple(layers))
        return size_cache(arch, self.workload, engine, precision, tokens=self.tokens)


def _half(store: Store, half: str) -> Store:
    if not isinstance(store, Grows):
        return store
    return replace(store, key=store.key if half == "K" else store.value, value=0)


def config_of(model: str) -> dict[str, Any]:
    """Return the config of a model: a folder below fixtures/configs, or a key of models.json."""
    stated = _models().get(model)
    if stated is not None:
        config: dict[str, Any] = stated["config"]
        return config
    text = (ROOT / "fixtures" / "configs" / model / "config.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def _models() -> dict[str, Any]:
    models: dict[str, Any] = json.loads((LOGS / "models.json").read_text(encoding="utf-8"))
    return models


def load() -> list[LogCase]:
    """Return the cases that cases.tsv lists, in its order."""
    lines = (LOGS / "engine_logs.jsonl").read_text(encoding="utf-8").splitlines()
    rows = {row["id"]: row for row in map(json.loads, lines)}
    found = []
    for line in (LOGS / "cases.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        name, model, options, note = line.split("\t")
        if rows[name]["engine"] in ENGINES:
            chosen = dict(option.split("=", 1) for option in options.split())
            found.append(LogCase(row=rows[name], model=model, options=chosen, note=note))
    return found


@dataclass(frozen=True)
class Compared:
    """A printed figure and the predicted one; `low` and `high` bound a prediction."""

    case: LogCase
    printed: float
    predicted: float
    low: float = 0
    high: float = 0

    @property
    def error(self) -> float:
        """Return how far the prediction is off, as a share of what was printed."""
        return self.predicted / self.printed - 1

    @property
    def covered(self) -> bool:
        """Tell whether the range holds what was printed."""
        return self.low <= self.printed <= self.high


def bytes_per_token(case: LogCase) -> Compared | None:
    """Compare the bytes a token takes in the cache, where a log allows to compute them."""
    row = case.row
    if case.engine == "vllm":
        return _vllm_token(case)
    if case.engine == "llama.cpp":
        return _llama_cpp_token(case)
    printed = row.get("kv_bytes_per_token_reported") or _slope(row)
    if not printed:
        return None
    tp, _ = case.ranks
    kv = case.cache()
    growing = sum(
        part.layers * part.bytes_per_slot * part.slots // (tp if part.shards_by_heads else 1)
        for part in kv.components
        if part.growth not in ("fixed", "source")
    )
    if len(row.get("kv_pools") or ()) > 1:
        return _two_pools(case, kv)
    return Compared(case, printed, growing / case.tokens)


def concurrency(case: LogCase) -> Compared | None:
    """Compare the logged concurrency with what the logged memory would hold."""
    available, printed = (case.row.get(key) for key in ("kv_available_gib", "max_concurrency"))
    plain = case.engine == "vllm" and not {"mtp", "dcp"} & set(case.options)
    if not plain or not available or not printed or case.version is None:
        return None
    rank = rank_of(case.arch, case.workload, engine_named("vllm"), case.precision())
    assert rank.started is not None
    blocks, each = rank.started(case.tokens, int(available * GIB)).max_concurrency
    return Compared(case, printed, blocks / each)


def _slope(row: dict[str, Any]) -> float | None:
    """Return what a token costs between the two longest prompts of a process's total memory."""
    points = sorted((int(k), v) for k, v in row.get("measured_total_mib_by_input_len", {}).items())
    if len(points) < 2:
        return None
    (shorter, less), (longer, more) = points[-2:]
    return float((more - less) * MIB) / (longer - shorter)


def _vllm_token(case: LogCase) -> Compared | None:
    available, tokens = case.row.get("kv_available_gib"), case.row.get("kv_tokens")
    if not available or not tokens or case.version is None:
        return None
    options = replace(
        options_for(case.workload.deployment),
        decode_context_parallel_size=int(case.options.get("dcp", 1)),
        num_speculative_tokens=int(case.options.get("mtp", 0)),
    )
    plan = admission(case.arch, case.precision(), options, max_model_len=case.tokens)
    size = int(available * GIB)
    predicted = capacity(plan, size).kv_cache_size_tokens
    return Compared(case, size / tokens, size / predicted)


def _two_pools(case: LogCase, kv: KVReport) -> Compared:
    """Compare the pool of window tokens and that of full ones; the worse counts."""
    tp, _ = case.ranks
    found = []
    for windowed in (True, False):
        predicted = sum(
            part.layers * part.bytes_per_slot // tp
            for part in kv.components
            if (part.growth == "window") is windowed
        )
        pool = sorted(case.row["kv_pools"], key=lambda p: p["tokens"])[0 if windowed else 1]
        size = (pool["k_gib"] + pool["v_gib"]) * GIB
        found.append(Compared(case, size / pool["tokens"], predicted))
    return max(found, key=lambda c: abs(c.error))


def _llama_cpp_token(case: LogCase) -> Compared | None:
    """Compare the whole cache, attention and states, at the length that was served."""
    printed = case.row.get("kv_total_mib")
    if not printed:
        return None
    parts = {p["part"]: p["type"] for p in case.row.get("kv_parts") or ()}
    if len(set(parts.values())) > 1:
        predicted = sum(case.cache(kind, half=half).bytes for half, kind in parts.items())
        return Compared(case, printed * MIB / case.tokens, predicted / case.tokens)
    kv = case.cache()
    fixed = sum(p.bytes for p in kv.components if p.growth == "fixed")
    slots = case.row.get("n_seq_max") or 1
    predicted = kv.bytes + fixed * (slots - 1)
    return Compared(case, printed * MIB / case.tokens, predicted / case.tokens)


def pool(case: LogCase) -> Compared | None:
    """Compare what is left for the cache on one rank, in GiB, with the printed weights."""
    row, gpu = case.row, case.gpu
    available, weights = row.get("kv_available_gib"), row.get("weights_gib")
    stated = case.workload.deployment.utilization or case.version
    if gpu is None or not available or not weights or not stated:
        return None
    if case.engine not in ("vllm", "sglang") or case.options.get("pool") == "no":
        return None
    answer = _fit(case, gpu, weights)
    spare = sum(p.bytes for p in answer.overhead_parts if p.loaded)  # in the printed weights
    pools = (
        answer.kv_pool_bytes_per_gpu,
        answer.kv_pool_low_bytes_per_gpu,
        answer.kv_pool_high_bytes_per_gpu,
    )
    return Compared(case, available, *((size + spare) / GIB for size in pools))


def _fit(case: LogCase, gpu: GpuChoice, weights: float) -> FitReport:
    tp, pp = case.ranks
    stage = -(-len(case.arch.layers) // pp) / len(case.arch.layers)
    size = int(weights * GIB * tp / stage)
    report = WeightReport(
        bytes=size,
        parameters=None,
        stored_elements=None,
        tensors=None,
        source="log",
        loaded_bytes=size,
    )
    kv = replace(case.cache(), tokens=case.tokens)
    return fit(case.arch, report, kv, case.workload, gpu, measure=_nothing)


def _nothing(workload: Workload, *, tokens: int, tp: int, pp: int) -> int:
    """Stand in for the cache: only what is left for it is asked."""
    del workload, tokens, tp, pp
    return 0
