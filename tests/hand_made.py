"""Reports built by hand, one of each shape, for the tests of every format."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hfkv.core.architecture import Architecture, Experts
from hfkv.core.files import ModelFiles, RepoFile, Target
from hfkv.core.fit import FitReport, OverheadPart, WayToFit
from hfkv.core.kv import Component, KVReport, PerGpu
from hfkv.core.readings import Confidence, Finding, Reading
from hfkv.core.report import Report
from hfkv.core.simple import SimpleFormula
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role
from hfkv.core.weights import DtypeTotal, QuantizationReport, RoleTotal, WeightReport
from hfkv.core.workload import Workload

GIB = 2**30


def architecture(**changes: Any) -> Architecture:
    """Return that of Llama-3.1-8B, with changes."""
    llama = Architecture(
        class_name="LlamaForCausalLM",
        model_type="llama",
        family="llama",
        kind="decoder",
        layers=(_full(8, 128),) * 32,
        num_hidden_layers=32,
        hidden_size=4096,
        vocab_size=128256,
        max_context=131072,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        v_head_dim=128,
        sliding_window=None,
        attention="GQA",
        confidence=Confidence.CONFIRMED,
        compute_dtype="bfloat16",
        readings=(
            Reading(field="num_hidden_layers", value=32, source="config.json: num_hidden_layers"),
            Reading(field="head_dim", value=128, source="hidden_size / num_attention_heads"),
        ),
    )
    return replace(llama, **changes)


def _full(heads: int, dim: int, window: int | None = None) -> Layer:
    kind = LayerKind.FULL if window is None else LayerKind.SLIDING
    return Layer(kind=kind, stores=(Grows(heads=heads, key=dim, value=dim, window=window),))


def _files(name: str, *sizes: int | None) -> ModelFiles:
    target = Target(
        kind="hub", id=name, revision="main", sha="d04e592bb4f6aa9cfee91e2e20afa771667e1d4b"
    )
    files = tuple(RepoFile(path=f"f{i}", size=size) for i, size in enumerate(sizes))
    return ModelFiles(target=target, files=files)


def _weights(nbytes: int, parameters: int | None, **changes: Any) -> WeightReport:
    bf16 = WeightReport(
        bytes=nbytes,
        parameters=parameters,
        stored_elements=nbytes // 2,
        tensors=291,
        source="safetensors-headers",
        loaded_bytes=nbytes,
        by_dtype={"BF16": DtypeTotal(bytes=nbytes, elements=nbytes // 2, tensors=291)},
        by_role={"mlp": RoleTotal(bytes=nbytes, parameters=parameters)},
    )
    return replace(bf16, **changes)


def _kv(tokens: int, *parts: Component, **changes: Any) -> KVReport:
    total = sum(part.bytes for part in parts)
    kept = KVReport(
        tokens=tokens,
        sequences=1,
        dtype="bfloat16",
        dtype_source="config.json: torch_dtype",
        engine="none",
        bytes=total,
        bytes_per_sequence=total,
        bytes_per_token=sum(p.bytes_per_slot * p.layers for p in parts if p.growth == "token"),
        fixed_bytes_per_sequence=sum(p.bytes for p in parts if p.growth in ("fixed", "source")),
        components=parts,
        simple_formula=SimpleFormula(applies=True, bytes=total),
        per_gpu=PerGpu(
            ideal_bytes_per_sequence=total,
            admission_bytes_per_sequence=total,
            steady_bytes_per_sequence=total,
        ),
    )
    return replace(kept, **changes)


def _component(
    name: str, layers: int, growth: str, elements: int, slots: int, **rest: Any
) -> Component:
    each = elements * 2
    part = Component(
        name=name,
        layers=layers,
        growth=growth,
        limit=None,
        elements_per_slot=elements,
        dtype="bfloat16",
        bytes_per_slot=each,
        slots=slots,
        bytes=layers * each * slots,
        shards_by_heads=8,
    )
    return replace(part, **rest)


def _fit(name: str, memory: int, weights: int, each: int, **changes: Any) -> FitReport:
    budget = memory * 9 // 10
    pool = budget - weights - 2 * GIB
    many = max(0, pool // each) if each else 0
    fit = FitReport(
        gpu=name.lower(),
        name=name,
        count=1,
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        memory_bytes=memory,
        memory_source="framework total",
        utilization=(9, 10),
        budget_bytes=budget,
        weights_bytes_per_gpu=weights,
        overhead_bytes_per_gpu=2 * GIB,
        overhead_parts=(
            OverheadPart(name="activations", bytes=GIB),
            OverheadPart(name="runtime", bytes=GIB),
        ),
        kv_pool_bytes_per_gpu=pool,
        kv_bytes_per_sequence_per_gpu=each,
        fits=pool >= each,
        short_by_bytes=max(0, each - pool),
        max_sequences=many,
        max_context=max(0, pool // 131072),
        max_tokens=max(0, pool // 131072),
        simple_formula_max_sequences=many,
        kv_bytes_per_gpu=each,
    )
    return replace(fit, **changes)


def dense() -> Report:
    """Return Llama-3.1-8B on one A100: what the simple formula is made for."""
    kv = _kv(131072, _component("full attention", 32, "token", 2 * 8 * 128, 131072))
    return Report(
        files=_files("meta-llama/Llama-3.1-8B", 16_060_556_376, 855),
        workload=Workload(),
        architecture=architecture(),
        weights=_weights(16_060_522_496, 8_030_261_248),
        kv=kv,
        fit=(_fit("A100-SXM4-80GB", 79 * GIB, 16_060_522_496, 16 * GIB),),
        findings=(),
    )


def short() -> Report:
    """Return the same model on a card that is too small."""
    ways = (
        WayToFit(change="--kv-dtype fp8", frees_bytes=8 * GIB, fits=False),
        WayToFit(change="--context 32k", frees_bytes=12 * GIB, fits=True),
    )
    fit = _fit("RTX 4090", 24 * GIB, 16_060_522_496, 16 * GIB, ways_to_fit=ways)
    return replace(dense(), fit=(fit,))


def several() -> Report:
    """Return the same model on three choices of GPU."""
    small = _fit("RTX 4090", 24 * GIB, 8_030_261_248, 8 * GIB, count=2, tensor_parallel_size=2)
    large = _fit("H200", 140 * GIB, 16_060_522_496, 16 * GIB)
    return replace(dense(), fit=(small, *dense().fit, large))


def hybrid() -> Report:
    """Return a Qwen3-Next: three of four layers keep a state instead of tokens."""
    state = Layer(
        kind=LayerKind.LINEAR,
        stores=(
            Fixed(elements=32 * 128 * 128, heads=32, role=Role.STATE, dtype="float32"),
            Fixed(elements=8192 * 3, role=Role.CONV, columns=3),
        ),
    )
    layers = (state, state, state, _full(2, 256)) * 12
    kv = _kv(
        32768,
        _component("full attention", 12, "token", 2 * 2 * 256, 32768, shards_by_heads=2),
        _component(
            "recurrent state",
            36,
            "fixed",
            524288,
            1,
            dtype="float32",
            bytes_per_slot=2097152,
            bytes=75497472,
        ),
        _component("convolution state", 36, "fixed", 24576, 1),
        simple_formula=SimpleFormula(
            applies=False,
            bytes=48 * 2 * 2 * 256 * 2 * 32768,
            why_not=("36 of 48 layers keep a state of fixed size instead of keys and values",),
        ),
    )
    return Report(
        files=_files("Qwen/Qwen3-Next-80B-A3B-Instruct", 162_650_000_000, None),
        workload=Workload(context=32768),
        architecture=architecture(
            class_name="Qwen3NextForCausalLM",
            model_type="qwen3_next",
            family="qwen3_next",
            layers=layers,
            attention="mixed",
            num_hidden_layers=48,
            max_context=262144,
            experts=Experts(total=512, active=10),
            mtp_layers=1,
        ),
        weights=_weights(
            162_650_000_000,
            79_674_391_296,
            loaded_bytes=159_348_782_592,
            notes=("1 next-token layer (3.07 GiB) is stored and not loaded",),
        ),
        kv=kv,
        fit=(),
        findings=(
            Finding(code="hybrid", message="36 of 48 layers keep a state whatever the context."),
            Finding(
                code="mtp",
                message="The checkpoint has a next-token layer that is not counted here.",
                hint="engines that use it for speculative decoding keep a cache of its own",
            ),
        ),
    )


def latent() -> Report:
    """Return DeepSeek-V3: one vector for all heads, in int4 here."""
    layer = Layer(
        kind=LayerKind.LATENT, stores=(Grows(key=512, value=64, role=Role.LATENT),), heads=128
    )
    kv = _kv(
        32768,
        _component("latent", 61, "token", 576, 32768, shards_by_heads=None),
        simple_formula=SimpleFormula(
            applies=False,
            bytes=61 * 2 * 128 * 192 * 2 * 32768,
            why_not=("all heads share one latent vector of 512 + 64 values",),
        ),
    )
    scheme = QuantizationReport(format="gptq", bits=4, group_size=128, source="config.json")
    return Report(
        files=_files("深度求索/ディープシーク-V3", 350_000_000_000),
        workload=Workload(context=32768),
        architecture=architecture(
            class_name="DeepseekV3ForCausalLM",
            layers=(layer,) * 61,
            attention="MLA",
            num_key_value_heads=None,
            confidence=Confidence.DECLARED,
        ),
        weights=_weights(350_000_000_000, 671_026_419_200, quantization=scheme),
        kv=kv,
        fit=(
            _fit(
                "H100-SXM5-80GB",
                79 * GIB,
                43_750_000_000,
                2_302_672_896,
                count=8,
                tensor_parallel_size=8,
            ),
        ),
        findings=(
            Finding(
                code="mla",
                message="Tensor parallelism does not divide the latent cache: each GPU keeps all.",
                hint="data-parallel attention keeps one copy",
            ),
        ),
    )


def encoder() -> Report:
    """Return BERT: no cache at all, and that is known."""
    layer = Layer(kind=LayerKind.NONE, heads=12)
    return Report(
        files=_files("google-bert/bert-base-uncased", 440_449_768),
        workload=Workload(),
        architecture=architecture(
            class_name="BertForMaskedLM",
            kind="encoder",
            layers=(layer,) * 12,
            attention="none",
            max_context=512,
        ),
        weights=_weights(440_449_768, 110_106_428),
        kv=_kv(
            512,
            simple_formula=SimpleFormula(
                applies=False, bytes=None, why_not=("an encoder keeps no cache",)
            ),
        ),
        fit=(),
        findings=(
            Finding(code="encoder-only", message="An encoder reads its whole input at once."),
        ),
    )


def alien() -> Report:
    """Return a model nobody can size, whose names try to steer the terminal."""
    return Report(
        files=_files("evil/\x1b[2Jmodel", 1000),
        workload=Workload(),
        architecture=architecture(
            class_name="Alien\x9bForCausalLM\nsecond line",
            model_type="alien",
            family=None,
            layers=(),
            attention="none",
            num_key_value_heads=None,
            confidence=Confidence.UNKNOWN,
            doubts=("num_hidden_layers is not stated and hfkv does not know 'alien'",),
        ),
        weights=_weights(14_000_000_000, 7_000_000_000),
        kv=None,
        fit=(),
        findings=(Finding(code="unknown-architecture", message="No layer could be read."),),
    )


REPORTS = {
    made.__name__: made() for made in (dense, short, several, hybrid, latent, encoder, alien)
}
