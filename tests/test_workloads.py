"""Prompts and outputs, common prefixes, and what is moved to host memory: exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from asked import GEMMA_27B, GIB, LLAMA_8B, LLAMA_70B, asked, fitted
from fit_cases import KIB, ask, per_token

from hfkv.core.workload import Deployment, Workload, resolved
from hfkv.errors import UsageError

TOKEN = 128 * KIB  # Llama-3.1-8B: 32 layers x 8 KV heads x 2 x 128 x 2 bytes


def test_prompt_and_output_add_up() -> None:
    """`--prompt 6k --output 1k` keeps 7,168 tokens a sequence."""
    report = asked(LLAMA_8B, prompt=6144, output=1024, sequences=64)
    assert report.kv is not None
    assert report.kv.tokens == 7168
    assert report.kv.bytes == 64 * 7168 * TOKEN
    assert (report.workload.prompt, report.workload.output) == (6144, 1024)
    assert (
        resolved(report.workload) == report.workload
    )  # a report's own workload can be asked again
    alone = asked(LLAMA_8B, prompt=6144).kv
    assert alone is not None
    assert alone.tokens == 6144


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"prompt": 1024, "context": 4096},
            "--prompt and --output replace --context and --seq-lens",
        ),
        (
            {"prompt": 1024, "seq_lens": (4096,)},
            "--prompt and --output replace --context and --seq-lens",
        ),
        ({"prompt": -1, "output": 5}, "--prompt and --output must not be negative"),
        ({"output": 5}, "--output-tokens follow a --prompt, and there is none"),
        (
            {"prompt": 0, "output": 0},
            "a sequence length must be a positive number of tokens",
        ),
        ({"shared_prefix": -1}, "--shared-prefix must not be negative"),
        ({"context": 0}, "a sequence length must be a positive number of tokens"),
        ({"sequences": 0}, "the concurrency must be a positive number of sequences"),
        ({"source_tokens": -1}, "--source-tokens must not be negative"),
        (
            {"deployment": Deployment(offloaded_weights=Fraction(6, 5))},
            "--offload weights=120% is not a share of the weights",
        ),
        ({"deployment": Deployment(host_kv_bytes=-1)}, "--cpu-kv -1 is negative"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(given: dict[str, Any], message: str) -> None:
    """Each ends in a sentence that names its option."""
    with pytest.raises(UsageError) as error:
        resolved(Workload(**given))
    assert error.value.message == message


def test_a_prefix_longer_than_a_sequence_is_no_part_of_it() -> None:
    """The shortest sequence decides."""
    with pytest.raises(UsageError) as error:
        asked(LLAMA_8B, engine="vllm", seq_lens=(8192, 1000), shared_prefix=2048)
    assert error.value.message == "a prefix of 2,048 tokens is not shared by a sequence of 1,000"


# What of 2,050 tokens lies in whole blocks: of 16, of 1 and of 32.
BLOCKS = {"vllm": 2048, "sglang": 2050, "trtllm": 2048}


@pytest.mark.parametrize("engine", BLOCKS)
def test_a_common_prefix_is_counted_once_where_blocks_are_shared(engine: str) -> None:
    """64 sequences of 7,168 tokens, the first 2,050 the same: 63 times that is saved."""
    plain = fitted(LLAMA_8B, "h100", engine, context=7168, sequences=64)
    fit = fitted(LLAMA_8B, "h100", engine, context=7168, sequences=64, shared_prefix=2050)
    kept = BLOCKS[engine] * TOKEN
    assert fit.shared_kv_bytes_per_gpu == kept
    assert fit.kv_bytes_per_sequence_per_gpu == plain.kv_bytes_per_sequence_per_gpu == 7168 * TOKEN
    assert fit.kv_bytes_per_gpu == 64 * 7168 * TOKEN - 63 * kept
    space = fit.kv_pool_bytes_per_gpu - (16 * TOKEN if engine == "vllm" else 0)  # a null block
    assert fit.max_sequences == (space - kept) // (7168 * TOKEN - kept)
    assert fit.max_sequences > plain.max_sequences


def test_the_cache_of_all_sequences_has_the_prefix_once() -> None:
    """The sum over layers counts tokens, not blocks: 2,050 of them once, the rest 64 times."""
    kv = asked(LLAMA_8B, engine="vllm", context=7168, sequences=64, shared_prefix=2050).kv
    assert kv is not None
    assert kv.shared_bytes == 2050 * TOKEN
    assert kv.bytes == 2050 * TOKEN + 64 * (7168 - 2050) * TOKEN
    lengths = asked(LLAMA_8B, engine="vllm", seq_lens=(2050, 3000, 4000), shared_prefix=2050).kv
    assert lengths is not None
    assert lengths.bytes == (2050 + 950 + 1950) * TOKEN


@pytest.mark.parametrize("engine", ["none", "llama.cpp", "ollama", "transformers"])
def test_other_engines_keep_a_prefix_for_every_sequence(engine: str) -> None:
    """Nothing is saved, and the report says so."""
    report = asked(LLAMA_8B, "h100", engine, context=8192, sequences=4, shared_prefix=2048)
    assert report.kv is not None
    assert report.kv.shared_bytes == 0
    assert report.kv.bytes == 4 * 8192 * TOKEN
    assert report.fit[0].shared_kv_bytes_per_gpu == 0
    (found,) = (f for f in report.findings if f.code == "prefix-not-shared")
    name = {"none": "the raw need", "ollama": "Ollama"}.get(engine, engine)
    assert found.message == f"{name} has the prefix of 2,048 tokens once for each of 4 sequences"


def test_windowed_layers_share_no_prefix() -> None:
    """Ten of gemma-3's 62 layers keep all tokens: 128 blocks of 16 tokens of them are shared."""
    fit = fitted(GEMMA_27B, "h100:8", "vllm", context=32_768, sequences=4, shared_prefix=2048)
    assert fit.shared_kv_bytes_per_gpu == 128 * 10 * 16 * 2 * 2 * 128 * 2  # 2 of 16 heads each


def test_a_prefix_without_caching_is_not_shared() -> None:
    """`--no-enable-prefix-caching` keeps every copy."""
    given = {"context": 8192, "sequences": 4, "shared_prefix": 2048}
    fit = fitted(LLAMA_8B, "h100", "vllm", enable_prefix_caching=False, **given)
    assert fit.shared_kv_bytes_per_gpu == 0
    assert fit.kv_bytes_per_gpu == 4 * 8192 * TOKEN


def test_a_shorter_prompt_is_proposed_where_a_prompt_was_asked_for() -> None:
    """The proposal is in the user's own terms, and never shorter than the common prefix."""
    ways = fitted(LLAMA_8B, "rtx4090", "vllm", prompt=60_000, output=1024).ways_to_fit
    tokens = fitted(LLAMA_8B, "rtx4090", "vllm", prompt=60_000, output=1024).max_context
    assert f"--prompt {tokens // 256 * 256 - 1024}" in [way.change for way in ways]
    ways = fitted(
        LLAMA_8B, "rtx4090", "vllm", prompt=60_000, output=1024, shared_prefix=50_000
    ).ways_to_fit
    assert not any(way.change.startswith("--prompt") for way in ways)


def test_offloaded_weights_are_in_host_memory() -> None:
    """A fifth of 20 GiB: 16 are on the card and 4 beside it."""
    fit = ask("24gib", weights=20 * GIB, offloaded=Fraction(1, 5))
    assert fit.weights_bytes_per_gpu == 16 * GIB
    assert fit.host_weights_bytes == 4 * GIB
    assert fit.kv_pool_bytes_per_gpu == 6 * GIB
    odd = ask("2x24gib", weights=10**9 + 1, offloaded=Fraction(1, 3))
    assert odd.host_weights_bytes == (10**9 + 1) // 3
    assert odd.weights_bytes_per_gpu == -(-(10**9 + 1 - odd.host_weights_bytes) // 2)


def test_llama_cpp_leaves_the_input_embedding_in_host_memory() -> None:
    """Llama-3.1-70B: 128,256 x 8,192 in bf16."""
    fit = fitted(LLAMA_70B, "h100:2", "llama.cpp", context=8192)
    assert fit.host_weights_bytes == 128_256 * 8192 * 2
    assert fitted(LLAMA_70B, "h100:2", "vllm", context=8192).host_weights_bytes == 0


def test_the_cache_that_finds_no_room_moves_to_host_memory() -> None:
    """13 x 4,096 tokens are 6.5 GiB where 6 are free: half a GiB moves, 2 could."""
    fit = ask("24gib", sequences=13, host_kv=2 * GIB)
    assert fit.fits is True
    assert fit.host_kv_bytes == GIB // 2
    assert fit.kv_bytes_per_gpu == 6 * GIB
    assert fit.max_sequences == 16  # of half a GiB in 8
    assert ask("24gib", sequences=17, host_kv=2 * GIB).short_by_bytes == GIB // 2
    assert ask("24gib", sequences=12, host_kv=2 * GIB).host_kv_bytes == 0


def test_host_memory_is_shared_by_the_gpus() -> None:
    """2 GiB for two cards are one for each."""
    fit = ask("2x24gib", sequences=60, host_kv=2 * GIB, measure=per_token(128 * KIB))
    assert fit.kv_pool_bytes_per_gpu == 14 * GIB
    assert fit.max_sequences == 30
    assert fit.short_by_bytes == 15 * GIB


def test_a_running_sequence_is_on_the_gpu_where_blocks_are_paged() -> None:
    """8 GiB of one sequence may lie in two memories, but not under vLLM."""
    spread = ask("24gib", tokens=65_536, host_kv=2 * GIB)
    assert (spread.fits, spread.max_context, spread.max_sequences) == (True, 65_536, 1)
    paged = ask("24gib", tokens=65_536, host_kv=2 * GIB, workload=Workload(engine="vllm"))
    assert (paged.fits, paged.max_context, paged.max_sequences) == (False, 49_152, 0)
    waiting = ask("24gib", sequences=16, host_kv=2 * GIB, workload=Workload(engine="vllm"))
    assert waiting.fits is True
    assert "12 sequences can run at once: the others wait in host memory" in waiting.notes


def test_weights_in_another_format_are_an_estimate() -> None:
    """Llama-3.1-70B on one L40S: fp8 is not enough and int4 is, by the shapes of its matrices."""
    ways = fitted(LLAMA_70B, "l40s", "vllm", context=4096).ways_to_fit
    estimated = [way for way in ways if way.estimate]
    assert [(way.change, way.fits) for way in estimated] == [
        ("--weights-dtype int4", True),
        ("--weights-dtype fp8", False),
    ]
    values = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28_672)
    # 4 bits instead of 16, and a 16-bit scale and a 4-bit zero point for 128 values
    assert estimated[0].frees_bytes == values * 12 // 8 - values // 128 * 20 // 8
    ggml = fitted(LLAMA_70B, "h100", "llama.cpp", context=4096).ways_to_fit
    assert [way.change for way in ggml if way.estimate] == ["--weights-dtype q8_0"]
    assert [way.change for way in ggml if "kv-dtype" in way.change] == ["--kv-dtype q8_0"]


def test_transformers_has_no_cache_of_8_bits() -> None:
    """Its caches are in the model's format: none other is proposed."""
    ways = fitted(LLAMA_8B, "rtx4090", "transformers").ways_to_fit
    assert not any("kv-dtype" in way.change for way in ways)


@pytest.mark.parametrize(
    ("engine", "told"), [("llama.cpp", True), ("ollama", True), ("vllm", False)]
)
def test_an_engine_that_cannot_move_a_part_of_the_cache_says_so(engine: str, told: bool) -> None:
    """Source: llama.cpp 0c1e57098, common/arg.cpp, `--no-kv-offload`."""
    fit = fitted(LLAMA_8B, "24gib", engine, context=8192, host_kv_bytes=4 * GIB)
    assert any("--no-kv-offload" in note for note in fit.notes) is told
