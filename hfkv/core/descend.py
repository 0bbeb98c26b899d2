"""Find the part of a config.json that describes the decoder.

A composite model nests it (`text_config`, `thinker_config.text_config` …) or, in older
files, leaves it flat beside the vision part. A nested part takes the defaults of its own
model_type; values that the parent passes count only where the part is missing, except in
the few classes that merge them.
"""

from __future__ import annotations

from typing import Any

from hfkv.core.config import Config, class_defaults

__all__ = ["decoder_part"]

# Names of the nested decoder, best first; the first five are transformers' own.
_PARTS = (
    "text_config",
    "thinker_config",
    "decoder",
    "decoder_config",
    "language_config",  # DeepSeek-VL, DeepSeek-OCR
    "llm_config",  # InternVL, Ming
    "llm_cfg",  # VILA
    "language",  # Infimm
    "text_model",
    "talker_config",
)
_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def decoder_part(root: Config) -> Config:
    """Return the Config of the decoder inside `root`, or `root` itself when it is flat."""
    found = root
    for _ in range(3):  # the deepest public nesting is thinker_config.text_config
        deeper = _one_level(found)
        if deeper is None:
            return found
        found = deeper
    return found


def _one_level(cfg: Config) -> Config | None:
    parts = class_defaults().get(cfg.model_type or "", {}).get("parts", {})
    for name, part in parts.items():
        if isinstance(cfg.values.get(name), dict):
            return _nested(cfg, name, part)
    if parts:
        return _flat_or_absent(cfg, next(iter(parts.values())))
    for name in _PARTS:
        value = cfg.values.get(name)
        if not isinstance(value, dict) or not _describes_layers(value):
            continue
        if not _own_layers(cfg):
            return cfg.part(name)
        if value.get("model_type") in class_defaults():
            return _copied_outside(cfg, name)
    return None


def _copied_outside(cfg: Config, name: str) -> Config | None:
    """Return a nested decoder some of whose numbers stand only in the outer object."""
    nested = cfg.part(name)
    if nested is not None:
        outer = {k: v for k, v in cfg.values.items() if isinstance(v, (int, float, str))}
        outer.pop("model_type", None)
        nested.defaults = {**nested.defaults, **outer}
    return nested


def _nested(cfg: Config, name: str, part: dict[str, Any]) -> Config | None:
    """Return a part that the file states, with the defaults of its own model_type."""
    values = cfg.values[name]
    own = values.get("model_type")
    known = own if isinstance(own, str) and own else part["model_type"]
    nested = cfg.part(name, model_type=known)
    if nested is not None and part["merged"] and known == part["model_type"]:
        nested.defaults = {**nested.defaults, **part["values"]}
    return nested


def _flat_or_absent(cfg: Config, part: dict[str, Any]) -> Config:
    """Return the decoder of a composite class whose file nests nothing.

    The keys are in the outer object (Qwen2-VL) or missing altogether; what is missing is
    what the parent passes, then the part's class default.
    """
    entry = class_defaults().get(part["model_type"], {})
    defaults = {**entry.get("keys", {}), **part["values"]}
    flat = Config(
        cfg.values,
        path=cfg.path,
        model_type=part["model_type"],
        defaults=defaults,
        log=cfg.log,
    )
    inner = entry.get("parts")
    return _flat_or_absent(flat, next(iter(inner.values()))) if inner else flat


def _describes_layers(values: dict[str, Any]) -> bool:
    nested = values.get("text_config")
    if isinstance(nested, dict):
        return True
    return any(key in values for key in (*_COUNTS, "hidden_size", "model_type", "architectures"))


def _own_layers(cfg: Config) -> bool:
    return any(cfg.values.get(key) is not None for key in _COUNTS)
