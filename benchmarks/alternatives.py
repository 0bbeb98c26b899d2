"""Ask hfkv and other tools for the same models, and keep what they said.

    python benchmarks/alternatives.py --hubsim PATH/hubsim.py --headers FOLDER \
        --others PYTHON --transformers PYTHON

`--headers` has a folder `org--name` a model: config.json and FILE.header.gz for each weights
file. `--others` is a Python with hf-mem, kvfit, ridgepoint and modelinfo-cli, `--transformers`
one with transformers, torch and accelerate. Tools that name huggingface.co in their code run
from a copy that names the simulator. The answers go to benchmarks/alternatives.json, from
which tests/update_docs.py writes the tables in README.md and docs/alternatives.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alternatives_hub import GPTQ, put

ROOT = Path(__file__).parent.parent
RESULT = Path(__file__).parent / "alternatives.json"
TOKENS = 32_768
PORT = "18799"
ENDPOINT = f"http://127.0.0.1:{PORT}"

# Repository, what it stands for, and the format in which ridgepoint is told the weights are.
MODELS = (
    ("meta-llama/Llama-3.1-8B", "grouped-query attention", "fp16"),
    ("meta-llama/Llama-3.2-1B-Instruct", "tied embeddings", "fp16"),
    (GPTQ, "4-bit weights", "awq"),
    ("mistralai/Mixtral-8x7B-v0.1", "mixture of experts", "fp16"),
    ("google/gemma-2-9b-it", "every second layer windowed", "fp16"),
    ("google/gemma-3-27b-it", "five of six layers windowed", "fp16"),
    ("openai/gpt-oss-20b", "every second layer windowed, MXFP4", "awq"),
    ("deepseek-ai/DeepSeek-V3", "latent attention, FP8 weights", "fp8"),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "linear attention, hybrid", "fp16"),
    ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "Mamba-2, hybrid", "fp16"),
    ("LiquidAI/LFM2-1.2B", "convolution, hybrid", "fp16"),
    ("tiiuae/falcon-mamba-7b", "Mamba, no attention", "fp16"),
    ("meta-llama/Llama-3.2-11B-Vision-Instruct", "cross-attention, text only", "fp16"),
    ("google-t5/t5-small", "encoder-decoder", "fp16"),
)
# Folders of the header sets that have an older name.
FOLDERS = {
    "meta-llama/Llama-3.1-8B": "meta-llama--Meta-Llama-3.1-8B",
    GPTQ: "meta-llama--Meta-Llama-3.1-8B",
}
LENGTHS = {
    "google-t5/t5-small": 512,
    "google/gemma-2-9b-it": 8192,
}  # tokens, where the model is made for fewer
# What cross-attention sees in the run that is the truth: an encoder's output, no image.
SOURCES = {"google-t5/t5-small": 512, "meta-llama/Llama-3.2-11B-Vision-Instruct": 0}
# transformers steps through a Mamba prompt one by one; the state does not grow.
TRUTH_LENGTHS = {"tiiuae/falcon-mamba-7b": 64}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where everything is."""

    headers: Path
    others: str
    transformers: str
    work: Path

    def folder(self, model: str) -> Path:
        """Return the header set of a model."""
        return self.headers / FOLDERS.get(model, model.replace("/", "--"))

    @property
    def environment(self) -> dict[str, str]:
        """Return what every tool is run with: the simulator, and no cache of an earlier run."""
        home = str(self.work / "home")
        return {
            **os.environ,
            "HF_ENDPOINT": ENDPOINT,
            "HF_HOME": home,
            "HFKV_CACHE": home,
            "NO_COLOR": "1",
            "COLUMNS": "200",
            "PYTHONPATH": str(self.work / "copies"),
        }

    def run(self, *command: str) -> str:
        """Return what a tool prints; raises FailedError with its last line where it gives up."""
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.environment, timeout=300, check=False
        )
        if done.returncode:
            said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
            raise FailedError(_shortened(said))
        return done.stdout


class FailedError(Exception):
    """A tool gave no answer; the message is its own."""


def _shortened(lines: list[str]) -> str:
    """Return the line that says why: the first of a refusal, the last of a traceback."""
    words = [line for line in lines if "unauthenticated" not in line and "Warning" not in line]
    errors = [line for line in words if re.match(r"[\w.]*(Error|Exception): ", line)]
    told = errors[-1] if errors else next(iter(words), "no words")
    return re.sub(r"\s+", " ", told)[:160]


def hfkv(setting: Setting, model: str, tokens: int) -> dict[str, Any]:
    """Ask hfkv for what transformers keeps of the same input."""
    options = ["--context", str(tokens), "--kv-dtype", "bf16", "--engine", "transformers"]
    if model in SOURCES:
        options += ["--source-tokens", str(SOURCES[model])]
    text = setting.run(sys.executable, "-m", "hfkv", "inspect", model, *options, "--json")
    found = json.loads(text)
    return {"weights": found["weights"]["bytes"], "kv": found["kv_cache"]["bytes"]}


def hf_mem(setting: Setting, model: str, tokens: int) -> dict[str, Any]:
    """Ask hf-mem with its experimental cache."""
    main = "from hf_mem.cli import main; main()"
    command = (setting.others, "-c", main, "--model-id", model, "--json-output")
    cache = ("--experimental", "--kv-cache-dtype", "bfloat16", "--max-model-len", str(tokens))
    try:
        text = setting.run(*command, *cache)
    except FailedError as error:
        return {
            "weights": json.loads(setting.run(*command))["memory"],
            "kv": None,
            "said": str(error),
        }
    found = json.loads(text)
    return {"weights": found["memory"], "kv": found.get("kv_cache")}


def kvfit(setting: Setting, model: str, tokens: int) -> dict[str, Any]:
    """Ask kvfit for a machine that is large enough."""
    options = ("--context", str(tokens), "--kv-dtype", "bf16", "--hardware", "b200-180")
    text = setting.run(setting.others, "-m", "kvfit", model, *options, "--gpus", "8", "--json")
    found = json.loads(text)
    return {"weights": found["weights"]["bytes"], "kv": int(found["cache"]["bytes_per_sequence"])}


def ridgepoint(setting: Setting, model: str, tokens: int) -> dict[str, Any]:
    """Ask ridgepoint, which is told the format of the weights."""
    dtype = next(dtype for name, _, dtype in MODELS if name == model)
    options = ("--gpu", "h100-80gb:8", "--ctx", str(tokens), "--dtype", dtype, "--json")
    found = json.loads(setting.run(setting.others, "-m", "ridgepoint.cli", "fit", model, *options))
    return {
        "weights": int(found["memory"]["weights_bytes"]["best"]),
        "kv": found["capacity"]["bytes_per_seq"],
    }


def modelinfo(setting: Setting, model: str, tokens: int) -> dict[str, Any]:
    """Ask modelinfo, which prints three digits."""
    main = "from modelinfo.cli import main; main()"
    text = setting.run(setting.others, "-c", main, model, "--context", str(tokens))
    return {"weights": _printed(text, "Weights"), "kv": _printed(text, "KV Cache")}


_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


def _printed(text: str, name: str) -> int | None:
    found = re.search(rf"{name}:\s+([\d.,]+) ([KMGT]?B)", text)
    return int(float(found[1].replace(",", "")) * _UNITS[found[2]]) if found else None


def accelerate(setting: Setting, model: str, tokens: int) -> dict[str, Any]:
    """Ask what `accelerate estimate-memory` prints for 16 bit: it has no other stored format."""
    del tokens
    options = ("--library_name", "transformers", "--dtypes", "float16")
    text = setting.run(
        str(Path(setting.transformers).with_name("accelerate")), "estimate-memory", model, *options
    )
    row = next(line for line in text.splitlines() if "float16" in line)
    _, total, _ = re.findall(r"([\d.]+) ([KMGT]?B)", row)
    return {"weights": int(float(total[0]) * _UNITS[total[1]]), "kv": None}


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A contender: its distribution, and how it is asked."""

    package: str
    ask: Callable[[Setting, str, int], dict[str, Any]]
    copied: str | None = None  # a module that names huggingface.co


TOOLS = {
    "hfkv": Tool(package="hfkv", ask=hfkv),
    "kvfit": Tool(package="kvfit", ask=kvfit, copied="kvfit"),
    "hf-mem": Tool(package="hf-mem", ask=hf_mem, copied="hf_mem"),
    "ridgepoint": Tool(package="ridgepoint", ask=ridgepoint, copied="ridgepoint"),
    "modelinfo": Tool(package="modelinfo-cli", ask=modelinfo, copied="modelinfo"),
    "accelerate": Tool(package="accelerate", ask=accelerate),
}


def main() -> None:
    """Ask everybody and write the answers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hubsim", required=True, type=Path)
    parser.add_argument("--headers", required=True, type=Path)
    parser.add_argument("--others", required=True)
    parser.add_argument("--transformers", required=True)
    parser.add_argument("--only", choices=TOOLS, help="ask this tool again, keep the rest")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(
            headers=asked.headers,
            others=asked.others,
            transformers=asked.transformers,
            work=Path(folder),
        )
        for model, _, _ in MODELS:
            put(setting.folder(model), setting.work / "hub" / model)
        for tool in TOOLS.values():
            if tool.copied:
                redirect(setting, tool.copied)
        with simulator(asked.hubsim, setting.work / "hub"):
            document = asked_again(setting, asked.only) if asked.only else measured(setting)
    RESULT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def measured(setting: Setting) -> dict[str, Any]:
    """Return the truth and every answer."""
    pythons = {"hfkv": sys.executable, "accelerate": setting.transformers}
    return {
        "date": time.strftime("%Y-%m-%d"),
        "tokens": TOKENS,
        "lengths": LENGTHS,
        "versions": {
            name: version(pythons.get(name, setting.others), tool.package)
            for name, tool in TOOLS.items()
        }
        | {"transformers": version(setting.transformers, "transformers")},
        "models": [
            {
                "id": model,
                "stands_for": kind,
                "truth": truth(setting, model),
                "answers": {name: answer(setting, tool, model) for name, tool in TOOLS.items()},
            }
            for model, kind, _ in MODELS
        ],
    }


def asked_again(setting: Setting, name: str) -> dict[str, Any]:
    """Return what is known with new answers of one tool."""
    document: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    for model in document["models"]:
        model["answers"][name] = answer(setting, TOOLS[name], model["id"])
    return document


def answer(setting: Setting, tool: Tool, model: str) -> dict[str, Any]:
    """Return what one tool says of one model."""
    try:
        found = tool.ask(setting, model, LENGTHS.get(model, TOKENS))
    except FailedError as error:
        found = {"weights": None, "kv": None, "said": str(error)}
    sys.stderr.write(f"{tool.package:14} {model:45} {found}\n")
    return found


def truth(setting: Setting, model: str) -> dict[str, Any]:
    """Return the bytes of all tensors in the files, and of the cache that transformers fills."""
    hub = setting.work / "hub" / model
    weights = 0
    for path in hub.glob("*.header*"):
        header = json.loads(gzip.decompress(path.read_bytes())[8:])
        weights += max(
            tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"
        )
    tokens = TRUTH_LENGTHS.get(model, LENGTHS.get(model, TOKENS))
    script = str(ROOT / "benchmarks" / "transformers_truth.py")
    text = setting.run(setting.transformers, script, str(hub / "config.json"), str(tokens))
    found = json.loads(text)
    return {"weights": weights, "kv": found["bytes"], "tensors": found["tensors"]}


def version(python: str, package: str) -> str:
    """Return the version of a distribution."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def redirect(setting: Setting, module: str) -> None:
    """Copy a module of `--others` with the simulator's address in place of the Hub's."""
    where = f"import {module}; print({module}.__path__[0])"
    done = subprocess.run([setting.others, "-c", where], capture_output=True, text=True, check=True)
    copy = setting.work / "copies" / module
    shutil.copytree(done.stdout.strip(), copy, ignore=shutil.ignore_patterns("__pycache__"))
    for path in copy.rglob("*.py"):
        text = path.read_text().replace("https://huggingface.co", ENDPOINT)
        path.write_text(text.replace('endpoint.startswith("https://")', "True"))


@contextmanager
def simulator(script: Path, folder: Path) -> Iterator[None]:
    """Serve the models."""
    command = [sys.executable, str(script), "--root", str(folder), "--port", PORT, "--rtt-ms", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with suppress(OSError):
                urllib.request.urlopen(f"{ENDPOINT}/admin/stats", timeout=5).close()  # noqa: S310  our own
                break
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
