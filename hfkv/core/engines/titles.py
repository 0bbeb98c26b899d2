"""Engines' names as their makers write them, for sentences; options take the short ones."""

from __future__ import annotations

__all__ = ["engine_title"]

_TITLES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "ollama": "Ollama"}


def engine_title(name: str) -> str:
    """Return `vLLM` for vllm; a name that is written small stays as it is."""
    return _TITLES.get(name, name)
