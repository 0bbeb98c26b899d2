"""hfkv, hf-mem and huggingface_hub against a simulated Hub, whole processes, in one run.

    python benchmarks/hub_benchmark.py --hubsim PATH/hubsim.py --others PATH/python \
        -o benchmarks/hub_report.md

`--others` is a Python that has hf-mem and huggingface_hub; hf-mem asks huggingface.co only, so
a copy of it is pointed at the simulator. Contenders take turns, the best of each counts: the
machine is never quiet, but it is equally unquiet for all. Ours is a compiled copy, as pip
makes one.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SHARDS = {"sim/Llama-8B": 4, "sim/DeepSeek-671B": 163, "sim/single": 1}
NEAR, FAR = "sim/Llama-8B", "sim/DeepSeek-671B"


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one run took; `requests` and so on are what the simulator counted."""

    wall: float
    cpu: float
    memory: int
    requests: int = 0
    rounds: int = 0
    connections: int = 0
    body_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A command; `cache` says whether it finds what an earlier run has kept."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    cache: bool = False


def read_arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hubsim", required=True, type=Path)
    parser.add_argument("--others", default=sys.executable, help="a Python with hf-mem")
    parser.add_argument("--rtt-ms", default=40.0, type=float)
    parser.add_argument("--repeat", default=5, type=int)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


@contextmanager
def simulator(script: Path, folder: Path, rtt_ms: float) -> Iterator[str]:
    """Run the simulator with its own benchmark repositories; yield its address."""
    python = sys.executable
    subprocess.run([python, script, "--make-bench", folder], check=True, capture_output=True)
    port = "18787"
    command: list[str | Path] = [
        python,
        script,
        "--root",
        folder,
        "--port",
        port,
        "--rtt-ms",
        str(rtt_ms),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    endpoint = f"http://127.0.0.1:{port}"
    try:
        for _ in range(100):
            with suppress(OSError):
                ask(endpoint, "stats")
                break
            time.sleep(0.1)
        yield endpoint
    finally:
        process.kill()
        process.wait()


def ask(endpoint: str, what: str, *, post: bool = False) -> dict[str, Any]:
    """Return what the simulator says of itself."""
    request = urllib.request.Request(  # noqa: S310  our own server
        f"{endpoint}/admin/{what}", method="POST" if post else "GET"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        counted: dict[str, Any] = json.loads(answer.read() or b"{}")
    return counted


def redirected_hf_mem(python: str, endpoint: str, folder: Path) -> None:
    """Put a copy of hf-mem that asks `endpoint` into the folder."""
    where = "import hf_mem; print(hf_mem.__path__[0])"
    done = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True)
    copy = folder / "hf_mem"
    shutil.copytree(done.stdout.strip(), copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in copy.rglob("*.py"):
        path.write_text(path.read_text().replace("https://huggingface.co", endpoint))
    compileall.compile_dir(copy, quiet=1)


def compiled_copy(folder: Path) -> Path:
    """Return a folder with a copy of hfkv and its bytecode."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "hfkv", folder / "hfkv", ignore=ignored)
    compileall.compile_dir(folder / "hfkv", quiet=1)
    return folder


def contenders(others: str, model: str, endpoint: str, copies: Path) -> dict[str, Contender]:
    """Return everybody who reads `model`."""
    base = {"HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_TELEMETRY": "1", "PYTHONPATH": str(copies)}
    api = "from huggingface_hub import HfApi; m = HfApi().{}('{}'); print(len(m.weight_map))"
    ours = (sys.executable, "-c", "from hfkv.cli import script; script()", "inspect", model)
    mem = "from hf_mem.cli import main; main()"
    found = {
        "hf-mem 0.5.6": Contender(
            command=(others, "-c", mem, "--model-id", model),
            environment=base,
        ),
        "get_safetensors_metadata": Contender(
            command=(others, "-c", api.format("get_safetensors_metadata", model)),
            environment=base,
        ),
        "hfkv": Contender(command=ours, environment=base),
        "hfkv --json": Contender(command=(*ours, "--json"), environment=base),
    }
    if SHARDS[model] > 1:
        found["get_sharded_safetensors_metadata"] = Contender(
            command=(others, "-c", api.format("get_sharded_safetensors_metadata", model)),
            environment=base,
        )
        ranges = {**base, "HFKV_ONE_REQUEST": "0"}
        found["hfkv by ranges"] = Contender(command=ours, environment=ranges)
        found["hfkv --json by ranges"] = Contender(command=(*ours, "--json"), environment=ranges)
    found["hfkv, seen before"] = Contender(command=ours, environment=base, cache=True)
    pinned = (*ours[:-1], f"{model}@{ask_sha(endpoint, model)}")
    found["hfkv, seen before, at its commit"] = Contender(
        command=pinned, environment=base, cache=True
    )
    found["python -c 'import click, rich'"] = Contender(
        command=(sys.executable, "-c", "import click, rich"), environment=base
    )
    return found


def ask_sha(endpoint: str, model: str) -> str:
    """Return the commit of a model's main branch."""
    url = f"{endpoint}/api/models/{model}"
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  our own server
        return str(json.loads(answer.read())["sha"])


def run(contender: Contender, endpoint: str, cache: Path) -> Result:
    """Return what one run of a contender takes."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {
            **os.environ,
            "HF_HOME": empty,
            "PYTHONDONTWRITEBYTECODE": "",
            "HFKV_CACHE": str(cache) if contender.cache else f"{empty}/hfkv",
            **contender.environment,
        }
        ask(endpoint, "reset", post=True)
        started = time.perf_counter()
        process = subprocess.Popen(
            contender.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
        )
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.stderr.close()
        process.returncode = status
    if status:
        raise RuntimeError(f"{contender.command}: {said.decode()[-400:]}")
    counted = ask(endpoint, "stats")
    return Result(
        wall=wall,
        cpu=usage.ru_utime + usage.ru_stime,
        memory=usage.ru_maxrss * 1024,
        **{key: counted[key] for key in ("requests", "rounds", "connections", "body_bytes")},
    )


def race(
    field: Mapping[str, Contender], endpoint: str, repeat: int, cache: Path
) -> dict[str, Result]:
    """Return the best run of each contender; they take turns."""
    runs: dict[str, list[Result]] = {name: [] for name in field}
    run(next(one for one in field.values() if one.cache), endpoint, cache)
    for _ in range(repeat):
        for name, contender in field.items():
            runs[name].append(run(contender, endpoint, cache))
    return {name: best_of(results) for name, results in runs.items()}


def best_of(results: list[Result]) -> Result:
    """Return the fastest run, with the fewest rounds: on a busy machine requests queue."""
    fastest = min(results, key=lambda one: one.wall)
    return replace(
        fastest,
        rounds=min(one.rounds for one in results),
        cpu=min(one.cpu for one in results),
        memory=max(one.memory for one in results),
    )


def table(model: str, results: Mapping[str, Result]) -> str:
    """Return the results as Markdown."""
    lines = [
        f"## {model}: {SHARDS[model]} file{'s' * (SHARDS[model] > 1)}",
        "",
        "| | wall ms | CPU ms | peak MB | requests | rounds | connections | kB read |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, one in results.items():
        lines.append(
            f"| {name} | {one.wall * 1000:.0f} | {one.cpu * 1000:.0f} | {one.memory / 1e6:.0f} |"
            f" {one.requests} | {one.rounds} | {one.connections} | {one.body_bytes / 1000:.0f} |"
        )
    return "\n".join(lines)


def goals(results: Mapping[str, Mapping[str, Result]], headers: Mapping[str, int]) -> str:
    """Return what was aimed at, what came out, and whether that is enough."""
    rows: list[tuple[str, float, float]] = []
    if near := results.get(NEAR):
        ours, ranges = near["hfkv"], near["hfkv by ranges"]
        rows += [
            ("4 files by ranges: requests", ranges.requests, 12),
            ("4 files by ranges: rounds", ranges.rounds, 3),
            ("4 files: wall / hf-mem", ours.wall / near["hf-mem 0.5.6"].wall, 0.8),
            (
                "4 files: wall / get_safetensors_metadata",
                ours.wall / near["get_safetensors_metadata"].wall,
                0.5,
            ),
            ("seen before: requests", near["hfkv, seen before"].requests, 1),
            (
                "at its commit: requests",
                near["hfkv, seen before, at its commit"].requests,
                0,
            ),
            (
                "at its commit: CPU / 'import click, rich'",
                near["hfkv, seen before, at its commit"].cpu
                / near["python -c 'import click, rich'"].cpu,
                2.5,
            ),
        ]
    if far := results.get(FAR):
        ours, ranges = far["hfkv"], far["hfkv by ranges"]
        best = min(far["hf-mem 0.5.6"].wall, far["get_safetensors_metadata"].wall)
        rows += [
            ("163 files by ranges: requests", ranges.requests, 330),
            ("163 files: requests", ours.requests, 4),
            ("163 files: rounds", ours.rounds, 2),
            ("163 files by ranges: wall / the faster of the others", ranges.wall / best, 0.35),
            ("163 files by ranges: peak MB", ranges.memory / 1e6, 120),
            ("163 files by ranges: bytes / headers", ranges.body_bytes / headers[FAR], 1.4),
        ]
    lines = ["| goal | at most | measured | |", "|---|--:|--:|---|"]
    for what, found, most in rows:
        mark = "met" if found <= most else "missed"
        lines.append(f"| {what} | {most:g} | {found:.3g} | {mark} |")
    return "\n".join(lines)


def header_bytes(folder: Path, model: str) -> int:
    """Return the bytes of all headers of a model."""
    return sum(path.stat().st_size for path in (folder / model).glob("*.header"))


def main() -> None:
    """Run the race and write the report."""
    arguments = read_arguments()
    results: dict[str, dict[str, Result]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with simulator(arguments.hubsim, folder / "repos", arguments.rtt_ms) as endpoint:
            copies = compiled_copy(folder)
            redirected_hf_mem(arguments.others, endpoint, copies)
            for model in SHARDS:
                if arguments.only in model:
                    field = contenders(arguments.others, model, endpoint, copies)
                    results[model] = race(field, endpoint, arguments.repeat, folder / "cache")
                    print(table(model, results[model]), flush=True)
            headers = {model: header_bytes(folder / "repos", model) for model in SHARDS}
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    head = (
        "# Reading a model from the Hub, measured\n\n"
        f"Round trip {arguments.rtt_ms:g} ms, connections free; best of {arguments.repeat} whole "
        f"processes, taking turns on {os.cpu_count()} cores with a load of {load}. Made by "
        "`benchmarks/hub_benchmark.py`.\n"
    )
    parts = [head, goals(results, headers), *(table(*one) for one in results.items())]
    report = "\n\n".join(parts) + "\n"
    if arguments.output is not None:
        arguments.output.write_text(report)
    print(goals(results, headers))


if __name__ == "__main__":
    main()
