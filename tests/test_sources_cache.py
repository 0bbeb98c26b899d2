"""What was read is kept by its commit: nothing is asked twice, nothing damaged is believed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hub_models import CONFIG, GATED, ONE, SHARDED, SHARDS, codes
from hub_server import GRANTED, HubServer

from hfkv.core.files import ModelFiles, Problem, Target
from hfkv.errors import UnreadableError
from hfkv.sources import load
from hfkv.sources.cache import Cache, Key, cache_root
from hfkv.sources.http import Client

SHA = "c" * 40
KEY = Key(endpoint="https://huggingface.co", repo="org/name", revision="main")
FILES = ModelFiles(
    target=Target(kind="hub", id="org/name", revision="main", sha=SHA), config={"a": [1, None]}
)


def entries() -> list[Path]:
    """Return the files of the cache that hold a model."""
    return [path for path in cache_root().rglob("*") if re.match("[0-9a-f]{40}", path.name)]


# --- what it saves ----------------------------------------------------------------------------


def test_second_look_costs_one_request(hub_server: HubServer) -> None:
    """A branch may have moved: where it is now is asked, and nothing else."""
    hub_server.add("org/two", SHARDED)
    first = load("org/two")
    hub_server.forget()
    assert load("org/two") == first
    assert hub_server.paths() == ["/api/models/org/two/revision/main"]


def test_commit_costs_none(hub_server: HubServer) -> None:
    """A commit does not move."""
    sha = hub_server.add("org/two", SHARDED).sha
    first = load("org/two")
    hub_server.forget()
    again = load(f"org/two@{sha}")
    assert again == replace(first, target=replace(first.target, revision=sha))
    assert hub_server.seen == []


def test_offline_after_a_look(hub_server: HubServer) -> None:
    """What was inspected once can be inspected offline, by the name of its branch too."""
    hub_server.add("org/two", SHARDED)
    first = load("org/two")
    hub_server.forget()
    assert load("org/two", offline=True) == first
    assert hub_server.seen == []
    with pytest.raises(UnreadableError, match=r"^offline, and org/two is not in the cache"):
        load("org/two@v2", offline=True)


def test_push_is_noticed(hub_server: HubServer) -> None:
    """A new commit is read anew; the old one can still be asked for."""
    old = hub_server.add("org/one", GATED).sha
    load("org/one")
    changed = {"model_type": "other"}
    hub_server.add("org/one", {**GATED, "config.json": changed}, commit="d" * 40)
    assert load("org/one").config == changed
    assert load(f"org/one@{old}").config == CONFIG


def test_tag_at_a_known_commit(hub_server: HubServer) -> None:
    """Another name of the same commit asks only where it is."""
    hub_server.add("org/one", GATED, revisions=("main", "v1"))
    load("org/one")
    hub_server.forget()
    assert load("org/one@v1").target.revision == "v1"
    # what a tag is at is not known before it is asked: the rest is asked at the same time
    assert "/api/models/org/one/revision/v1" in hub_server.paths()
    hub_server.forget()
    load("org/one@v1")
    assert hub_server.paths() == ["/api/models/org/one/revision/v1"]


def test_own_config_is_not_kept(hub_server: HubServer, tmp_path: Path) -> None:
    """A config of the user's own is put over what is kept, and never kept itself."""
    hub_server.add("org/one", GATED)
    mine = tmp_path / "mine.json"
    mine.write_text('{"model_type": "mine"}')
    assert load("org/one", config_path=str(mine)).config == {"model_type": "mine"}
    assert entries() == []
    assert load("org/one").config == CONFIG
    assert load("org/one", config_path=str(mine)).config == {"model_type": "mine"}
    assert load("org/one").config == CONFIG


def test_missing_config_is_no_problem_when_one_is_brought(
    hub_server: HubServer, tmp_path: Path
) -> None:
    """What is kept says that there is none; with one of the user's own that is not true."""
    hub_server.add("org/bare", {"model.safetensors": ONE})
    assert codes(load("org/bare")) == ["no-config"]
    mine = tmp_path / "mine.json"
    mine.write_text('{"model_type": "mine"}')
    assert codes(load("org/bare", config_path=str(mine))) == []


def test_one_file_and_the_whole_model_are_kept_apart(hub_server: HubServer) -> None:
    """So are a plain look and a deep one."""
    hub_server.add("org/two", SHARDED)
    assert len(load("org/two").headers) == 2
    assert len(load(f"org/two:{SHARDS[0]}").headers) == 1
    assert load("org/two", deep=True).index is not None
    assert load("org/two").index is None
    assert len(entries()) == 3


def test_a_deep_look_offline_says_what_it_lacks(hub_server: HubServer) -> None:
    """A plain look kept the model, and not its index."""
    hub_server.add("org/two", SHARDED)
    load("org/two")
    with pytest.raises(UnreadableError) as caught:
        load("org/two", deep=True, offline=True)
    assert caught.value.message == (
        "offline, and org/two was kept without its index, which --deep needs"
    )
    with pytest.raises(UnreadableError, match=r"^offline, and org/one is not in the cache"):
        load("org/one", deep=True, offline=True)


def test_closed_gate_is_not_kept(hub_server: HubServer) -> None:
    """Access may be granted without a push."""
    hub_server.add("org/gated", GATED, gated="auto")
    assert codes(load("org/gated")) == ["gated"]
    assert entries() == []
    assert codes(load("org/gated", token=GRANTED)) == []


def test_no_token_is_ever_kept(hub_server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a token that is good nor one that is rejected is in any file of the cache."""
    monkeypatch.setenv("HF_TOKEN", GRANTED)
    hub_server.add("org/own", GATED, private=True)
    load("org/own")
    hub_server.add("org/one", GATED)
    files = load("org/one", token="hf_revoked")
    assert codes(files) == ["token-rejected"]
    assert len(entries()) == 2
    for path in cache_root().rglob("*"):
        if path.is_file():
            line, _, payload = path.read_bytes().partition(b"\n")
            text = line + (zlib.decompress(payload) if payload else b"")
            assert b"hf_" not in text.replace(b"hf_quant", b"")
    assert codes(load("org/one")) == []  # what went wrong on the way is not part of the model


def test_other_hub_other_model(hub_server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror's files are not taken for those of the Hub."""
    hub_server.add("org/one", GATED)
    load("org/one")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UnreadableError, match=r"^offline, and org/one is not in the cache"):
        load("org/one", offline=True)


def test_cache_that_cannot_be_written(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A cache that is a file, or nowhere, is no cache and no failure."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HFKV_CACHE", str(tmp_path / "file"))
    hub_server.add("org/one", GATED)
    assert load("org/one").config == CONFIG
    assert load("org/one").config == CONFIG


# --- connections that are ready ------------------------------------------------------------------


def test_cdn_is_called_before_it_is_needed(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where weights came from last time, connections are open before the Hub sends us there."""
    monkeypatch.setenv("HFKV_ONE_REQUEST", "0")
    hub_server.add("org/first", SHARDED)
    load("org/first")
    key = Key(endpoint=hub_server.endpoint, repo="org/other", revision="main")
    assert Cache(cache_root()).hosts(key) == (hub_server.base("cdn"),)
    hub_server.settle()
    called: list[str] = []
    spares = Client.spares

    def noted(client: Client, url: str, count: int) -> list[Callable[[], None]]:
        called.append(url)
        return spares(client, url, count)

    monkeypatch.setattr(Client, "spares", noted)
    hub_server.add("org/second", SHARDED)
    assert len(load("org/second").headers) == 2
    assert called == [hub_server.endpoint, hub_server.base("cdn")]


@pytest.mark.parametrize(
    "text", ["", "x", "file:///etc/passwd", "http://a/b", "http://me:pw@h", "http://ä", "\0" * 99]
)
def test_only_origins_are_called(tmp_path: Path, text: str) -> None:
    """A damaged list of hosts is none."""
    cache = Cache(tmp_path)
    cache.point_to_hosts(KEY, {"https://cdn.test"})
    assert cache.hosts(KEY) == ("https://cdn.test",)
    (path,) = tmp_path.rglob("hosts")
    path.write_text(text, encoding="utf-8")
    assert cache.hosts(KEY) == ()


def test_spare_connections_are_used(hub_server: HubServer) -> None:
    """Three connections that were opened ahead serve three requests; a dead host is no failure."""
    with Client(hub_server.endpoint, token=None, timeout=9, connections=8) as client:
        for open_one in client.spares(hub_server.endpoint, 3):
            open_one()
        end = time.monotonic() + 5
        while hub_server.connections < 3 and time.monotonic() < end:
            time.sleep(0.01)
        for _ in range(3):
            assert client.fetch(f"{hub_server.endpoint}/x").status == 404
        assert hub_server.connections == 3
        for open_one in client.spares("http://127.0.0.1:9", 2):
            open_one()


def test_no_spare_connections_through_a_proxy(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy is not bothered with calls that may not be needed."""
    monkeypatch.setenv("http_proxy", hub_server.endpoint)
    monkeypatch.setenv("no_proxy", "")
    with Client("http://hub.test", token=None, timeout=9, connections=8) as client:
        assert client.spares("http://hub.test", 3) == []


# --- what it believes -------------------------------------------------------------------------


def test_what_was_kept_comes_back(tmp_path: Path) -> None:
    """The same files, at the commit that the branch was at."""
    cache = Cache(tmp_path)
    cache.keep(KEY, FILES)
    assert cache.find(KEY, SHA) == FILES
    assert cache.latest(KEY) == FILES
    assert cache.latest(replace(KEY, revision=SHA)) is not None
    assert cache.latest(replace(KEY, revision="v1")) is None
    assert cache.latest(replace(KEY, file="a.safetensors")) is None


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda raw: raw[:0],
    "half": lambda raw: raw[: len(raw) // 2],
    "one bit": lambda raw: raw[:-20] + bytes([raw[-20] ^ 4]) + raw[-19:],
    "more behind it": lambda raw: raw + b"\0",
    "another version": lambda raw: raw.replace(b"hfkv-cache 0", b"hfkv-cache 9"),
    "zeros": lambda raw: bytes(len(raw)),
    "no line": lambda raw: raw.partition(b"\n")[2],
    "text": lambda raw: b"hello\nworld" + raw[:0],
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_entry_counts_as_absent(hub_server: HubServer, case: str) -> None:
    """It is removed without a word, and read again."""
    sha = hub_server.add("org/one", GATED).sha
    first = load("org/one")
    (path,) = entries()
    path.write_bytes(DAMAGE[case](path.read_bytes()))
    key = Key(endpoint=hub_server.endpoint, repo="org/one", revision="main")
    assert Cache(cache_root()).find(key, sha) is None
    assert not path.exists()
    assert load("org/one") == first
    assert path.exists()


def test_pipes_in_the_cache_count_as_absent(hub_server: HubServer) -> None:
    """Opening one would wait for ever: none is opened, and writing puts files there."""
    sha = hub_server.add("org/two", SHARDED).sha
    first = load("org/two")
    files = {path for path in cache_root().rglob("*") if path.is_file()}
    assert {path.name for path in files} == {sha, "main"}
    for path in files:
        path.unlink()
        os.mkfifo(path)
    assert load("org/two") == first
    assert all(path.is_file() for path in files)


def test_a_pipe_in_the_place_of_the_hosts(tmp_path: Path) -> None:
    """It names none, until somebody knows some."""
    cache = Cache(tmp_path)
    cache.point_to_hosts(KEY, {"https://cdn.test"})
    (path,) = tmp_path.rglob("hosts")
    path.unlink()
    os.mkfifo(path)
    assert cache.hosts(KEY) == ()
    cache.point_to_hosts(KEY, {"https://cdn.test"})
    assert cache.hosts(KEY) == ("https://cdn.test",)


def test_a_pipe_in_the_place_of_what_is_half_written(tmp_path: Path) -> None:
    """A process writes beside an entry before it moves it there; it waits for nobody."""
    beside = f".{os.getpid()}-{threading.get_ident()}"
    entry = Cache(tmp_path)._entry(KEY, SHA)
    for folder in (entry.parent, entry.parent / "refs"):
        folder.mkdir(parents=True)
        os.mkfifo(folder / beside)
    Cache(tmp_path).keep(KEY, FILES)
    assert Cache(tmp_path).latest(KEY) == FILES
    assert not list(tmp_path.rglob(beside))


def sealed(payload: bytes) -> bytes:
    """Return an entry whose checksum is right, whatever it holds."""
    from hfkv.sources.cache import _first_line  # noqa: PLC0415

    return _first_line(payload) + payload


@pytest.mark.parametrize(
    "payload", [b"", b"{}", zlib.compress(b"{}"), zlib.compress(b"[" * 100_000)]
)
def test_entry_that_is_no_model(tmp_path: Path, payload: bytes) -> None:
    """A right checksum does not make wrong contents right."""
    cache = Cache(tmp_path)
    cache.keep(KEY, FILES)
    (path,) = [p for p in tmp_path.rglob("*") if p.is_file() and p.name == SHA]
    path.write_bytes(sealed(payload))
    assert cache.find(KEY, SHA) is None


@pytest.mark.parametrize("text", ["", "main", "../" * 13 + "x", "Ü" * 40, "c" * 39])
def test_reference_that_is_no_commit(tmp_path: Path, text: str) -> None:
    """A damaged reference is none."""
    cache = Cache(tmp_path)
    cache.keep(KEY, FILES)
    (path,) = [p for p in tmp_path.rglob("*") if p.parent.name == "refs"]
    path.write_text(text, encoding="utf-8")
    assert cache.latest(KEY) is None


def test_entry_of_another_commit(tmp_path: Path) -> None:
    """A file under the wrong name is not believed."""
    cache = Cache(tmp_path)
    cache.keep(KEY, FILES)
    (path,) = [p for p in tmp_path.rglob("*") if p.name == SHA]
    path.rename(path.with_name("d" * 40))
    assert cache.find(KEY, "d" * 40) is None


def test_without_a_commit_nothing_is_kept(tmp_path: Path) -> None:
    """What has no commit can change."""
    Cache(tmp_path).keep(KEY, replace(FILES, target=replace(FILES.target, sha=None)))
    assert list(tmp_path.iterdir()) == []


def test_private_to_its_owner(tmp_path: Path) -> None:
    """Other users of the machine cannot look into it."""
    Cache(tmp_path / "a" / "b").keep(KEY, FILES)
    assert (tmp_path / "a" / "b" / "v1").stat().st_mode & 0o077 == 0


# --- many processes ---------------------------------------------------------------------------


WRITER = """
import sys
from test_sources_cache import KEY, big
from hfkv.sources.cache import Cache
from pathlib import Path
cache, files = Cache(Path(sys.argv[1])), big(sys.argv[2])
print("ready", flush=True)
while True:
    cache.keep(KEY, files)
"""


def big(mark: str) -> ModelFiles:
    """Return files whose entry is large enough to be caught half written."""
    problems = tuple(
        Problem(code="x", message=f"{mark} {zlib.crc32(str(i).encode())}") for i in range(1000)
    )
    return replace(FILES, problems=problems)


@contextmanager
def writing(root: Path, mark: str) -> Iterator[None]:
    """Run a process that writes the same entry again and again, and kill it at the end."""
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parent.parent)])
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), mark],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_readers_and_writers_at_once(tmp_path: Path) -> None:
    """Whoever reads while others write gets the whole of one of the versions, or nothing."""
    cache, wanted, found = Cache(tmp_path), {"a": big("a"), "b": big("b")}, 0
    with writing(tmp_path, "a"), writing(tmp_path, "b"):
        end = time.monotonic() + 20
        while found < 10 and time.monotonic() < end:
            files = cache.find(KEY, SHA)
            if files is not None:
                found += 1
                assert files == wanted[files.problems[0].message[0]]
    assert found == 10


def test_kill_at_any_moment(tmp_path: Path) -> None:
    """After `kill -9` in the middle of a write the next look is right, and tidies up."""
    wanted = big("a")
    for moment in range(5):
        with writing(tmp_path, "a"):
            time.sleep(0.007 * moment)
        found = Cache(tmp_path).find(KEY, SHA)
        assert found is None or found == wanted
    left = [path for path in tmp_path.rglob(".*") if path.is_file()]
    for path in left:
        os.utime(path, (0, 0))
    Cache(tmp_path).keep(KEY, wanted)
    assert Cache(tmp_path).find(KEY, SHA) == wanted
    assert not any(path.exists() for path in left)
