"""Several models under one workload: order, the best of each figure, failures in their rows."""

from __future__ import annotations

from typing import Any

import pytest

from hfkv.core.comparison import SORTS, Comparison, compare_models
from hfkv.core.files import ModelFiles, Target
from hfkv.core.gpus import parse_gpu
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import HfkvError, UnreadableError, UsageError


def files(name: str, **keys: Any) -> ModelFiles:
    """Return a llama-like model: 2 layers, 4 heads of 16, in 16 bit; `keys` change it."""
    config = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "max_position_embeddings": 4096,
        "torch_dtype": "float16",
        **keys,
    }
    return ModelFiles(target=Target(kind="file", id=name), config=config)


GONE = UnreadableError("it is gone", hint="look elsewhere", code="not-found")
# bytes a token: 2 x 2 layers x heads x 16 x 2, so 512 for `four`, 128 for `one`
MODELS: dict[str, ModelFiles | HfkvError] = {
    "four": files("four"),
    "gone": GONE,
    "one": files("one", num_key_value_heads=1, max_position_embeddings=1024),
    "alien": files("alien", model_type="alien", hidden_size=None, num_attention_heads=None),
}


def compared(sort: str | None = None, **work: Any) -> Comparison:
    """Compare the models above."""
    return compare_models(list(MODELS), list(MODELS.values()), Workload(**work), sort=sort)


def names(answer: Comparison) -> list[str]:
    """Return the order of a comparison."""
    return [row.id for row in answer.rows]


def test_rows_are_as_given_and_a_failure_keeps_its_row() -> None:
    """Nothing is dropped: the second of four could not be read, and says why."""
    answer = compared(context=1024)
    assert names(answer) == ["four", "gone", "one", "alien"]
    assert answer.rows[1].error is GONE
    assert answer.rows[1].report is None
    caches = [row.report.kv for row in answer.rows if row.report]
    assert [kv and kv.bytes_per_token for kv in caches] == [512, 128, None]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("name", ["alien", "four", "one", "gone"]),
        ("kv", ["one", "four", "alien", "gone"]),
        ("kv-per-token", ["one", "four", "alien", "gone"]),
        ("context", ["alien", "four", "one", "gone"]),
        ("weights", ["alien", "four", "one", "gone"]),
    ],
)
def test_the_best_comes_first_and_failures_last(sort: str, order: list[str]) -> None:
    """Less cache is better, a longer context too; unknown figures come after known ones."""
    answer = compared(sort, context=1024)
    assert names(answer) == order


def test_sequences_are_sorted_by_the_first_gpu() -> None:
    """A quarter of the cache is four times the sequences."""
    gpus = Deployment(gpus=(*parse_gpu("1gib"), *parse_gpu("2gib")), overhead_bytes=0)
    answer = compared("sequences", context=1024, deployment=gpus)
    assert names(answer)[:2] == ["one", "four"]
    one, four = (row.report for row in answer.rows[:2])
    assert one is not None
    assert four is not None
    assert one.fit[0].max_sequences == 4 * four.fit[0].max_sequences
    assert answer.wins(one, "sequences", 1)
    assert not answer.wins(four, "sequences", 1)


def test_where_all_are_alike_none_is_the_best() -> None:
    """A mark on every row would say nothing."""
    answer = compare_models(["a", "b"], [files("a"), files("b")], Workload(context=10))
    (first, second) = (row.report for row in answer.rows)
    assert first is not None
    assert second is not None
    assert not answer.wins(first, "kv")
    assert not answer.wins(second, "kv")


def test_a_workload_that_one_model_refuses_is_a_failure_of_that_row() -> None:
    """Five GPUs do not split 4 heads evenly; 5 heads they do."""
    gpus = Deployment(gpus=parse_gpu("24gib:5"))
    five = files("five", num_attention_heads=5, hidden_size=80)
    answer = compare_models(
        ["four", "five"], [files("four"), five], Workload(context=10, deployment=gpus)
    )
    error = answer.rows[0].error
    assert error is not None
    assert error.code == "tp"
    assert answer.rows[1].report is not None


def test_an_unknown_order_is_refused() -> None:
    """The hint names those there are."""
    with pytest.raises(UsageError) as caught:
        compared("size")
    assert caught.value.message == "nothing is sorted by 'size'"
    assert caught.value.hint == "known: " + ", ".join(SORTS)
