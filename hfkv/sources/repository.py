"""One repository on a Hub: its files, whole or only their headers, refusals told apart."""

from __future__ import annotations

import queue
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from hfkv.core.counts import counted
from hfkv.core.files import RepoFile
from hfkv.core.headers import bytes_needed
from hfkv.core.jsontext import parse_object
from hfkv.core.record import dataclass
from hfkv.errors import MalformedError
from hfkv.sources.http import Answer, Client
from hfkv.sources.pool import Pool
from hfkv.sources.reading import MAX_SMALL
from hfkv.sources.refusals import Asked, no_hub, refusal

__all__ = ["FirstRead", "Header", "Repository"]

_T = TypeVar("_T")
_MAX_INFO = 64_000_000
_MAX_BUNDLE = 64_000_000
_FEW = 8
_FIRST_FEW = 32_768  # one round trip under TCP slow start
_FIRST_MANY = 98_304  # in mixtures of experts, 72 kB of header a file is typical
_FIRST_MOST = 8_000_000
_MAX_HEADER = 25_000_000
_MAX_HEADERS = 250_000_000


class FirstRead:
    """How many bytes of a weights file to ask for at first: learnt from the headers seen."""

    def __init__(self, *, files: int) -> None:
        self._guess = _FIRST_FEW if files <= _FEW else _FIRST_MANY
        self._seen: list[int] = []

    def stop(self, size: int | None) -> int:
        """Return where to stop reading a file of `size` bytes."""
        guess = self._guess
        if len(self._seen) >= _FEW:
            longest = max(self._seen)
            guess = min(max(_FIRST_FEW, longest + longest // 8), _FIRST_MOST)
        return guess if size is None else min(guess, size)

    def allow(self, header_bytes: int, path: str) -> None:
        """Refuse a header that no model has: a million tensors take ten seconds and a gigabyte."""
        if header_bytes > _MAX_HEADER or header_bytes + sum(self._seen) > _MAX_HEADERS:
            raise MalformedError(
                f"its header claims {header_bytes:,} bytes; from a Hub, {_MAX_HEADER:,} are read of"
                f" one file and {_MAX_HEADERS:,} of one model",
                where=path,
                hint="huggingface_hub refuses such a header as well; a downloaded file is read",
            )

    def learn(self, header_bytes: int) -> None:
        """Take a header of that length into account."""
        self._seen.append(header_bytes)


class Header(NamedTuple):
    """The first bytes of a weights file, and the size of all of it where that is known."""

    head: bytes
    file_size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository, the connections to its Hub, and the threads to ask with."""

    client: Client
    pool: Pool
    asked: Asked

    def ask_info(self) -> Answer:
        """Return the answer with the listing of the revision that was asked for."""
        revision = quote(self.asked.revision, safe="")
        return self.client.fetch(f"{self._api}/revision/{revision}?blobs=true", limit=_MAX_INFO)

    def ask_bundle(self, index: str) -> Answer:
        """Return the answer with the headers of all files of an index, on the default branch."""
        return self.client.fetch(f"{self._api}/safetensors-metadata/{index}", limit=_MAX_BUNDLE)

    @property
    def _api(self) -> str:
        return f"{self.asked.endpoint}/api/models/{self.asked.repo}"

    def ask(
        self,
        path: str,
        revision: str,
        start: int = 0,
        stop: int | None = None,
        limit: int = MAX_SMALL,
    ) -> Answer:
        """Return the answer for one file, or for its bytes from `start` to `stop`."""
        place = f"{self.asked.repo}/resolve/{quote(revision, safe='')}/{quote(path)}"
        return self.client.fetch(f"{self.asked.endpoint}/{place}", start, stop, limit=limit)

    def wait(self, future: Future[_T]) -> _T:
        """Return a result, or raise UnreadableError when time is up before it is there."""
        next(self.as_done([future]))
        return future.result()

    def as_done(self, futures: Collection[Future[_T]]) -> Iterator[Future[_T]]:
        """Yield futures as they are done; raises UnreadableError when time is up."""
        done: queue.SimpleQueue[Future[_T]] = queue.SimpleQueue()
        for future in futures:
            future.add_done_callback(done.put)
        for _ in futures:
            yield self._next(done)

    def _next(self, done: queue.SimpleQueue[Future[_T]]) -> Future[_T]:
        while True:
            # a patient client may have been given more time meanwhile: ask it again
            with suppress(queue.Empty):
                return done.get(timeout=self.client.left())

    def checked(self, answer: Answer, path: str) -> Answer:
        """Return a successful answer; raises the refusal that any other one is."""
        if answer.status not in {200, 206}:
            raise refusal(replace(self.asked, file=path), answer)
        return answer

    def read_object(self, path: str, revision: str) -> dict[str, Any]:
        """Return the JSON object in a small file."""
        return self.parse_object(self.ask(path, revision), path)

    def parse_object(self, answer: Answer, path: str) -> dict[str, Any]:
        """Return the JSON object in an answer; a web page instead is no Hub's answer."""
        if self.checked(answer, path).body.lstrip()[:1] == b"<":
            raise no_hub(answer)
        return parse_object(answer.body, where=path)

    def read_header(
        self, file: RepoFile, revision: str, first: FirstRead, early: Future[Answer] | None
    ) -> Header:
        """Return the first bytes of a weights file, its whole header at least.

        They come in one read, or in two. `early` is an answer that was asked for before the
        revision was known; it counts only when it is from that commit.
        """
        bytes_needed(b"", file.size, where=file.path)  # an empty file needs no request
        answer = None if early is None else self.wait(early)
        if answer is None or answer.status not in {200, 206} or answer.commit != revision:
            asked = self.ask(file.path, revision, 0, first.stop(file.size))
            answer = self.checked(asked, file.path)
        if answer.status == 200 and answer.body.lstrip()[:1] == b"<":
            raise no_hub(answer)
        size = _size(file, answer)
        head = answer.body
        needed = bytes_needed(head, size, where=file.path)
        first.allow(needed, file.path)
        if needed > len(head):
            head += self._rest(file, revision, answer.url, len(head), needed)
        first.learn(needed)
        return Header(head, size)

    def _rest(self, file: RepoFile, revision: str, url: str, start: int, stop: int) -> bytes:
        # from where the first bytes came, without the redirect; its signature may have expired
        answer = self.client.fetch(url, start, stop)
        if answer.status == 403:
            answer = self.ask(file.path, revision, start, stop)
        return self.checked(answer, file.path).body


def _size(file: RepoFile, answer: Answer) -> int | None:
    if file.size is None or answer.total is None or file.size == answer.total:
        return file.size if file.size is not None else answer.total
    raise MalformedError(
        f"listed with {counted(file.size, 'byte')}, and served with {answer.total:,}",
        where=file.path,
    )
