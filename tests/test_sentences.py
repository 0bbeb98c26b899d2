"""Sentences that were wrong or ugly once, read as a person reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hfkv.cli import main
from hfkv.core.engines.registry import ENGINES
from hfkv.core.engines.titles import engine_title

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 1024,
    "torch_dtype": "float32",
}


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what a command says on wide lines."""
    main(["inspect", *words])
    return capsys.readouterr().out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that holds a config alone."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return tmp_path


@pytest.mark.usefixtures("wide")
def test_who_gave_a_folder_is_not_told_to_give_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hint to inspect the folder instead is for a lone config."""
    hint = "inspect the repository or the folder instead of its config.json"
    assert hint in said(capsys, str(folder / "config.json"))
    assert hint not in said(capsys, str(folder))


@pytest.mark.usefixtures("wide")
def test_sources_are_not_nested_in_brackets(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Why the cache is in 16 bit, and what said float32."""
    expected = "bf16 (16 bit, as engines do not serve the float32 of config.json: torch_dtype)"
    assert expected in said(capsys, str(folder))


@pytest.mark.usefixtures("wide")
def test_advice_has_an_arrow(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What an engine refuses was read all the same, and what to do is told apart."""
    config = {**LLAMA, "architectures": ["MptForCausalLM"], "model_type": "mpt"}
    (folder / "config.json").write_text(json.dumps(config))
    out = said(capsys, str(folder), "--engine", "vllm")
    lines = [line.strip() for line in out.splitlines()]
    assert "→ size it for that version with --engine-version 0.28" in lines
    assert "unknown: the cache cannot be sized from what was read" in out


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_a_long_list_of_layers_is_broken_after_commas(
    tmp_path: Path,
    columns: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nemotron-H's irregular pattern: no line begins with a comma, and none is too long."""
    monkeypatch.setenv("COLUMNS", columns)
    letters = "MEM*EMEEM*" * 12
    config = {**LLAMA, "model_type": "nemotron_h", "hybrid_override_pattern": letters}
    config |= {"num_hidden_layers": len(letters), "num_key_value_heads": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    lines = said(capsys, str(tmp_path)).splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert not [line for line in lines if line.lstrip().startswith(",")]
    assert "3, 9," in "\n".join(lines)


def test_engines_are_called_what_their_makers_call_them() -> None:
    """Options take the small names, sentences have the others."""
    assert [engine_title(name) for name in ENGINES] == [
        "none",
        "vLLM",
        "SGLang",
        "llama.cpp",
        "transformers",
        "TensorRT-LLM",
        "Ollama",
    ]


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of 140 columns."""
    monkeypatch.setenv("COLUMNS", "140")


MODELS = Path(__file__).parent.parent / "fixtures" / "models"


@pytest.mark.usefixtures("wide")
def test_what_memory_does_not_limit_is_any(capsys: pytest.CaptureFixture[str]) -> None:
    """BERT keeps nothing, Mamba's state has one size: no invented maximum stands there."""
    two = ["-g", "a100-80", "-g", "rtx4090"]
    bert = said(capsys, str(MODELS / "google-bert--bert-base-uncased.hfkv.json"), *two)
    rows = [line.split() for line in bert.splitlines() if line.startswith("  A100")]
    assert rows[0][rows[0].index("✔") :][:3] == ["✔", "any", "–"]
    mamba = str(MODELS / "tiiuae--falcon-mamba-7b.hfkv.json")
    assert "any" in next(x for x in said(capsys, mamba, *two).splitlines() if "A100" in x).split()
    one = said(capsys, mamba, "-g", "a100-80")
    assert "longest single sequence  any  (a longer one takes no more)" in one
    assert "tokens of each" not in one
    assert "16,777,216" not in one
    assert "listed apart" not in one
