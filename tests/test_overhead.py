"""The account of each engine: its share, what it spends, the range, and the verdict."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from asked import LLAMA_8B, asked
from engine_cases import files_of, llama, published

from hfkv.core.budget import (
    EngineStep,
    OverheadPart,
    default_share,
    engine_step,
    estimate_overhead,
    room,
)
from hfkv.core.engines.sglang_share import mem_fraction_static, prefill_size
from hfkv.core.files import TensorGroup
from hfkv.core.fit import FitReport
from hfkv.core.gpus import parse_gpu
from hfkv.core.report import analyze
from hfkv.core.workload import Deployment, Workload

ROOT = Path(__file__).parent.parent
GIB, MIB = 2**30, 2**20


@pytest.mark.parametrize(
    ("mib", "alone", "eight", "latent"),
    [
        (15_360, "0.735", "0.677", "0.599"),  # T4
        (24_564, "0.704", "0.658", "0.612"),  # RTX 4090
        (32_607, "0.777", "0.742", "0.708"),  # RTX 5090
        (40_960, "0.823", "0.795", "0.767"),  # A100 40 GB
        (46_068, "0.843", "0.818", "0.793"),  # L40S
        (81_559, "0.830", "0.812", "0.799"),  # H100
        (97_887, "0.858", "0.844", "0.833"),  # RTX PRO 6000
        (143_771, "0.903", "0.893", "0.886"),  # H200
        (183_359, "0.854", "0.849", "0.844"),  # B200
        (275_040, "0.902", "0.899", "0.896"),  # B300
    ],
)
def test_sglang_leaves_what_its_table_says(
    *, mib: int, alone: str, eight: str, latent: str
) -> None:
    """Default fractions at TP 1 and 8, and at TP 8 with MLA, worked out from the source."""
    assert mem_fraction_static(mib, tp=1) == Fraction(alone)
    assert mem_fraction_static(mib, tp=8) == Fraction(eight)
    assert mem_fraction_static(mib, tp=8, latent=True) == Fraction(latent)


def test_what_sglang_is_told_changes_its_share() -> None:
    """At most 16 requests need 2 x 16 MiB of graphs, not 2 x 256; towers take 5 % of the share."""
    reserved = 512 + 3 * 8192 // 2 + 128 + 8 * 58
    assert mem_fraction_static(81_559, tp=1, seqs=16) == round(
        Fraction(81_559 - reserved - 32, 81_559), 3
    )
    assert mem_fraction_static(81_559, tp=1, chunk=32_768) == round(
        Fraction(81_559 - 512 - 49_152 - 128 - 512 - 8 * 74, 81_559), 3
    )
    # eight stages: 512 + 12,288 + 1,024 + 512 MiB, and no prefill is captured
    assert mem_fraction_static(81_559, tp=1, pp=8) == round(Fraction(81_559 - 14_336, 81_559), 3)
    assert mem_fraction_static(81_559, tp=1, towers=True) == Fraction("0.83") * Fraction("0.95")


@pytest.mark.parametrize(
    ("gib", "tokens"), [(16, 2048), (24, 4096), (48, 4096), (80, 8192), (141, 8192), (180, 16384)]
)
def test_sglang_sizes_its_prefill_by_the_card(gib: int, tokens: int) -> None:
    """2,048 tokens below 20 GiB, 4,096 below 60, 8,192 below 160, then 16,384."""
    assert prefill_size(gib * 1024) == tokens


@pytest.mark.parametrize(
    ("gpu", "share"),
    [
        ("h100", "0.83"),  # 81,559 MiB by nvidia-smi
        ("24gib", "0.704"),  # as given: 24,576
        ("a30", "0.704"),  # 24,576 MiB, and nothing else was seen of it
    ],
)
def test_sglang_goes_by_what_nvidia_smi_lists(gpu: str, share: str) -> None:
    """The table's own column, or the size that was given."""
    arch = analyze(files_of(llama())).architecture
    (choice,) = parse_gpu(gpu)
    found = default_share(arch, Deployment(), "sglang", choice, tp=1, pp=1)
    assert found == Fraction(share)
    assert default_share(arch, Deployment(), "vllm", choice, tp=1, pp=1) is None


def test_tensorrt_llm_takes_its_share_of_what_is_left() -> None:
    """A log: 139.81 GiB, 91.46 spent, 0.85 of the rest is 41.10 (41.11 printed)."""
    left = room(
        "trtllm",
        memory=int(139.81 * GIB),
        share=Fraction("0.85"),
        overhead=int(10 * GIB),
        weights=int(81.46 * GIB),
    )
    assert f"{left / GIB:.2f}" == "41.10"
    # and one of 39.39 GiB with 21.89 available gave 19.70
    spent = int((39.39 - 21.89) * GIB)
    left = room("trtllm", memory=int(39.39 * GIB), share=Fraction("0.9"), overhead=0, weights=spent)
    assert f"{left / GIB:.2f}" == "19.70"


def test_what_does_not_fit_is_not_shared() -> None:
    """Five GiB too many are five GiB too many, not nine tenths of it."""
    left = room("trtllm", memory=GIB, share=Fraction("0.9"), overhead=GIB, weights=5 * GIB)
    assert left == -5 * GIB


@pytest.mark.parametrize(
    ("version", "tokens", "step"),
    [
        ("0.7.3", 8192, (8192, 256)),  # a prompt was computed whole
        ("0.7.3", 512, (2048, 256)),
        ("0.6.3", 131_072, (512, 256)),  # unless it was very long
        ("0.8.5", 131_072, (8192, 1024)),
    ],
)
def test_old_vllm_computed_prompts_whole(version: str, tokens: int, step: tuple[int, int]) -> None:
    """Before 0.8 the profiled step was the context, up to 32,768 tokens."""
    (choice,) = parse_gpu("h100")
    found = engine_step(Deployment(engine_version=version), "vllm", choice, 1, tokens=tokens)
    assert (found.batched_tokens, found.max_num_seqs) == step


@pytest.mark.parametrize(
    ("engine", "tokens"), [("sglang", 8192), ("trtllm", 8192), ("ollama", 1024), ("none", 2048)]
)
def test_other_engines_have_steps_of_their_own(engine: str, tokens: int) -> None:
    """On an H100, with 8,192 tokens of context."""
    (choice,) = parse_gpu("h100")
    step = engine_step(Deployment(), engine, choice, 1, tokens=8192)
    assert step.batched_tokens == tokens


def parts_of(
    engine: str, gpu: str, *, ranks: int = 1, share: str = "1", tokens: int = 8192
) -> dict[str, OverheadPart]:
    """Return the parts of a llama of 512 channels and 32,000 words, by name."""
    (choice,) = parse_gpu(gpu)
    arch = analyze(files_of(llama(vocab_size=32_000))).architecture
    found = estimate_overhead(
        arch,
        EngineStep(batched_tokens=512, max_num_seqs=4),
        choice,
        engine=engine,
        version=None,
        budget=int(choice.memory_bytes * Fraction(share)),
        ranks=ranks,
        tokens=tokens,
    )
    return {part.name: part for part in found}


def test_llama_cpp_has_a_compute_buffer_and_keeps_a_gibibyte_free() -> None:
    """2,048 channels, 512 tokens: 64 MiB of vectors and 8 of mask; printed by a run: 72 MiB."""
    arch = replace(analyze(files_of(llama(vocab_size=32_000))).architecture, hidden_size=2048)
    (choice,) = parse_gpu("rtx4090")
    sizes = {}
    for tokens in (8192, 32_768):
        found = estimate_overhead(
            arch,
            EngineStep(batched_tokens=512, max_num_seqs=4),
            choice,
            engine="llama.cpp",
            version=None,
            budget=choice.memory_bytes,
            ranks=1,
            tokens=tokens,
        )
        sizes[tokens] = {part.name: part.bytes // MIB for part in found}
    assert sizes[8192] == {"device context": 512, "compute buffer": 72, "kept free": 1024}
    assert sizes[32_768]["compute buffer"] == 96


@pytest.mark.parametrize(("seqs", "batch"), [(4096, 64), (1024, 512), (1, 2048), (4096, 8192)])
def test_the_compute_buffer_is_in_its_own_range(seqs: int, batch: int) -> None:
    """llama.cpp has logits of at most a micro-batch of tokens, however many slots there are."""
    sizes = {"max_num_seqs": seqs, "max_num_batched_tokens": batch}
    (fit,) = asked(LLAMA_8B, "h100", "llama.cpp", context=64, **sizes).fit
    (part,) = (part for part in fit.overhead_parts if part.name == "compute buffer")
    assert part.low <= part.bytes <= part.high
    output = min(seqs, batch) * 128_256 * 4 + 2 * batch * 4096 * 4
    layer = batch * 16 * 4096 * 4 + 256 * batch * 2  # a cache of 256 cells
    assert part.bytes == max(output, layer)


def test_sglang_pays_for_its_graphs_from_outside_its_share() -> None:
    """Inside the share there is only its part of the context: 0.9 x 512 MiB."""
    parts = parts_of("sglang", "rtx3090", share="0.9")
    assert list(parts) == ["device context"]
    assert abs(parts["device context"].bytes - 512 * MIB * 9 // 10) <= 1


@pytest.mark.parametrize(("version", "graphs"), [("0.20.0", 922 * MIB), ("0.19.1", 0)])
def test_an_eager_server_captures_nothing(version: str, graphs: int) -> None:
    """1,024 sequences on an H100 are 922 MiB from 0.20 on; before, they are beside the share."""
    spent = [
        analyze(
            files_of(llama(vocab_size=32_000)),
            Workload(
                engine="vllm",
                context=8192,
                deployment=Deployment(
                    gpus=parse_gpu("h100"), engine_version=version, enforce_eager=eager
                ),
            ),
        ).fit[0]
        for eager in (False, True)
    ]
    captures, eager = ({p.name: p.bytes for p in fit.overhead_parts} for fit in spent)
    assert captures == eager | ({"captured graphs": graphs} if graphs else {})
    assert spent[1].kv_pool_bytes_per_gpu - spent[0].kv_pool_bytes_per_gpu == graphs


def test_a_shared_memory_holds_other_programs_too() -> None:
    """A DGX Spark had 112.3 GiB free where 119.2 were seen at the least: 7 GiB were taken."""
    assert parts_of("llama.cpp", "gb10")["other programs"].bytes == 7 * GIB
    assert "other programs" not in parts_of("llama.cpp", "m4-pro-48")
    assert "other programs" not in parts_of("vllm", "gb10")


def test_the_mlp_of_a_layer_is_split_by_tensor_parallelism() -> None:
    """A layer's 24.5 bytes a token and channel become 17.5 on two ranks."""
    one, two = (parts_of("vllm", "t4", ranks=n, share="0.9") for n in (1, 2))
    off = one["activation peak"].bytes - two["activation peak"].bytes
    assert off == 512 * 512 * 7
    assert "communication" not in one
    assert two["communication"].bytes == parse_gpu("t4")[0].memory_bytes // 100


def test_every_part_has_a_range_around_its_likely_size() -> None:
    """The low is at most the likely and that the high: every engine, alone and among four."""
    for engine in ("none", "vllm", "sglang", "llama.cpp", "transformers", "trtllm", "ollama"):
        for gpu in ("t4", "h100", "gb10", "b300"):
            for ranks in (1, 4):
                for part in parts_of(engine, gpu, ranks=ranks, share="0.92").values():
                    assert part.low <= part.bytes <= part.high, (engine, gpu, part)


def fitted(
    engine: str, gpu: str, *, size: int = 16 * GIB, tokens: int = 8192, tied: bool = False
) -> FitReport:
    """Fit a llama of 32 layers and 8 KV heads with weights of `size`, half of them a table."""
    config = llama(
        num_hidden_layers=32,
        hidden_size=4096,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=32_000,
        tie_word_embeddings=tied,
    )
    tensors = tuple(
        TensorGroup(name=name, dtype="BF16", shape=(size // 4,), nbytes=size // 2)
        for name in ("model.embed_tokens.weight", "model.norm.weight")
    )
    work = Workload(context=tokens, engine=engine, deployment=Deployment(gpus=parse_gpu(gpu)))
    (found,) = analyze(replace(files_of(config), tensors=tensors), work).fit
    return found


@pytest.mark.parametrize(
    ("gpu", "verdict", "fits"),
    [
        ("24gib", "fits", True),
        ("20gib", "fits tightly", True),  # likely 0.48 of overhead, at most 1.39
        ("19.3gib", "fits tightly", False),  # 17.37 GiB are enough for 0.21 only
        ("19gib", "does not fit", False),
    ],
)
def test_the_verdict_goes_by_the_range(gpu: str, verdict: str, fits: bool) -> None:
    """16 GiB of weights, 1 GiB of cache and 0.21 to 1.39 GiB of overhead in nine tenths."""
    report = fitted("none", gpu)
    assert (report.verdict, report.fits) == (verdict, fits)
    assert report.overhead_low_bytes <= report.overhead_bytes_per_gpu
    assert report.overhead_bytes_per_gpu <= report.overhead_high_bytes
    assert report.kv_pool_low_bytes_per_gpu <= report.kv_pool_bytes_per_gpu
    assert report.kv_pool_bytes_per_gpu <= report.kv_pool_high_bytes_per_gpu


def test_llama_cpp_leaves_an_untied_table_with_the_host() -> None:
    """Half of the 16 GiB is the input embedding: 8 GiB stay on the host, unless it is tied."""
    assert fitted("llama.cpp", "24gib").weights_bytes_per_gpu == 8 * GIB
    assert fitted("llama.cpp", "24gib", tied=True).weights_bytes_per_gpu == 16 * GIB
    assert fitted("vllm", "24gib").weights_bytes_per_gpu == 16 * GIB


def test_llama_cpp_splits_layers_over_gpus() -> None:
    """Four cards are four stages of 8 layers, not four ranks with two heads each."""
    report = fitted("llama.cpp", "4x24gib")
    assert (report.tensor_parallel_size, report.pipeline_parallel_size) == (1, 4)
    assert report.kv_bytes_per_sequence_per_gpu == 8 * 8192 * 2 * 8 * 128 * 2


def test_what_helps_is_named_as_the_engine_names_it() -> None:
    """llama.cpp has q8_0 where vLLM has fp8."""
    ways = fitted("llama.cpp", "10gib", tokens=65_536).ways_to_fit
    assert "--kv-dtype q8_0" in [way.change for way in ways]
    ways = fitted("vllm", "20gib", tokens=65_536).ways_to_fit
    assert "--kv-dtype fp8" in [way.change for way in ways]


def test_tensorrt_llm_and_ollama_say_what_is_different() -> None:
    """One shares what is left, the other has a context of its own choice."""
    report = fitted("trtllm", "h100")
    assert report.notes == (
        "TensorRT-LLM takes its share of what weights and overhead leave, not of the total",
    )
    left = report.memory_bytes - report.overhead_bytes_per_gpu - 16 * GIB
    assert report.kv_pool_bytes_per_gpu == left * 9 // 10
    assert fitted("ollama", "24gib").notes == (
        "without num_ctx Ollama serves 32,768 tokens on so much memory",
    )


def test_a_gpu_of_another_make_is_no_nonsense_to_vllm() -> None:
    """An MI300X has a gfx name where NVIDIA's cards have a compute capability."""
    assert fitted("vllm", "mi300x").verdict == "fits"


def test_deepseek_v4_is_sized_under_every_engine() -> None:
    """The oddest cache there is ends in a figure on one GPU and on eight."""
    for engine in ("vllm", "sglang", "llama.cpp", "trtllm", "ollama"):
        for gpu in ("h200", "8xh200"):
            work = Workload(
                context=65_536, engine=engine, deployment=Deployment(gpus=parse_gpu(gpu))
            )
            files = files_of(published("deepseek-ai--DeepSeek-V4-Flash"))
            assert analyze(files, work).fit[0].max_sequences > 0


def test_the_report_on_logs_is_up_to_date_and_meets_its_targets() -> None:
    """156 logs: bytes per token, memory for the cache and its range, as issue 6 demands."""
    done = subprocess.run(
        [sys.executable, "benchmarks/fit_overhead.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "the report is up to date\n", done.stdout + done.stderr
