"""Each figure of a report says which path it took, and which tensor confirms it."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hfkv.core.files import ModelFiles
from hfkv.core.readings import Reading
from hfkv.core.report import analyze
from hfkv.core.snapshots import loads
from hfkv.core.workload import Workload
from hfkv.render.evidence import Figure, confirming, figures
from hfkv.render.json import inspect_document
from hfkv.render.markdown import inspect_markdown
from hfkv.render.style import Style
from hfkv.render.text import inspect_text

MODELS = Path(__file__).parent.parent / "fixtures" / "models"
LLAMA = "meta-llama--Llama-3.1-8B"


def load(name: str, **config: Any) -> ModelFiles:
    """Return a snapshot, with changes of its config."""
    files = loads((MODELS / f"{name}.hfkv.json").read_bytes(), where=name)
    changed = {**copy.deepcopy(files.config or {}), **config}
    return replace(files, config=changed)


def told(files: ModelFiles, width: int = 100) -> str:
    """Return the explained report as one line of words."""
    report = analyze(files, Workload(context=8192))
    return " ".join(inspect_text(report, Style(width=width), explain=True).split())


def test_every_figure_names_its_path_and_its_tensor() -> None:
    """Llama-3.1-8B: keys, a derived rule, and the tensors as transformers names them."""
    found = {figure.name: figure for figure in figures(analyze(load(LLAMA)))}
    assert found["num_hidden_layers"] == Figure(
        name="num_hidden_layers",
        value=32,
        path="config.json: num_hidden_layers",
        confirmed="model.layers.{}",
    )
    assert found["head_dim"] == Figure(
        name="head_dim",
        value=128,
        path="hidden_size / num_attention_heads",
        confirmed="within the key width",
    )
    assert found["key width"] == Figure(
        name="key width",
        value=1024,
        path="num_key_value_heads × head_dim",
        confirmed="model.layers.{}.self_attn.k_proj.weight in 32 layers",
    )
    assert found["max_context"].confirmed is None


@pytest.mark.parametrize("width", [60, 100])
def test_explain_shows_them_on_any_terminal(width: int) -> None:
    """As a table where it fits, else a line a figure with the tensor below it."""
    text = told(load(LLAMA), width)
    assert "config.json: num_hidden_layers ✔ model.layers.{}" in text
    assert "✔ model.layers.{}.self_attn.k_proj.weight in 32 layers" in text


def test_what_leaves_no_trace_is_said() -> None:
    """A window is not in the shapes."""
    assert "– windows leave no trace in the tensors" in told(load("google--gemma-2-9b-it"))


def test_a_contradiction_is_shown_with_both_values() -> None:
    """Four KV heads in the config, 1,024 rows in the tensor."""
    files = load(LLAMA, num_key_value_heads=4)
    text = told(files)
    assert "✘ the config says 4 KV heads × 128 = 512" in text
    evidence = inspect_document(analyze(files))["architecture"]["evidence"]
    (sentence, *_) = evidence["disagreements"]
    assert "`model.layers.0.self_attn.k_proj.weight` has 1024 rows" in sentence
    assert evidence["complete"] is False


def test_the_document_holds_the_evidence() -> None:
    """Field, value, tensor and the number of layers, each apart."""
    architecture = inspect_document(analyze(load(LLAMA)))["architecture"]
    assert architecture["layers_source"] == "config"
    evidence = architecture["evidence"]
    assert evidence["complete"] is True
    assert evidence["agreements"][0] == {
        "field": "num_hidden_layers",
        "value": 32,
        "tensor": "model.layers.{}",
        "layers": None,
    }
    assert evidence["agreements"][3] == {
        "field": "key width",
        "value": 1024,
        "tensor": "model.layers.{}.self_attn.k_proj.weight",
        "layers": 32,
    }


def test_a_hostile_tensor_name_is_only_a_name() -> None:
    """Backticks and words of a name do not confuse what is read out of a sentence."""
    reading = Reading(field="key width", value=1, source="`a` in 7 layers`.k` in 2 layers")
    assert confirming(reading) == ("a` in 7 layers`.k", 2)


def test_layers_from_tensors_are_labelled() -> None:
    """Without a config: 28 layers of 512 key rows, and the word of where they come from."""
    files = replace(load("Qwen--Qwen2.5-7B-Instruct"), config=None)
    report = analyze(files, Workload(context=8192))
    document = inspect_document(report)
    assert document["architecture"]["layers_source"] == "tensors"
    assert document["kv_cache"]["bytes_per_token"] == 28 * 2 * 512 * 2
    text = told(files)
    assert (
        "Why from tensors: layers kind KV heads head dim window which 28 full attention –" in text
    )
    assert "28 layers × 1,024 values × 2 bytes × 8,192 tokens × 1 sequence = 448 MiB." in text
    assert "inferred: the layer table is from tensors; no config could be read" in text
    assert "layers, from tensors" in inspect_markdown(report)


def test_weights_and_cache_are_two_lines() -> None:
    """DeepSeek-V3 has fp8 weights and declares no cache format."""
    text = told(load("deepseek-ai--DeepSeek-V3"))
    assert "weights in fp8, 8.00 bits a parameter with its scales, 3 modules left" in text
    assert "KV cache in still bf16 (config.json: torch_dtype)" in text


def test_float32_weights_have_both_sizes() -> None:
    """Mistral-7B's set is float32: 28,966,928,384 bytes, half of that when loaded."""
    files = load("mistralai--Mistral-7B-v0.1")
    assert "weights in fp32: 27.0 GiB in the files, 13.5 GiB when loaded as 16 bit" in told(files)
    weights = inspect_document(analyze(files))["weights"]
    assert (weights["bytes"], weights["half_precision_bytes"]) == (28_966_928_384, 14_483_464_192)


def test_markdown_explains_too() -> None:
    """A row a figure, its path and what confirms it."""
    report = analyze(load(LLAMA), Workload(context=8192))
    row = "| `hidden_size` | 4096 | config.json: hidden\\_size | `model.embed_tokens.weight` |"
    assert row in inspect_markdown(report, explain=True)
    assert row not in inspect_markdown(report)
