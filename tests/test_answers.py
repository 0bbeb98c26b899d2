"""What a pool means in sequences of every length, and when running ones are put off."""

from __future__ import annotations

import pytest
from asked import GEMMA_27B, LLAMA_8B, fitted
from fit_cases import GIB, KIB, ask, per_token

from hfkv.core.answers import Answers, ContextRow
from hfkv.core.fit import FitReport
from hfkv.core.workload import Workload

VLLM = Workload(engine="vllm")


def answers(fit: FitReport) -> Answers:
    """Return the answers of a fit."""
    assert fit.answers is not None
    return fit.answers


def test_a_table_of_contexts_up_to_the_models_maximum() -> None:
    """6 GiB are 49,152 tokens of 128 KiB: each doubling of the context halves the sequences."""
    rows = answers(ask("24gib", simple=4096 * 128 * KIB)).contexts
    assert [(row.tokens, row.max_sequences) for row in rows] == [
        (1024, 48),
        (2048, 24),
        (4096, 12),
        (8192, 6),
        (16_384, 3),
        (32_768, 1),
        (65_536, 0),
        (131_072, 0),
    ]
    assert all(row.simple_formula_max_sequences is None for row in rows)  # it says the same


def test_the_simple_formula_stands_beside_what_it_gets_wrong() -> None:
    """A cache of 512 KiB a token where the formula says 128: four times too many of all."""
    found = answers(ask("24gib", measure=per_token(512 * KIB), simple=4096 * 128 * KIB))
    assert found.contexts[2] == ContextRow(
        tokens=4096, max_sequences=3, simple_formula_max_sequences=12
    )
    assert found.simple_formula_max_context == 49_152
    assert found.simple_formula_max_tokens == 49_152
    right = answers(ask("24gib", simple=4096 * 128 * KIB))
    assert right.simple_formula_max_context is None
    assert right.simple_formula_max_tokens is None


def test_a_table_that_goes_as_far_as_what_was_asked() -> None:
    """Asked for more than the maximum, the table has the asked length's power of two."""
    assert answers(ask("24gib", tokens=300_000)).contexts[-1].tokens == 262_144


def test_preemption_begins_when_the_pool_is_full() -> None:
    """12 sequences of 4,096 tokens fill 49,152; a thirteenth puts one off."""
    found = answers(ask("24gib", workload=VLLM))
    assert (found.preemption_sequences, found.preemption_tokens) == (12, 49_152)
    assert found.max_num_seqs == 12  # the overhead was stated: it does not change with them


def test_preemption_begins_when_the_last_block_is_taken() -> None:
    """Blocks of 16 tokens and 2 MiB: all of them but the one that vLLM holds back."""
    fit = fitted(LLAMA_8B, "h100", "vllm", context=7168, max_num_seqs=64)
    blocks = fit.kv_pool_bytes_per_gpu // 2**21 - 1
    found = answers(fit)
    assert (found.preemption_sequences, found.preemption_tokens) == (blocks // 448, blocks * 16)
    assert found.start_up is not None
    assert found.start_up.kv_cache_tokens == blocks * 16 + 16


def test_preemption_counts_a_common_prefix_once() -> None:
    """2,048 of 7,168 tokens are kept once: 128 blocks, and 320 for each sequence."""
    fit = fitted(LLAMA_8B, "h100", "vllm", context=7168, max_num_seqs=64, shared_prefix=2048)
    blocks = fit.kv_pool_bytes_per_gpu // 2**21 - 1 - 128
    found = answers(fit)
    assert found.preemption_sequences == blocks // 320
    assert found.preemption_tokens == blocks // 320 * 7168 + 2048 + blocks % 320 * 16


@pytest.mark.parametrize("engine", ["none", "llama.cpp", "ollama", "trtllm", "transformers"])
def test_engines_that_never_put_a_running_sequence_off(engine: str) -> None:
    """Slots have cells of their own, and TensorRT-LLM admits only what can end."""
    found = answers(fitted(LLAMA_8B, "a100-80", engine, context=8192))
    assert (found.preemption_sequences, found.preemption_tokens) == (None, None)


def test_decoding_holds_less_than_admission_counts() -> None:
    """Windows of gemma-3 give their blocks back: more can decode than vLLM's log says."""
    fit = fitted(GEMMA_27B, "h100", "vllm", context=32_768)
    block, full, window = 1_310_720, 32_768 // 16, 1023 // 16 + 1 + 1
    decoding = (full + 6 * window) * block
    found = answers(fit)
    assert found.preemption_sequences == (fit.kv_pool_bytes_per_gpu - block) // decoding
    assert found.preemption_sequences > fit.max_sequences


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_max_num_seqs_is_the_most_that_finds_room_beside_its_own_memory(engine: str) -> None:
    """Started for that many all of them fit; for one more not all do."""
    gpu, tokens = "rtx4090", 4096
    most = answers(fitted(LLAMA_8B, gpu, engine, context=tokens)).max_num_seqs
    assert most is not None
    assert most > 0
    for started, enough in ((most, True), (most + 1, False)):
        fit = fitted(LLAMA_8B, gpu, engine, context=tokens, max_num_seqs=started)
        assert (fit.max_sequences >= started) is enough


def test_no_number_of_sequences_where_no_engine_is_started() -> None:
    """The raw need and transformers have no such flag."""
    for engine in ("none", "transformers"):
        assert answers(fitted(LLAMA_8B, "a100-80", engine, context=8192)).max_num_seqs is None


def test_a_cache_that_does_not_fit_begins_with_nothing() -> None:
    """Weights larger than the card leave no sequence of any length."""
    found = answers(ask("24gib", weights=30 * GIB, workload=VLLM))
    assert {row.max_sequences for row in found.contexts} == {0}
    assert (found.max_num_seqs, found.preemption_sequences, found.preemption_tokens) == (0, 0, 0)


def test_a_model_without_a_cache_has_no_such_moment() -> None:
    """Nothing is kept, so nothing is put off and nothing limits the sequences."""
    found = answers(ask("24gib", measure=per_token(0), tokens=512, workload=VLLM))
    assert (found.max_num_seqs, found.preemption_sequences, found.start_up) == (None, None, None)
    assert found.contexts[0].max_sequences == 2**20
