"""What a pool of memory means in sequences and tokens, and when the engine puts some off."""

from __future__ import annotations

from dataclasses import replace

from hfkv.core.balance import UNLIMITED, Balance, Case, balance_of, largest_context
from hfkv.core.budget import loaded_beside_weights
from hfkv.core.engines.engine import StartUp
from hfkv.core.engines.registry import engine_named
from hfkv.core.kv import KVReport
from hfkv.core.record import dataclass

__all__ = ["Answers", "ContextRow", "answers_of", "longest_context", "simple_sequences"]

_LONGEST = 2**24  # tokens; the search for a context ends here where the model states no maximum
_SHORTEST = 1024  # tokens; the table begins here
_UNBOUNDED = 2**17  # tokens; and ends here where the model states no maximum
# Engines that are started for a number of sequences.
_LIMITS_SEQUENCES = frozenset({"vllm", "sglang", "trtllm", "llama.cpp", "ollama"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRow:
    """How many sequences of `tokens` fit, and how many the simple formula says if not as many."""

    tokens: int
    max_sequences: int
    simple_formula_max_sequences: int | None = None

    @property
    def by_simple_formula(self) -> int:
        """Return what the simple formula says, also where that is the truth."""
        said = self.simple_formula_max_sequences
        return self.max_sequences if said is None else said


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What one GPU choice holds, beyond the asked length.

    `contexts` has a row for every power of two up to the longest context. `max_num_seqs` is
    the most sequences of the asked length that the engine may be started for without ever
    putting one off: fewer need less working memory. It does put some off (preemption) when
    more than `preemption_sequences` of that length, or `preemption_tokens` in all, are in
    the cache; None where it never does. The simple formula's longest context and tokens in
    all are given where they differ. `start_up` is what the engine logs, where that is known.
    """

    contexts: tuple[ContextRow, ...]
    max_num_seqs: int | None = None
    preemption_sequences: int | None = None
    preemption_tokens: int | None = None
    simple_formula_max_context: int | None = None
    simple_formula_max_tokens: int | None = None
    start_up: StartUp | None = None


def answers_of(case: Case, kv: KVReport, balance: Balance) -> Answers:
    """Return the answers for one balance."""
    pool, limit = max(0, balance.room), _limit(case)
    one = simple_bytes(case, kv, balance)
    longest = longest_context(case, balance)
    tokens = pool * case.tokens // balance.per_sequence if balance.per_sequence else None
    simple_context = min(limit, pool * case.tokens // one) if one else None
    simple_tokens = pool * case.tokens // one if one else None
    return Answers(
        contexts=_contexts(case, balance, one),
        max_num_seqs=_max_num_seqs(case, balance),
        simple_formula_max_context=simple_context if simple_context != longest else None,
        simple_formula_max_tokens=simple_tokens if simple_tokens != tokens else None,
        start_up=_start_up(case, balance, pool),
        **_preemption(case, balance),
    )


def _start_up(case: Case, balance: Balance, pool: int) -> StartUp | None:
    started, loaded = balance.rank.started, balance.weights
    if started is None or not balance.per_sequence:
        return None
    if loaded is not None:
        version = case.workload.deployment.engine_version
        beside = loaded_beside_weights(
            case.architecture, case.choice, engine=case.workload.engine, version=version
        )
        loaded += sum(part.bytes for part in beside if part.loaded)
    return replace(started(case.tokens, pool), loaded_bytes=loaded)


def _limit(case: Case) -> int:
    stated = case.architecture.max_context
    return _LONGEST if stated is None else max(stated, case.tokens)


def longest_context(case: Case, balance: Balance) -> int:
    """Return the longest context of one sequence: at most the model's, or what was asked."""
    return largest_context(balance, sequences=1, limit=_limit(case))


def _contexts(case: Case, balance: Balance, simple: int | None) -> tuple[ContextRow, ...]:
    most = max(case.tokens, case.architecture.max_context or _UNBOUNDED)
    least = max(_SHORTEST, case.workload.shared_prefix + 1)  # a prefix is a part of a sequence
    powers = (2**n for n in range(most.bit_length()) if 2**n >= least)
    return tuple(_row(case, balance, tokens, simple) for tokens in powers)


def _row(case: Case, balance: Balance, tokens: int, simple: int | None) -> ContextRow:
    true, said = balance.most(tokens), None
    if simple:
        said = _promised(balance, tokens, max(1, -(-simple * tokens // case.tokens)))
    return ContextRow(
        tokens=tokens,
        max_sequences=true,
        simple_formula_max_sequences=said if said != true else None,
    )


def simple_bytes(case: Case, kv: KVReport, balance: Balance) -> int | None:
    """Return what 2·L·Hkv·D·T says of one asked sequence on one rank of the same plan."""
    total, lengths = kv.simple_formula.bytes, case.workload.seq_lens
    if not total:
        return None
    one = total // kv.sequences
    if lengths:
        one = total * kv.tokens // (sum(lengths) * kv.beams)
    heads = case.architecture.num_key_value_heads or balance.tp
    layers = max(1, case.architecture.num_hidden_layers or 1)
    stage = -(-layers // balance.pp)
    return -(-one * max(1, heads // balance.tp) * stage // (heads * layers)) or None


def simple_sequences(case: Case, kv: KVReport, balance: Balance) -> int | None:
    """Return how many sequences of the asked length the simple formula promises."""
    one = simple_bytes(case, kv, balance)
    return _promised(balance, case.tokens, one) if one else None


def _promised(balance: Balance, tokens: int, one: int) -> int:
    """Return how many sequences of `one` bytes find room: nothing shared, nothing moved."""
    rank = replace(balance.rank, held_back=0)
    plain = replace(balance, rank=rank, prefix=0, moves=0, beams=1)
    return plain.most(tokens, lambda _tokens: one)


def _preemption(case: Case, balance: Balance) -> dict[str, int]:
    """Return when a running sequence has to wait: what decodes must all be on the GPU.

    The tokens are those of as many whole sequences, and of the part of one more that finds
    room in what is left.
    """
    rank, tokens = balance.rank, case.tokens
    if not engine_named(case.workload.engine).preempts or not rank.steady(tokens):
        return {}
    running = replace(balance, moves=0).most(tokens, rank.steady)
    requests = running // balance.beams

    def size(length: int, others: int) -> int:
        shared = rank.shared(balance.prefix, length) if balance.prefix and others else 0
        return rank.steady(length) - shared

    left = balance.room - rank.held_back
    left -= size(tokens, 0) + (requests - 1) * size(tokens, 1) if requests else 0
    part, whole = 0, tokens  # `part` finds room, `whole` does not
    while whole - part > 1:
        middle = (part + whole) // 2
        part, whole = (middle, whole) if size(middle, requests) <= left else (part, middle)
    return {
        "preemption_sequences": running,
        "preemption_tokens": (requests * tokens + part) * balance.beams,
    }


def _max_num_seqs(case: Case, balance: Balance) -> int | None:
    """Return the most sequences that find room beside the working memory of as many.

    What a decoding sequence holds does not depend on their number, so the rank stays.
    """
    steady = balance.rank.steady
    if case.workload.engine not in _LIMITS_SEQUENCES or not steady(case.tokens):
        return None

    def enough(sequences: int) -> bool:
        deployment = replace(case.workload.deployment, max_num_seqs=sequences)
        changed = replace(case, workload=replace(case.workload, deployment=deployment))
        found = replace(balance_of(changed, balance.rank), moves=0)
        return found.most(case.tokens, steady) >= sequences

    low, high = 0, 1
    while high < UNLIMITED and enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low
