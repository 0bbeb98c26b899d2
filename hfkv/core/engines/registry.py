"""All engines in one greppable place."""

from __future__ import annotations

from hfkv.core.engines.engine import Engine
from hfkv.core.engines.llama_cpp import LLAMA_CPP
from hfkv.core.engines.ollama import OLLAMA
from hfkv.core.engines.sglang import SGLANG
from hfkv.core.engines.transformers import TRANSFORMERS
from hfkv.core.engines.trtllm import TRTLLM
from hfkv.core.engines.vllm import VLLM
from hfkv.errors import UsageError

__all__ = ["ENGINES", "engine_named"]

NONE = Engine(name="none")

ENGINES: dict[str, Engine] = {
    engine.name: engine for engine in (NONE, VLLM, SGLANG, LLAMA_CPP, TRANSFORMERS, TRTLLM, OLLAMA)
}


def engine_named(name: str) -> Engine:
    """Return an engine by its command-line name; raises UsageError for an unknown one."""
    found = ENGINES.get(name)
    if found is None:
        raise UsageError(f"unknown engine '{name}'", hint="known: " + ", ".join(ENGINES))
    return found
