"""`hfkv cache`: what is kept, and no more of it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hub_models import GATED
from hub_server import HubServer

from hfkv.cli import main
from hfkv.sources import load
from hfkv.sources.cache import cache_root


@pytest.fixture
def kept(hub_server: HubServer) -> Path:
    """Keep two models; return the folder."""
    for name in ("org/a", "org/b"):
        hub_server.add(name, GATED)
        load(name)
    return cache_root()


def test_info(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where, how many, how much."""
    assert main(["cache", "info", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    on_disk = [path for path in kept.rglob("*") if re.fullmatch("[0-9a-f]{40}", path.name)]
    assert told == {
        "schema": "hfkv.cache/1",
        "folder": str(kept),
        "entries": 2,
        "bytes": sum(path.stat().st_size for path in on_disk),
    }
    assert main(["cache", "info"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{kept} holds 2 models, ")


def test_clear(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is left of it, and what else lies in the folder is left alone."""
    (kept / "mine.txt").write_text("x")
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.startswith(f"{kept} held 2 models, ")
    assert [path.name for path in kept.iterdir()] == ["mine.txt"]
    assert main(["cache", "clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"] == 0


def test_one_model(hub_server: HubServer, capsys: pytest.CaptureFixture[str]) -> None:
    """One is not several."""
    hub_server.add("org/a", GATED)
    load("org/a")
    main(["cache", "info"])
    assert " holds 1 model, " in capsys.readouterr().out


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without HFKV_CACHE it is hfkv's own folder among the caches of the user."""
    monkeypatch.delenv("HFKV_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_root() == tmp_path / "hfkv"
    monkeypatch.setenv("HFKV_CACHE", " ~/elsewhere ")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / "elsewhere"


def nobody(text: str) -> str:
    """Refuse, as platformdirs does for a user who has no home."""
    raise RuntimeError(text)


def test_a_user_without_a_home_has_no_cache(
    hub_server: HubServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A container may run as anybody: models are read, and nothing is kept."""
    monkeypatch.delenv("HFKV_CACHE")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: nobody("~"))
    hub_server.add("org/a", GATED)
    for _ in range(2):
        assert load("org/a").config == load("org/a").config
    assert main(["cache", "info"]) == 0
    assert capsys.readouterr().out == f"{os.devnull} holds 0 models, 0 B\n"


@pytest.mark.parametrize("argv", [["cache", "info"], ["cache", "clear"], ["inspect", "org/a"]])
def test_folder_in_the_home_of_nobody(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The variable is named: it was meant to lead somewhere."""
    monkeypatch.setenv("HFKV_CACHE", "~nobody-of-that-name/x")
    assert main(argv) == 2
    assert capsys.readouterr().err == (
        "hfkv: error: HFKV_CACHE names the home of a user who is not known here\n"
        "hint: name a folder without ~\n"
    )


def test_folder_whose_name_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It cannot hold anything."""
    monkeypatch.setenv("HFKV_CACHE", str(tmp_path / ("x" * 300)))
    assert main(["cache", "info"]) == 0
    assert capsys.readouterr().out.endswith(" holds 0 models, 0 B\n")


def test_folder_that_cannot_be_removed(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the disk says is told."""

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("shutil.rmtree", refuse)
    assert main(["cache", "clear"]) == 2
    assert capsys.readouterr().err == (
        f"hfkv: error: {kept}: the cache cannot be cleared: permission denied\n"
    )


def test_help_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`hfkv cache` alone is wrong usage, and shows what there is, line by line."""
    assert main(["cache"]) == 2
    out, err = capsys.readouterr()
    assert "  clear  Remove all of it." in err.splitlines()
    assert not out
