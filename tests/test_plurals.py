"""One of a thing is said in the singular, in every form of answer."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest

from hfkv.cli import main
from hfkv.core.counts import counted
from hfkv.render.units import things

_ONE_OF_MANY = re.compile(
    r"(?<![\d.,/])(?<!\+ )1 (?:KV |more )?(?:tensors|files|layers|sequences|tokens|bytes|heads"
    r"|entries|values|models|headers|parameters|experts|requests|elements|rows|positions|GPUs"
    r"|letters)\b"
)


def test_a_number_and_its_noun() -> None:
    """One thing, several things, none; words that end in -ry."""
    assert [counted(n, "layer") for n in (0, 1, 2)] == ["0 layers", "1 layer", "2 layers"]
    assert [counted(n, "entry") for n in (1, 2048)] == ["1 entry", "2,048 entries"]
    assert things(1, "parameter") == "1 parameter"
    assert things(8_030_261_248, "parameter") == "8.03 B parameters"


def test_no_plural_is_made_by_hand() -> None:
    """`counted` is the one place that knows how; a `"s" if` elsewhere would miss `entries`."""
    by_hand = re.compile(r"""['"]s['"] if|else ['"]s['"]""")
    assert by_hand.search('plural = "s" if layers > 1 else ""')
    package = Path(__file__).parent.parent / "hfkv"
    texts = {path.name: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    assert [name for name, text in texts.items() if by_hand.search(text)] == []


@pytest.fixture
def smallest(tmp_path: Path) -> Path:
    """Return a folder with one layer, one head, one tensor of one parameter, one token."""
    config = {
        "model_type": "llama",
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "hidden_size": 1,
        "vocab_size": 1,
        "max_position_embeddings": 1,
        "sliding_window": 1,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    name = "model.layers.0.self_attn.k_proj.weight"
    raw = json.dumps({name: {"dtype": "BF16", "shape": [1, 1], "data_offsets": [0, 2]}}).encode()
    data = struct.pack("<Q", len(raw)) + raw + b"\0\0"
    (tmp_path / "model.safetensors").write_bytes(data)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "--explain", "-v"],
        ["inspect", "--explain", "--engine", "vllm", "-g", "24gb"],
        ["inspect", "-f", "md", "-g", "1gb", "--seq-lens", "1"],
        ["inspect", "-f", "html", "-g", "24gb"],
        ["inspect", "--json", "--engine", "llama.cpp"],
        ["check", "-g", "24gb"],
        ["compare", "-g", "24gb"],
        ["inspect", "--context", "2", "--prompt", "1", "--output", "1", "-g", "24gb"],
    ],
    ids=" ".join,
)
def test_the_smallest_model_in_every_form(
    smallest: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """`1 layers`, `1 tokens` and the like are in no answer."""
    main([words[0], str(smallest), *words[1:]])
    said = "".join(capsys.readouterr())
    assert "1" in said
    assert _ONE_OF_MANY.findall(said) == []
    assert _ONE_OF_MANY.search("1 KV heads") is not None


def test_the_smallest_structure(capsys: pytest.CaptureFixture[str]) -> None:
    """The calculator's ladder begins with one KV head."""
    main(["kv", "--layers", "1", "--kv-heads", "1", "--head-dim", "1", "-c", "1"])
    said = capsys.readouterr().out
    assert "1 KV head, bf16" in said
    assert _ONE_OF_MANY.findall(said) == []


def test_the_expected_answers_are_right_as_well() -> None:
    """The same of every golden answer and document."""
    root = Path(__file__).parent.parent
    found = {
        path.name: _ONE_OF_MANY.findall(path.read_text(encoding="utf-8"))
        for path in (*root.glob("tests/golden/*.json"), *root.glob("docs/*.md"))
    }
    assert {name: hits for name, hits in found.items() if hits} == {}
