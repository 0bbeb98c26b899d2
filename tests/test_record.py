"""Records do what the standard dataclasses do, class for class."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from typing import Any

import pytest

import hfkv.core.record as fast
from hfkv.core.files import HeaderInfo, ModelFiles, Problem, Target
from hfkv.core.quantization.blocks import Block
from hfkv.sources.environment import Token


def define(decorator: Any, *, kw_only: bool) -> Any:
    """Return the same class, made by one of the two."""

    @decorator(frozen=True, slots=True, kw_only=kw_only)
    class Sample:
        """A class with every kind of field."""

        number: int
        text: str = "x"
        table: dict[str, int] = field(default_factory=dict)
        note: str = field(default="", compare=False)
        secret: str = field(default="", repr=False)

        @property
        def double(self) -> int:
            """Return a figure that is worked out."""
            return self.number * 2

    return Sample


BOTH = [dataclasses.dataclass, fast.dataclass]


@pytest.fixture(params=[True, False], ids=["by name", "in order"])
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Return the class as the standard library makes it, and as we do."""
    return tuple(define(one, kw_only=request.param) for one in BOTH)


def test_own_methods_are_kept() -> None:
    """A class that must not show its value is not made to."""
    assert repr(Token("hf_secret", "HF_TOKEN")) == "Token(from HF_TOKEN)"


def outcome(do: Callable[[], Any]) -> Any:
    """Return a result, or the type of the failure."""
    try:
        return do()
    except Exception as error:  # noqa: BLE001  that both fail alike is the point
        return type(error)


USES: dict[str, Callable[[Any], Any]] = {
    "shown": lambda kind: repr(kind(number=1)),
    "equal": lambda kind: kind(number=1) == kind(number=1, text="x", table={}),
    "equal but for the note": lambda kind: kind(number=1) == kind(number=1, note="n"),
    "equal but for the secret": lambda kind: kind(number=1) == kind(number=1, secret="s"),
    "hashed but for the note": lambda kind: (
        hash(kind(number=1, table=())) == hash(kind(number=1, table=(), note="n"))
    ),
    "not equal": lambda kind: kind(number=1) == kind(number=2),
    "equal to something else": lambda kind: kind(number=1) == (1, "x", {}),
    "unhashable": lambda kind: hash(kind(number=1)),
    "hashable": lambda kind: hash(kind(number=1, table=())) == hash(kind(number=1, table=())),
    "replaced": lambda kind: repr(replace(kind(number=1), number=3)),
    "replaced by nonsense": lambda kind: replace(kind(number=1), nothing=3),
    "set": lambda kind: setattr(kind(number=1), "number", 2),
    "set anew": lambda kind: isinstance(outcome(lambda: setattr(kind(1), "other", 2)), type),
    "deleted": lambda kind: delattr(kind(number=1), "number"),
    "missing": lambda kind: kind(),
    "unknown": lambda kind: kind(number=1, nothing=2),
    "in order": lambda kind: repr(kind(1, "y")),
    "too many": lambda kind: kind(1, "y", {}, "", "", 4),
    "twice": lambda kind: kind(1, number=1),
    "fields": lambda kind: [(one.name, one.default, one.kw_only) for one in fields(kind)],
    "slots": lambda kind: (kind.__slots__, hasattr(kind(number=1), "__dict__")),
    "is one": is_dataclass,
    "doc": lambda kind: kind.__doc__,
    "name": lambda kind: (kind.__name__, kind.__qualname__, kind.__module__),
    "property": lambda kind: kind(number=2).double,
    "as data": lambda kind: dataclasses.asdict(kind(number=1)),
    "copied": lambda kind: copy.deepcopy(kind(number=1, table={"a": 1})).table,
    "matched": lambda kind: kind.__match_args__,
    "own default each time": lambda kind: kind(number=1).table is kind(number=1).table,
}


@pytest.mark.parametrize("use", USES)
def test_as_the_standard_ones(pair: tuple[Any, Any], use: str) -> None:
    """The same result, or a failure of the same kind."""
    standard, ours = (outcome(lambda kind=kind: USES[use](kind)) for kind in pair)  # type: ignore[misc]
    assert ours == standard


def test_failures_name_the_field() -> None:
    """What is wrong with a call is said."""
    with pytest.raises(TypeError, match=r"Target\(\) is missing 'id'"):
        Target(kind="hub")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Target\(\) has no 'name'"):
        Target(kind="hub", id="x", name="y")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Block\(\) is given more than its fields"):
        Block({}, "a", "b", "c", "d")  # type: ignore[call-arg]
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'id'"):
        Target(kind="hub", id="x").id = "y"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'id'"):
        del Target(kind="hub", id="x").id


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickled(protocol: int) -> None:
    """What crosses to another process arrives as it was."""
    files = ModelFiles(
        target=Target(kind="hub", id="a/b"),
        headers=(HeaderInfo(path="x", header_bytes=8, data_bytes=0, tensors=0),),
        problems=(Problem(code="c", message="m"),),
    )
    assert pickle.loads(pickle.dumps(files, protocol)) == files  # noqa: S301  our own


def test_a_copy_with_other_values_is_that_of_the_standard_module() -> None:
    """Fields that are not compared are copied too; a name that is no field is refused."""
    sample = define(fast.dataclass, kw_only=True)(number=3, note="a", secret="b")
    copied, same = fast.replace(sample, text="y"), replace(sample, text="y")
    assert [getattr(copied, f.name) for f in fields(copied)] == [
        getattr(same, f.name) for f in fields(same)
    ]
    assert sample.text == "x"
    with pytest.raises(TypeError, match="Sample has no 'wrong'"):
        fast.replace(sample, wrong=1)
