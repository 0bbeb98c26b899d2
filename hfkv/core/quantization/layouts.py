"""Which tensors belong together, and which rule reads them: header only, config as a hint.

A layout is recognised by the suffix and dtype of the tensor that holds the values and by
what stands beside it. `LAYOUTS` is the whole list, most specific first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from hfkv.core.files import TensorGroup
from hfkv.core.quantization import codebooks, floats, ints
from hfkv.core.quantization.parts import Parts, Scheme, Stored, Unpacked
from hfkv.core.record import dataclass

__all__ = ["LAYOUTS", "Layout", "split_name", "unpack"]

Rule = Callable[[Parts], Unpacked]


@dataclass(frozen=True, slots=True)
class Layout:
    """One row: the values' suffix and dtypes, what must stand beside them, and the rule."""

    key: str
    dtypes: tuple[str, ...]
    rule: Rule
    needs: tuple[str, ...] = ()
    when: Callable[[Parts], bool] | None = None

    def fits(self, parts: Parts) -> bool:
        """Return whether a module has this layout."""
        return (
            (not self.dtypes or parts.values.dtype in self.dtypes)
            and all(key in parts.beside for key in self.needs)
            and (self.when is None or self.when(parts))
        )


def _declared(*methods: str) -> Callable[[Parts], bool]:
    return lambda p: p.scheme is not None and p.scheme.declared in methods


def _is_gemma(p: Parts) -> bool:
    return _declared("gemma")(p) or "input_activation_scale" in p.beside


def _is_bitnet(p: Parts) -> bool:
    return _declared("bitnet")(p)


def _byte_scaled(p: Parts) -> bool:
    return p.dtype("weight_scale") in {*floats.MX_SCALES, "F8_E4M3"}


def _one_scale(p: Parts) -> bool:
    return p.beside["weight_scale"].elements == 1


def _is_modelopt_awq(p: Parts) -> bool:
    return "pre_quant_scale" in p.beside or _declared("modelopt")(p)


# A bare name (`experts.gate_up_proj`, a 3-D parameter) counts as `weight`.
LAYOUTS: tuple[Layout, ...] = (
    Layout("weight", (), floats.bitsandbytes_4bit, ("weight.absmax",)),
    Layout("weight", ("I8",), ints.int8, ("SCB",)),
    Layout("weight", ("I8", "U8"), ints.gemma, ("weight_scale",), _is_gemma),
    Layout("embedding_quantized", ("I8", "U8"), ints.gemma),
    Layout("weight", ("U8",), ints.bitnet, (), _is_bitnet),
    Layout("weight", ("U8",), floats.nvfp4, ("weight_scale_2",)),
    Layout("weight", ("U8",), floats.block_scaled, ("weight_scale",), _byte_scaled),
    Layout("weight", ("U8",), ints.modelopt_awq, ("weight_scale",), _is_modelopt_awq),
    Layout("weight", ("U8",), ints.bitnet, ("weight_scale",), _one_scale),
    Layout("weight", ("I8",), floats.deepseek_fp4, ("scale",)),
    Layout("weight", ("I8",), ints.eetq, ("weight_scales",)),
    Layout("weight", ("I8",), ints.int8, ("weight_scale",)),
    Layout("weight", floats.FP8, floats.fp8),
    Layout("weight", ("U32",), ints.mlx, ("scales",)),
    Layout("weight", ("I32",), ints.quark_int4, ("weight_scale",)),
    Layout("weight", ("I16",), codebooks.higgs, ("tables",)),
    Layout("weight_packed", ("I32",), ints.marlin_24, ("scale_packed",)),
    Layout("weight_packed", ("I32",), ints.pack_quantized),
    Layout("weight_packed", ("U8",), floats.block_scaled, ("weight_scale",)),
    Layout("compressed", (), ints.sparse_24, ("bitmask",)),
    Layout("qweight", ("I32",), ints.qweight, ("scales",)),
    Layout("qweight", ("I16",), ints.awq_fast, ("scales",)),
    Layout("qweight", ("U8",), ints.fp_quant, ("scales",)),
    Layout("blocks", ("U8",), floats.gpt_oss, ("scales",)),
    Layout("codes", (), codebooks.aqlm, ("codebooks",)),
    Layout("indices", (), codebooks.vptq, ("centroids.weight",)),
    Layout("trellis", (), codebooks.exl3),
    Layout("q_weight", ("I32",), codebooks.exl2),
    Layout("W_q", (), ints.hqq),
    Layout("dense_weights", ("I64",), codebooks.spqr),
    Layout("_weight_qdata", (), ints.torchao),
    Layout("weight._data", (), ints.quanto),
    Layout("weight._data._data", ("U8",), ints.quanto_packed),
)

# What quantizers store beside the values. None of it is a parameter of the model.
_BESIDE = """
    weight.absmax weight.quant_map weight.nested_absmax weight.nested_quant_map
    weight.quant_state.bitsandbytes__nf4 weight.quant_state.bitsandbytes__fp4
    weight._scale weight._shift SCB weight_format
    weight_scale weight_scale_inv weight_scale_2 weight_scales weight_global_scale
    weight_zero_point weight_shape weight_g_idx weight_bias k_bias v_bias input_scale input_scale_ub
    input_global_scale input_zero_point output_scale output_zero_point pre_quant_scale
    svdquant_lora_a svdquant_lora_b input_activation_scale output_activation_scale
    embedding_scale scales qzeros g_idx biases qbiases scale zero scale_inv scale_packed meta
    bitmask shape row_offsets col_vals in_perm codebooks centroids.weight res_centroids.weight
    outlier_centroids.weight outlier_indices res_indices perm suh svh su sv mcg mul1 q_scale
    q_scale_max q_groups q_group_map q_invperm q_perm tables tables2 act_global_scale
    forward_hadamard_matrix backward_hadamard_matrix nbits group_size axis packing
    compute_dtype view_as_float quant_scale quant_zero unpack_view_dtype channel_wise optimize
    round_zero offload_meta stores_quant_config quant_zero_meta quant_scale_meta encoded_state_dict
    _weight_scale _weight_zero_point _weight_act_pre_scale
""".split()  # noqa: SIM905 - a column of words reads better than a list of strings

# Those whose name alone says so, whatever stands beside them.
_ALWAYS = frozenset(
    """
    weight_scale weight_scale_inv weight_scale_2 weight_scales weight_global_scale
    weight_zero_point weight_shape weight_g_idx input_scale input_scale_ub input_global_scale
    input_zero_point output_scale output_zero_point pre_quant_scale k_scale v_scale kv_scale
    q_scale prob_scale k_zero_point v_zero_point svdquant_lora_a svdquant_lora_b
    input_activation_scale output_activation_scale _weight_scale _weight_zero_point
    _weight_act_pre_scale
    """.split()  # noqa: SIM905 - as above
)

_VALUES = frozenset(layout.key for layout in LAYOUTS)
_KEYS = sorted({*_BESIDE, *_ALWAYS, *_VALUES, "bias"}, key=len, reverse=True)
_NAME = re.compile(rf"(.+?)[._]({'|'.join(map(re.escape, _KEYS))})")

# Masks, positions and tables that transformers registers as buffers.
_BUFFER = re.compile(
    r"(^|\.)(rotary_emb\.inv_freq|inv_freq|masked_bias|position_ids|num_batches_tracked|tid2eid"
    r"|attn\.bias|attention\.bias)$"
)

_Modules = dict[str, dict[str, list[TensorGroup]]]


def split_name(name: str) -> tuple[str, str]:
    """Return the module of a tensor and the suffix that says what it is to that module."""
    found = _NAME.fullmatch(name)
    return (found[1], found[2]) if found else (name, "weight")


def unpack(tensors: Iterable[TensorGroup], scheme: Scheme | None) -> tuple[Stored, ...]:
    """Return what every tensor group holds, in the same order."""
    groups = tuple(tensors)
    modules: _Modules = {}
    for group in groups:
        module, key = split_name(group.name)
        modules.setdefault(module, {}).setdefault(key, []).append(group)
    answers: dict[TensorGroup, Stored] = {}
    for module, keys in modules.items():
        answers.update(_unpack_module(module, keys, scheme))
    return tuple(answers.get(group) or _unquantized(group) for group in groups)


def _unpack_module(
    module: str, keys: dict[str, list[TensorGroup]], scheme: Scheme | None
) -> dict[TensorGroup, Stored]:
    found: dict[TensorGroup, Stored] = {}
    for key in _VALUES & keys.keys():
        for values in keys[key]:
            stored = _read(module, values, keys, scheme)
            if stored is not None:
                found[values] = stored
    if found:
        for key, groups in keys.items():
            if key not in _VALUES and key != "bias":
                found.update((g, Stored(group=g, layout="overhead", parameters=0)) for g in groups)
    return found


def _read(
    module: str, values: TensorGroup, keys: dict[str, list[TensorGroup]], scheme: Scheme | None
) -> Stored | None:
    _, own = split_name(values.name)
    beside = {k: _same_layers(gs, values) for k, gs in keys.items() if k != own}
    parts = Parts(module=module, values=values, beside=beside, scheme=scheme)
    for layout in LAYOUTS:
        if layout.key == own and layout.fits(parts):
            answer = _answer(layout.rule, parts)
            return Stored(
                group=values,
                layout=answer.layout,
                parameters=answer.parameters,
                shape=answer.shape,
            )
    return None


def _answer(rule: Rule, parts: Parts) -> Unpacked:
    try:
        return rule(parts)
    except (ValueError, IndexError, ZeroDivisionError):
        # fewer dimensions than the layout has, or empty ones: no writer makes these
        return Unpacked(layout="unknown", parameters=None)


def _same_layers(groups: list[TensorGroup], values: TensorGroup) -> TensorGroup:
    """Return the group that stands in the layers of the values (shapes may differ by layer)."""
    layers = set(values.layers)
    return max(groups, key=lambda g: (g.layers == values.layers, len(layers & {*g.layers})))


def _unquantized(group: TensorGroup) -> Stored:
    _, key = split_name(group.name)
    if key in _ALWAYS:
        return Stored(group=group, layout="overhead", parameters=0)
    if group.dtype in {"BOOL", "I64"} or _is_buffer(group):
        return Stored(group=group, layout="buffer", parameters=0)
    integer = group.dtype[:1] in {"I", "U"}
    if integer and len(group.shape) < 2:
        return Stored(group=group, layout="buffer", parameters=0)
    if integer:
        return Stored(group=group, layout="unknown", parameters=None)
    return Stored(group=group, layout="plain", parameters=group.elements, shape=group.shape)


def _is_buffer(group: TensorGroup) -> bool:
    if not _BUFFER.search(group.name):
        return False
    # gpt2's `attn.bias` is a causal mask [1, 1, n, n]; a one-dimensional one is a real bias
    return not group.name.endswith("n.bias") or len(group.shape) == 4
