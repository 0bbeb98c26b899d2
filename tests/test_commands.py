"""What to type for each engine, flag by flag."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from asked import DEEPSEEK_V3, LLAMA_8B, LLAMA_70B, fitted, stored

from hfkv.core.engines.registry import engine_named
from hfkv.core.files import Target
from hfkv.core.gpus import parse_gpu
from hfkv.core.report import analyze
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import UsageError

GIB = 2**30

LINES: list[tuple[str, str, str, dict[str, Any], tuple[str, ...]]] = [
    (
        LLAMA_8B,
        "rtx4090",
        "vllm",
        {"context": 16_384, "kv_dtype": "fp8"},
        ("vllm serve meta-llama/Llama-3.1-8B --max-model-len 16384 --kv-cache-dtype fp8",),
    ),
    (
        LLAMA_8B,
        "b200",
        "vllm",
        {"context": 1024},  # more than vLLM's 1,024 sequences fit
        ("vllm serve meta-llama/Llama-3.1-8B --max-model-len 1024",),
    ),
    (
        LLAMA_70B,
        "h100:4",
        "vllm",
        {
            "context": 8192,
            "pipeline_parallel_size": 2,
            "utilization": Fraction(95, 100),
            "max_num_seqs": 32,
            "max_num_batched_tokens": 4096,
            "offloaded_weights": Fraction(1, 5),
            "host_kv_bytes": 32 * GIB,
        },
        (
            (
                "vllm serve meta-llama/Llama-3.1-70B --max-model-len 8192 --tensor-parallel-size 2 "
                "--pipeline-parallel-size 2 --gpu-memory-utilization 0.95 --max-num-seqs 32 "
                "--max-num-batched-tokens 4096 --cpu-offload-gb 6.571 "
                "--kv-offloading-backend native --kv-offloading-size 32"
            ),
        ),
    ),
    (
        LLAMA_70B,
        "h100:4",
        "sglang",
        {"context": 8192, "sequences": 8, "kv_dtype": "fp8", "host_kv_bytes": 40 * 10**9},
        (
            (
                "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-70B "
                "--context-length 8192 --kv-cache-dtype fp8_e4m3 --tp 4 --max-running-requests 8 "
                "--enable-hierarchical-cache --hicache-size 10"
            ),
        ),
    ),
    (
        LLAMA_8B,
        "h100",
        "sglang",
        {
            "context": 8192,
            "kv_dtype": "fp16",  # there is no such flag: it is the model's format
            "utilization": Fraction(4, 5),
            "max_num_batched_tokens": 4096,
        },
        (
            (
                "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B "
                "--context-length 8192 --mem-fraction-static 0.8 --max-running-requests 1 "
                "--chunked-prefill-size 4096"
            ),
        ),
    ),
    (
        LLAMA_8B,
        "h100",
        "trtllm",
        {"context": 8192, "sequences": 16, "utilization": Fraction(85, 100)},
        (
            (
                "trtllm-serve meta-llama/Llama-3.1-8B --max_seq_len 8192 --max_batch_size 16 "
                "--kv_cache_free_gpu_memory_fraction 0.85"
            ),
        ),
    ),
    (
        DEEPSEEK_V3,
        "h200:8",
        "trtllm",
        {"context": 8192, "kv_dtype": "fp8", "host_kv_bytes": 64 * GIB},
        (
            (
                "printf 'kv_cache_config:\\n  free_gpu_memory_fraction: 0.9\\n  dtype: fp8\\n"
                "  host_cache_size: 8589934592\\n' > kv.yaml"
            ),
            (
                "trtllm-serve deepseek-ai/DeepSeek-V3 --max_seq_len 8192 --max_batch_size 1 "
                "--tp_size 8 --extra_llm_api_options kv.yaml"
            ),
        ),
    ),
    (
        LLAMA_8B,
        "rtx4090",
        "llama.cpp",
        {"context": 8192, "sequences": 4, "kv_dtype": "q8_0"},
        ("llama-server -m Llama-3.1-8B.gguf -ngl 99 -c 32768 -np 4 -ctk q8_0 -ctv q8_0 -fa on",),
    ),
    (
        LLAMA_8B,
        "h100",
        "llama.cpp",
        {"context": 8192, "kv_dtype": "bf16", "max_num_batched_tokens": 1024},
        ("llama-server -m Llama-3.1-8B.gguf -ngl 99 -c 8192 -np 1 -ctk bf16 -ctv bf16 -ub 1024",),
    ),
    (
        LLAMA_8B,
        "h100",
        "ollama",
        {"context": 8192, "sequences": 2, "kv_dtype": "q4_0"},
        (
            (
                "OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_NUM_PARALLEL=2 OLLAMA_KV_CACHE_TYPE=q4_0 "
                "OLLAMA_FLASH_ATTENTION=1 ollama serve"
            ),
        ),
    ),
    (
        LLAMA_8B,
        "h100",
        "ollama",
        {"context": 8192},
        ("OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_NUM_PARALLEL=1 ollama serve",),
    ),
    (  # 32 layers, a fifth of them on the host
        LLAMA_8B,
        "rtx4090",
        "llama.cpp",
        {"context": 8192, "offloaded_weights": Fraction(1, 5)},
        ("llama-server -m Llama-3.1-8B.gguf -ngl 25 -c 8192 -np 1",),
    ),
    (  # --kv-cache-dtype of SGLang 0.5.23: fp4_e2m1
        LLAMA_8B,
        "h100",
        "sglang",
        {"context": 8192, "kv_dtype": "nvfp4"},
        (
            (
                "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B "
                "--context-length 8192 --kv-cache-dtype fp4_e2m1 --max-running-requests 1"
            ),
        ),
    ),
    (  # it has no next-token layers: somebody has to name a drafter
        LLAMA_8B,
        "h100",
        "vllm",
        {"context": 8192, "num_speculative_tokens": 2, "max_num_seqs": 8},
        (
            (
                "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 --max-num-seqs 8 "
                """--speculative-config '{"method": "eagle3", "model": "DRAFTER", """
                """"num_speculative_tokens": 2}'"""
            ),
        ),
    ),
    (
        LLAMA_8B,
        "h200",
        "vllm",
        {"context": 200_000, "max_num_seqs": 8},  # the model's own maximum is 131,072
        (
            (
                "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve meta-llama/Llama-3.1-8B "
                "--max-model-len 200000 --max-num-seqs 8"
            ),
        ),
    ),
    (
        LLAMA_8B,
        "h200",
        "sglang",
        {"context": 200_000},
        (
            (
                "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 python -m sglang.launch_server "
                "--model-path meta-llama/Llama-3.1-8B --context-length 200000 "
                "--max-running-requests 1"
            ),
        ),
    ),
    (
        LLAMA_8B,
        "h100",
        "vllm",
        {
            "engine_version": "0.7.3",
            "context": 8192,
            "kv_dtype": "bf16",
            "max_num_seqs": 8,
            "enable_prefix_caching": False,
            "hybrid_kv_cache_manager": False,
            "async_scheduling": False,
            "num_speculative_tokens": 2,
        },
        (
            (
                "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 --dtype bfloat16 "
                "--max-num-seqs 8 --speculative-model DRAFTER --num-speculative-tokens 2"
            ),
        ),
    ),
    (
        LLAMA_8B,
        "h100",
        "vllm",
        {"engine_version": "0.16.0", "context": 8192, "kv_dtype": "fp16", "max_num_seqs": 8},
        (
            (
                "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 --dtype float16 "
                "--max-num-seqs 8"
            ),
        ),
    ),
    (
        LLAMA_8B,
        "h100",
        "vllm",
        {"engine_version": "0.10.0", "context": 8192, "max_num_seqs": 8, "async_scheduling": True},
        (
            (
                "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 --max-num-seqs 8 "
                "--async-scheduling"
            ),
        ),
    ),
    (  # SchedulerConfig.async_scheduling is False up to 0.12: there is nothing to switch off
        LLAMA_8B,
        "h100",
        "vllm",
        {"engine_version": "0.12.0", "context": 8192, "max_num_seqs": 8, "async_scheduling": False},
        ("vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 --max-num-seqs 8",),
    ),
    (
        LLAMA_8B,
        "h100",
        "vllm",
        {"context": 8192, "max_num_seqs": 8, "enforce_eager": True},
        (
            (
                "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 --max-num-seqs 8 "
                "--enforce-eager"
            ),
        ),
    ),
    (LLAMA_8B, "h100", "none", {"context": 8192}, ()),
    (LLAMA_8B, "h100", "transformers", {"context": 8192}, ()),
    (LLAMA_8B, "t4", "vllm", {"context": 8192}, ()),  # it does not fit
]


@pytest.mark.parametrize(("model", "gpu", "engine", "given", "lines"), LINES)
def test_the_asked_work_in_the_engines_own_flags(
    model: str, gpu: str, engine: str, given: dict[str, Any], lines: tuple[str, ...]
) -> None:
    """Length, concurrency, formats and sizes are the report's; defaults are left out."""
    assert fitted(model, gpu, engine, **given).commands == lines


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        (name, kind)
        for name in ("vllm", "sglang", "trtllm", "llama.cpp", "ollama")
        for kind in engine_named(name).cache_dtypes
        if kind != "fp8_ds_mla"  # not of this model
    ],
)
def test_a_format_in_a_command_is_understood_where_it_is_pasted(engine: str, kind: str) -> None:
    """What follows an engine's flag is a spelling that --kv-dtype takes, of the same format."""
    lines = fitted(LLAMA_8B, "b200", engine, context=8192, kv_dtype=kind).commands
    flags = r"(?:--kv-cache-dtype |--dtype |-ctk |OLLAMA_KV_CACHE_TYPE=|  dtype: )(\w+)"
    for written in re.findall(flags, " ".join(lines)):
        again = fitted(LLAMA_8B, "b200", engine, context=8192, kv_dtype=written)
        assert again.commands == lines


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"host_kv_bytes": GIB, "engine_version": "0.10.0"},
            "vLLM 0.10 has no --cpu-kv / --kv-offloading-size",
        ),
        (
            {"decode_context_parallel_size": 2, "engine_version": "0.10.0"},
            "vLLM 0.10 has no --dcp / --decode-context-parallel-size",
        ),
        (
            {"async_scheduling": True, "engine_version": "0.9.2"},
            "vLLM 0.9 has no --async-scheduling",
        ),
        (
            {
                "async_scheduling": True,
                "num_speculative_tokens": 1,
                "engine_version": "0.10.0",
            },
            (
                "vLLM 0.10 has no --async-scheduling with --num-speculative-tokens / "
                "--speculative-config"
            ),
        ),
        (
            {"async_scheduling": True, "pipeline_parallel_size": 2, "engine_version": "0.14.0"},
            "vLLM 0.14 has no --async-scheduling with --pp / --pipeline-parallel-size",
        ),
        ({"block_size": 48, "engine_version": "0.16.0"}, "vLLM 0.16 has no blocks of 48 tokens"),
        ({"block_size": 256, "engine_version": "0.10.0"}, "vLLM 0.10 has no blocks of 256 tokens"),
        (
            {"kv_dtype": "int8_per_token_head", "engine_version": "0.19.0"},
            "vLLM 0.19 has no --kv-dtype / --kv-cache-dtype int8_per_token_head",
        ),
    ],
)
def test_what_a_release_does_not_know_is_refused(given: dict[str, Any], message: str) -> None:
    """By the first release that has it: there is no command to paste."""
    with pytest.raises(UsageError, match=message):
        fitted(LLAMA_8B, "h100:8", "vllm", context=8192, **given)


@pytest.mark.parametrize(
    "given",
    [
        {"host_kv_bytes": GIB, "engine_version": "0.11.2"},
        {"block_size": 256, "engine_version": "0.11.2"},
        {"async_scheduling": False, "engine_version": "0.9.2"},
        {"async_scheduling": True, "num_speculative_tokens": 1, "engine_version": "0.11.2"},
        {"block_size": 48, "engine_version": "0.19.0"},
        {"kv_dtype": "int8_per_token_head", "engine_version": "0.26.0"},
    ],
)
def test_and_what_it_knows_is_not(given: dict[str, Any]) -> None:
    """The first releases that have it."""
    assert fitted(LLAMA_8B, "h100", "vllm", context=8192, **given).commands


def test_all_of_more_than_98_layers() -> None:
    """Llama-3.1-405B has 126 layers; with the output head that is 127 for llama.cpp."""
    files = stored(LLAMA_8B)
    large = replace(files, config={**(files.config or {}), "num_hidden_layers": 126}, tensors=())
    work = Workload(context=4096, engine="llama.cpp", deployment=Deployment(gpus=parse_gpu("h100")))
    (line,) = analyze(large, work).fit[0].commands
    assert " -ngl 127 " in line


def command(target: Target, engine: str) -> str:
    """Return the command for a model that was read from elsewhere."""
    files = replace(stored(LLAMA_8B), target=target)
    deployment = Deployment(gpus=parse_gpu("h100"), max_num_seqs=8)
    work = Workload(context=4096, engine=engine, deployment=deployment)
    (line,) = analyze(files, work).fit[0].commands
    return line


def test_what_is_loaded_is_what_was_read() -> None:
    """A revision, a folder with a blank, a config alone, a GGUF file."""
    hub = Target(kind="hub", id="org/name", revision="refs/pr/3", sha="0" * 40)
    assert command(hub, "vllm") == (
        "vllm serve org/name --revision refs/pr/3 --max-model-len 4096 --max-num-seqs 8"
    )
    folder = Target(kind="folder", id="/data/my model")
    assert command(folder, "vllm") == (
        "vllm serve '/data/my model' --max-model-len 4096 --max-num-seqs 8"
    )
    assert command(folder, "llama.cpp") == ("llama-server -m 'my model.gguf' -ngl 99 -c 4096 -np 1")
    alone = Target(kind="file", id="config.json")
    assert command(alone, "vllm") == "vllm serve MODEL --max-model-len 4096 --max-num-seqs 8"
    assert command(alone, "llama.cpp") == "llama-server -m MODEL.gguf -ngl 99 -c 4096 -np 1"
    gguf = Target(kind="file", id="/data/model-Q8_0.gguf")
    assert command(gguf, "llama.cpp").startswith("llama-server -m /data/model-Q8_0.gguf ")
