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


# What else people call them: their programs, packages and older spellings.
_ALSO = {
    "hf": "transformers",
    "huggingface": "transformers",
    "llama-cpp": "llama.cpp",
    "llama-server": "llama.cpp",
    "llamacpp": "llama.cpp",
    "tensorrt": "trtllm",
    "tensorrt-llm": "trtllm",
    "trt-llm": "trtllm",
}


@cache
def engine_named(name: str) -> Engine:
    """Return an engine by its command-line name, however it is written.

    Raises UsageError for an unknown one, with the nearest names.
    """
    wanted = name.strip().lower().replace("_", "-")
    wanted = _ALSO.get(wanted, wanted)
    if wanted not in ENGINES:
        raise UsageError(f"unknown engine '{name}'", hint=_known(wanted))
    module, attribute = ENGINES[wanted]
    engine = getattr(import_module(f"hfkv.core.engines.{module}"), attribute)
    assert isinstance(engine, Engine)
    return engine


def _known(wanted: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  for slips only

    near = get_close_matches(wanted, ENGINES, n=1)
    return (f"did you mean {near[0]}? " if near else "") + "known: " + ", ".join(ENGINES)
