"""Mistral's own description of a model, `params.json` → what a config.json would say.

Its repositories hold `params.json` and `consolidated*.safetensors`, some of them nothing else.
Names stay as the file has them (`dim`, `n_layers`, `n_kv_heads` … are known spellings), so that a
report says where it read them; added is what the format leaves unsaid. What it does not state,
such as the longest context, stays unstated: the defaults of transformers' classes are not its own.
Source: vLLM 0.32 transformers_utils/configs/mistral.py (`--config-format mistral`).
"""

from __future__ import annotations

from typing import Any

__all__ = ["PARAMS", "as_config"]

PARAMS = "params.json"
_NEEDED = frozenset({"dim", "n_layers", "n_heads"})
# Absent means: none at all, every token, as many as heads, hidden_size / heads.
_UNSTATED = ("max_position_embeddings", "sliding_window", "n_kv_heads", "head_dim")
_EXPERTS = frozenset({"num_experts", "num_experts_per_tok"})
_QUANTIZATION = "quantization"


def as_config(params: dict[str, Any]) -> dict[str, Any] | None:
    """Return a config of the same model, None for a file that is none of Mistral's.

    Values are passed on unchecked; the reading of the config complains about wrong types.
    """
    if not params.keys() >= _NEEDED or "multiple_of" in params:  # Meta's files have that
        return None
    config = {**dict.fromkeys(_UNSTATED), **params}
    moe = params.get("moe")
    experts = moe if isinstance(moe, dict) else {}
    latent = bool(params.get("qk_nope_head_dim")) or bool(experts.get("num_shared_experts"))
    if latent:
        config |= {"model_type": "deepseek_v3", "num_mtp_layers": 0}
        name = "MistralLarge3ForCausalLM"
    elif experts:
        config["model_type"] = "mixtral"
        name = "MixtralForCausalLM"
    else:
        config["model_type"] = "mistral"
        name = "MistralForCausalLM"
    config["architectures"] = [_seeing(params, name)]
    config |= {key: experts[key] for key in _EXPERTS & experts.keys()}
    config["tie_word_embeddings"] = params.get("tied_embeddings", False)
    window = params.get("sliding_window")
    if isinstance(window, list):
        config |= _layered(window, params["n_layers"])
    told = config.pop(_QUANTIZATION, None)
    if isinstance(told, dict) and "quantization_config" not in config:
        fp8 = told.get("qformat_weight") == "fp8_e4m3"
        config["quantization_config"] = {"quant_method": "fp8"} if fp8 else told
    return config


def _seeing(params: dict[str, Any], name: str) -> str:
    """Return vLLM's name of the class: another one where the model sees or hears."""
    modes = params.get("multimodal")
    modes = modes if isinstance(modes, dict) else {}
    if params.get("vision_encoder") or modes.get("vision_encoder_args"):
        return "PixtralForConditionalGeneration"
    return "VoxtralForConditionalGeneration" if modes.get("whisper_model_args") else name


def _layered(windows: list[Any], layers: object) -> dict[str, Any]:
    """Return a list of windows, repeated over the layers, as layer types and one window."""
    repeats = layers // len(windows) if isinstance(layers, int) and windows else 0
    sizes = [size for size in windows if size is not None]
    kinds = ["full_attention" if size is None else "sliding_attention" for size in windows]
    return {"layer_types": kinds * repeats, "sliding_window": sizes[0] if sizes else None}
