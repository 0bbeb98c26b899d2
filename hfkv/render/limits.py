"""What an engine will make of the room it is given, in its own words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hfkv.core.counts import counted
from hfkv.core.engines.titles import engine_title
from hfkv.render.units import integer

if TYPE_CHECKING:
    from hfkv.core.answers import Answers

__all__ = ["engine_figures"]

# What each engine calls the most sequences it is started for.
_MOST = {
    "vllm": "max_num_seqs",
    "sglang": "max_running_requests",
    "trtllm": "max_batch_size",
    "llama.cpp": "slots (-np)",
    "ollama": "OLLAMA_NUM_PARALLEL",
}


def engine_figures(engine: str, answers: Answers) -> Iterator[tuple[str, str]]:
    """Yield the most sequences to start it for, where preemption starts, what it will log."""
    most = answers.max_num_seqs
    if most is not None:
        yield (
            _MOST.get(engine, "sequences at once"),
            f"up to {integer(most)} for sequences like this",
        )
    held = answers.preemption_sequences
    if held is not None:
        all_tokens = counted(answers.preemption_tokens or 0, "token")
        like = counted(held, "sequence")
        yield "preemption starts", f"beyond {like} like this, {all_tokens} in all"
    start = answers.start_up
    if start is not None:
        above, below = start.max_concurrency
        known = f"{counted(start.kv_cache_tokens, 'token')}, concurrency {above / below:.2f}x"
        if start.loaded_bytes is not None:  # in the log's own unit and digits
            known = f"{start.loaded_bytes / 2**30:.2f} GiB loaded, {known}"
        yield f"{engine_title(engine)} will log", known
