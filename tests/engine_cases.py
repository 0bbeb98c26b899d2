"""What the tests of the engines share: a cache sized from a config, read by the MiB."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from hfkv.core.files import ModelFiles, Target
from hfkv.core.kv import KVReport
from hfkv.core.report import analyze
from hfkv.core.workload import Deployment, Workload

MIB = 2**20
CONFIGS = Path(__file__).parent.parent / "fixtures" / "configs"


def published(name: str) -> dict[str, Any]:
    """Return the config.json of a fixture."""
    text = (CONFIGS / name / "config.json").read_text(encoding="utf-8")
    config: dict[str, Any] = json.loads(text)
    return config


def files_of(config: dict[str, Any]) -> ModelFiles:
    """Return files that hold nothing but a config."""
    return ModelFiles(target=Target(kind="file", id="case"), config=config)


def sized(
    engine: str,
    config: dict[str, Any],
    tokens: int,
    sequences: int = 1,
    *,
    kv_dtype: str = "auto",
    batch: int | None = None,
) -> KVReport:
    """Return the cache of `sequences` sequences of `tokens` tokens under an engine."""
    workload = Workload(
        context=tokens,
        sequences=sequences,
        kv_dtype=kv_dtype,
        engine=engine,
        deployment=Deployment(max_num_batched_tokens=batch),
    )
    kv = analyze(files_of(config), workload).kv
    assert kv is not None
    return kv


def mib(kv: KVReport, *names: str) -> Fraction:
    """Return the MiB of the components so named (all of them without a name), all sequences."""
    total = sum(part.bytes for part in kv.components if not names or part.name in names)
    return Fraction(total * kv.sequences, MIB)


def llama(**keys: object) -> dict[str, Any]:
    """Return a llama of 4 layers with 2 KV heads of 64, in bf16."""
    return {
        "model_type": "llama",
        "num_hidden_layers": 4,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
        **keys,
    }
