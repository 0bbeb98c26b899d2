"""Attention-only families whose layers are counted or headed in a way of their own."""

from __future__ import annotations

from hfkv.core import kinds
from hfkv.core.config import Config
from hfkv.core.counts import counted
from hfkv.core.families.family import Family, generic_layer, plain_layers
from hfkv.core.patterns import NONE, layer_count, layer_names
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role
from hfkv.errors import MalformedError, UnsupportedError

__all__ = ["IRREGULAR", "PROMPT_KEPT"]

# Their window slides over what is generated; the prompt is kept whole.
PROMPT_KEPT = frozenset({"unlimited_ocr_text"})

_HF = "transformers 5.24, {}"


def _inner_attention(cfg: Config) -> tuple[Layer, ...]:
    """DBRX and MPT: `attn_config.kv_n_heads`; absent means 1 for dbrx, all heads for mpt.

    Source: databricks/dbrx-base configuration; llm-foundry's MPT (transformers ignores it).
    """
    part = cfg.part("attn_config")
    count = part.positive("kv_n_heads") if part else None
    if count is None and cfg.model_type == "dbrx":
        count = 1
    layers = plain_layers(cfg)
    if count is None:
        return layers
    cfg.log.readings.pop("num_key_value_heads", None)
    cfg.note("num_key_value_heads", count, cfg.where("attn_config.kv_n_heads"))
    dim = kinds.head_dim(cfg)
    store = Grows(heads=count, key=dim, value=dim)
    return tuple(Layer(kind=x.kind, stores=(store,), heads=x.heads) for x in layers)


def _nas_heads(cfg: Config, block: object) -> int | None:
    """Return the KV heads of one Nemotron-NAS block, None when it has no attention."""
    where = cfg.where("block_configs")
    attention = block.get("attention") if isinstance(block, dict) else None
    if not isinstance(attention, dict):
        raise MalformedError("expected an attention object in each block", where=where)
    if attention.get("no_op") or attention.get("replace_with_linear"):
        return None
    group = attention.get("n_heads_in_group")
    if not isinstance(group, int) or isinstance(group, bool) or group < 1:
        raise MalformedError("n_heads_in_group is not a positive number", where=where)
    return kinds.heads(cfg) // group


def _nemotron_nas(cfg: Config) -> tuple[Layer, ...]:
    """Nemotron-NAS: every block states its own attention, or none.

    Source: nvidia/Llama-3_3-Nemotron-Super-49B-v1 configuration_decilm.py.
    """
    blocks = cfg.items("block_configs") or []
    if len(blocks) != layer_count(cfg):
        raise UnsupportedError(
            f"has {counted(len(blocks), 'entry')} for {counted(layer_count(cfg), 'layer')}",
            where=cfg.where("block_configs"),
            code="contradiction",
        )
    dim, layers = kinds.head_dim(cfg), []
    for block in blocks:
        count = _nas_heads(cfg, block)
        if count is None:
            layers.append(kinds.nothing())
        else:
            store = Grows(heads=count, key=dim, value=dim)
            layers.append(Layer(kind=LayerKind.FULL, stores=(store,), heads=kinds.heads(cfg)))
    return tuple(layers)


def _dory(cfg: Config) -> tuple[Layer, ...]:
    """Dory: attention and MLP blocks are listed apart, and the middle ones run in loops.

    A file without a list counts blocks of both, three windows then one full. Every loop
    keeps its own cache unless `recurrent_kv_cache_mode` is "last_loop".
    Source: transformers 5.24 modeling_dory.py.
    """
    every_block = layer_names(cfg)
    names = [name for name in every_block if name != NONE]
    scale = 2 if len(names) < len(every_block) else 1
    first = (cfg.count("n_input_layers") or 0) // scale
    last = (cfg.count("n_output_layers") or 0) // scale
    layers = [generic_layer(cfg.at(i), name) for i, name in enumerate(names)]
    loops = cfg.positive("n_recurrent_loops") or 1
    if cfg.text("recurrent_kv_cache_mode") == "last_loop" or loops * len(layers) > 10_000:
        loops = 1
    middle = layers[first : len(layers) - last]
    return (*layers[: len(layers) - last], *(middle * (loops - 1)), *layers[len(layers) - last :])


def _hrm(cfg: Config) -> tuple[Layer, ...]:
    """HRM-text: stacks of layers run in nested cycles, each pass with its own cache.

    A file with `num_layers_per_stack` states the product already.
    Source: transformers 5.24 configuration_hrm_text.py.
    """
    count = layer_count(cfg)
    if cfg.given("num_layers_per_stack") is None:
        high, low = cfg.positive("H_cycles") or 2, cfg.positive("L_cycles") or 3
        count *= high * (low + 1)
    return plain_layers(cfg, min(count, 10_000))


def _jetmoe(cfg: Config, _name: str) -> Layer:
    """JetMoE: every expert of attention reads the same `num_key_value_heads` heads."""
    dim, count = cfg.need("head_dim"), cfg.need("num_key_value_heads")
    active = cfg.positive("num_experts_per_tok") or 1
    store = Grows(heads=count, key=dim, value=dim)
    return Layer(kind=LayerKind.FULL, stores=(store,), heads=count * active)


def _xlnet(cfg: Config) -> tuple[Layer, ...]:
    """XLNet keeps hidden states of the last `mem_len` tokens (`mems`), not keys and values.

    No length, or 0, keeps all of them; `use_mems_eval` false keeps none.
    Source: transformers 5.24 modeling_xlnet.py, XLNetModel.cache_mem.
    """
    if cfg.flag("use_mems_eval") is False:
        return (kinds.nothing(),) * layer_count(cfg)
    limit = cfg.positive("mem_len")
    store = Grows(key=cfg.need("hidden_size"), window=limit)
    kind = LayerKind.FULL if limit is None else LayerKind.SLIDING
    return (Layer(kind=kind, stores=(store,), heads=kinds.heads(cfg)),) * layer_count(cfg)


def _reformer(cfg: Config) -> tuple[Layer, ...]:
    """Reformer keeps hidden states; hash layers add an int64 bucket per hash and head.

    Source: transformers 5.24 modeling_reformer.py, past_buckets_states.
    """
    hidden = Grows(key=cfg.need("hidden_size"))
    names = cfg.items("attn_layers") or []
    layers = []
    for name in names:
        stores: tuple[Grows, ...] = (hidden,)
        if name == "lsh":
            hashes = cfg.positive("num_hashes") or 1
            stores += (Grows(heads=kinds.heads(cfg), key=hashes, role=Role.INDEX, dtype="int64"),)
        layers.append(Layer(kind=LayerKind.FULL, stores=stores, heads=kinds.heads(cfg)))
    return tuple(layers)


def _cpmant(cfg: Config, name: str) -> Layer:
    """CPM-Ant puts a learned prompt of `prompt_length` positions before the text."""
    base = generic_layer(cfg, name)
    length = cfg.count("prompt_length") or 0
    prompt = Fixed(
        elements=length * sum(s.elements for s in base.stores),
        heads=kinds.key_value_heads(cfg),
        role=Role.KV,
    )
    return Layer(kind=base.kind, stores=(*base.stores, prompt), heads=base.heads)


def _assistant(cfg: Config) -> tuple[Layer, ...]:
    """Gemma 4's draft models read the target's cache and keep none of their own."""
    return (kinds.shared(),) * layer_count(cfg)


def _unlimited_ocr(cfg: Config) -> tuple[Layer, ...]:
    """Unlimited-OCR keeps the whole prompt and a window over what it generates.

    The prompt's share of the tokens is not known here, so everything is counted.
    Source: transformers 5.24 modeling_unlimited_ocr.py.
    """
    return plain_layers(cfg)


def _hunyuan(cfg: Config, name: str) -> Layer:
    """Hunyuan-Large: with `use_cla`, each group of layers reads its first layer's cache.

    Source: Hunyuan-Large report (arXiv 2411.02265), cross-layer attention.
    """
    factor = cfg.positive("cla_share_factor") or 1
    if cfg.flag("use_cla") and (cfg.layer or 0) % factor:
        return kinds.shared()
    return generic_layer(cfg, name)


def _dense(cfg: Config) -> tuple[Layer, ...]:
    names = layer_names(cfg)
    return tuple(generic_layer(cfg.at(i), name) for i, name in enumerate(names))


IRREGULAR: tuple[Family, ...] = (
    Family(
        name="dbrx",
        model_types=("dbrx", "mpt"),
        source="databricks/dbrx-base configuration_dbrx.py; llm-foundry MPTConfig",
        whole=_inner_attention,
    ),
    Family(
        name="nemotron-nas",
        model_types=("nemotron-nas", "deci"),
        source="nvidia/Llama-3_3-Nemotron-Super-49B-v1 configuration_decilm.py",
        whole=_nemotron_nas,
        layer_kinds=(LayerKind.FULL, LayerKind.NONE),
    ),
    Family(name="dory", model_types=("dory",), source=_HF.format("modeling_dory.py"), whole=_dory),
    Family(
        name="hrm_text",
        model_types=("hrm_text",),
        source=_HF.format("configuration_hrm_text.py"),
        whole=_hrm,
    ),
    Family(
        name="jetmoe",
        model_types=("jetmoe",),
        source=_HF.format("modeling_jetmoe.py"),
        layer=_jetmoe,
    ),
    Family(
        name="xlnet", model_types=("xlnet",), source=_HF.format("modeling_xlnet.py"), whole=_xlnet
    ),
    Family(
        name="reformer",
        model_types=("reformer",),
        source=_HF.format("modeling_reformer.py"),
        whole=_reformer,
    ),
    Family(
        name="cpmant",
        model_types=("cpmant",),
        source=_HF.format("modeling_cpmant.py"),
        layer=_cpmant,
    ),
    Family(
        name="gemma4_assistant",
        model_types=("gemma4_assistant", "gemma4_unified_assistant"),
        source=_HF.format("modeling_gemma4_assistant.py"),
        whole=_assistant,
        kind="other",
        layer_kinds=(LayerKind.SHARED,),
    ),
    Family(
        name="unlimited_ocr",
        model_types=tuple(PROMPT_KEPT),
        source=_HF.format("modeling_unlimited_ocr.py"),
        whole=_unlimited_ocr,
    ),
    Family(
        name="hunyuan",
        model_types=("hunyuan",),
        source="tencent/Tencent-Hunyuan-Large modeling_hunyuan.py; arXiv 2411.02265",
        layer=_hunyuan,
        layer_kinds=(LayerKind.FULL, LayerKind.SHARED),
    ),
    Family(
        name="remote-code dense",
        model_types=(
            "baichuan",
            "bailing_moe",
            "chatglm",
            "deepseek",
            "exaone4_5_text",
            "internlm",
            "internlm2",
            "kimi_k2",
            "minicpm",
            "openelm",
            "orion",
            "phi-msft",
            "phi3_v",
            "qwen",
            "RefinedWeb",
            "RefinedWebModel",
            "telechat",
        ),
        source="modeling files in the models' own repositories; vLLM 0.32 model registry",
        whole=_dense,
        layer_kinds=(LayerKind.FULL,),
    ),
)
