"""Write fixtures/quantized: one tiny Llama in every quantization format, headers only.

    python tests/make_quantized_fixtures.py

`formats.txt` says what a linear layer becomes in each format and where that was read,
`blocks.json` what config.json says about it. The files are written by the safetensors package
from zeros and cut after the header. Nothing here imports hfkv.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import safetensors

FOLDER = Path(__file__).parent.parent / "fixtures" / "quantized"

# The model that all of them hold: hidden 256, 4 heads of 64, 2 KV heads, inner 384.
LAYERS, VOCAB, HIDDEN, INNER = 2, 512, 256, 384
LINEAR = {
    "self_attn.q_proj": (256, HIDDEN),
    "self_attn.k_proj": (128, HIDDEN),
    "self_attn.v_proj": (128, HIDDEN),
    "self_attn.o_proj": (HIDDEN, 256),
    "mlp.gate_proj": (INNER, HIDDEN),
    "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 4096,
    "vocab_size": VOCAB,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}

# header name → what safetensors calls it when writing, and its bits
DTYPES = {
    "BF16": ("bfloat16", 16),
    "F16": ("float16", 16),
    "F32": ("float32", 32),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "I16": ("int16", 16),
    "I32": ("int32", 32),
    "I64": ("int64", 64),
    "I8": ("int8", 8),
    "U32": ("uint32", 32),
    "U8": ("uint8", 8),
}

Tensor = tuple[str, tuple[int, ...]]
Row = list[tuple[str, str, str]]  # suffix, dtype, shape as written in formats.txt

# MLX quantizes embedding and head too
WHOLE = ("mlx-4bit", "mlx-6bit", "mlx-mxfp4")
# ModelOpt stores KV scales whether or not it declares a KV format
KV_SCALES = ("modelopt-fp8", "modelopt-nvfp4", "modelopt-w4a16-awq", "fp8-tensor")


def formats() -> dict[str, Row]:
    """Read formats.txt."""
    table: dict[str, Row] = {}
    for line in (FOLDER / "formats.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, _, tensors = line.partition(": ")
            parts = [tensor.split() for tensor in tensors.split("; ")]
            table[name] = [(suffix, dtype, shape) for suffix, dtype, shape in parts]
    return table


def dims(text: str, out: int, inputs: int) -> tuple[int, ...]:
    """Return a shape such as `in*4/32,out`; division rounds up."""
    return () if text == "-" else tuple(dim(part, out, inputs) for part in text.split(","))


def dim(text: str, out: int, inputs: int) -> int:
    """Return one dimension, its factors from left to right."""
    total = 1
    for product in text.split("*"):
        first, *divisors = product.split("/")
        total *= {"out": out, "in": inputs}.get(first) or int(first)
        for divisor in divisors:
            total = -(-total // int(divisor))
    return total


def packed(row: Row, module: str, out: int, inputs: int) -> dict[str, Tensor]:
    """Return the tensors of one linear layer."""
    return {module + suffix: (dtype, dims(shape, out, inputs)) for suffix, dtype, shape in row}


def llama(name: str, row: Row, plain: Row) -> dict[str, Tensor]:
    """Return every tensor of the model, its linear layers packed."""
    tensors: dict[str, Tensor] = {"model.norm.weight": ("BF16", (HIDDEN,))}
    for module in ("model.embed_tokens", "lm_head"):
        tensors |= packed(row if name in WHOLE else plain, module, VOCAB, HIDDEN)
    for i in range(LAYERS):
        layer = f"model.layers.{i}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{layer}.{norm}.weight"] = ("BF16", (HIDDEN,))
        for module, (out, inputs) in LINEAR.items():
            tensors |= packed(row, f"{layer}.{module}", out, inputs)
        if name in KV_SCALES:
            tensors[f"{layer}.self_attn.k_proj.k_scale"] = ("F32", ())
            tensors[f"{layer}.self_attn.v_proj.v_scale"] = ("F32", ())
    return tensors


def gpt_oss() -> dict[str, Tensor]:
    """Return a gpt-oss layer: four experts in mxfp4, everything else bf16."""
    experts = "model.layers.0.mlp.experts"
    return {
        "model.embed_tokens.weight": ("BF16", (VOCAB, HIDDEN)),
        "model.layers.0.self_attn.k_proj.weight": ("BF16", (128, HIDDEN)),
        f"{experts}.gate_up_proj_blocks": ("U8", (4, 2 * INNER, HIDDEN // 32, 16)),
        f"{experts}.gate_up_proj_scales": ("U8", (4, 2 * INNER, HIDDEN // 32)),
        f"{experts}.gate_up_proj_bias": ("BF16", (4, 2 * INNER)),
        f"{experts}.down_proj_blocks": ("U8", (4, HIDDEN, INNER // 32, 16)),
        f"{experts}.down_proj_scales": ("U8", (4, HIDDEN, INNER // 32)),
        f"{experts}.down_proj_bias": ("BF16", (4, HIDDEN)),
    }


def deepseek_v4() -> dict[str, Tensor]:
    """Return a DeepSeek-V4 layer: fp8 blocks, experts as two e2m1 values in an int8."""
    tensors: dict[str, Tensor] = {
        "embed.weight": ("BF16", (VOCAB, HIDDEN)),
        "head.weight": ("BF16", (VOCAB, HIDDEN)),
        "layers.0.attn.wq_a.weight": ("F8_E4M3", (128, HIDDEN)),
        "layers.0.attn.wq_a.scale": ("F8_E8M0", (1, 2)),
        "layers.0.ffn.gate.weight": ("BF16", (4, HIDDEN)),
        "layers.0.ffn.gate.tid2eid": ("I64", (VOCAB, 2)),
    }
    for expert in range(4):
        for name, out, inputs in (
            ("w1", INNER, HIDDEN),
            ("w2", HIDDEN, INNER),
            ("w3", INNER, HIDDEN),
        ):
            module = f"layers.0.ffn.experts.{expert}.{name}"
            tensors[f"{module}.weight"] = ("I8", (out, inputs // 2))
            tensors[f"{module}.scale"] = ("F8_E8M0", (out, inputs // 32))
    return tensors


def size(dtype: str, shape: tuple[int, ...]) -> int:
    """Return the bytes of a tensor."""
    total = DTYPES[dtype][1]
    for length in shape:
        total *= length
    return total // 8


def write(name: str, tensors: dict[str, Tensor], block: dict[str, Any], base: Any) -> None:
    """Write one fixture: the header as safetensors writes it, and the JSON files beside it."""
    folder = FOLDER / name
    folder.mkdir(exist_ok=True)
    zeros = ctypes.create_string_buffer(max(1, *(size(*tensor) for tensor in tensors.values())))
    specs = {
        key: safetensors.TensorSpec(
            dtype=DTYPES[dtype][0],
            shape=list(shape),
            data_ptr=ctypes.addressof(zeros),
            data_len=size(dtype, shape),
        )
        for key, (dtype, shape) in tensors.items()
    }
    data = safetensors.serialize(specs, {"format": "pt"})
    length = int.from_bytes(data[:8], "little")
    (folder / "model.safetensors.header").write_bytes(data[: 8 + length])
    files = {key: value for key, value in block.items() if key.endswith(".json")}
    files["config.json"] = base | {k: v for k, v in block.items() if k not in files}
    for file, values in files.items():
        text = json.dumps(values, indent=1, sort_keys=True)
        (folder / file).write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Write every fixture."""
    blocks = json.loads((FOLDER / "blocks.json").read_text(encoding="utf-8"))
    rows = formats()
    for name, row in rows.items():
        write(name, llama(name, row, rows["bf16"]), blocks[name], CONFIG)
    write("mxfp4-gpt-oss", gpt_oss(), blocks["mxfp4-gpt-oss"], {"model_type": "gpt_oss"})
    write("fp8-deepseek-v4", deepseek_v4(), blocks["fp8-deepseek-v4"], {})


if __name__ == "__main__":
    main()
