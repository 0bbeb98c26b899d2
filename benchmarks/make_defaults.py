"""Derive hfkv/core/defaults.json from a dump of transformers' config classes.

    python benchmarks/make_defaults.py transformers_defaults.json hfkv/core/defaults.json

The dump has one entry per model_type with every constructor default; this keeps only what
decides a cache: sizes, patterns, aliases, and which nested part is the decoder.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

# What a cache depends on; anything else in a config class is dropped.
_KEEP = re.compile(
    r"""^(
    (encoder_|decoder_|cross_|swa_|num_decoder_|num_encoder_|num_global_)?
        (num_)?(hidden_size|hidden_layers|layers|attention_heads|key_value_heads|heads|head_dim)
    |n_(layer|layers|head|heads|embd|embed|positions)|num_kv_heads|num_blocks|d_model|d_kv|d_head
    |decoder_num_\w+|encoder_num_\w+|num_layers_per_stack|attention_head_(size|dim)
    |[qk]k?_?(nope|rope)_head_dim|v_head_dim|kv_lora_rank|global_head_dim|dim_head|kv_channels
    |embed_dim|layers|attention_heads|max_(position_embeddings|seq_len|source_positions
    |target_positions)|context_length|is_decoder|is_encoder_decoder|add_cross_attention
    |tie_word_embeddings|sliding_window(_size|_pattern)?|window_size|local_attention
    |attention_(window_size|chunk_size|hidden_size|k_eq_v)|use_sliding_window|max_window_layers
    |global_attn_every_n_layers|full_attention_interval|attn_layer_(period|offset)
    |layer_group_size|no_rope_layers|no_rope_layer_interval|num_kv_shared_layers|multi_query
    |new_decoder_architecture|block_types|attn_layers|index_\w+|indexer_\w+|linear_\w+|mamba_\w+
    |n_mamba_heads|expand|state_size|ssm_state_size|conv_kernel|conv_kernel_size|conv_L_cache
    |conv1d_width|short_conv_kernel_size|n_groups|lru_width|intermediate_size|qk_dim_factor
    |cca_time\d|H_cycles|L_cycles|loop_\w+|n_(input|recurrent|output)_layers|n_recurrent_loops
    |recurrent_kv_cache_mode|prompt_length|compress_rate\w*|use_dsa|index_skip_topk_offset
    |num_(nextn_predict|mtp)_layers|num_local_experts|num_experts|n_routed_experts
    |num_experts_per_tok|cross_attention_layers|model_max_length|mem_len|num_attention_groups
    )$""",
    re.VERBOSE,
)
_PARTS = ("text_config", "thinker_config", "decoder", "decoder_config", "language_config")
_MEANT_FOR_ALIAS = re.compile(
    r"layers|heads|hidden_size|head_dim|window|kernel|max_position|expert"
)


def _keep(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in values.items()
        if _KEEP.match(key) and not (isinstance(value, str) and value.startswith("expr:"))
    }


def _pattern(effective: dict[str, Any]) -> Any:
    """Return the layer list of the class default as head + repeat, or the plain list."""
    found = effective.get("layer_types") or effective.get("layers_block_type")
    if isinstance(found, dict) and "runs" in found:
        return [name for name, count in found["runs"] for _ in range(count)]
    if isinstance(found, dict):
        return {key: found[key] for key in ("head", "repeat") if key in found}
    return found


def _entry(raw: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"class": raw["_class"]}
    if raw.get("_architectures"):
        entry["models"] = raw["_architectures"]
    keys = _keep(raw) | {
        key: value for key, value in _keep(raw.get("_legacy_keys", {})).items() if value is not None
    }
    entry["keys"] = {key: value for key, value in keys.items() if value is not None}
    alias = {
        key: name for key, name in raw.get("_alias", {}).items() if _MEANT_FOR_ALIAS.search(key)
    }
    parts = {
        key: {
            "model_type": part["model_type"],
            "values": _keep(part.get("when_absent", {})),
            "merged": bool(part.get("when_absent_also_merged")),
        }
        for key, part in raw.get("_sub_configs", {}).items()
        if key in _PARTS
    }
    pattern = _pattern(raw.get("_effective", {}))
    optional = {"alias": alias, "parts": parts, "layer_types": pattern}
    return entry | {key: value for key, value in optional.items() if value}


def main(source: str, target: str) -> None:
    """Write the derived table, one model type per line so that diffs can be read."""
    dump = json.loads(Path(source).read_text(encoding="utf-8"))
    version = dump.pop("_meta")["transformers_version"]
    lines = [f'"_source": "transformers {version} config classes"']
    lines += [
        f"{json.dumps(name)}: {json.dumps(_entry(raw), separators=(',', ':'))}"
        for name, raw in sorted(dump.items())
        if "_class" in raw
    ]
    Path(target).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
