"""Each figure of the architecture with its path and the tensor that confirms it."""

from __future__ import annotations

from collections.abc import Iterator

from hfkv.core.architecture import Architecture
from hfkv.core.counts import counted
from hfkv.core.evidence.compare import Evidence
from hfkv.core.readings import Confidence, Reading
from hfkv.core.record import dataclass
from hfkv.core.report import Report
from hfkv.render.phrases import CONFIDENCE

__all__ = ["Figure", "confidence_phrase", "confirming", "figures"]

# What a tensor confirms that no single key states: how it follows from the keys, and which.
_RULES: dict[str, tuple[str, tuple[str, ...]]] = {
    "key width": (
        "num_key_value_heads × head_dim",
        (
            *("num_key_value_heads", "head_dim", "kv_n_heads"),
            *("num_global_key_value_heads", "global_head_dim"),
        ),
    ),
    "value width": (
        "num_key_value_heads × width of a value",
        ("num_key_value_heads", "v_head_dim", "attention_k_eq_v"),
    ),
    "query, key and value width": (
        "(num_attention_heads + 2 × num_key_value_heads) × head_dim",
        (
            *("num_attention_heads", "num_key_value_heads", "head_dim", "kv_n_heads"),
            *("multi_query", "new_decoder_architecture"),
        ),
    ),
    "kv_lora_rank + qk_rope_head_dim": (
        "kv_lora_rank + qk_rope_head_dim",
        ("kv_lora_rank", "qk_rope_head_dim"),
    ),
    "cross-attention width": (
        "heads × width of a head",
        ("num_key_value_heads", "head_dim", "decoder_attention_heads"),
    ),
    "convolution state": (
        "channels × (kernel − 1)",
        ("conv_kernel", "conv_L_cache", "linear_conv_kernel_dim"),
    ),
    "recurrent state": (
        "heads × their width × size of the state",
        ("state_size", "mamba_num_heads", "linear_num_value_heads"),
    ),
    "source positions": (
        "longest source",
        ("max_source_positions", "max_position_embeddings", "n_positions"),
    ),
}

_NAMES = {"kv_lora_rank + qk_rope_head_dim": "latent width"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure: where it comes from, and what the tensors say of it, if anything.

    `confirmed` is a tensor (a template of names) and where it is, or the figure that was
    confirmed and holds this one.
    """

    name: str
    value: object
    path: str
    confirmed: str | None


def confirming(agreement: Reading) -> tuple[str, int | None]:
    """Return the tensor of an agreement, a template of names, and in how many layers it is."""
    tensor, _, rest = agreement.source.removeprefix("`").rpartition("`")
    words = rest.split()
    return tensor, int(words[1]) if words else None


def figures(report: Report) -> Iterator[Figure]:
    """Yield what was read of the config, then what the tensors confirm beyond single keys."""
    agreed = {reading.field: reading for reading in report.evidence.agreements}
    known = {reading.field for reading in report.architecture.readings}
    within = {
        part: field
        for field in reversed(agreed)
        for part in _RULES.get(field, ("", ()))[1]
        if part not in agreed
    }
    for reading in report.architecture.readings:
        tensor = _where(agreed[reading.field]) if reading.field in agreed else None
        part = within.get(reading.field)
        part = f"within the {_NAMES.get(part, part)}" if part else None
        yield Figure(
            name=reading.field, value=reading.value, path=reading.source, confirmed=tensor or part
        )
    for reading in report.evidence.agreements:
        if reading.field not in known:
            rule = _RULES.get(reading.field, ("from the figures above", ()))[0]
            name = _NAMES.get(reading.field, reading.field)
            yield Figure(name=name, value=reading.value, path=rule, confirmed=_where(reading))


def _where(agreement: Reading) -> str:
    tensor, layers = confirming(agreement)
    return tensor if layers is None else f"{tensor} in {counted(layers, 'layer')}"


def confidence_phrase(architecture: Architecture, evidence: Evidence) -> str:
    """Return what the confidence of an architecture means, and what it does not cover."""
    if architecture.from_tensors:
        return "the layer table is from tensors; no config could be read"
    phrase = CONFIDENCE[architecture.confidence.name.lower()]
    if architecture.confidence is Confidence.CONFIRMED and evidence.silent:
        return f"{phrase}; {', '.join(evidence.silent)}"
    return phrase
