"""What is shipped: the wheel and the sdist, built here; benchmarks/installs.py installs them."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

import hfkv

ROOT = Path(__file__).parent.parent


def build(source: Path, folder: Path, kind: str) -> Path:
    """Return the distribution of a kind that is made of a source tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this tree."""
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the sdist of this tree unpacks to."""
    sdist = build(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (only,) = folder.iterdir()
    return only


def files_of(folder: Path) -> set[str]:
    """Return the files below a folder that are part of the project."""
    return {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def names_in(wheel: Path) -> set[str]:
    """Return the names in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Every module, schema, table and asset; no tests."""
    info = f"hfkv-{hfkv.__version__}.dist-info"
    names = {name for name in names_in(wheel) if not name.startswith(f"{info}/")}
    assert names == files_of(Path("hfkv"))
    assert {"hfkv/schema/inspect-1.json", "hfkv/py.typed", "hfkv/core/gpus.toml"} <= names


def test_the_wheel_has_both_commands(wheel: Path) -> None:
    """`hf-kv` is what `hf` looks for in an extension named kv."""
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.read(f"hfkv-{hfkv.__version__}.dist-info/entry_points.txt").decode()
    assert "hfkv = hfkv.cli:script" in entries
    assert "hf-kv = hfkv.cli:script" in entries


def test_the_metadata_is_true(wheel: Path) -> None:
    """Version, license, Python; no address that nobody has."""
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"hfkv-{hfkv.__version__}.dist-info/METADATA").decode()
        license_name = f"hfkv-{hfkv.__version__}.dist-info/licenses/LICENSE"
        assert b"Apache License" in archive.read(license_name)
    meta = HeaderParser().parsestr(text)
    assert meta["Version"] == hfkv.__version__
    assert meta["License-Expression"] == "Apache-2.0"
    assert meta["Requires-Python"] == ">=3.11"
    assert meta["Description-Content-Type"] == "text/markdown"
    assert meta.get_all("Project-URL") is None
    assert meta["Home-page"] is None
    lines = meta.get_all("Requires-Dist") or []
    needed = {line.split(">=")[0] for line in lines if "extra" not in line}
    assert needed == {
        "click",
        "huggingface-hub",
        "platformdirs",
        "requests",
        "rich",
    }


def test_the_sdist_holds_all_that_is_needed_to_check_it(unpacked: Path) -> None:
    """Package, tests, fixtures, benchmarks, docs, examples, skills and the gate itself."""
    held = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    for folder in ("hfkv", "docs", "examples", "skills"):
        assert files_of(Path(folder)) <= held, folder
    wanted = {
        *("LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "noxfile.py", "action.yml"),
        *(".ci/run", ".pre-commit-hooks.yaml", "pyproject.toml", "tests/conftest.py"),
        *("benchmarks/installs.py", "fixtures/models/meta-llama--Llama-3.1-8B.hfkv.json"),
    }
    assert wanted <= held


def test_the_sdist_builds_the_same_wheel(wheel: Path, unpacked: Path, tmp_path: Path) -> None:
    """Whoever builds from the sdist gets the same files, byte for byte."""
    again = build(unpacked, tmp_path, "wheel")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert one.namelist() == other.namelist()
        assert [one.read(name) for name in one.namelist()] == [
            other.read(name) for name in other.namelist()
        ]
