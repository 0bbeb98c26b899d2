"""Ollama: an upstream llama-server with larger micro-batches and a context of its own choice.

Source: ollama/ollama fb307609 and 00f6d620, `llm/llama_server.go` (`-c num_ctx*parallel -np
parallel -b N -ub N`), `envconfig/config.go`.
"""

from __future__ import annotations

from dataclasses import replace

from hfkv.core.engines.llama_cpp import LLAMA_CPP, held
from hfkv.core.stores import Store
from hfkv.core.workload import Workload

__all__ = ["OLLAMA", "batch_for", "context_for"]

_GIB = 2**30
# Bytes of VRAM in all, from the top, and the context that is served there.
_CONTEXTS = ((47 * _GIB, 262_144), (23 * _GIB, 32_768))
_LEAST_CONTEXT = 4096


def context_for(memory: int) -> int:
    """Return the tokens Ollama serves where neither num_ctx nor OLLAMA_CONTEXT_LENGTH is set."""
    return next((tokens for size, tokens in _CONTEXTS if memory >= size), _LEAST_CONTEXT)


def batch_for(tokens: int) -> int:
    """Return the micro-batch for a context: 512, 1024 above 4,096 tokens, 2048 above 32,768."""
    return 2048 if tokens > 32_768 else 1024 if tokens > 4096 else 512


def _slots(store: Store, tokens: int, workload: Workload) -> int:
    """Return llama.cpp's cells, with the micro-batch that goes with the context."""
    batch = workload.deployment.max_num_batched_tokens
    return held(store, tokens, batch=batch_for(tokens) if batch is None else batch)


# OLLAMA_KV_CACHE_TYPE
OLLAMA = replace(LLAMA_CPP, name="ollama", slots=_slots, cache_dtypes=("float16", "q8_0", "q4_0"))
