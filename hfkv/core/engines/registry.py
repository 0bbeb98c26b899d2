"""All engines in one greppable place; the module of one is loaded when it is asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from hfkv.core.engines.engine import Engine
from hfkv.errors import UsageError

__all__ = ["ENGINES", "engine_named"]

NONE = Engine(name="none")

# name on the command line → module in this folder and the engine's name there
ENGINES: dict[str, tuple[str, str]] = {
    "none": ("registry", "NONE"),
    "vllm": ("vllm", "VLLM"),
    "sglang": ("sglang", "SGLANG"),
    "llama.cpp": ("llama_cpp", "LLAMA_CPP"),
    "transformers": ("transformers", "TRANSFORMERS"),
    "trtllm": ("trtllm", "TRTLLM"),
    "ollama": ("ollama", "OLLAMA"),
}


@cache
def engine_named(name: str) -> Engine:
    """Return an engine by its command-line name; raises UsageError for an unknown one."""
    if name not in ENGINES:
        raise UsageError(f"unknown engine '{name}'", hint="known: " + ", ".join(ENGINES))
    module, attribute = ENGINES[name]
    engine = getattr(import_module(f"hfkv.core.engines.{module}"), attribute)
    assert isinstance(engine, Engine)
    return engine
