"""Every fault of a Hub simulator at every place, once and for good: what hfkv makes of it.

    python benchmarks/hub_fault_list.py --hubsim PATH/hubsim.py [--timeout 3] [--only KIND]

Writes a Markdown table. A fault is recovered (exit 0) or told in one sentence (exit 3 or 4);
a traceback, a run beyond its deadline, a token at another host and more bytes of weights than
headers are failures of hfkv, and the exit code is 1 when there is any.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hfkv.cli import main as hfkv
from hfkv.sources import http

PLACES: dict[str, dict[str, str]] = {
    "listing": {"match": "/revision/", "host": "hub"},
    "config.json": {"match": "config.json", "host": "hub"},
    "redirect of the weights": {"match": "resolve/.*safetensors", "host": "hub"},
    "weights on the CDN": {"match": "safetensors", "host": "cdn"},
    "all headers in one": {"match": "safetensors-metadata", "host": "hub"},
}
FAULTS: dict[str, dict[str, Any]] = {
    "status 408": {"kind": "status", "status": 408},
    "status 500": {"kind": "status", "status": 500},
    "status 503": {"kind": "status", "status": 503},
    "status 418": {"kind": "status", "status": 418},
    "ratelimit": {"kind": "ratelimit", "reset": 1},
    "ratelimit, Retry-After": {"kind": "ratelimit", "retry_after": 1},
    "ratelimit, a date": {"kind": "ratelimit", "retry_after": 1, "http_date": 1},
    "ratelimit, bare": {"kind": "ratelimit", "bare": 1},
    "latency": {"kind": "latency", "ms": 300},
    "hang": {"kind": "hang"},
    "reset": {"kind": "reset"},
    "reset in the body": {"kind": "reset", "after": 10},
    "truncate": {"kind": "truncate", "after": 10},
    "ignore_range": {"kind": "ignore_range"},
    "wrong_range": {"kind": "wrong_range", "shift": 3},
    "wrong_length, more": {"kind": "wrong_length", "delta": 9},
    "wrong_length, less": {"kind": "wrong_length", "delta": -9},
    "no_length": {"kind": "no_length"},
    "slowloris": {"kind": "slowloris", "ms": 50, "bytes": 1},
    "malformed_json": {"kind": "malformed_json"},
    "html": {"kind": "html"},
    "gzip": {"kind": "gzip"},
    "gzip_bomb": {"kind": "gzip_bomb", "size": 300_000_000},
    "endless": {"kind": "endless"},
    "redirect_loop": {"kind": "redirect_loop"},
    "redirect to another host": {"kind": "redirect", "to": "http://127.0.0.2:9/x"},
    "drop_headers": {"kind": "drop_headers", "names": "Content-Range,X-Repo-Commit,Location"},
    "header length of 2^63": {"kind": "patch", "offset": 0, "hex": "0000000000000080"},
    "close": {"kind": "close"},
}


def read_arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hubsim", required=True, type=Path)
    parser.add_argument("--timeout", default=3.0, type=float)
    parser.add_argument("--only", default="", help="faults whose name contains this")
    return parser.parse_args()


def load_simulator(path: Path) -> Any:
    """Return the simulator's module."""
    spec = importlib.util.spec_from_file_location("hubsim", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hubsim"] = module
    spec.loader.exec_module(module)
    return module


def write_repositories(root: Path) -> None:
    """Write a model in one file of 500 MB, and one in four."""
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_hidden_layers": 1,
        "max_position_embeddings": 4096,
        "vocab_size": 1000,
        "torch_dtype": "bfloat16",
    }
    shape = [250_000_000 // 4096, 4096]
    size = shape[0] * shape[1] * 2
    for name, shards in {"one-1B": 1, "four-400B": 4}.items():
        folder = root / "sim" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(config))
        names = [f"model-{i:05}-of-{shards:05}.safetensors" for i in range(1, shards + 1)]
        names = ["model.safetensors"] if shards == 1 else names
        for number, shard in enumerate(names):
            tensor = {"dtype": "BF16", "shape": shape, "data_offsets": [0, size]}
            header = json.dumps({f"model.layers.{number}.w": tensor}).encode().ljust(9000)
            head = len(header).to_bytes(8, "little") + header
            (folder / f"{shard}.header").write_bytes(head)
        weight_map = {f"model.layers.{i}.w": shard for i, shard in enumerate(names)}
        if shards > 1:
            index = {"metadata": {"total_size": size * shards}, "weight_map": weight_map}
            (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def run(target: str, timeout: float) -> tuple[int, str, float]:
    """Return exit code, what was said on stderr, and seconds of one inspection."""
    said = io.StringIO()
    started = time.monotonic()
    with contextlib.redirect_stderr(said):
        code = hfkv(["inspect", target, "-f", "md", "-o", os.devnull, "--timeout", str(timeout)])
    return code, said.getvalue(), time.monotonic() - started


def cases(only: str) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield fault, place, how often, and the simulator's settings."""
    for fault, settings in FAULTS.items():
        if only not in fault:
            continue
        for place, where in PLACES.items():
            yield fault, place, "once", {**settings, **where, "first": 1}
            yield fault, place, "for good", {**settings, **where}


def verdict(
    place: str, answer: tuple[int, str, float], timeout: float, stats: dict[str, Any]
) -> str:
    """Return `recovered`, the sentence, or what hfkv did wrong."""
    code, said, seconds = answer
    if "Traceback" in said or code not in {0, 3, 4}:
        return f"FAILED: exit {code}: {said.splitlines()[-1] if said else ''}"
    if seconds > timeout + 1:
        return f"FAILED: took {seconds:.1f} s"
    if stats["auth_leaks"]:
        return "FAILED: the token went to another host"
    if "weights" in place and stats["body_bytes"] > 8_000_000:  # what sockets hold unread
        return f"FAILED: {stats['body_bytes']:,} bytes were sent"
    return "recovered" if code == 0 else said.splitlines()[0].removeprefix("hfkv: error: ")


def main() -> int:
    """Run all faults and print what became of them."""
    arguments = read_arguments()
    simulator = load_simulator(arguments.hubsim)
    http.random.uniform = lambda low, _high: low / 10  # type: ignore[attr-defined]
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as stack:
        write_repositories(Path(root))
        hub = stack.enter_context(simulator.HubSim(root))
        os.environ.update(HF_ENDPOINT=hub.endpoint, HF_TOKEN="hf_granted")
        print("| fault | where | how often | outcome | s |\n|---|---|---|---|---|")
        for number, (fault, place, often, settings) in enumerate(cases(arguments.only)):
            os.environ["HFKV_CACHE"] = f"{root}/cache{number}"
            hub.reset()
            hub.fault(**settings)
            target = "sim/four-400B" if place == "all headers in one" else "sim/one-1B"
            answer = run(target, arguments.timeout)
            outcome = verdict(place, answer, arguments.timeout, hub.stats())
            host = hub.endpoint.removeprefix("http://")
            kind = outcome.partition(":")[0]
            outcomes[kind if kind in {"FAILED", "recovered"} else "told"] += 1
            outcome = outcome.replace(host, "HUB")
            print(f"| {fault} | {place} | {often} | {outcome} | {answer[2]:.1f} |", flush=True)
    print(f"\n{sum(outcomes.values())} cases: {dict(outcomes)}")
    return 1 if outcomes["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
