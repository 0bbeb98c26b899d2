"""Which tensors belong together, and which rule reads them: header only, config as a hint.

A layout is recognised by the suffix and dtype of the tensor that holds the values and by
what stands beside it. `LAYOUTS` is the whole list, most specific first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

from hfkv.core.files import TensorGroup
from hfkv.core.quantization import codebooks, floats, ints
from hfkv.core.quantization.parts import Parts, Scheme, Stored, Unpacked
from hfkv.core.record import dataclass

__all__ = ["KEYS", "LAYOUTS", "Layout", "split_name", "unpack"]

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
    qscale_weight qscale_act input_activation_scale output_activation_scale
    _weight_scale _weight_zero_point _weight_act_pre_scale
    """.split()  # noqa: SIM905 - as above
)

_BY_KEY: dict[str, tuple[Layout, ...]] = {
    row.key: tuple(other for other in LAYOUTS if other.key == row.key) for row in LAYOUTS
}
_ALONE = {key: tuple(row for row in rows if not row.needs) for key, rows in _BY_KEY.items()}
_VALUES = _BY_KEY.keys()
KEYS = frozenset({*_BESIDE, *_ALWAYS, *_VALUES, "bias"})
_LONGEST_KEY = max(map(len, KEYS))
_BORDER = re.compile("[._]")

# A module whose tensors of one suffix have more shapes than this in one layer is no model's.
_MOST_SHAPES = 64

# Masks, positions and tables that transformers registers as buffers.
_BUFFER = re.compile(
    r"(^|\.)(rotary_emb\.inv_freq|inv_freq|masked_bias|position_ids|num_batches_tracked|tid2eid"
    r"|attn\.bias|attention\.bias)$"
)

_OVERHEAD = Unpacked(layout="overhead", parameters=0)
_UNUSED = Unpacked(layout="buffer", parameters=0)
_STRANGE = Unpacked(layout="unknown", parameters=None)

# The last answer: one analysis asks for it five times. Kept by identity, one model at most.
_Hints = tuple[object, ...]
_LAST: list[tuple[tuple[TensorGroup, ...], _Hints, tuple[Stored, ...]]] = []


def split_name(name: str) -> tuple[str, str]:
    """Return the module of a tensor and the suffix that says what it is to that module.

    >>> split_name("model.norm.weight"), split_name("lm_head.weight.absmax")
    (('model.norm', 'weight'), ('lm_head', 'weight.absmax'))
    """
    # the longest suffix wins: `weight.absmax` is one, and so is `absmax`
    for match in _BORDER.finditer(name, max(len(name) - _LONGEST_KEY - 1, 1)):
        key = name[match.end() :]
        if key in KEYS:
            return name[: match.start()], key
    return name, "weight"


def unpack(tensors: Iterable[TensorGroup], scheme: Scheme | None) -> tuple[Stored, ...]:
    """Return what every tensor group holds, in the same order."""
    groups = tuple(tensors)
    hints = _hints(scheme)
    for known, last, answer in _LAST:
        if known is groups and last == hints:
            return answer
    modules: dict[str, dict[str, _Beside]] = {}
    names = [split_name(group.name) for group in groups]
    for group, (module, key) in zip(groups, names, strict=True):
        keys = modules.setdefault(module, {})
        if key not in keys:
            keys[key] = _Beside()
        keys[key].groups.append(group)
    answers: dict[int, Unpacked] = {}
    for module, keys in modules.items():
        _unpack_module(module, keys, scheme, answers)
    found = tuple(
        _stored(group, module, key, answers.get(id(group)))
        for group, (module, key) in zip(groups, names, strict=True)
    )
    _LAST[:] = [(groups, hints, found)]
    return found


def _stored(group: TensorGroup, module: str, key: str, answer: Unpacked | None) -> Stored:
    if answer is None:
        answer = _unquantized(group, key)
    return Stored(
        group=group,
        module=module,
        key=key,
        layout=answer.layout,
        parameters=answer.parameters,
        shape=answer.shape,
    )


def _hints(scheme: Scheme | None) -> _Hints:
    """Return all that a rule may look at in a scheme."""
    if scheme is None:
        return ()
    return (scheme.declared, scheme.bits, scheme.group_size, scheme.widths, scheme.shapes)


class _Beside:
    """The groups of one suffix in one module, found by the layers they stand in."""

    __slots__ = ("_at", "_exact", "groups")

    def __init__(self) -> None:
        self.groups: list[TensorGroup] = []
        self._exact: dict[tuple[int, ...], TensorGroup] | None = None

    def nearest(self, layers: tuple[int, ...]) -> TensorGroup:
        """Return the group that stands in these layers (shapes may differ by layer)."""
        if len(self.groups) == 1:
            return self.groups[0]
        exact = self._index() if self._exact is None else self._exact
        found = exact.get(layers)
        if found is not None:
            return found
        shared = Counter(i for layer in layers for i in self._at.get(layer, ()))
        most = max(shared.values(), default=0)
        return self.groups[min((i for i, n in shared.items() if n == most), default=0)]

    def _index(self) -> dict[tuple[int, ...], TensorGroup]:
        self._exact, self._at = {}, dict[int, list[int]]()
        for i, group in enumerate(self.groups):
            self._exact.setdefault(group.layers, group)
            for layer in group.layers:
                here = self._at.setdefault(layer, [])
                if len(here) < _MOST_SHAPES:
                    here.append(i)
        return self._exact


def _unpack_module(
    module: str, keys: dict[str, _Beside], scheme: Scheme | None, answers: dict[int, Unpacked]
) -> None:
    found = False
    for own in _VALUES & keys.keys():
        rows = _ALONE[own]
        if len(keys) > 1:
            rows = tuple(row for row in _BY_KEY[own] if keys.keys() >= set(row.needs))
        others = {key: beside for key, beside in keys.items() if key != own}
        for values in keys[own].groups if rows else ():
            if not any(values.dtype in row.dtypes or not row.dtypes for row in rows):
                continue
            near = {key: beside.nearest(values.layers) for key, beside in others.items()}
            parts = Parts(module=module, values=values, beside=near, scheme=scheme)
            row = next((row for row in rows if row.fits(parts)), None)
            if row is not None:
                answers[id(values)] = _answer(row.rule, parts)
                found = True
    if found:
        for key, beside in keys.items():
            if key not in _VALUES and key != "bias":
                answers.update((id(group), _OVERHEAD) for group in beside.groups)


def _answer(rule: Rule, parts: Parts) -> Unpacked:
    try:
        return rule(parts)
    except (ValueError, IndexError, ZeroDivisionError):
        # fewer dimensions than the layout has, or empty ones: no writer makes these
        return _STRANGE


def _unquantized(group: TensorGroup, key: str) -> Unpacked:
    if key in _ALWAYS:
        return _OVERHEAD
    if group.dtype in {"BOOL", "I64"} or _is_buffer(group):
        return _UNUSED
    integer = group.dtype[:1] in {"I", "U"}
    if integer and len(group.shape) < 2:
        return _UNUSED
    if integer:
        return _STRANGE
    return Unpacked(layout="plain", parameters=group.elements, shape=group.shape)


def _is_buffer(group: TensorGroup) -> bool:
    if not _BUFFER.search(group.name):
        return False
    # gpt2's `attn.bias` is a causal mask [1, 1, n, n]; a one-dimensional one is a real bias
    return not group.name.endswith("n.bias") or len(group.shape) == 4
