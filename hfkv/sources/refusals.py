"""What a Hub's refusal means, and what to do about it: one sentence for every row.

Source: huggingface_hub 2.4.0, utils/_http.py, hf_raise_for_status, for how the cases are told
apart.
"""

from __future__ import annotations

import json
import re

from hfkv.core.record import dataclass
from hfkv.errors import HfkvError, MalformedError, UnreadableError, UsageError
from hfkv.sources.environment import Token
from hfkv.sources.http import Answer
from hfkv.sources.wire import host_of, retry_after

__all__ = ["Asked", "is_rejected_token", "no_hub", "refusal"]

_DISABLED = "Access to this resource is disabled."
_FINE_GRAINED = "enable access to public gated repositories"
_REJECTED = "Invalid credentials in Authorization header"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked for, of whom, and as whom."""

    endpoint: str
    repo: str
    revision: str
    token: Token | None = None
    file: str | None = None

    @property
    def page(self) -> str:
        """Return the address of the model's page."""
        return f"{self.endpoint}/{self.repo}"


_TOKEN = re.compile(r"hf_\w+|(?<=Bearer )\S+")  # a server may say what it was sent


def is_rejected_token(answer: Answer) -> bool:
    """Return whether the Hub refused the token itself, whatever was asked for."""
    return answer.status == 401 and _said(answer) == _REJECTED


def no_hub(answer: Answer) -> HfkvError:
    """Return the failure of a server that answered, but not as a Hub does."""
    return UnreadableError(
        f"{host_of(answer.url)} did not answer like a Hub",
        hint="a login page of the network in between, or a wrong HF_ENDPOINT?",
        code="not-a-hub",
    )


def refusal(asked: Asked, answer: Answer) -> HfkvError:
    """Return what to tell of an answer that is no success."""
    code = answer.headers.get("X-Error-Code", "")
    said = _said(answer, asked.token)
    if said == _DISABLED:
        return UnreadableError(
            f"{asked.repo} was disabled by the Hub or its owner", code="disabled"
        )
    if is_rejected_token(answer) and asked.token is not None:
        return _rejected(asked.token)
    if answer.status in {401, 403} and (code == "GatedRepo" or _FINE_GRAINED in said):
        return _gated(asked, answer, said)
    if answer.status in {401, 404} and code not in {"EntryNotFound", "RevisionNotFound"}:
        return _not_found(asked)
    if answer.status == 404:
        return _missing(asked, code)
    if answer.status == 403 and host_of(answer.url) == host_of(asked.endpoint):
        return UnreadableError(
            f"the Hub forbids it: {said or 'no reason given'}", where=asked.repo, code="forbidden"
        )
    return _by_status(asked, answer, said)


def _said(answer: Answer, token: Token | None = None) -> str:
    """Return the Hub's own words, made safe to print and free of anything secret."""
    text = answer.headers.get("X-Error-Message", "")
    if not text and answer.body.startswith(b"{"):
        try:
            text = str(json.loads(answer.body).get("error", ""))
        except (ValueError, RecursionError):
            return ""
    if token is not None:
        text = token.taken_out(text)
    printable = "".join(char if char.isprintable() else " " for char in text)
    return _TOKEN.sub("hf_…", printable)[:300].strip()


def _rejected(token: Token) -> HfkvError:
    return UnreadableError(
        f"the Hub rejects the token from {token.source}",
        hint="it may have expired or been revoked: unset it, or run `hf auth login`",
        code="token-rejected",
    )


def _gated(asked: Asked, answer: Answer, said: str) -> HfkvError:
    if _FINE_GRAINED in said:
        return UnreadableError(
            f"the token from {_source(asked)} is fine-grained and excludes gated repositories",
            hint="allow them at https://huggingface.co/settings/tokens",
            code="gated",
        )
    if asked.token is None:
        return UnreadableError(
            f"{asked.repo} is gated",
            hint=(
                f"accept its license at {asked.page}, then run `hf auth login` or set HF_TOKEN; "
                "or give its config.json with --config FILE"
            ),
            code="gated",
        )
    if answer.status == 401:
        return UnreadableError(
            f"{asked.repo} is gated, and the token from {_source(asked)} was not accepted",
            hint="it may have expired or been revoked: run `hf auth login`",
            code="gated",
        )
    return UnreadableError(
        f"{asked.repo} is gated, and the account of the token has no access to it",
        hint=f"ask for it at {asked.page}; or give its config.json with --config FILE",
        code="gated",
    )


def _source(asked: Asked) -> str:
    return asked.token.source if asked.token else "nowhere"


def _not_found(asked: Asked) -> HfkvError:
    if asked.token is None:
        return UnreadableError(
            f"{asked.repo} is not on {host_of(asked.endpoint)}, or it is private",
            hint="check the spelling; if it is private, run `hf auth login` or set HF_TOKEN",
            code="not-found",
        )
    return UnreadableError(
        f"{asked.repo} is not on {host_of(asked.endpoint)}, or the token has no access to it",
        hint=f"check the spelling; the token is from {asked.token.source}",
        code="not-found",
    )


def _missing(asked: Asked, code: str) -> HfkvError:
    if code == "RevisionNotFound":
        return UnreadableError(
            f"{asked.repo} has no revision {asked.revision!r}",
            hint=f"its branches and tags are listed at {asked.page}/tree/main",
            code="revision-not-found",
        )
    return UnreadableError(
        f"{asked.repo} has no file {asked.file} at revision {asked.revision}",
        hint=f"its files are listed at {asked.page}/tree/{asked.revision}",
        code="file-not-found",
    )


def _by_status(asked: Asked, answer: Answer, said: str) -> HfkvError:
    status = answer.status
    if status == 429:
        seconds = retry_after(answer.headers)
        when = "" if seconds is None else f"; it resets in {seconds:.0f} s"
        hint = "try again later, or set HF_TOKEN for a higher limit"
        return UnreadableError(
            f"{host_of(answer.url)} limits the rate of requests{when}",
            hint="try again later" if asked.token else hint,
            code="rate-limit",
        )
    if status == 416:
        return MalformedError(
            "the file is shorter than its header says",
            where=asked.file,
            hint="its upload was cut off",
        )
    if status == 400:
        return UsageError(
            f"the Hub does not understand the request: {said or 'no reason given'}",
            where=asked.repo,
            code="target",
        )
    if status in {408, 500, 502, 503, 504}:
        return UnreadableError(
            f"{host_of(answer.url)} answers {status}, and trying again did not help",
            hint="see https://status.huggingface.co, or use --offline",
            code="server-error",
        )
    return UnreadableError(
        f"{host_of(answer.url)} answers {status}",
        where=asked.file,
        hint=said or None,
        code="server-error",
    )
