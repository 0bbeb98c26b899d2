"""Config: one model's config.json, read by meaning instead of by spelling.

Precedence, in one place: a per-layer override beats a value in the file, which beats the
default of the file's model_type, which beats a generic rule (those live in `kinds.py`).
A key that is present with null is a value: it switches the class default off.
Every reading is recorded, so that a report can say where each figure came from.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from functools import cache
from pkgutil import get_data
from typing import Any

from hfkv.core.counts import as_count, counted, short
from hfkv.core.readings import Reading
from hfkv.errors import MalformedError, UnsupportedError

__all__ = ["ALIASES", "Config", "Log", "as_count", "class_defaults", "known_model_types"]

# Other spellings of a field, with who uses them. A class's own attribute map comes first.
ALIASES: dict[str, tuple[str, ...]] = {
    "num_hidden_layers": (
        "n_layer",  # gpt2, gpt-j, bloom, gpt_bigcode, RefinedWeb, moss, telechat
        "n_layers",  # dbrx, mpt, distilbert, Mistral params.json
        "num_layers",  # chatglm, t5, gpt_neo, LongCat
        "num_transformer_layers",  # OpenELM
        "layers",  # kosmos-2
        "num_blocks",  # xlstm
    ),
    "num_attention_heads": (
        "n_head",
        "n_heads",
        "num_heads",  # t5, gpt_neo, xlstm
        "num_query_heads",  # OpenELM, a list with one entry a layer
        "attention_heads",  # kosmos-2, xglm
    ),
    "num_key_value_heads": (
        "num_kv_heads",  # falcon; OpenELM (a list)
        "n_head_kv",  # RefinedWeb (falcon's remote code)
        "n_kv_heads",  # Mistral params.json
        "kv_n_heads",  # dbrx and mpt, inside attn_config
        "multi_query_group_num",  # chatglm2/3, glm-4, codegeex2
        "num_multi_query_heads",  # cogvlm2
        "num_attention_groups",  # step3
        "num_query_groups",  # CodeShell
        "n_query_groups",  # litgpt
        "num_kv_groups",
        "n_kv_head",
        "num_heads_kv",
        "kv_heads",
    ),
    "hidden_size": (
        "d_model",
        "n_embd",
        "n_embed",  # bloom, falcon
        "embed_dim",
        "model_dim",  # OpenELM
        "dim_model",
        "dim",  # Mistral params.json, distilbert
    ),
    "head_dim": (
        "d_kv",  # t5
        "kv_channels",  # qwen1, chatglm, glm-4, jetmoe
        "attention_head_dim",  # Hunyuan, zamba
        "attention_head_size",  # reformer
        "dim_head",  # cpmant
        "hidden_size_per_head",  # PLaMo-2
        "d_head",  # xlnet
    ),
    "sliding_window": ("sliding_window_size", "attention_window_size"),
    "sliding_window_pattern": ("_sliding_window_pattern",),  # gemma-3 re-saves
    "layer_types": ("layers_block_type",),  # jamba, zamba, nemotron_h
    "max_context": (
        "max_position_embeddings",
        "n_positions",
        "max_seq_len",
        "seq_length",
        "model_max_length",
        "max_sequence_length",
        "max_seq_length",
        "max_target_positions",
        "max_context_length",
        "context_length",
        "n_ctx",
    ),
    "state_size": ("mamba_d_state", "ssm_state_size"),
    "conv_kernel": ("mamba_d_conv",),
    "mamba_num_heads": ("mamba_n_heads", "n_mamba_heads"),
    "mamba_head_dim": ("mamba_d_head", "mamba_headdim"),
    "mamba_n_groups": ("mamba_ngroups", "n_groups"),
    "mamba_expand": ("expand",),
    "conv_L_cache": ("short_conv_kernel_size",),
    "num_mtp_layers": (
        "num_nextn_predict_layers",  # DeepSeek, GLM, EXAONE
        "mtp_num_hidden_layers",  # Qwen3.5
        "_num_mtp_layers",  # EXAONE-4.5
        "num_mtp_modules",  # MiniMax-M2
    ),
    "num_experts": (
        "n_routed_experts",
        "num_local_experts",
        "moe_num_experts",
        "moe_num_routed_experts",
    ),
    "num_experts_per_tok": ("moe_topk", "moe_top_k", "num_selected_experts", "moe_k"),
    "dtype": ("torch_dtype",),
}


# Names that are ours and in no file.
_OWN_NAMES = frozenset({"max_context"})


@cache
def class_defaults() -> dict[str, Any]:
    """Return what each known model_type's config class fills in, from defaults.json."""
    # importlib.resources would import tempfile, shutil and zipfile: a tenth of a whole run
    raw = get_data("hfkv.core", "defaults.json")
    assert raw is not None
    table: dict[str, Any] = json.loads(raw)
    table.pop("_source")
    return table


def known_model_types() -> frozenset[str]:
    """Return the model types whose config class hfkv has the defaults of."""
    return frozenset(class_defaults())


@dataclass(slots=True)
class Log:
    """What was read: readings by field (the first wins), and every key that was looked at.

    `file` is what messages call the config.
    """

    file: str = "config.json"
    readings: dict[str, Reading] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def note(self, name: str, value: object, source: str) -> None:
        """Record one figure and where it came from."""
        if name not in self.readings:
            self.readings[name] = Reading(field=name, value=value, source=source)


class Config:
    """A view on one part of a config.json, optionally on one layer of it."""

    __slots__ = (
        "_alias",
        "_overrides",
        "defaults",
        "layer",
        "log",
        "model_type",
        "path",
        "values",
    )

    def __init__(
        self,
        values: dict[str, Any],
        *,
        path: str = "",
        model_type: str | None = None,
        defaults: dict[str, Any] | None = None,
        log: Log | None = None,
        layer: int | None = None,
    ) -> None:
        own = values.get("model_type")
        self.values = values
        self.path = path
        self.model_type = model_type or (own if isinstance(own, str) else None)
        entry = class_defaults().get(self.model_type or "", {})
        self.defaults = entry.get("keys", {}) if defaults is None else defaults
        self._alias: dict[str, str] = dict(entry.get("alias", {}))
        self._overrides = _per_layer(values)
        self.log = log if log is not None else Log()
        self.layer = layer

    def at(self, layer: int) -> Config:
        """Return the same part as seen by one layer (lists and per-layer overrides)."""
        view = copy.copy(self)
        view.layer = layer
        return view

    def spelled(self, aliases: dict[str, str]) -> Config:
        """Return the same part with a family's own spellings of some fields."""
        view = copy.copy(self)
        view._alias = {**self._alias, **aliases}  # noqa: SLF001 - a copy of ourselves
        return view

    def where(self, key: str) -> str:
        """Return how a message names a field of this part: as the file spells it."""
        return f"{self.log.file}: {self.path}{self.spelled_as(key)}"

    def spelled_as(self, name: str) -> str:
        """Return the key that holds a field, or the usual one where none does."""
        spellings = self.spellings(name)
        found = (key for key in spellings if self.values.get(key) is not None)
        return next(found, spellings[1] if name in _OWN_NAMES else name)

    def spellings(self, name: str) -> tuple[str, ...]:
        """Return the keys that may hold a field, best first."""
        own = self._alias.get(name)
        first = (own, name) if own and own != name else (name,)
        return first + tuple(key for key in ALIASES.get(name, ()) if key not in first)

    def raw(self, name: str) -> Any | None:
        """Return the JSON value of a field, or None where neither file nor class has one."""
        override = self.layer_override()
        if override is not None:
            for key in self.spellings(name):
                if override.get(key) is not None:
                    return override[key]
        present = False
        for key in self.spellings(name):
            self.log.seen.add(self.path + key)
            if key in self.values:
                present = True
                if self.values[key] is not None:
                    self.log.note(name, self.values[key], self.where(key))
                    return self.values[key]
        if present:
            return None
        for key in self.spellings(name):
            if self.defaults.get(key) is not None:
                self.log.note(name, self.defaults[key], f"default of {self.model_type}")
                return self.defaults[key]
        return None

    def given(self, name: str) -> Any | None:
        """Return a field's value only when the file itself states it."""
        for key in self.spellings(name):
            self.log.seen.add(self.path + key)
            if self.values.get(key) is not None:
                return self.values[key]
        return None

    def count(self, name: str) -> int | None:
        """Return a field as a non-negative int; a list gives its entry for this layer."""
        value = self.raw(name)
        if value is None:
            return None
        where = self.where(name)
        if isinstance(value, list) and self.layer is not None:
            if self.layer >= len(value):
                raise MalformedError(
                    f"has {counted(len(value), 'entry')}, and layer {self.layer} needs one",
                    where=where,
                )
            value = value[self.layer]
            where = f"{where}[{self.layer}]"
            if value is None:
                return None
        return as_count(value, where=where)

    def positive(self, name: str) -> int | None:
        """Return a field as an int above zero; zero is treated as absent."""
        return self.count(name) or None

    def need(self, name: str) -> int:
        """Return a field as an int above zero, or raise UnsupportedError naming the key."""
        value = self.count(name)
        if value == 0:
            raise MalformedError("0 is not a size", where=self.where(name))
        if value is None:
            raise UnsupportedError(
                "the config does not state it",
                where=self.where(name),
                hint="supply a complete config with --config FILE",
                code="missing-key",
            )
        return value

    def flag(self, name: str) -> bool | None:
        """Return a field as a bool, or None where it is absent."""
        value = self.raw(name)
        if value is None or isinstance(value, bool):
            return value
        if value in (0, 1):
            return bool(value)
        raise MalformedError(f"expected true or false, got {short(value)}", where=self.where(name))

    def text(self, name: str) -> str | None:
        """Return a field as a string, or None where it is absent."""
        value = self.raw(name)
        if value is None or isinstance(value, str):
            return value
        raise MalformedError(f"expected a string, got {short(value)}", where=self.where(name))

    def items(self, name: str) -> list[Any] | None:
        """Return a field as a list, or None where it is absent."""
        value = self.raw(name)
        if value is None or isinstance(value, list):
            return value
        raise MalformedError(f"expected a list, got {short(value)}", where=self.where(name))

    def counts(self, name: str) -> list[int] | None:
        """Return a field as a list of non-negative ints, or None where it is absent."""
        values = self.items(name)
        if values is None:
            return None
        where = self.where(name)
        return [as_count(value, where=f"{where}[{i}]") for i, value in enumerate(values)]

    def entry(self, name: str) -> Any | None:
        """Return this layer's entry of a per-layer list, or None where there is none."""
        values = self.items(name)
        if values is None or self.layer is None or self.layer >= len(values):
            return None
        return values[self.layer]

    def part(self, name: str, *, model_type: str | None = None) -> Config | None:
        """Return a nested object as a Config of its own, or None where it is absent."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise MalformedError(f"expected an object, got {short(value)}", where=self.where(name))
        return Config(value, path=f"{self.path}{name}.", model_type=model_type, log=self.log)

    def note(self, name: str, value: object, source: str) -> None:
        """Record a figure that a rule derived."""
        self.log.note(name, value, source)

    def layer_override(self) -> dict[str, Any] | None:
        """Return this layer's entry of `per_layer_config`, if it has one."""
        return self._overrides.get(self.layer) if self.layer is not None else None


def _per_layer(values: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Return `per_layer_config` by layer; transformers 5 pads its keys with zeros ("05")."""
    table = values.get("per_layer_config")
    if not isinstance(table, dict):
        return {}
    return {
        int(key): value
        for key, value in table.items()
        if key.isdecimal() and len(key) < 10 and isinstance(value, dict)
    }
