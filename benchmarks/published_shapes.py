"""Checkpoints by their published shapes, where the header set at hand is of something else."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from log_cases import config_of

from hfkv.core.files import ModelFiles, Target, TensorGroup

__all__ = ["deepseek_v2_lite", "dense", "gpt_oss_20b"]

Shape = tuple[int, ...]


def gpt_oss_20b() -> ModelFiles:
    """Return gpt-oss-20b; the header set at hand is in bf16.

    The shapes sum to the 13,761,264,768 bytes that its index claims.
    """
    attention = {"q_proj": (4096, 2880), "o_proj": (2880, 4096)}
    attention |= dict.fromkeys(("k_proj", "v_proj"), (512, 2880))
    shapes: dict[str, Shape] = {"self_attn.sinks": (64,)}
    for name, (rows, columns) in {**attention, "router": (32, 2880)}.items():
        path = "mlp.router" if name == "router" else f"self_attn.{name}"
        shapes |= {f"{path}.weight": (rows, columns), f"{path}.bias": (rows,)}
    shapes |= dict.fromkeys(("input_layernorm.weight", "post_attention_layernorm.weight"), (2880,))
    for name, rows in (("gate_up_proj", 5760), ("down_proj", 2880)):
        path = f"mlp.experts.{name}"
        shapes |= {f"{path}_blocks": (32, rows, 90, 16), f"{path}_scales": (32, rows, 90)}
        shapes |= {f"{path}_bias": (32, rows)}
    tensors = [_group(f"model.layers.{{}}.{name}", shape, 0, 24) for name, shape in shapes.items()]
    return _files("openai--gpt-oss-20b", [*tensors, *_ends(201_088, 2880)])


def deepseek_v2_lite() -> ModelFiles:
    """Return DeepSeek-V2-Lite; the header set at hand has query projections of rank 1536.

    The published config has none (`q_lora_rank` is null), and its shapes sum to the
    31,412,968,448 bytes that its index claims.
    """
    everywhere = {
        "input_layernorm": (2048,),
        "post_attention_layernorm": (2048,),
        "self_attn.q_proj": (16 * 192, 2048),
        "self_attn.kv_a_proj_with_mqa": (512 + 64, 2048),
        "self_attn.kv_a_layernorm": (512,),
        "self_attn.kv_b_proj": (16 * 256, 512),
        "self_attn.o_proj": (2048, 2048),
    }
    routed = {"mlp.gate": (64, 2048), **_mlp("mlp.shared_experts", 2816, 2048)}
    tensors = [
        _group(f"model.layers.{{}}.{name}.weight", shape, first, count)
        for shapes, first, count in (
            (everywhere, 0, 27),
            (_mlp("mlp", 10_944, 2048), 0, 1),
            (routed, 1, 26),
        )
        for name, shape in shapes.items()
    ]
    tensors += [
        _group(f"model.layers.{{}}.{name}.weight", shape, 1, 26, each=64)
        for name, shape in _mlp("mlp.experts.{}", 1408, 2048).items()
    ]
    return _files("deepseek-ai--DeepSeek-V2-Lite", [*tensors, *_ends(102_400, 2048)])


def _mlp(path: str, inner: int, hidden: int) -> dict[str, Shape]:
    wide = dict.fromkeys((f"{path}.gate_proj", f"{path}.up_proj"), (inner, hidden))
    return {**wide, f"{path}.down_proj": (hidden, inner)}


def _ends(vocabulary: int, hidden: int) -> list[TensorGroup]:
    tables = (
        _group(f"{name}.weight", (vocabulary, hidden)) for name in ("lm_head", "model.embed_tokens")
    )
    return [*tables, _group("model.norm.weight", (hidden,))]


def _files(model: str, tensors: list[TensorGroup]) -> ModelFiles:
    target = Target(kind="file", id=model.replace("--", "/", 1))
    return ModelFiles(target=target, config=config_of(model), tensors=tuple(tensors))


def _group(
    name: str, shape: Shape, first: int = 0, layers: int = 0, *, each: int = 1
) -> TensorGroup:
    packed = name.endswith(("_blocks", "_scales"))
    return TensorGroup(
        name=name,
        dtype="U8" if packed else "BF16",
        shape=shape,
        nbytes=prod(shape) * (1 if packed else 2),
        count=(layers or 1) * each,
        layers=tuple(range(first, first + layers)),
    )


def dense(model: str, *, eight_bit: bool = False, tied: bool = False) -> ModelFiles:
    """Return a plain decoder of gated MLPs by its config: Llama, Qwen2, Gemma, Granite.

    With `eight_bit` its linear layers are quantized by the row (fp8-dynamic, w8a8).
    """
    config = {"rope_theta": 10_000, **config_of(model), "tie_word_embeddings": tied}
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    kv_heads = config.get("num_key_value_heads") or heads
    rows = {"q_proj": heads * head_dim, **dict.fromkeys(("k_proj", "v_proj"), kv_heads * head_dim)}
    linear: dict[str, Shape] = {f"self_attn.{name}": (n, hidden) for name, n in rows.items()}
    linear |= {"self_attn.o_proj": (hidden, heads * head_dim), **_mlp("mlp", inner, hidden)}
    tensors = [
        _group(f"model.layers.{{}}.{name}.weight", shape, 0, layers)
        for name, shape in linear.items()
    ]
    if eight_bit:
        tensors = [replace(t, dtype="I8", nbytes=t.nbytes // 2) for t in tensors]
        for name, shape in linear.items():
            scale = _group(f"model.layers.{{}}.{name}.weight_scale", (shape[0], 1), 0, layers)
            tensors.append(replace(scale, dtype="F32", nbytes=2 * scale.nbytes))
    norms = ["input_layernorm", "post_attention_layernorm"]
    if config["model_type"] == "gemma2":
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    tensors += [_group(f"model.layers.{{}}.{name}.weight", (hidden,), 0, layers) for name in norms]
    if config["model_type"] == "qwen2":
        tensors += [
            _group(f"model.layers.{{}}.self_attn.{name}.bias", (n,), 0, layers)
            for name, n in rows.items()
        ]
    ends = _ends(config["vocab_size"], hidden)
    tensors += [t for t in ends if not tied or t.name != "lm_head.weight"]
    return replace(_files(model, tensors), config=config)
