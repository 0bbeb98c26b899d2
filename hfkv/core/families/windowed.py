"""Families whose layers see a window: which layers, and how wide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hfkv.core import kinds
from hfkv.core.config import Config, as_count
from hfkv.core.counts import counted
from hfkv.core.families.family import Family, generic_layer
from hfkv.core.patterns import CHUNKED, FULL, SLIDING, every
from hfkv.core.stores import Grows, Layer, LayerKind
from hfkv.errors import MalformedError, UnsupportedError

__all__ = ["WINDOWED"]

_HF = "transformers 5.24, {}"


def _windows_from(cfg: Config, count: int, chosen: Callable[[int, int], bool]) -> list[str]:
    """Return sliding on the chosen layers when windows are switched on, else full."""
    if not cfg.flag("use_sliding_window") or not kinds.window(cfg):
        return [FULL] * count
    start = cfg.count("max_window_layers") or 0
    return [SLIDING if chosen(i, start) else FULL for i in range(count)]


def _from_layer(cfg: Config, count: int) -> list[str]:
    """Qwen2 and Qwen3: layers from `max_window_layers` on are windowed."""
    return _windows_from(cfg, count, lambda i, start: i >= start)


def _even_below(cfg: Config, count: int) -> list[str]:
    """Qwen2-MoE: even layers below `max_window_layers` are windowed."""
    return _windows_from(cfg, count, lambda i, start: i < start and i % 2 == 0)


def _all_when_on(cfg: Config, count: int) -> list[str]:
    """Qwen3-MoE: all layers or none."""
    return _windows_from(cfg, count, lambda _i, _start: True)


def _from_layer_without_switch(cfg: Config, count: int) -> list[str]:
    """dots1: layers from `max_window_layers` on, without a switch."""
    start = cfg.count("max_window_layers") or 0
    return [SLIDING if kinds.window(cfg) and i >= start else FULL for i in range(count)]


def _no_rope(cfg: Config, count: int) -> list[int]:
    """Return 1 for layers with RoPE, 0 without; an empty or absent list means every 4th is 0."""
    given = cfg.counts("no_rope_layers")
    if given:
        return (given + [1] * count)[:count]
    step = cfg.positive("no_rope_layer_interval") or 4
    return [int((i + 1) % step != 0) for i in range(count)]


def _smollm3(cfg: Config, count: int) -> list[str]:
    """SmolLM3: with windows switched on, the layers without RoPE are windowed."""
    rope = _no_rope(cfg, count)
    return _windows_from(cfg, count, lambda i, _start: not rope[i])


def _llama4(cfg: Config, count: int) -> list[str]:
    """Llama 4: layers with RoPE attend in chunks, the others to everything."""
    return [CHUNKED if rope else FULL for rope in _no_rope(cfg, count)]


def _every_nth_from_start(cfg: Config, count: int) -> list[str]:
    """ModernBERT decoder: layer 0 and every Nth after it are full."""
    step = cfg.positive("global_attn_every_n_layers") or 3
    return every(step, count=count, offset=0)


def _every_nth_from_end(cfg: Config, count: int) -> list[str] | None:
    """AFMoE: the last of every N layers is full."""
    step = cfg.positive("global_attn_every_n_layers")
    return None if step is None else every(step, count=count)


def _sixth_or_last(_cfg: Config, count: int) -> list[str]:
    """BEAM: every 6th layer and the last one are full."""
    return [FULL if i % 6 == 5 or i == count - 1 else SLIDING for i in range(count)]


def _cohere2_moe(cfg: Config, count: int) -> list[str]:
    """Cohere2-MoE: the first dense layers follow a pattern of their own, then every 4th is full."""
    dense = min(cfg.count("first_k_dense_replace") or 0, count)
    step = cfg.positive("prefix_dense_sliding_window_pattern") or 1
    rest = cfg.positive("sliding_window_pattern") or 4
    return every(step, count=dense) + every(rest, count=count - dense)


def _fourth_from_last(_cfg: Config, count: int) -> list[str]:
    """Muse-Spark and Muse-Glimmer: the last layer and every 4th before it are full."""
    return [SLIDING if (count - 1 - i) % 4 else FULL for i in range(count)]


def _flint(_cfg: Config, count: int) -> list[str]:
    """Flint: the first, the last and every 4th layer from the second on are full."""
    return [FULL if i % 4 == 1 or i in (0, count - 1) else SLIDING for i in range(count)]


def _half_window(cfg: Config, name: str) -> Layer:
    """Gemma with bidirectional attention sees W // 2 back (and as many ahead)."""
    limit = kinds.window(cfg)
    if name == SLIDING and limit and cfg.raw("use_bidirectional_attention") in (True, "all"):
        return kinds.attention(cfg, limit=limit // 2 + 1)
    return generic_layer(cfg, name)


def _modernbert(cfg: Config, name: str) -> Layer:
    """ModernBERT decoder: `local_attention` counts both sides; a decoder sees half of it."""
    if name != SLIDING:
        return generic_layer(cfg, name)
    stated = cfg.positive("sliding_window")
    both = cfg.positive("local_attention")
    return kinds.attention(cfg, limit=stated or (both // 2 if both else None))


def _gemma4(cfg: Config, name: str) -> Layer:
    """Gemma 4: full layers have their own head width and, with K = V, their own head count.

    `global_head_dim` (512 when absent) and `num_global_key_value_heads`; transformers 5.24
    writes both into `per_layer_config` instead, which is read first.
    """
    count = cfg.positive("num_hidden_layers") or 0
    if cfg.layer == count - 1 and name == SLIDING:
        name = FULL  # the class never lets the last layer slide, whatever a list says
    if name != FULL or isinstance(cfg.values.get("per_layer_config"), dict):
        return _half_window(cfg, name)
    dim = cfg.positive("global_head_dim") or kinds.head_dim(cfg)
    own = cfg.positive("num_global_key_value_heads") if cfg.flag("attention_k_eq_v") else None
    store = Grows(heads=own or kinds.key_value_heads(cfg), key=dim, value=dim)
    return Layer(kind=LayerKind.FULL, stores=(store,), heads=kinds.heads(cfg))


def _mimo(cfg: Config, name: str) -> Layer:
    """MiMo-V2: window layers have twice the KV heads; the Hub's `swa_*` keys say how many.

    `sliding_window_size` in a Hub file counts past tokens only, so one is added.
    """
    if name != SLIDING:
        return generic_layer(cfg, name)
    limit = cfg.positive("sliding_window")
    if cfg.values.get("sliding_window") is None and limit and cfg.values.get("sliding_window_size"):
        limit += 1
    dim = cfg.positive("swa_head_dim") or kinds.head_dim(cfg)
    value = cfg.positive("swa_v_head_dim") or cfg.positive("v_head_dim") or dim
    count = cfg.positive("swa_num_key_value_heads") or 2 * kinds.key_value_heads(cfg)
    store = Grows(heads=count, key=dim, value=value, window=limit)
    return Layer(kind=LayerKind.SLIDING, stores=(store,), heads=kinds.heads(cfg))


def _hybrid_pattern(cfg: Config, count: int) -> list[str] | None:
    """MiMo-V2 on the Hub: `hybrid_layer_pattern`, 1 = window."""
    codes = cfg.counts("hybrid_layer_pattern")
    if codes is None:
        return None
    if len(codes) < count:
        raise UnsupportedError(
            f"has {counted(len(codes), 'entry')} for {counted(count, 'layer')}",
            where=cfg.where("hybrid_layer_pattern"),
        )
    return [SLIDING if code else FULL for code in codes[:count]]


def _expanded(cfg: Config) -> list[str] | None:
    """Return GPT-Neo's `attention_types` ([[["global", "local"], 12]]) as one name a layer."""
    blocks = cfg.items("attention_types")
    if blocks is None:
        return None
    where = cfg.where("attention_types")
    names: list[str] = []
    for block in blocks:
        match block:
            case [[*kinds_in_block], times]:
                repeat = as_count(times, where=where)
                if repeat * len(kinds_in_block) > 10_000:
                    raise MalformedError("lists more layers than any model has", where=where)
                names += [_GPT_NEO.get(_hashable(kind), FULL) for kind in kinds_in_block] * repeat
            case _:
                raise MalformedError('expected entries like [["global", "local"], 12]', where=where)
    return names


_GPT_NEO = {"global": FULL, "local": SLIDING}


def _hashable(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _gpt_neo(cfg: Config, count: int) -> list[str]:
    """GPT-Neo: global and local layers alternate unless `attention_types` says otherwise."""
    given = _expanded(cfg)
    if given is not None and len(given) >= count:
        return given[:count]
    return [SLIDING if i % 2 else FULL for i in range(count)]


def _step3(cfg: Config, name: str) -> Layer:
    """Step-3.5: window layers take their KV groups from `attention_other_setting`."""
    other = cfg.part("attention_other_setting")
    if name != SLIDING or other is None:
        return generic_layer(cfg, name)
    dim = other.positive("head_dim") or kinds.head_dim(cfg)
    count = other.positive("num_attention_groups") or other.positive("num_key_value_heads")
    store = Grows(
        heads=count or kinds.key_value_heads(cfg),
        key=dim,
        value=dim,
        window=kinds.window(cfg),
    )
    return Layer(kind=LayerKind.SLIDING, stores=(store,), heads=kinds.heads(cfg))


WINDOWED: tuple[Family, ...] = (
    Family(
        name="qwen2",
        model_types=(
            "qwen2",
            "qwen3",
            "qwen2_vl_text",
            "qwen2_5_vl_text",
            "qwen2_5_omni_text",
            "qwen2_5_omni_talker",
            "mineru2_qwen",
            "mimo",
        ),
        source=_HF.format("configuration_qwen2.py, configuration_qwen3.py"),
        names=_from_layer,
    ),
    Family(
        name="qwen2_moe",
        model_types=("qwen2_moe",),
        source=_HF.format("configuration_qwen2_moe.py"),
        names=_even_below,
    ),
    Family(
        name="qwen3_moe",
        model_types=("qwen3_moe",),
        source=_HF.format("configuration_qwen3_moe.py"),
        names=_all_when_on,
    ),
    Family(
        name="dots1",
        model_types=("dots1",),
        source=_HF.format("configuration_dots1.py"),
        names=_from_layer_without_switch,
    ),
    Family(
        name="smollm3",
        model_types=("smollm3",),
        source=_HF.format("configuration_smollm3.py"),
        names=_smollm3,
    ),
    Family(
        name="llama4",
        model_types=("llama4_text",),
        source=_HF.format("configuration_llama4.py"),
        names=_llama4,
    ),
    Family(
        name="afmoe",
        model_types=("afmoe",),
        source=_HF.format("configuration_afmoe.py"),
        names=_every_nth_from_end,
    ),
    Family(
        name="beam",
        model_types=("beam",),
        source=_HF.format("configuration_beam.py"),
        names=_sixth_or_last,
    ),
    Family(
        name="muse_spark",
        model_types=("muse_spark_text", "muse_glimmer_text"),
        source=_HF.format("configuration_muse_spark.py, configuration_muse_glimmer.py"),
        names=_fourth_from_last,
    ),
    Family(
        name="cohere2_moe",
        model_types=("cohere2_moe",),
        source=_HF.format("configuration_cohere2_moe.py"),
        names=_cohere2_moe,
    ),
    Family(
        name="flint",
        model_types=("flint",),
        source=_HF.format("configuration_flint.py"),
        names=_flint,
    ),
    Family(
        name="modernbert-decoder",
        model_types=("modernbert-decoder",),
        source=_HF.format("configuration_modernbert_decoder.py"),
        names=_every_nth_from_start,
        layer=_modernbert,
    ),
    Family(
        name="gemma3",
        model_types=("gemma3_text", "t5gemma2_decoder"),
        source=_HF.format("configuration_gemma3.py"),
        layer=_half_window,
    ),
    Family(
        name="gemma4",
        model_types=("gemma4_text", "gemma4_unified_text", "diffusion_gemma_text"),
        source=_HF.format("configuration_gemma4.py"),
        layer=_gemma4,
    ),
    Family(
        name="mimo_v2",
        model_types=("mimo_v2_flash", "mimo_v2"),
        source=_HF.format("modeling_mimo_v2_flash.py") + "; XiaomiMiMo/MiMo-V2-Flash config.json",
        names=_hybrid_pattern,
        layer=_mimo,
    ),
    Family(
        name="gpt_neo",
        model_types=("gpt_neo",),
        source=_HF.format("configuration_gpt_neo.py"),
        names=_gpt_neo,
        aliases={"sliding_window": "window_size"},
    ),
    Family(
        name="step3p5",
        model_types=("step3p5",),
        source=_HF.format("configuration_step3p7.py"),
        layer=_step3,
    ),
)
