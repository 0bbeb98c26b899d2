"""What machines read: JSON, CSV, and the Markdown that goes into an issue."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from asked import steers
from hand_made import REPORTS, architecture

from hfkv.core.files import ModelFiles, Target
from hfkv.render.csv import inspect_csv
from hfkv.render.documents import dumps
from hfkv.render.json import inspect_document
from hfkv.render.markdown import inspect_markdown

# The keys of `hfkv.inspect/1`, copied from the contract.
CONTRACT = {
    "": [
        "schema", "hfkv_version", "target", "architecture", "weights", "kv_cache", "fit",
        "warnings", "sources",
    ],
    "target": ["kind", "id", "revision", "sha", "files", "download_bytes"],
    "architecture": [
        "class_name", "model_type", "kind", "num_hidden_layers", "hidden_size", "vocab_size",
        "max_context", "num_attention_heads", "num_key_value_heads", "head_dim", "v_head_dim",
        "sliding_window", "attention", "confidence", "family", "experts", "layers",
    ],
    "architecture.layers.0": [
        "kind", "count", "indices", "num_key_value_heads", "head_dim", "v_head_dim", "window",
    ],
    "weights": [
        "bytes", "parameters", "stored_elements", "tensors", "source", "by_dtype", "by_role",
        "quantization",
    ],
    "kv_cache": [
        "tokens", "sequences", "dtype", "dtype_source", "engine", "bytes", "bytes_per_sequence",
        "bytes_per_token", "per_gpu", "fixed_bytes_per_sequence", "components", "simple_formula",
    ],
    "kv_cache.components.0": [
        "name", "layers", "growth", "limit", "elements_per_slot", "dtype", "bytes_per_slot",
        "slots", "bytes", "shards_by_heads",
    ],
    "kv_cache.simple_formula": ["applies", "bytes", "ratio", "why_not"],
    "fit.0": [
        "gpu", "count", "tensor_parallel_size", "pipeline_parallel_size", "memory_bytes",
        "budget_bytes", "weights_bytes_per_gpu", "overhead_bytes_per_gpu",
        "kv_pool_bytes_per_gpu", "kv_bytes_per_sequence_per_gpu", "fits", "short_by_bytes",
        "max_sequences", "max_context", "max_tokens", "simple_formula_max_sequences",
        "ways_to_fit",
    ],
}  # fmt: skip


def test_the_document_has_the_keys_of_the_contract_in_its_order() -> None:
    """Keys that the contract names come first, each where the contract has it."""
    document = inspect_document(REPORTS["dense"])
    for path, keys in CONTRACT.items():
        part: Any = document
        for step in path.split(".") if path else ():
            part = part[int(step)] if step.isdecimal() else part[step]
        assert list(part)[: len(keys)] == keys, path


def test_the_document_holds_whole_bytes_and_null_for_what_is_not_known() -> None:
    """Sizes are exact integers; an unknown size of one file makes the download unknown."""
    document = inspect_document(REPORTS["hybrid"])
    assert document["target"]["download_bytes"] is None
    assert document["kv_cache"]["bytes"] == 882_573_312
    assert document["kv_cache"]["simple_formula"]["ratio"] == 3.6498
    assert document["architecture"]["layers"][1]["indices"] == "3,7,11,15,19,23,27,31,35,39,43,47"
    unknown = inspect_document(REPORTS["alien"])
    assert (unknown["kv_cache"], unknown["fit"]) == (None, [])
    assert unknown["weights"]["bytes"] == 14_000_000_000


@pytest.mark.parametrize("name", REPORTS)
def test_a_document_survives_json(name: str) -> None:
    """What is written is what is read back, and nothing in it steers a terminal."""
    document = inspect_document(REPORTS[name])
    text = dumps(document)
    assert json.loads(text) == document
    assert text.endswith("}\n")
    assert not steers(text.replace("\n", ""))


def test_sources_name_the_path_of_each_figure() -> None:
    """`sources` maps a field to the key, default or rule it came from."""
    assert inspect_document(REPORTS["dense"])["sources"] == {
        "num_hidden_layers": "config.json: num_hidden_layers",
        "head_dim": "hidden_size / num_attention_heads",
    }


def test_csv_has_one_row_a_gpu() -> None:
    """Three GPUs give three rows under one heading; without any there is one row."""
    rows = list(csv.DictReader(io.StringIO(inspect_csv(REPORTS["several"]))))
    assert [(row["gpu_count"], row["fits"], row["max_sequences"]) for row in rows] == [
        ("2", "true", "1"),
        ("1", "true", "3"),
        ("1", "true", "6"),
    ]
    (row,) = csv.DictReader(io.StringIO(inspect_csv(REPORTS["hybrid"])))
    assert (row["gpu"], row["kv_bytes"], row["warnings"]) == ("", "882573312", "hybrid mtp")


def test_a_spreadsheet_is_not_made_to_calculate() -> None:
    """A name that a spreadsheet would take for a formula is quoted."""
    report = replace(REPORTS["dense"], architecture=architecture(class_name="=HYPERLINK(1)"))
    (row,) = csv.DictReader(io.StringIO(inspect_csv(report)))
    assert row["class_name"] == "'=HYPERLINK(1)"


def test_markdown_tables_have_as_many_cells_in_every_row() -> None:
    """A pipe in a name does not add a column."""
    target = Target(kind="hub", id="a|b/`c`", revision="main")
    report = replace(REPORTS["several"], files=ModelFiles(target=target))
    told = inspect_markdown(report)
    assert told.startswith("### `a\\|b/'c'`\n")
    for block in told.split("\n\n"):
        if block.startswith("|"):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.strip().splitlines()}
            assert len(widths) == 1, block


def test_markdown_says_what_the_text_says() -> None:
    """Verdict, exact bytes, layers and warnings are all in the Markdown."""
    told = inspect_markdown(REPORTS["latent"])
    assert "**Fits on 8 × H100-SXM5-80GB: 32,768 tokens × 1 sequence. Room for 13" in told
    assert "| weights | 326 GiB | 350,000,000,000 | safetensors-headers, int4 (GPTQ) |" in told
    assert "| KV cache | 2.14 GiB | 2,302,672,896 | 32,768 tokens × 1 sequence, bf16 |" in told
    assert "| 61 | latent attention | latent | 576 | – | 0-60 |" in told
    assert "- `mla` Tensor parallelism does not divide the latent cache" in told
    assert "Confidence: **declared**, the config says so; no tensor was compared." in told


def test_a_hostile_name_steers_nothing() -> None:
    """Escapes of a repository's name are written out in Markdown and CSV too."""
    for told in (inspect_markdown(REPORTS["alien"]), inspect_csv(REPORTS["alien"])):
        assert "\\x1b[2J" in told
        assert not set(told) & {"\x1b", "\x9b"}
