"""Repositories for benchmarks/alternatives.py, as benchmarks read them from header sets."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

__all__ = ["GPTQ", "put"]

GPTQ = "example/Llama-3.1-8B-GPTQ"
MXFP4 = "openai/gpt-oss-20b"
_BYTES = {"I32": 4, "F16": 2, "BF16": 2, "U8": 1}
Row = tuple[str, str, list[int]]


def put(source: Path, hub: Path) -> None:
    """Lay a model out for the simulator, with the index that the header set may lack.

    Two are made anew, as their header sets are not quantized: a GPTQ one from the sizes of
    Llama, and gpt-oss with its experts in MXFP4, as it is on the Hub (13,761,264,768 bytes).
    """
    hub.mkdir(parents=True)
    config = json.loads((source / "config.json").read_text())
    model = f"{hub.parent.name}/{hub.name}"
    if model == GPTQ:
        scheme = {"bits": 4, "group_size": 128, "quant_method": "gptq", "desc_act": False}
        config["quantization_config"] = {**scheme, "sym": True}
        _write(hub / "model.safetensors", gptq(config))
    elif model == MXFP4:
        kept = ["model.layers.*.self_attn", "model.layers.*.mlp.router"]
        kept += ["model.embed_tokens", "lm_head"]
        config["quantization_config"] = {"modules_to_not_convert": kept, "quant_method": "mxfp4"}
        for path in source.glob("*.header.gz"):
            _write(hub / path.name.removesuffix(".header.gz"), mxfp4(_rows(path)))
    else:
        for path in source.glob("*.header.gz"):
            shutil.copyfile(path, hub / path.name)
    _index(hub)
    (hub / "config.json").write_text(json.dumps(config))


def gptq(config: dict[str, Any]) -> list[Row]:
    """Return the tensors that AutoGPTQ writes for a Llama: 4 bits in int32, groups of 128."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    narrow = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    linear = {
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.k_proj": (hidden, narrow),
        "self_attn.v_proj": (hidden, narrow),
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (hidden, inner),
        "mlp.up_proj": (hidden, inner),
        "mlp.down_proj": (inner, hidden),
    }
    rows: list[Row] = [
        ("model.embed_tokens.weight", "F16", [config["vocab_size"], hidden]),
        ("model.norm.weight", "F16", [hidden]),
        ("lm_head.weight", "F16", [config["vocab_size"], hidden]),
    ]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        rows += [
            (f"{at}.input_layernorm.weight", "F16", [hidden]),
            (f"{at}.post_attention_layernorm.weight", "F16", [hidden]),
        ]
        for name, (wide, out) in linear.items():
            rows += [
                (f"{at}.{name}.qweight", "I32", [wide // 8, out]),
                (f"{at}.{name}.qzeros", "I32", [wide // 128, out // 8]),
                (f"{at}.{name}.scales", "F16", [wide // 128, out]),
                (f"{at}.{name}.g_idx", "I32", [wide]),
            ]
    return rows


def mxfp4(rows: Iterable[Row]) -> list[Row]:
    """Return the tensors with the experts' matrices packed: 4 bits, a scale for each 32."""
    found: list[Row] = []
    for name, dtype, shape in rows:
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            experts, wide, out = shape
            found.append((f"{name}_blocks", "U8", [experts, out, wide // 32, 16]))
            found.append((f"{name}_scales", "U8", [experts, out, wide // 32]))
        else:
            found.append((name, dtype, shape))
    return found


def _rows(path: Path) -> list[Row]:
    header = json.loads(gzip.decompress(path.read_bytes())[8:])
    header.pop("__metadata__", None)
    return [(name, tensor["dtype"], tensor["shape"]) for name, tensor in header.items()]


def _write(path: Path, rows: list[Row]) -> None:
    header, begin = {}, 0
    for name, dtype, shape in rows:
        end = begin + prod(shape) * _BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    raw = json.dumps(header).encode()
    packed = gzip.compress(len(raw).to_bytes(8, "little") + raw)
    path.with_name(f"{path.name}.header.gz").write_bytes(packed)


def _index(hub: Path) -> None:
    """Write model.safetensors.index.json for several files."""
    paths = sorted(hub.glob("*.header.gz"))
    if len(paths) > 1:
        where = {
            row[0]: path.name.removesuffix(".header.gz") for path in paths for row in _rows(path)
        }
        text = json.dumps({"metadata": {}, "weight_map": where})
        (hub / "model.safetensors.index.json").write_text(text)
