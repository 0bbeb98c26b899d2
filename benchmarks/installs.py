"""Install hfkv as people do, and use it: beside each huggingface_hub, and as an extension of `hf`.

    python benchmarks/installs.py [--keep FOLDER]

Needs an index of packages (pip's own configuration says which), and no Hub: a small one runs on
this machine. It builds the sdist, and the wheel from the sdist; installs the wheel in one
fresh environment a version of huggingface_hub, and with the oldest versions of everything that
it says it works with; looks at `pip check`; logs in with that version's own `login()`
and reads a gated model with the stored token; runs every way to start hfkv, and completion in
bash. Last, `hf` 2.x installs it as the extension `kv`, from the sdist in place of a download,
and runs `hf kv`. The exit code is 1 as soon as something is not as it should be.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from hub_server import GRANTED, HubServer, weights  # noqa: E402  of the tests, without hfkv

MODEL = ROOT / "fixtures" / "models" / "meta-llama--Llama-3.1-8B.hfkv.json"
WEIGHTS, CACHE = 16_060_522_496, 17_179_869_184  # model card; 128 KiB x 131,072 tokens
HUBS = ("0.36.*", "1.33.*", "2.4.*")
EXTENSIBLE = "2.4.*"
IN_SDIST = (".ci/run", "LICENSE", "docs/check.md", "examples/dask_map.py", "skills/hfkv/SKILL.md")
IN_WHEEL = ("hfkv/py.typed", "hfkv/core/gpus.toml", "hfkv/core/defaults.json")

# What `hf extensions install OWNER/hf-kv` does, but for what it asks GitHub and downloads.
INSTALL_EXTENSION = """
import subprocess, sys
from huggingface_hub.cli import extensions
run, sdist = subprocess.run, sys.argv[1]
def local(command, **options):
    return run([sdist if str(c).startswith("https://") else c for c in command], **options)
extensions.subprocess.run = local
def none(**_): raise OSError("no network")
extensions._fetch_remote_binary = none
extensions._fetch_latest_commit_sha = lambda **_: "0" * 40
extensions._try_fetch_remote_description = lambda **_: "Will it fit?"
manifest = extensions._install_extension(owner="OWNER", repo_name="hf-kv", short_name="kv")
print(manifest.type, manifest.executable_path)
"""


class Wrong(Exception):  # noqa: N818  it ends the run
    """Something is not as it should be."""


@dataclass(frozen=True)
class Place:
    """An environment, with a home of its own that it is used in."""

    folder: Path

    def tool(self, name: str) -> str:
        """Return the path of a program of this environment."""
        return str(self.folder / "bin" / name)

    def run(self, *command: str, code: int = 0, more: Mapping[str, str] | None = None) -> str:
        """Return what a command of this environment says; raises Wrong for another exit code."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HFKV_", "PYTHON"))}
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [self.tool(command[0]) if "/" not in command[0] else command[0], *command[1:]],
            env={**kept, "HOME": str(home), "PATH": path, **(more or {})},
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != code:
            said = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            raise Wrong(f"{' '.join(command)} exited with {done.returncode}, not {code}:\n{said}")
        return done.stdout


def expect(what: str, said: object, wanted: object) -> None:
    """Raise Wrong where something is not what it must be."""
    if said != wanted:
        raise Wrong(f"{what}: {said!r} instead of {wanted!r}")


def environment(folder: Path, *packages: str) -> Place:
    """Return a fresh environment with these packages."""
    venv.EnvBuilder(with_pip=True).create(folder)
    place = Place(folder)
    place.run("pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return place


def build(work: Path) -> tuple[Path, Path]:
    """Return the sdist and the wheel that was built from it, after looking into both."""
    tools = environment(work / "tools", "build")
    tools.run("python", "-m", "build", "--outdir", str(work / "dist"), str(ROOT))
    (sdist,) = (work / "dist").glob("*.tar.gz")
    (wheel,) = (work / "dist").glob("*.whl")
    schemas = {f"hfkv/schema/{path.name}" for path in (ROOT / "hfkv" / "schema").iterdir()}
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expect("missing in the sdist", {*IN_SDIST, *IN_WHEEL, *schemas} - names, set())
    with zipfile.ZipFile(wheel) as whole:
        names = set(whole.namelist())
    expect("missing in the wheel", {*IN_WHEEL, *schemas} - names, set())
    tops = {name.partition("/")[0] for name in names}
    expect("folders of the wheel", {top for top in tops if "dist-info" not in top}, {"hfkv"})
    return sdist, wheel


def oldest() -> list[str]:
    """Return the lowest versions that pyproject.toml names, as requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [one.replace(">=", "==") for one in project["dependencies"]]


def use(place: Place, hub: HubServer) -> None:
    """Start hfkv in every way there is, and read with the stored token."""
    place.run("pip", "check")
    version = place.run("hfkv", "--version")
    for command in (("hf-kv", "--version"), ("python", "-m", "hfkv", "--version")):
        expect(" ".join(command), place.run(*command), version)
    inspected = ("inspect", str(MODEL), "--gpu", "a100-80", "--json")
    figures(place.run("hfkv", *inspected))
    figures(place.run("python", "-c", PYTHON, str(MODEL)))
    expect("heavy modules of `import hfkv`", place.run("python", "-c", IMPORTED).strip(), "[]")
    for name in ("hfkv", "hf-kv"):
        expect(f"completion of {name}", place.run("/bin/bash", "-c", BASH, name), "h200-nvl\n")
    stored_token(place, hub)


PYTHON = """
import sys, hfkv
report = hfkv.inspect(sys.argv[1], gpu="a100-80")
assert hfkv.json_schema("inspect")["title"] == report.to_dict()["schema"]
assert "A100" in report._repr_html_() and "A100" in str(report)
print(report.to_json())
"""
IMPORTED = """
import hfkv, sys
print(sorted({"click", "huggingface_hub", "json", "requests", "rich"} & set(sys.modules)))
"""
BASH = """
source <(hfkv completion bash)
COMP_WORDS=("$0" inspect --gpu h200-n); COMP_CWORD=3
_hfkv_completion "$0"; printf '%s\\n' "${COMPREPLY[@]}"
"""


def figures(text: str) -> None:
    """Look at what was said of the model that everybody knows."""
    document = json.loads(text)
    expect("weights", document["weights"]["bytes"], WEIGHTS)
    expect("cache", document["kv_cache"]["bytes"], CACHE)
    expect("it fits", document["fit"][0]["fits"], wanted=True)


def stored_token(place: Place, hub: HubServer) -> None:
    """Log in with this version of huggingface_hub; what is gated can then be read."""
    where = {"HF_ENDPOINT": hub.endpoint}
    place.run("hfkv", "inspect", "org/gated", code=5, more=where)
    login = "import sys, huggingface_hub; huggingface_hub.login(token=sys.argv[1])"
    place.run("python", "-c", login, GRANTED, more=where)
    document = json.loads(place.run("hfkv", "inspect", "org/gated", "--json", more=where))
    expect("the gated config", document["architecture"]["model_type"], "llama")
    place.run("python", "-c", "import huggingface_hub; huggingface_hub.logout()", more=where)


def extension(place: Place, sdist: Path) -> None:
    """Let `hf` install hfkv as an extension, and run it from there."""
    kind, path = place.run("python", "-c", INSTALL_EXTENSION, str(sdist)).split()[-2:]
    expect("kind of extension", kind, "python")
    expect("its program", Path(path).name, "hf-kv")
    quiet = {"HF_HUB_DISABLE_UPDATE_CHECK": "1"}
    figures(place.run("hf", "kv", "inspect", str(MODEL), "-g", "a100-80", "--json", more=quiet))
    place.run("hf", "kv", "inspect", "./none", code=3, more=quiet)
    if "Usage: hf-kv" not in place.run("hf", "kv", "--help", more=quiet):
        raise Wrong("hf kv --help speaks of something else")


def one(work: Path, wheel: Path, hub: HubServer, name: str, packages: Sequence[str]) -> Place:
    """Make an environment and use hfkv in it."""
    started = time.perf_counter()
    place = environment(work / name, str(wheel), *packages)
    use(place, hub)
    print(f"ok  {name}  ({time.perf_counter() - started:.0f} s)", flush=True)
    return place


def main(work: Path) -> None:
    """Build, install, use."""
    sdist, wheel = build(work)
    print(f"ok  {sdist.name} and, from it, {wheel.name}", flush=True)
    hub = HubServer()
    llama: dict[str, Any] = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64}
    llama |= {"num_attention_heads": 4, "max_position_embeddings": 128, "torch_dtype": "bfloat16"}
    files = {"config.json": llama, "model.safetensors": weights(("w", "BF16", (2, 2), 8))}
    hub.add("org/gated", files, gated="auto")
    wanted = {f"hub-{v.removesuffix('.*')}": [f"huggingface_hub=={v}"] for v in HUBS}
    wanted["oldest"] = oldest()
    try:
        with ThreadPoolExecutor(2) as pool:
            made = [
                pool.submit(one, work, wheel, hub, name, packages)
                for name, packages in wanted.items()
            ]
            places = {name: future.result() for name, future in zip(wanted, made, strict=True)}
        extension(places[f"hub-{EXTENSIBLE.removesuffix('.*')}"], sdist)
        print("ok  hf kv", flush=True)
    finally:
        hub.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", type=Path, help="work in this folder, and leave it there")
    kept: Path | None = parser.parse_args().keep
    try:
        if kept is not None:
            kept.mkdir(parents=True)
            main(kept.resolve())
        else:
            with tempfile.TemporaryDirectory(prefix="hfkv-packaging-") as made:
                main(Path(made))
    except Wrong as error:
        sys.exit(f"{error}")
