"""What a name promises decides what is asked for before anything is known, nothing else."""

from __future__ import annotations

import pytest

from hfkv.sources.guess import guess_by_name

ONE, SEVERAL, EITHER = (True, False), (False, True), (True, True)

NAMES = {
    "openai-community/gpt2": EITHER,
    "deepseek-ai/DeepSeek-V3": EITHER,
    "google/gemma-4-E2B-it": EITHER,
    "Qwen/Qwen3-0.6B": ONE,
    "EleutherAI/pythia-410m": ONE,
    "meta-llama/Llama-3.2-1B-Instruct": ONE,
    "meta-llama/Llama-3.1-8B": EITHER,
    "unsloth/Qwen2.5-7B-bnb-4bit": EITHER,
    "Qwen/Qwen3-30B-A3B": EITHER,
    "mistralai/Mixtral-8x7B-v0.1": EITHER,
    "mistralai/Mixtral-8x22B-v0.1": SEVERAL,
    "Qwen/Qwen3-235B-A22B": SEVERAL,
    "meta-llama/Llama-3.1-405B": SEVERAL,
    "moonshotai/Kimi-K2-1T": SEVERAL,
    "70b-labs/tiny": EITHER,
    "": EITHER,
}


@pytest.mark.parametrize("name", NAMES)
def test_what_names_leave_possible(name: str) -> None:
    """Up to 5 GB was never split, and more than 50 GB never is one file."""
    assert guess_by_name(name) == NAMES[name]
