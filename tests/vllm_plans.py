"""Configs and plans for the tests of the vLLM engine."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from hfkv.core.architecture import Architecture, read_architecture
from hfkv.core.engines.vllm import VLLM, VllmAdmission, admission
from hfkv.core.engines.vllm_options import VllmOptions, options_for
from hfkv.core.files import ModelFiles, Target
from hfkv.core.gpus import parse_gpu
from hfkv.core.precision import Precision, choose_precision
from hfkv.core.quantization import read_scheme
from hfkv.core.workload import Deployment

FIXTURES = Path(__file__).parent.parent / "fixtures"
GIB = 2**30
Case = dict[str, Any]
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}


@cache
def cases() -> dict[str, Case]:
    """Return the oracle's cases by name."""
    text = (FIXTURES / "oracle" / "vllm_kv.json").read_text(encoding="utf-8")
    return {case["name"]: case for case in json.loads(text)}


def files_of(config: dict[str, Any]) -> ModelFiles:
    """Return a model of which only the config is known."""
    return ModelFiles(target=Target(kind="file", id="oracle"), config=config)


def read(config: dict[str, Any], kv_dtype: str = "auto") -> tuple[Architecture, Precision]:
    """Read a config, and the formats vLLM would keep it in."""
    files = files_of(config)
    arch, scheme = read_architecture(files), read_scheme(files)
    precision = choose_precision(
        arch, files, VLLM, wanted=kv_dtype, declared=scheme.kv_dtype if scheme else None
    )
    return arch, precision


def deployment_of(case: Case) -> Deployment:
    """Return how a case was started, on as many of its GPU as it had ranks."""
    given = case["options"]
    arguments = given.get("engine_args", {})
    drafted = arguments.get("speculative_config", {})
    tp, pp = given.get("tp", 1), given.get("pp", 1)
    return Deployment(
        gpus=parse_gpu(f"{tp * pp}x{case['gpu']}"),
        tensor_parallel_size=tp,
        pipeline_parallel_size=pp,
        max_num_batched_tokens=given.get("max_num_batched_tokens"),
        decode_context_parallel_size=given.get("dcp", 1),
        block_size=given.get("block_size"),
        enable_prefix_caching=given.get("enable_prefix_caching"),
        num_speculative_tokens=drafted.get("num_speculative_tokens", 0),
        hybrid_kv_cache_manager=not given.get("disable_hybrid", False),
        async_scheduling=arguments.get("async_scheduling"),
    )


def options_of(case: Case) -> VllmOptions:
    """Return a case's options."""
    return options_for(deployment_of(case))


def published(name: str) -> dict[str, Any]:
    """Return a published config."""
    path = FIXTURES / "configs" / name / "config.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def planned(
    config: dict[str, Any], *, length: int = 131072, kv: str = "auto", **options: Any
) -> VllmAdmission:
    """Return the plan for a config under some options."""
    arch, precision = read(config, kv)
    return admission(arch, precision, VllmOptions(**options), max_model_len=length)
