"""Ollama: llama.cpp's cells, with its own context and micro-batch."""

from __future__ import annotations

import pytest
from engine_cases import llama, published, sized

from hfkv.core.engines.ollama import batch_for, context_for
from hfkv.errors import UsageError

GIB = 2**30


@pytest.mark.parametrize(
    ("gib", "tokens"), [(8, 4096), (22, 4096), (23, 32_768), (46, 32_768), (47, 262_144)]
)
def test_the_context_follows_the_memory(gib: int, tokens: int) -> None:
    """4,096 tokens below 23 GiB of VRAM in all, 32,768 from there, 262,144 from 47."""
    assert context_for(gib * GIB) == tokens


@pytest.mark.parametrize(
    ("tokens", "batch"), [(4096, 512), (4097, 1024), (32_768, 1024), (32_769, 2048)]
)
def test_the_micro_batch_follows_the_context(tokens: int, batch: int) -> None:
    """512 tokens are computed at once, 1024 above 4,096 of context, 2048 above 32,768."""
    assert batch_for(tokens) == batch


@pytest.mark.parametrize(
    ("tokens", "batch", "cells"), [(4096, None, 768), (16_384, None, 1280), (16_384, 512, 768)]
)
def test_windows_hold_that_micro_batch(tokens: int, batch: int | None, cells: int) -> None:
    """gpt-oss keeps 128 tokens and a micro-batch, in multiples of 256; num_batch changes it."""
    kv = sized("ollama", published("openai--gpt-oss-20b"), tokens, batch=batch)
    assert {part.slots for part in kv.components} == {tokens, cells}


def test_the_cache_is_f16() -> None:
    """OLLAMA_KV_CACHE_TYPE is f16 unless it is set, to q8_0 or q4_0."""
    kv = sized("ollama", llama(), 4096)
    assert (kv.dtype, kv.dtype_source) == ("float16", "default of Ollama")
    assert sized("ollama", llama(), 4096, kv_dtype="q8_0").bytes * 32 == kv.bytes * 17
    with pytest.raises(UsageError) as error:
        sized("ollama", llama(), 4096, kv_dtype="q5_1")
    assert str(error.value) == "Ollama keeps no cache in q5_1"
    assert error.value.hint == "it has float16, q8_0, q4_0"
