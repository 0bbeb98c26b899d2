"""Every failure hfkv expects, as one small tree.

HfkvError
├── UsageError        the request itself makes no sense (exit 2)
├── UnreadableError   nothing could be read: not found, private, offline, network (exit 3)
├── MalformedError    it was read and is broken: bad JSON, lying header, truncation (exit 4)
└── UnsupportedError  it was read and cannot be sized honestly (exit 5)

An exception that is none of these is a bug and may show a traceback.
"""

from __future__ import annotations

__all__ = [
    "HfkvError",
    "MalformedError",
    "UnreadableError",
    "UnsupportedError",
    "UsageError",
]


class HfkvError(Exception):
    """An expected failure, told in parts: what is wrong, where, and what to try.

    `code` is a short stable kebab-case word for JSON; `where` names the file, URL or key;
    `hint` says what the user can do next. `str(error)` is the one-line message.
    """

    default_code = "error"

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(what, where, hint, code)
        self.what = what
        self.where = where
        self.hint = hint
        self.code = code or self.default_code

    @property
    def message(self) -> str:
        """Return the single line that is shown to the user."""
        return f"{self.where}: {self.what}" if self.where else self.what

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        # keyword-only parts do not survive Exception's own pickling
        return (_rebuild, (type(self), self.what, self.where, self.hint, self.code))


def _rebuild(
    kind: type[HfkvError], what: str, where: str | None, hint: str | None, code: str
) -> HfkvError:
    return kind(what, where=where, hint=hint, code=code)


class UsageError(HfkvError):
    """The request makes no sense, whatever the model says."""

    default_code = "usage"


class UnreadableError(HfkvError):
    """Nothing could be read from the target."""

    default_code = "unreadable"


class MalformedError(HfkvError):
    """The target was read and is not what it claims to be."""

    default_code = "malformed"


class UnsupportedError(HfkvError):
    """The target was read, and its cache cannot be sized honestly."""

    default_code = "unsupported"
