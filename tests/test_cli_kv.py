"""`hfkv kv`: every documented worked example, by hand, and what the calculator refuses."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from update_golden import CONSOLE, ROOT

from hfkv.cli import main

KIB, GIB = 2**10, 2**30
K4, K8, K32, K64, K128 = (n * KIB for n in (4, 8, 32, 64, 128))
MHA = 2 * 32 * 32 * 128 * 2  # 32 layers, 32 heads of 128, 2 bytes: 512 KiB a token
GQA = 2 * 32 * 8 * 128 * 2  # 8 heads: 128 KiB a token


def answer(capsys: pytest.CaptureFixture[str], command: str) -> dict[str, Any]:
    """Return the document of one command line."""
    assert main([*shlex.split(command), "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def cells(document: dict[str, Any]) -> dict[tuple[int, int], int]:
    """Return the table as bytes by tokens and sequences."""
    return {(cell["tokens"], cell["sequences"]): cell["bytes"] for cell in document["grid"]}


def _multi_head(document: dict[str, Any]) -> None:
    assert MHA == 512 * KIB
    assert document["kv_cache"]["bytes_per_token"] == MHA
    table = cells(document)
    assert table[K4, 1] == 2 * GIB
    assert table[K4, 8] == 16 * GIB
    assert table[K128, 8] == 512 * GIB


def _grouped(document: dict[str, Any]) -> None:
    assert GQA == 128 * KIB
    assert document["kv_cache"]["bytes_per_token"] == GQA
    table = cells(document)
    assert [table[one] for one in ((K8, 1), (K32, 1), (K32, 4), (K64, 4))] == [
        n * GIB for n in (1, 4, 16, 32)
    ]


def _what_grouping_saves(document: dict[str, Any]) -> None:
    assert [step["bytes"] for step in document["ladder"][:2]] == [MHA * K8, GQA * K8]
    assert document["ladder"][1]["factor"] == 4.0


def _without_grouping(document: dict[str, Any]) -> None:
    assert document["kv_cache"]["bytes_per_token"] == 512 * KIB


def _four_bit_weights(document: dict[str, Any]) -> None:
    assert document["weights"] == {"bytes": 7 * 10**9 // 2, "parameters": 7 * 10**9}
    assert round(document["weights"]["bytes"] / GIB, 2) == 3.26


def _a_24_gib_card(document: dict[str, Any]) -> None:
    assert (24 - 16 - 2) * GIB // GQA == 49_152
    by_tokens = {fit["tokens"]: fit for fit in document["fit"]}
    assert by_tokens[K4]["kv_pool_bytes_per_gpu"] == 6 * GIB
    assert by_tokens[K4]["max_tokens"] == 49_152
    assert by_tokens[K4]["max_sequences"] == 12
    assert by_tokens[K8]["max_sequences"] == 6  # twice as long, half as many


def _the_ladder(document: dict[str, Any]) -> None:
    assert [step["bytes"] // GIB for step in document["ladder"]] == [1280, 320, 160, 80, 80, 80]
    assert [step["factor"] for step in document["ladder"]] == [1.0, 4.0, 2.0, 2.0, 1.0, 1.0]
    assert document["ladder"][2]["in_use_bytes"] == 128 * GIB  # 80 % of 160
    assert document["in_use"] == {"share": 0.8, "bytes": 256 * GIB}


def _a_window(document: dict[str, Any]) -> None:
    each = 2 * 16 * 128 * 2
    assert document["kv_cache"]["bytes"] == each * (10 * K128 + 52 * KIB)
    assert document["kv_cache"]["simple_formula"]["bytes"] == 62 * GIB


def _a_latent_vector(document: dict[str, Any]) -> None:
    assert document["kv_cache"]["bytes_per_token"] == 61 * (512 + 64) * 2 == 70_272
    assert document["kv_cache"]["bytes"] == 2_302_672_896
    assert document["kv_cache"]["simple_formula"]["applies"] is False


EXAMPLES: dict[str, Callable[[dict[str, Any]], None]] = {
    "kv --layers 32 --hidden 4096 --heads 32 --kv-dtype fp16 --context 4k,128k --batch 1,8": (
        _multi_head
    ),
    "kv --layers 32 --kv-heads 8 --head-dim 128 --context 8k,32k,64k --batch 1,4": _grouped,
    "kv --layers 32 --heads 32 --kv-heads 8 --head-dim 128 --context 8k": _what_grouping_saves,
    "kv --layers 32 --heads 32 --head-dim 128 --context 8k": _without_grouping,
    "kv --layers 32 --kv-heads 8 --head-dim 128 --context 4k --parameters 7b"
    " --weights-dtype int4": _four_bit_weights,
    "kv --layers 32 --kv-heads 8 --head-dim 128 --context 4k,8k --gpu 24gib --utilization 1"
    " --weights 16gib --overhead 2gib": _a_24_gib_card,
    "kv --layers 32 --hidden 4096 --heads 32 --kv-heads 8 --context 128k --batch 20"
    " --in-use 80%": _the_ladder,
    "kv --layers 62 --kv-heads 16 --head-dim 128 --window 1024:5/6 --context 128k": _a_window,
    "kv --layers 61 --mla 512+64 --context 32k": _a_latent_vector,
}


def test_every_documented_example_is_worked_out_here() -> None:
    """docs/worked-examples.md holds these commands and no other."""
    text = (ROOT / "docs" / "worked-examples.md").read_text(encoding="utf-8")
    found = [" ".join(match[2].replace("\\\n", " ").split()) for match in CONSOLE.finditer(text)]
    assert found == list(EXAMPLES)


@pytest.mark.parametrize("command", EXAMPLES)
def test_a_worked_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says what the arithmetic in this file says."""
    EXAMPLES[command](answer(capsys, command))


def test_a_structure_is_told_as_it_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    """Head dim from hidden / heads, KV heads from heads; a latent alone has neither."""
    document = answer(capsys, "kv --layers 2 --hidden 64 --heads 4 --window 8:1/2")
    assert document["structure"] == {
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 16,
        "latent": None,
        "window": {"tokens": 8, "layers": 1, "of": 2},
    }
    # one layer keeps 8 tokens and one all 4,096, of 2 x 4 x 16 values in 2 bytes
    assert document["kv_cache"]["bytes"] == 2 * 4 * 16 * 2 * (8 + 4096)
    latent = answer(capsys, "kv --layers 61 --mla 576")["structure"]
    assert (latent["latent"], latent["num_key_value_heads"], latent["head_dim"]) == (
        576,
        None,
        None,
    )


def test_a_latent_beside_heads_shows_what_it_saves(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek-V3: 128 heads of 2 x 128 values become one vector of 576, 56.9 times less."""
    document = answer(capsys, "kv --layers 61 --heads 128 --head-dim 128 --mla 512+64 -c 1k")
    first, second = document["ladder"][:2]
    assert first["bytes"] == 61 * 2 * 128 * 128 * 2 * KIB
    assert second["bytes"] == 61 * 576 * 2 * KIB
    assert second["factor"] == round(2 * 128 * 128 / 576, 4)


def test_tensor_parallel_ranks_share_the_heads(capsys: pytest.CaptureFixture[str]) -> None:
    """8 KV heads on 4 GPUs: each holds 2 of them, 32 KiB a token."""
    fit = answer(capsys, "kv --layers 32 --heads 32 --kv-heads 8 --head-dim 128 -c 8k -g 24gib:4")[
        "fit"
    ][0]
    assert fit["kv_bytes_per_sequence_per_gpu"] == GQA // 4 * K8
    assert fit["fits"] is None  # the weights are not known


def test_repeated_lengths_are_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    """`-c 4k -c 4k,8k` asks for two contexts, told from the first to the last."""
    document = answer(capsys, "kv --layers 1 --kv-heads 1 --head-dim 2 -c 8k -c 8k,4k -b 2 -b 1")
    assert list(cells(document)) == [(K8, 2), (K8, 1), (K4, 2), (K4, 1)]
    assert (document["kv_cache"]["tokens"], document["kv_cache"]["sequences"]) == (K8, 2)


@pytest.mark.parametrize(
    ("command", "message", "hint"),
    [
        (
            "kv --layers 32",
            "nothing says how wide a head is",
            "give --kv-heads and --head-dim, or --hidden and --heads, or --mla",
        ),
        (
            "kv --layers 32 --hidden 4096",
            "nothing says how wide a head is",
            "give --kv-heads and --head-dim, or --hidden and --heads, or --mla",
        ),
        (
            "kv --layers 32 --head-dim 128",
            "nothing says how many heads keep keys and values",
            "give --kv-heads and --head-dim, or --hidden and --heads, or --mla",
        ),
        (
            "kv --layers 32 --hidden 4096 --heads 33",
            "a hidden size of 4096 does not divide into 33 heads",
            "say how wide a head is with --head-dim",
        ),
        (
            "kv --layers 32 --heads 32 --kv-heads 7 --head-dim 128",
            "32 heads cannot be divided into 7 KV heads",
            "KV heads must divide the heads",
        ),
        (
            "kv --layers 32 --heads 32 --head-dim 128 --window 4096:7/6",
            "a window is TOKENS or TOKENS:PART/WHOLE with PART of every WHOLE layers",
            "for example --window 4096:5/6",
        ),
        (
            "kv --layers 32 --heads 32 --head-dim 128 --weights 1gib --parameters 1b",
            "--weights and --parameters say the same thing",
            "drop one of them",
        ),
        (
            "kv --layers 32 --heads 32 --head-dim 128 --weights-dtype int4",
            "--weights-dtype needs --parameters",
            "for example --parameters 7b",
        ),
        (
            "kv --layers 32 --heads 32 --head-dim 128 --parameters 7b --weights-dtype w4",
            "unknown weights dtype 'w4'",
            "known: bf16, fp16, fp32, fp8, int8, int4, nvfp4",
        ),
    ],
)
def test_what_determines_no_structure_is_one_line(
    command: str, message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, one sentence and what to do."""
    assert main(command.split()) == 2
    assert capsys.readouterr() == ("", f"hfkv: error: {message}\nhint: {hint}\n")


def test_the_whole_table_is_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    """Text, Markdown and CSV hold all six cells, whatever the width."""
    command = "kv --layers 32 --kv-heads 8 --head-dim 128 -c 8k,32k,64k -b 1,4"
    for extra in ([], ["-f", "md"]):
        assert main([*command.split(), *extra]) == 0
        out = capsys.readouterr().out
        assert all(figure in out for figure in ("1.00 GiB", "4.00 GiB", "8.00 GiB", "32.0 GiB"))
    assert main([*command.split(), "-f", "csv"]) == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert rows[0][:4] == ["tokens", "sequences", "kv_dtype", "kv_bytes"]
    assert [int(row[3]) // GIB for row in rows[1:]] == [1, 4, 4, 16, 8, 32]
