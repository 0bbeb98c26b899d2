"""What `hfkv inspect` is asked to hold: prompts, prefixes, host memory, formats, vLLM's flags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hfkv.cli import main

MODELS = Path(__file__).parent.parent / "fixtures" / "models"
LLAMA = str(MODELS / "meta-llama--Llama-3.1-8B.hfkv.json")
GEMMA = str(MODELS / "google--gemma-3-27b-it.hfkv.json")
DEEPSEEK = str(MODELS / "deepseek-ai--DeepSeek-V3.hfkv.json")
KIB_128 = 131_072  # bytes of one token of Llama-3.1-8B in bf16


def ask(capsys: pytest.CaptureFixture[str], argv: str, model: str = LLAMA) -> Any:
    """Return the document of one command line."""
    assert main(["inspect", model, "--json", *argv.split()]) == 0
    return json.loads(capsys.readouterr().out)


def told(capsys: pytest.CaptureFixture[str], argv: str, model: str = LLAMA) -> str:
    """Return the text of one command line as one line of words."""
    assert main(["inspect", model, *argv.split()]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "argv", ["--prompt 6k --output 1k", "--prompt 6k --output-tokens 1k", "--prompt 6k -o 1k"]
)
def test_a_prompt_and_its_answer_are_one_length(
    argv: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """6,144 + 1,024 = 7,168 tokens of 128 KiB in each of 64 sequences."""
    cache = ask(capsys, f"{argv} --concurrency 64")["kv_cache"]
    assert (cache["tokens"], cache["sequences"]) == (7168, 64)
    assert cache["bytes"] == 7168 * KIB_128 * 64


def test_output_still_names_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the tokens it may name a file, and a file called 1k has a path."""
    path = tmp_path / "answer.json"
    argv = ["inspect", LLAMA, "--json", "--prompt", "6k", "--output", "1k", "-o", str(path)]
    assert main(argv) == 0
    assert json.loads(path.read_text())["kv_cache"]["tokens"] == 7168
    odd = tmp_path / "1k"
    assert main(["inspect", LLAMA, "--json", "--prompt", "6k", "-o", str(odd)]) == 0
    assert json.loads(odd.read_text())["kv_cache"]["tokens"] == 6144
    assert capsys.readouterr().out == ""


def test_a_common_prefix_is_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Eight sequences of 8,192 tokens with 2,048 in common: 8 × 6,144 + 2,048 tokens."""
    document = ask(capsys, "-c 8k -b 8 --shared-prefix 2k --engine vllm")
    cache = document["kv_cache"]
    assert cache["bytes"] == (8 * 6144 + 2048) * KIB_128
    assert cache["shared_bytes"] == 2048 * KIB_128
    assert cache["simple_formula"] == {
        "applies": False,
        "bytes": 8 * 8192 * KIB_128,
        "ratio": 1.28,
        "why_not": ["a prefix that sequences have in common is kept once"],
    }
    assert "shared-prefix" in [warning["code"] for warning in document["warnings"]]


@pytest.mark.parametrize(
    ("engine", "request_tokens"), [("vllm", 6144 + 4 * 1024), ("transformers", 4 * 7168)]
)
def test_beams_keep_their_prompt_once_where_the_engine_shares_it(
    engine: str, request_tokens: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four beams after 6,144 tokens: under vLLM one prompt and four answers, else four of both."""
    argv = f"--prompt 6k --output 1k -b 3 --beams 4 -g h100 --overhead 2gib --engine {engine}"
    document = ask(capsys, argv)
    cache, fit = document["kv_cache"], document["fit"][0]
    assert (cache["sequences"], cache["beams"]) == (12, 4)
    assert cache["bytes"] == fit["kv_bytes_per_gpu"] == 3 * request_tokens * KIB_128
    usable = fit["kv_pool_bytes_per_gpu"] - (16 * KIB_128 if engine == "vllm" else 0)
    assert fit["max_sequences"] == 4 * (usable // (request_tokens * KIB_128))
    text = told(capsys, argv)
    assert "6,144 + 1,024 tokens × 3 requests of 4 beams" in text
    assert f"Room for {fit['max_sequences'] // 4} such requests." in text


def test_what_is_offloaded_is_in_host_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """A fifth of 16,060,522,496 bytes of weights is 3,212,104,499; 32 MiB of positions stay."""
    argv = "-c 8k -g 24gib --engine vllm --overhead 1gib --offload weights=20% --cpu-kv 4gib -b 20"
    fit = ask(capsys, argv)["fit"][0]
    assert fit["host_weights_bytes"] == 3_212_104_499
    assert fit["weights_bytes_per_gpu"] == 16_060_522_496 - 3_212_104_499 + 2**25
    assert 0 < fit["host_kv_bytes"] <= 4 * 2**30
    assert "in host memory 6.99 GiB: 2.99 GiB of weights and 4.00 GiB of cache" in told(
        capsys, argv
    )


def test_another_weights_dtype_is_an_estimate_that_the_fit_counts_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Llama-3.1-8B in int4, groups of 128: 5,727,854,592 bytes, by hand in test_what_if."""
    argv = "-c 8k -g rtx4090 --weights-dtype awq"
    document = ask(capsys, argv)
    found = document["weights"]["what_if"]
    linear = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14_336)
    rest = 2 * (2 * 128_256 * 4096 + 65 * 4096)
    assert (found["format"], found["estimate"]) == ("int4", True)
    assert found["bytes"] == (linear * 4 + linear // 128 * 20) // 8 + rest
    assert found["unquantized_bytes"] == rest
    assert sum(found["by_role"].values()) == found["bytes"]
    assert document["weights"]["bytes"] == document["weights"]["loaded_bytes"] == 16_060_522_496
    assert document["fit"][0]["weights_bytes_per_gpu"] == found["bytes"]
    assert "weights-estimated" in [warning["code"] for warning in document["warnings"]]
    text = told(capsys, argv)
    assert "8,192 tokens × 1 sequence, weights in int4 (an estimate)" in text
    assert "█ weights 5.33 GiB 23 % int4, estimated" in text
    assert "counted as int4, an estimate: 5.33 GiB, 1.96 GiB of it left as it is" in text


def test_the_estimate_is_labelled_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    """Markdown and CSV say which weights are counted."""
    assert main(["inspect", LLAMA, "-c", "8k", "--weights-dtype", "int4", "-f", "md"]) == 0
    row = "| weights | 5.33 GiB | 5,727,854,592 | int4, estimated |\n"
    assert row in capsys.readouterr().out
    assert main(["inspect", LLAMA, "-c", "8k", "--weights-dtype", "int4", "-f", "csv"]) == 0
    heading, figures = capsys.readouterr().out.splitlines()
    cells = dict(zip(heading.split(","), figures.split(","), strict=True))
    assert (cells["weights_what_if"], cells["weights_what_if_bytes"]) == ("int4", "5727854592")
    assert main(["inspect", LLAMA, "-c", "8k", "--weights-dtype", "int4"]) == 0
    assert "5.33 GiB of weights in int4 (an estimate)" in capsys.readouterr().out


def test_without_weights_there_is_nothing_to_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lone config gives no estimate, and says so."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", "num_hidden_layers": 2}))
    document = ask(capsys, "--weights-dtype int4", str(path))
    assert document["weights"] is None
    (finding,) = (w for w in document["warnings"] if w["code"] == "weights-not-estimated")
    assert finding["message"] == (
        "no weights were read: there is nothing to estimate int4 weights from"
    )


def test_vllm_has_three_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """Gemma-3-27B at 32k: 10 full and 52 windowed layers need 2.91 GiB; start-up reserves more.

    Without the hybrid manager every layer keeps every token: 62 × 32,768 × 8,192 bytes.
    """
    need = (10 * 32_768 + 52 * 1024) * 8192
    cache = ask(capsys, "-c 32k -g h100 --engine vllm", GEMMA)["kv_cache"]["per_gpu"]
    assert cache["ideal_bytes_per_sequence"] == need
    assert cache["ideal_bytes_per_sequence"] < cache["steady_bytes_per_sequence"]
    assert cache["steady_bytes_per_sequence"] < cache["admission_bytes_per_sequence"]
    argv = "-c 32k -g h100 --engine vllm --disable-hybrid-kv-cache-manager"
    whole = ask(capsys, argv, GEMMA)["kv_cache"]["per_gpu"]
    assert whole["admission_bytes_per_sequence"] >= 62 * 32_768 * 8192
    text = told(capsys, "-c 32k -g h100 --engine vllm", GEMMA)
    assert "ideal 2.91 GiB what the model needs admission 10.5 GiB what its start-up" in text
    assert "steady state 2.98 GiB what a decoding sequence holds" in text


def test_vllms_flags_reach_its_rules_and_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    """What is asked for is also what there is to paste."""
    argv = "-c 32k -g h200:8 --engine vllm --block-size 64 --no-enable-prefix-caching"
    argv += " --no-async-scheduling --enforce-eager"
    (command,) = ask(capsys, f"{argv} --num-speculative-tokens 2 --dcp 8", DEEPSEEK)["fit"][0][
        "commands"
    ]
    assert command.startswith(
        "vllm serve deepseek-ai/DeepSeek-V3 --max-model-len 32768 --tensor-parallel-size 8 "
    )
    assert (
        " --block-size 64 --no-enable-prefix-caching --no-async-scheduling"
        " --enforce-eager --decode-context-parallel-size 8"
        """ --speculative-config '{"method": "mtp", "num_speculative_tokens": 2}'"""
    ) in command


def test_a_what_if_has_no_repository_to_serve(capsys: pytest.CaptureFixture[str]) -> None:
    """The command names the model that would have to be made."""
    argv = "-c 8k -g h100 --engine vllm --weights-dtype fp8 --overhead 2gib"
    (command,) = ask(capsys, argv)["fit"][0]["commands"]
    assert command.startswith("vllm serve MODEL --max-model-len 8192")


def test_a_long_command_can_still_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines end in a backslash, and a flag stays with its value."""
    argv = "-c 32k -g h200:8 --engine vllm --block-size 64 --num-speculative-tokens 2"
    assert main(["inspect", DEEPSEEK, *argv.split()]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = lines[lines.index("To start it") + 1 : lines.index("Why") - 1]
    assert all(line.endswith(" \\") for line in shown[:-1])
    assert all("--" in line for line in shown[1:])
    pasted = " ".join(line.removesuffix("\\").strip() for line in shown)
    (command,) = ask(capsys, argv, DEEPSEEK)["fit"][0]["commands"]
    assert pasted == command


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("--block-size 16", "hfkv: error: --block-size is a flag of vLLM\n"),
        (
            "--engine sglang --no-prefix-caching",
            "hfkv: error: --no-enable-prefix-caching / --no-prefix-caching is a flag of vLLM\n",
        ),
        ("--async-scheduling", "hfkv: error: --async-scheduling is a flag of vLLM\n"),
        ("--no-async-scheduling", "hfkv: error: --no-async-scheduling is a flag of vLLM\n"),
        ("--no-enforce-eager", "hfkv: error: --no-enforce-eager is a flag of vLLM\n"),
        ("--dcp 2", "hfkv: error: --dcp / --decode-context-parallel-size is a flag of vLLM\n"),
        (
            "--prompt 6k --output 1k --output 2k",
            "hfkv: error: --output names two lengths: 1024 and 2048\n",
        ),
        ("--beams 2k", "hfkv: error: Invalid value for '--beams': '2k' is not a whole number from"),
        ("--beams 2000", "hfkv: error: --beams is from 1 to 1,024\n"),
        (
            "--engine vllm --num-speculative-tokens 10000000",
            "hfkv: error: --num-speculative-tokens is from 1 to 1,024\n",
        ),
        ("-o a.json -o b.json", "hfkv: error: --output names two files: a.json and b.json\n"),
        (
            "--prompt 6k -c 8k",
            "hfkv: error: --prompt and --output replace --context and --seq-lens\n",
        ),
        ("--weights-dtype int1", "hfkv: error: unknown weights dtype 'int1'\n"),
        (
            "-c 1k --shared-prefix 2k",
            "hfkv: error: a prefix of 2,048 tokens is not shared by a sequence of 1,024\n",
        ),
        (
            "--offload 20%",
            "hfkv: error: Invalid value for '--offload': '20%' is not a share of the weights",
        ),
        (
            "--offload weights=150%",
            "hfkv: error: Invalid value for '--offload': 'weights=150%' is not a share of the we",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    argv: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, and the first line says what is wrong."""
    assert main(["inspect", LLAMA, *argv.split()]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_the_speed_ceiling_is_a_division(capsys: pytest.CaptureFixture[str]) -> None:
    """An RTX 4090 reads 1,008 GB/s: weights but the embedding, and 1 GiB of cache, each step."""
    argv = "-c 8k -g rtx4090 --overhead 2gib --speed"
    fit = ask(capsys, argv)["fit"][0]
    read = 16_060_522_496 - 128_256 * 4096 * 2 + 2**30
    assert fit["speed"]["bytes_per_step"] == read
    assert fit["speed"]["tokens_per_s"] == round(1_008_000_000_000 / read, 3)
    text = told(capsys, argv)
    assert (
        "GeForce RTX 4090: at most 62.7 tokens/s each step reads 15.0 GiB (weights 14.0 GiB, cache"
        " 1.00 GiB); 1,008 GB/s ÷ 16.1 GB = 62.7 steps/s An upper bound by memory bandwidth" in text
    )
    assert "How fast" not in told(capsys, argv.removesuffix(" --speed"))


def test_speed_says_why_there_is_no_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a GPU, on an unknown one, and where it does not fit."""
    assert "Add --gpu: the bound is the bandwidth of its memory." in told(capsys, "--speed")
    unknown = told(capsys, "-c 8k -g 24gib --speed")
    assert ": no bound: its bandwidth is not known, or not which weights a token reads" in unknown
    assert "it does not fit, so it has no speed" in told(capsys, "-c 128k -g rtx4090 --speed")


def test_how_far_the_room_goes_at_every_length(capsys: pytest.CaptureFixture[str]) -> None:
    """24 GiB × 0.9 - 14.96 - 2 GiB leave 4.64 GiB: 38,040 tokens of 128 KiB."""
    text = told(capsys, "-c 8k -g 24gib --overhead 2gib")
    assert "tokens of each 1k 2k 4k 8k 16k 32k 64k 128k sequences 37 18 9 4 2 1 0 0" in text


def test_the_ways_to_share_are_listed_with_the_one_to_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two GPUs can share heads or layers; eight KV heads divide by two."""
    text = told(capsys, "-c 8k -g 24gib:2 --overhead 2gib")
    assert "tensor 2 7.48 GiB 512 MiB" in text
    assert "pipeline 2 7.48 GiB 512 MiB" in text
    assert "★ tensor 2: every GPU works on each token, and nothing of the cache is copied" in text


def test_choices_that_hardly_hold_it_are_told_from_those_that_do_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """64 sequences of 7,168 tokens: two of the choices hold them if overhead stays low."""
    argv = "--prompt 6k --output 1k -b 64 -g h100 -g a100-40:2 -g rtx4090 --engine vllm"
    verdicts = [fit["verdict"] for fit in ask(capsys, argv)["fit"]]
    assert verdicts == ["fits tightly", "fits tightly", "does not fit"]
    sentence = " ".join(told(capsys, argv).split())
    assert "≈ Hardly fits on 2 of 3 choices, only if overhead stays at its lowest: " in sentence


@pytest.mark.parametrize(
    ("gpu", "more", "tokens", "sequences"),
    [
        ("h100", "", 8192, 1024),
        ("a100-80", "", 2048, 256),  # vLLM counts it as small, by its name
        ("24gib", "", 2048, 256),
        ("h100", "--max-num-batched-tokens 4096 --max-num-seqs 64", 4096, 64),
        ("h100", "--max-num-batched-tokens 512", 512, 512),
        ("b200", "", 16_384, 1024),
        ("b200", "--engine-version 0.28", 16_384, 1024),
        ("b200", "--engine-version 0.27", 8192, 1024),  # no class for such cards yet
        ("b200", "--max-num-seqs 3", 12_288, 3),  # three contexts, not 16,384
    ],
)
def test_the_limits_of_the_engine_are_shown(
    capsys: pytest.CaptureFixture[str], gpu: str, more: str, tokens: int, sequences: int
) -> None:
    """Source of the defaults: vLLM 0.32, engine/arg_utils.py, `get_batch_defaults`."""
    argv = f"-c 4k -g {gpu} --engine vllm {more}"
    step = ask(capsys, argv)["fit"][0]["step"]
    assert step == {"batched_tokens": tokens, "max_num_seqs": sequences}
    said = f"engine steps up to {tokens:,} tokens and {sequences:,} sequences"
    assert said in told(capsys, argv)
