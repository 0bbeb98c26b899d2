"""The quantization methods hfkv knows: spellings, tensor layouts, and who loads them."""

from __future__ import annotations

from hfkv.core.record import dataclass

__all__ = ["METHODS", "Method", "canonical_method", "loadable", "method_of_layout"]


@dataclass(frozen=True, slots=True)
class Method:
    """One `quant_method`: the layouts its tensors may have, and the engines that load it."""

    layouts: frozenset[str]
    engines: frozenset[str]


def _method(layouts: str, engines: str) -> Method:
    return Method(frozenset(layouts.split()), frozenset(engines.split()))


# Source: transformers 5.24.0 quantizers/auto.py; vLLM 0.32.0 quantization registry (core, no
# plugins); SGLang 0.5.23 quantization registry. EXL2/EXL3 and MLX have engines of their own.
METHODS: dict[str, Method] = {
    "aqlm": _method("aqlm", "transformers"),
    "auto-round": _method(
        "gptq awq nvfp4 mxfp4 mxfp8 fp8 int8 pack-quantized mlx", "transformers vllm sglang"
    ),
    "awq": _method("awq", "transformers vllm sglang"),
    "bitnet": _method("bitnet", "transformers"),
    "bitsandbytes": _method("nf4 fp4 llm-int8", "transformers sglang"),
    "compressed-tensors": _method(
        "pack-quantized int8 fp8 mxfp8 nvfp4 mxfp4 mxfp6 sparse-24 marlin-24",
        "transformers vllm sglang",
    ),
    "eetq": _method("eetq", "transformers"),
    "exl2": _method("exl2", ""),
    "exl3": _method("exl3", ""),
    "fbgemm_fp8": _method("fp8", "transformers vllm"),
    "fp8": _method("fp8 mxfp8 deepseek-fp4 nvfp4", "transformers vllm sglang"),
    "fp_quant": _method("fp_quant", "transformers vllm"),
    "gemma": _method("gemma", "transformers"),
    "gptq": _method("gptq", "transformers vllm sglang"),
    "higgs": _method("higgs", "transformers"),
    "hqq": _method("hqq", "transformers"),
    "metal": _method("metal", "transformers"),
    "mlx": _method("mlx", ""),
    "modelopt": _method("fp8 nvfp4 mxfp8 mxfp4 modelopt-awq int8", "vllm sglang"),
    "mxfp4": _method("mxfp4", "transformers vllm sglang"),
    "mxfp8": _method("mxfp8", "transformers sglang"),
    "nvfp4": _method("nvfp4", "transformers"),
    "quanto": _method("quanto", "transformers"),
    "quark": _method("fp8 int8 mxfp4 mxfp6 quark-int4", "transformers vllm sglang"),
    "sinq": _method("hqq", "transformers"),
    "spqr": _method("spqr", "transformers"),
    "torchao": _method("torchao", "transformers vllm"),
    "vptq": _method("vptq", "transformers"),
}

_SPELLINGS: dict[str, str] = {
    "auto_awq": "awq",
    "auto_gptq": "gptq",
    "autoround": "auto-round",
    "awq_marlin": "awq",
    "bitsandbytes_4bit": "bitsandbytes",
    "bitsandbytes_8bit": "bitsandbytes",
    "deepseek_v4_fp8": "fp8",
    "gpt_oss_mxfp4": "mxfp4",
    "gptq_marlin": "gptq",
    "inc": "auto-round",
    "intel/auto-round": "auto-round",
    "modelopt_fp4": "modelopt",
    "modelopt_fp8": "modelopt",
    "modelopt_mixed": "modelopt",
    "modelopt_mxfp8": "modelopt",
}

# Layouts that do not carry their method's name.
_LAYOUT_METHOD: dict[str, str] = {
    "deepseek-fp4": "fp8",
    "fp4": "bitsandbytes",
    "int8": "compressed-tensors",
    "llm-int8": "bitsandbytes",
    "marlin-24": "compressed-tensors",
    "modelopt-awq": "modelopt",
    "mxfp6": "compressed-tensors",
    "nf4": "bitsandbytes",
    "nvfp4": "modelopt",
    "pack-quantized": "compressed-tensors",
    "quark-int4": "quark",
    "sparse-24": "compressed-tensors",
}


def canonical_method(name: str) -> str:
    """Return the one name hfkv uses for a `quant_method`; unknown names stay as they are."""
    lowered = name.strip().lower()
    dashed = lowered.replace("_", "-")
    if dashed in METHODS:
        return dashed
    return _SPELLINGS.get(lowered, lowered)


def method_of_layout(layout: str) -> str:
    """Return the method that usually writes a layout, for checkpoints that do not say."""
    return _LAYOUT_METHOD.get(layout, layout)


def loadable(method: str, engine: str) -> bool | None:
    """Return whether an engine loads checkpoints of a method; None where no list is known.

    `method` is `Scheme.method` or `QuantizationReport.format`. Lists are known for
    transformers, vllm and sglang; a method that is newer than the lists is unknown too.
    """
    if engine not in {"transformers", "vllm", "sglang"}:
        return None
    if method == "none":
        return True
    known = METHODS.get(method)
    return None if known is None else engine in known.engines
