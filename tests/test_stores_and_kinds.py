"""Stores and kinds: the arithmetic of one layer, worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
import safetensors

from hfkv.core import kinds
from hfkv.core.config import Config
from hfkv.core.dtypes import SAFETENSORS_BITS, cache_dtype, config_dtype
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role
from hfkv.errors import MalformedError, UnsupportedError, UsageError


@pytest.mark.parametrize(
    ("store", "tokens", "slots"),
    [
        (Grows(key=1), 100, 100),
        (Grows(key=1, window=16), 10, 10),
        (Grows(key=1, window=16), 100, 16),
        (Grows(key=1, window=16, chunked=True), 100, 16),
        (Grows(key=1, stride=4), 11, 2),
        (Grows(key=1, modulo=4), 11, 3),
    ],
)
def test_slots(store: Grows, tokens: int, slots: int) -> None:
    """A window caps, a ratio divides (rounding down), a buffer keeps the remainder."""
    assert store.slots(tokens) == slots


def test_elements_count_heads_keys_and_values() -> None:
    """8 heads x (192 + 128); a latent vector is shared by all heads."""
    assert Grows(heads=8, key=192, value=128).elements == 8 * 320
    assert Grows(key=576, role=Role.LATENT).elements == 576


@pytest.mark.parametrize(
    ("name", "count", "size"),
    [
        ("bf16", 3, 6),
        ("torch.float16", 3, 6),
        ("fp8", 3, 3),
        ("int4", 4, 2),
        ("q8_0", 64, 68),  # 2 blocks of 32 values and an fp16 scale
        ("q4_0", 64, 36),
        ("nvfp4", 32, 18),  # 2 blocks of 16 e2m1 values and an e4m3 scale
        ("fp4_e2m1", 32, 18),  # the same, as SGLang spells it
        ("FP32", 3, 12),
    ],
)
def test_cache_formats(name: str, count: int, size: int) -> None:
    """Every spelling gives the bytes of its blocks."""
    assert cache_dtype(name).size(count) == size


def test_a_row_that_does_not_fill_blocks_is_refused() -> None:
    """q8_0 cannot hold a row of 40 values."""
    with pytest.raises(UsageError) as error:
        cache_dtype("q8_0").size(40)
    assert str(error.value) == (
        "q8_0 stores values in blocks of 32, and a row of 40 does not fill them"
    )


def test_an_unknown_cache_format_lists_the_known_ones() -> None:
    """A typo is answered with what exists."""
    with pytest.raises(UsageError, match="unknown KV dtype 'bf61'") as error:
        cache_dtype("bf61")
    assert error.value.hint is not None
    assert "fp8" in error.value.hint


def test_bits_are_exact_fractions() -> None:
    """q8_0 is 8.5 bits a value: 272 bits for 32."""
    assert cache_dtype("q8_0").bits == (272, 32)


@pytest.mark.parametrize(
    ("value", "name"),
    [("bfloat16", "bfloat16"), ("torch.float32", "float32"), ("auto", None), ("uint8", None)],
)
def test_config_dtypes(value: str, name: str | None) -> None:
    """Only formats that something computes in count."""
    found = config_dtype(value, where="dtype")
    assert (found.name if found else None) == name
    assert config_dtype(None, where="dtype") is None
    with pytest.raises(MalformedError):
        config_dtype(16, where="dtype")


def file_of(dtype: str, size: int) -> bytes:
    """Return a safetensors file with one tensor of 8 elements in `size` bytes."""
    entry = {"t": {"dtype": dtype, "shape": [8], "data_offsets": [0, size]}}
    header = json.dumps(entry).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


@pytest.mark.parametrize("name", SAFETENSORS_BITS)
def test_dtype_widths_are_those_of_safetensors(name: str) -> None:
    """The safetensors package takes 8 elements in `bits` bytes, and not in one byte more."""
    bits = SAFETENSORS_BITS[name]
    assert safetensors.deserialize(file_of(name, bits))  # type: ignore[no-untyped-call]
    with pytest.raises(safetensors.SafetensorError):
        safetensors.deserialize(file_of(name, bits + 1))  # type: ignore[no-untyped-call]


def view(**config: Any) -> Config:
    """Return a one-layer view of a config."""
    return Config({"hidden_size": 64, "num_attention_heads": 8, **config}).at(0)


@pytest.mark.parametrize(
    ("config", "heads"),
    [
        ({}, 8),
        ({"num_key_value_heads": 2}, 2),
        ({"num_key_value_heads": None}, 8),
        ({"multi_query": True}, 1),
        # falcon-7b as transformers saves it; elsewhere a stated count is meant
        ({"model_type": "falcon", "multi_query": True, "num_kv_heads": 8}, 1),
        ({"multi_query": True, "num_kv_heads": 4}, 4),
        ({"num_query_groups": 2}, 2),  # CodeShell
        ({"multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 2}, 2),
        ({"multi_query": True, "n_head_kv": 2}, 2),  # RefinedWeb
        ({"multi_query_attention": True, "multi_query_group_num": 2}, 2),  # chatglm2
        ({"multi_query_attention": False, "multi_query_group_num": 2}, 8),
    ],
)
def test_kv_heads(config: dict[str, Any], heads: int) -> None:
    """An absent key is not always as many as query heads."""
    assert kinds.key_value_heads(view(**config)) == heads


def test_head_dim_is_stated_or_divided() -> None:
    """64 / 8 = 8 unless the file says otherwise; what does not divide is not guessed."""
    assert kinds.head_dim(view()) == 8
    assert kinds.head_dim(view(head_dim=32)) == 32
    with pytest.raises(UnsupportedError, match="hidden_size 65 does not divide by 8 heads"):
        kinds.head_dim(view(hidden_size=65))


def only(layer: Layer) -> list[tuple[int, str | None]]:
    """Return (elements, dtype) of the fixed stores of a layer."""
    return [(s.elements, s.dtype) for s in layer.stores if isinstance(s, Fixed)]


def test_mamba1() -> None:
    """Inner 2 x 64 = 128: conv 128 x 3, state 128 x 16 in float32."""
    layer = kinds.mamba1(view(mamba_expand=2, mamba_d_state=16, mamba_d_conv=4))
    assert only(layer) == [(128 * 3, None), (128 * 16, "float32")]
    assert layer.kind is LayerKind.STATE_SPACE


def test_mamba2() -> None:
    """4 heads of 32, 2 groups, state 16: conv (128 + 2 x 2 x 16) x 3, state 4 x 32 x 16."""
    layer = kinds.mamba2(
        view(
            mamba_n_heads=4,
            mamba_d_head="auto",
            mamba_n_groups=2,
            mamba_d_state=16,
            mamba_d_conv=4,
            mamba_expand=2,
        )
    )
    assert only(layer) == [((128 + 64) * 3, None), (4 * 32 * 16, "float32")]


def test_gated_delta() -> None:
    """2 key heads and 4 value heads of 8: conv (2 x 16 + 32) x 3, state 4 x 8 x 8."""
    layer = kinds.gated_delta(
        view(
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
            linear_conv_kernel_dim=4,
        )
    )
    assert only(layer) == [(64 * 3, None), (4 * 64, "float32")]


def test_kimi_delta_and_lightning() -> None:
    """Both keep a square matrix per head; only lightning in the model's dtype."""
    assert only(kinds.kda(2, 8, 4)) == [(3 * 16 * 3, None), (2 * 64, "float32")]
    assert only(kinds.lightning(view())) == [(8 * 64, None)]


def test_latent_attention_is_one_vector() -> None:
    """512 + 64 elements, no separate value, nothing to split by heads."""
    layer = kinds.attention(view(kv_lora_rank=512, qk_rope_head_dim=64))
    (store,) = layer.stores
    assert isinstance(store, Grows)
    assert (store.elements, store.heads, store.role) == (576, None, Role.LATENT)


def test_layers_that_keep_nothing() -> None:
    """MLP-only layers and layers that share another's cache are told apart."""
    assert kinds.nothing().kind is LayerKind.NONE
    assert kinds.shared().kind is LayerKind.SHARED
    assert kinds.nothing().attention is None
