"""Shares, steps and overheads of engines, and how many GPUs may share a model."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from asked import LLAMA_8B, asked

from hfkv.core.architecture import Architecture, Experts
from hfkv.core.budget import EngineStep, engine_step, estimate_overhead, utilization
from hfkv.core.gpus import parse_gpu
from hfkv.core.parallel import parallel_sizes, tensor_parallel_sizes
from hfkv.core.readings import Confidence
from hfkv.core.stores import Fixed, Grows, Layer, LayerKind, Role
from hfkv.core.workload import Deployment
from hfkv.errors import UsageError

GIB = 2**30


def model(
    *, heads: int | None, kv: int | None, layers: int = 32, hidden: int = 4096, vocab: int = 32000
) -> Architecture:
    """Return a decoder whose layers all keep `kv` heads of 128; None: a latent, or nothing."""
    stores = (Grows(heads=kv, key=128, value=128),) if heads else (Fixed(elements=4096, heads=80),)
    kind = LayerKind.FULL if heads else LayerKind.STATE_SPACE
    return Architecture(
        class_name=None,
        model_type=None,
        family=None,
        kind="decoder",
        layers=(Layer(kind=kind, heads=heads, stores=stores),) * layers,
        num_hidden_layers=layers,
        hidden_size=hidden,
        vocab_size=vocab,
        max_context=4096,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        head_dim=128,
        v_head_dim=128,
        sliding_window=None,
        attention="mixed",
        confidence=Confidence.DECLARED,
    )


@pytest.mark.parametrize(
    ("engine", "version", "share"),
    [
        ("none", None, "0.9"),
        ("vllm", None, "0.92"),
        ("vllm", "0.19.1", "0.9"),
        ("vllm", "v0.20.0rc1", "0.92"),
        ("vllm", "1.0", "0.92"),
        ("sglang", "0.5", "0.9"),
        ("llama.cpp", None, "1"),
    ],
)
def test_an_engine_takes_its_documented_share(engine: str, version: str | None, share: str) -> None:
    """The share of vLLM is 0.92 from 0.20 on and 0.90 before; llama.cpp knows no share."""
    assert utilization(Deployment(engine_version=version), engine) == Fraction(share)


def test_a_stated_share_is_kept_exactly() -> None:
    """0.95 is nineteen twentieths, and no version is looked at."""
    deployment = Deployment(utilization=Fraction("0.95"), engine_version="nightly")
    assert utilization(deployment, "vllm") == Fraction(19, 20)


def test_a_version_that_is_none_is_refused() -> None:
    """A vLLM version has to begin with two numbers."""
    with pytest.raises(UsageError) as error:
        utilization(Deployment(engine_version="nightly"), "vllm")
    assert str(error.value) == "'nightly' is not a version of vLLM"
    assert error.value.hint == ("write it as vLLM prints it, for example --engine-version 0.19.1")


@pytest.mark.parametrize(
    ("gpu", "tokens", "seqs"),
    [
        ("rtx4090", 2048, 256),
        ("a100-80", 2048, 256),  # its name is excepted
        ("h100", 8192, 1024),
        ("h200", 8192, 1024),  # 139.7 GiB
        ("b200", 16384, 1024),
    ],
)
def test_vllm_sizes_its_step_by_the_card(gpu: str, tokens: int, seqs: int) -> None:
    """The step is 16384 tokens from 160 GiB, 8192 from 70 GiB but for the A100, else 2048."""
    (choice,) = parse_gpu(gpu)
    step = engine_step(Deployment(), "vllm", choice, sequences=3, tokens=8192)
    assert step == EngineStep(batched_tokens=tokens, max_num_seqs=seqs)


def test_stated_steps_come_first() -> None:
    """What the user passes to the engine is what it is sized for."""
    (choice,) = parse_gpu("h100")
    deployment = Deployment(max_num_batched_tokens=512, max_num_seqs=16)
    step = engine_step(deployment, "vllm", choice, sequences=3, tokens=8192)
    assert step == EngineStep(batched_tokens=512, max_num_seqs=16)


@pytest.mark.parametrize(
    ("version", "tokens", "seqs", "context", "step"),
    [
        (None, 512, None, 8192, (512, 512)),
        (None, None, 1, 512, (512, 1)),
        (None, None, 16, 512, (8192, 16)),  # 16 x 512 is the default itself
        (None, None, None, 4, (4096, 1024)),
        ("0.11.2", 512, None, 8192, (512, 512)),
        ("0.10.2", None, 1, 512, (8192, 1)),  # 0.10.0 has no such rule
        ("0.7.3", None, 1, 512, (2048, 1)),
    ],
)
def test_a_limit_that_is_not_stated_follows_the_other(
    version: str | None,
    tokens: int | None,
    seqs: int | None,
    context: int,
    step: tuple[int, int],
) -> None:
    """On an H100: min(1,024, tokens) sequences, min(8,192, sequences x context) tokens."""
    (choice,) = parse_gpu("h100")
    deployment = Deployment(
        engine_version=version, max_num_batched_tokens=tokens, max_num_seqs=seqs
    )
    found = engine_step(deployment, "vllm", choice, sequences=3, tokens=context)
    assert (found.batched_tokens, found.max_num_seqs) == step


def test_the_longest_prompt_of_an_encoder_decoder_is_one_step() -> None:
    """9,000 tokens where the default is 8,192; a longer default stays."""
    (choice,) = parse_gpu("h100")
    for context, tokens in ((9000, 9000), (448, 8192)):
        step = engine_step(
            Deployment(), "vllm", choice, sequences=1, tokens=context, whole_prompts=True
        )
        assert step.batched_tokens == tokens


def test_other_engines_are_sized_for_what_was_asked() -> None:
    """llama.cpp computes 512 tokens at once, for the sequences asked, at most 1024."""
    (choice,) = parse_gpu("h100")
    assert engine_step(Deployment(), "llama.cpp", choice, sequences=3, tokens=8192) == EngineStep(
        batched_tokens=512, max_num_seqs=3
    )
    assert engine_step(Deployment(), "none", choice, sequences=10**9, tokens=8192) == EngineStep(
        batched_tokens=2048, max_num_seqs=1024
    )


# vLLM 0.19.0 on H100 80GB, share 0.95 of 79.19 GiB: weights and KV memory in GiB per rank
# as logged (jgchn/llm-d-planner, llm-d-incubation/llm-d-planner#205).
SWEEP = [
    ("Llama-3.1-8B", 4096, 128256, None, 1, "14.99", "58.11"),
    ("Llama-3.1-8B", 4096, 128256, None, 2, "7.51", "63.76"),
    ("Llama-3.1-8B", 4096, 128256, None, 4, "3.77", "67.44"),
    ("gemma-7b", 3072, 256000, None, 1, "15.91", "55.44"),
    ("phi-2", 2560, 51200, None, 1, "5.19", "69.0"),
    ("Kimi-Dev-72B", 8192, 152064, None, 4, "34.01", "36.72"),
    ("Mixtral-8x7B", 4096, 32000, Experts(total=8, active=2), 2, "43.51", "28.44"),
    ("Qwen3-30B-A3B", 2048, 151936, Experts(total=128, active=8), 1, "56.88", "15.41"),
]


@pytest.mark.parametrize(("name", "hidden", "vocab", "experts", "ranks", "weights", "kv"), SWEEP)
def test_the_estimate_is_near_what_vllm_logged(
    *,
    name: str,
    hidden: int,
    vocab: int,
    experts: Experts | None,
    ranks: int,
    weights: str,
    kv: str,
) -> None:
    """Budget - weights - estimate is within 0.35 GiB of the KV memory of real servers."""
    memory = int(Fraction("79.19") * GIB)
    budget = memory * 19 // 20
    gpu = replace(parse_gpu("h100")[0], memory_bytes=memory)
    parts = estimate_overhead(
        replace(model(heads=32, kv=8, hidden=hidden, vocab=vocab), experts=experts),
        engine_step(Deployment(), "vllm", gpu, sequences=1, tokens=8192),
        gpu,
        engine="vllm",
        version="0.19.0",
        budget=budget,
        ranks=ranks,
    )
    assert "captured graphs" not in [part.name for part in parts]  # not subtracted before 0.20
    predicted = budget - Fraction(weights) * GIB - sum(part.bytes for part in parts)
    assert abs(predicted / GIB - Fraction(kv)) < Fraction("0.35"), name


def test_the_device_context_counts_only_where_the_share_leaves_it_no_room() -> None:
    """Half a GiB is made beside the share: free at 0.9 of 80 GB, charged at 1.0."""
    (gpu,) = parse_gpu("h100")
    step = EngineStep(batched_tokens=2048, max_num_seqs=1)

    def names(budget: int) -> list[str]:
        parts = estimate_overhead(
            model(heads=32, kv=8), step, gpu, engine="none", version=None, budget=budget, ranks=1
        )
        return [part.name for part in parts]

    assert "device context" not in names(gpu.memory_bytes * 9 // 10)
    assert "device context" in names(gpu.memory_bytes)


@pytest.mark.parametrize(
    ("heads", "kv", "sizes"),
    [
        (32, 8, (1, 2, 4, 8, 16, 32)),
        (28, 4, (1, 2, 4, 28)),  # Qwen2.5-7B: 7 and 14 ranks cannot share 4 KV heads
        (40, 8, (1, 2, 4, 8, 40)),
        (71, 1, (1, 71)),  # falcon-7b
        (128, None, (1, 2, 4, 8, 16, 32, 64, 128)),  # DeepSeek-V3: the latent is not split
        (None, None, ()),  # nothing to split
    ],
)
def test_ranks_get_equal_numbers_of_heads(
    heads: int | None, kv: int | None, sizes: tuple[int, ...]
) -> None:
    """A size divides the attention heads, and the KV heads or the other way round."""
    assert tensor_parallel_sizes(model(heads=heads, kv=kv)) == sizes


def test_layers_with_other_heads_count_too() -> None:
    """With 12 heads on one layer and 16 on another only 1, 2 and 4 divide both."""
    base = model(heads=16, kv=4)
    odd = Layer(kind=LayerKind.FULL, heads=12, stores=(Grows(heads=4, key=64, value=64),))
    assert tensor_parallel_sizes(replace(base, layers=(*base.layers, odd))) == (1, 2, 4)


def test_an_index_key_does_not_limit_the_split() -> None:
    """Only keys and values are split by heads; an index vector is kept whole by all."""
    index = Grows(heads=3, key=128, role=Role.INDEX)
    base = model(heads=8, kv=8)
    layer = replace(base.layers[0], stores=(*base.layers[0].stores, index))
    assert tensor_parallel_sizes(replace(base, layers=(layer,))) == (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("gpu", "tp", "pp", "sizes"),
    [
        ("h100", None, 1, (1, 1)),
        ("h100:8", None, 1, (8, 1)),
        ("h100:8", None, 2, (4, 2)),
        ("h100:8", 2, 4, (2, 4)),
    ],
)
def test_all_gpus_are_used(gpu: str, tp: int | None, pp: int, sizes: tuple[int, int]) -> None:
    """Without --tp it is what the stages leave of the GPUs."""
    (choice,) = parse_gpu(gpu)
    deployment = Deployment(tensor_parallel_size=tp, pipeline_parallel_size=pp)
    assert parallel_sizes(model(heads=32, kv=8), deployment, choice) == sizes


def test_a_model_without_heads_takes_any_size() -> None:
    """Mamba has no attention heads: three ranks are not refused for them."""
    (choice,) = parse_gpu("h100:3")
    assert parallel_sizes(model(heads=None, kv=None), Deployment(), choice) == (3, 1)


@pytest.mark.parametrize(
    ("gpu", "tp", "pp", "message", "hint"),
    [
        (
            "3xh100",
            None,
            1,
            "tensor parallel size 3 does not split the model's attention heads evenly",
            "sizes that do: 1, 2, 4, 8, 16, 32; with stages --tp 1 --pp 3",
        ),
        (
            "64xh100",
            None,
            1,
            "tensor parallel size 64 does not split the model's attention heads evenly",
            "sizes that do: 1, 2, 4, 8, 16, 32; with stages --tp 32 --pp 2",
        ),
        (
            "37xh100",  # more than the 32 layers
            None,
            1,
            "tensor parallel size 37 does not split the model's attention heads evenly",
            "sizes that do: 1, 2, 4, 8, 16, 32",
        ),
        (
            "h100",
            2,
            1,
            "tensor parallel size 2 x pipeline parallel size 1 does not use 1 x h100-80",
            "--tp times --pp is the number of GPUs, for example --gpu h100-80:2",
        ),
        (
            "3xh100",
            None,
            2,
            "tensor parallel size 1 x pipeline parallel size 2 does not use 3 x h100-80",
            "--tp times --pp is the number of GPUs, for example --gpu h100-80:2",
        ),
        (
            "h100",
            None,
            2,
            "--pp 2 needs 2 GPUs, and there is 1 x h100-80",
            "--tp times --pp is the number of GPUs, for example --gpu h100-80:2",
        ),
        (
            "h100",
            2,
            3,
            "--pp 3 needs 3 GPUs, and there is 1 x h100-80",
            "--tp times --pp is the number of GPUs, for example --gpu h100-80:6",
        ),
        (
            "h100",
            3,
            2,  # two GPUs would not help three ranks either
            "tensor parallel size 3 does not split the model's attention heads evenly",
            "sizes that do: 1, 2, 4, 8, 16, 32",
        ),
        (
            "h100",
            0,
            1,
            "tensor parallel size 0 x pipeline parallel size 1 does not use 1 x h100-80",
            "--tp times --pp is the number of GPUs, for example --gpu h100-80:1",
        ),
        (
            "h100",
            None,
            0,
            "--pp 0 is not a number of stages for 32 layers",
            "it is a number from 1 to 32",
        ),
        (
            "64xh100",
            1,
            64,
            "--pp 64 is not a number of stages for 32 layers",
            "it is a number from 1 to 32",
        ),
    ],
)
def test_a_plan_that_cannot_be_is_refused_by_a_sentence(
    gpu: str, tp: int | None, pp: int, message: str, hint: str
) -> None:
    """`--tp 3` on 32 heads, or sizes that do not use the GPUs, name what would work."""
    (choice,) = parse_gpu(gpu)
    deployment = Deployment(tensor_parallel_size=tp, pipeline_parallel_size=pp)
    with pytest.raises(UsageError) as error:
        parallel_sizes(model(heads=32, kv=8), deployment, choice)
    assert (str(error.value), error.value.hint) == (message, hint)


@pytest.mark.parametrize(
    "engine", ["none", "vllm", "sglang", "trtllm", "llama.cpp", "transformers"]
)
@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"tensor_parallel_size": 3}, "tensor parallel size 3 does not split the model's"),
        ({"tensor_parallel_size": 1000}, "tensor parallel size 1000 does not split the model's"),
        ({"tensor_parallel_size": 0}, "tensor parallel size 0 does not split the model's"),
        ({"pipeline_parallel_size": 33}, "--pp 33 is not a number of stages for 32 layers"),
        ({"pipeline_parallel_size": 10**9}, "--pp 1000000000 is not a number of stages for"),
    ],
)
def test_sizes_are_refused_without_a_gpu_too(
    engine: str, sizes: dict[str, int], message: str
) -> None:
    """Llama-3.1-8B has 32 heads, 8 KV heads and 32 layers."""
    with pytest.raises(UsageError) as error:
        asked(LLAMA_8B, "", engine, **sizes)
    assert str(error.value).startswith(message)


def test_gpus_that_are_suggested_can_share_the_model() -> None:
    """The `--gpu` of a hint is taken with the same --tp and --pp."""
    suggested = 0
    for count, tp, pp in product(range(1, 9), (None, 1, 2, 3, 5, 8, 32), range(1, 33)):
        deployment = Deployment(tensor_parallel_size=tp, pipeline_parallel_size=pp)
        llama = model(heads=32, kv=8)
        try:
            parallel_sizes(llama, deployment, parse_gpu(f"h100:{count}")[0])
        except UsageError as error:
            found = re.search(r"--gpu (\S+)", error.hint or "")
            if found is not None:
                parallel_sizes(llama, deployment, parse_gpu(found[1])[0])
                suggested += 1
    assert suggested > 500
    wide = replace(model(heads=64, kv=8), num_hidden_layers=64)
    deployment = Deployment(tensor_parallel_size=64, pipeline_parallel_size=32)
    with pytest.raises(UsageError) as caught:
        parallel_sizes(wide, deployment, parse_gpu("h100:64")[0])
    assert caught.value.hint == "--tp times --pp is the number of GPUs, at most 1,024"


@pytest.mark.parametrize("engine", ["none", "trtllm", "llama.cpp"])
def test_a_million_stages_are_refused_at_once(engine: str) -> None:
    """Before anything is laid out in them."""
    with pytest.raises(UsageError) as error:
        asked(LLAMA_8B, "h100:4", engine, pipeline_parallel_size=10**6)
    assert str(error.value) == "--pp 1000000 is not a number of stages for 32 layers"


def test_a_size_that_cannot_be_is_named_before_the_number_of_gpus() -> None:
    """More GPUs would not help three ranks of 32 heads."""
    with pytest.raises(UsageError) as error:
        asked(LLAMA_8B, "a100-80", tensor_parallel_size=3)
    assert error.value.hint == "sizes that do: 1, 2, 4, 8, 16, 32"
