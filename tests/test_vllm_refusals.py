"""What vLLM does not serve, or not so, and the sentence that says why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from vllm_plans import GIB, LLAMA, cases, files_of, planned, published

from hfkv.core.engines.vllm_groups import form_groups
from hfkv.core.engines.vllm_options import options_for
from hfkv.core.engines.vllm_specs import Kind, Spec
from hfkv.core.gpus import parse_gpu
from hfkv.core.report import analyze
from hfkv.core.workload import Deployment, Workload
from hfkv.errors import HfkvError, UnsupportedError, UsageError


@pytest.mark.parametrize(
    ("deployment", "message"),
    [
        (Deployment(tensor_parallel_size=0), "--tp must be at least 1, not 0"),
        (Deployment(pipeline_parallel_size=0), "--pp must be at least 1, not 0"),
        (
            Deployment(max_num_batched_tokens=0),
            "--max-num-batched-tokens must be at least 1, not 0",
        ),
        (Deployment(block_size=-16), "the block size must be at least 1, not -16"),
        (
            Deployment(num_speculative_tokens=-1),
            "the number of speculative tokens must not be negative",
        ),
        (Deployment(engine_version="newest"), "'newest' is not a version of vLLM"),
    ],
)
def test_nonsense_in_a_deployment_is_refused(deployment: Deployment, message: str) -> None:
    """Sizes below one and versions that are none are refused by a sentence."""
    with pytest.raises(UsageError) as caught:
        options_for(deployment)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("gpu", "tokens", "seqs", "version", "found"),
    [
        (None, 8, 16, None, "8 and 16"),
        ("h100", 8, 16, None, "8 and 16"),
        ("a100-80", None, 4096, None, "2,048 and 4,096"),  # its default is 2,048 tokens
        ("h100", 512, None, "0.10.0", "512 and 1,024"),  # nothing follows anything yet
    ],
)
def test_a_step_has_a_token_for_each_sequence(
    gpu: str | None, tokens: int | None, seqs: int | None, version: str | None, found: str
) -> None:
    """Source: vLLM 0.11.2 and 0.32, config/scheduler.py, `verify_max_model_len`."""
    deployment = Deployment(
        gpus=parse_gpu(gpu) if gpu else (),
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
        engine_version=version,
    )
    work = Workload(context=4096, engine="vllm", deployment=deployment)
    with pytest.raises(UsageError) as caught:
        analyze(files_of(LLAMA), work)
    assert caught.value.message == (
        f"vLLM needs --max-num-batched-tokens to be at least --max-num-seqs, and they are {found}"
    )


@pytest.mark.parametrize(
    ("gpu", "tokens", "seqs", "version"),
    [
        ("h100", 16, 16, None),
        ("h100", None, 4096, None),  # its default is 8,192 tokens
        (None, None, 10_000, None),  # a B200's is 16,384
        ("h100", 512, None, "0.11.2"),
        ("a100-80", 512, None, "0.10.0"),  # its default is 256 sequences
        ("h100", 512, None, "0.7.3"),  # so was that of all cards
    ],
)
def test_a_step_that_vllm_starts_with_is_taken(
    gpu: str | None, tokens: int | None, seqs: int | None, version: str | None
) -> None:
    """Where a limit is not stated it is a default that depends on card and release."""
    deployment = Deployment(
        gpus=parse_gpu(gpu) if gpu else (),
        max_num_batched_tokens=tokens,
        max_num_seqs=seqs,
        engine_version=version,
    )
    assert analyze(files_of(LLAMA), Workload(context=4096, engine="vllm", deployment=deployment)).kv


def test_an_encoder_decoders_prompt_fits_in_one_step() -> None:
    """Source: vLLM 0.32, config/scheduler.py: chunked prefill is off for these models."""
    work = Workload(engine="vllm", deployment=Deployment(max_num_batched_tokens=300))
    whisper = files_of(published("vinai--PhoWhisper-tiny"))
    with pytest.raises(UsageError) as caught:
        analyze(whisper, work)
    assert caught.value.message == (
        "vLLM computes prompts of this model whole, and 448 tokens are more than "
        "--max-num-batched-tokens 300"
    )
    assert analyze(whisper, replace(work, context=300)).kv


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            {"tensor_parallel_size": 16, "decode_context_parallel_size": 16},
            (
                "decode context parallel size 16 needs as many copies of the KV heads, "
                "and tensor parallel size 16 makes 8"
            ),
        ),
        (
            "mistralai/Mistral-7B-v0.1",
            {"tensor_parallel_size": 16, "decode_context_parallel_size": 2},
            "vLLM does not split the positions of windowed layers between ranks",
        ),
        (
            "microsoft/phi-4",
            {"tensor_parallel_size": 4},
            "vLLM cannot share 10 KV heads between 4 tensor-parallel ranks",
        ),
        (
            "allenai/Olmo-Hybrid-7B",
            {"tensor_parallel_size": 4},
            "vLLM cannot share 30 attention heads between 4 tensor-parallel ranks",
        ),
    ],
)
def test_models_set_limits_to_a_plan(name: str, options: dict[str, Any], message: str) -> None:
    """Heads, windows and copies decide which parallel sizes vLLM takes."""
    with pytest.raises(HfkvError) as caught:
        planned(cases()[name]["config"], length=4096, **options)
    assert caught.value.message == message


def test_states_that_do_not_divide_are_refused() -> None:
    """24 recurrent heads cannot be shared between 16 ranks, though 16 attention heads can."""
    config = {
        **cases()["Qwen/Qwen3-Next-80B-A3B-Instruct"]["config"],
        "linear_num_value_heads": 24,
    }
    with pytest.raises(UsageError) as caught:
        planned(config, tensor_parallel_size=16)
    assert caught.value.message == (
        "vLLM cannot share recurrent states between 16 tensor-parallel ranks"
    )


def test_recurrent_families_without_a_class_are_refused() -> None:
    """There is no class for RWKV."""
    rwkv = {"model_type": "rwkv", "architectures": ["RwkvForCausalLM"], "dtype": "bfloat16"}
    with pytest.raises(UnsupportedError) as caught:
        planned(rwkv, length=1024)
    assert caught.value.message == (
        "vLLM does not serve RwkvForCausalLM: it has no class for these recurrent layers"
    )


def test_a_drafter_needs_attention_to_copy() -> None:
    """A model of states alone has no layer that a drafter could repeat."""
    mamba = cases()["tiiuae/falcon-mamba-7b"]["config"]
    plan = planned(mamba, length=2048, num_speculative_tokens=1)
    assert len(plan.specs) == 64
    assert plan.blocks_per_sequence == 2


def test_latent_pages_are_never_padded() -> None:
    """A latent page that does not divide the largest one cannot share a pool with it."""
    latent = Spec(kind=Kind.LATENT, layer=0, block_size=16, entry_bytes=576)
    window = Spec(kind=Kind.SLIDING, layer=1, block_size=16, entry_bytes=1024, window=128)
    with pytest.raises(UnsupportedError) as caught:
        form_groups((latent, window))
    assert caught.value.message == "vLLM cannot pad a latent page of 9216 bytes to 16384 bytes"


@pytest.mark.parametrize(
    ("name", "kv", "message"),
    [
        (
            "deepseek-ai/DeepSeek-V3",
            "fp8_ds_mla",
            "vLLM does not keep this model's cache in fp8_ds_mla",
        ),
        ("deepseek-ai/DeepSeek-V3", "nvfp4", "vLLM does not keep this model's cache in nvfp4"),
        (
            "deepseek-ai/DeepSeek-V3",
            "int8_per_token_head",
            "vLLM keeps no latent cache in int8_per_token_head",
        ),
    ],
)
def test_latents_have_formats_of_their_own(name: str, kv: str, message: str) -> None:
    """Formats made for heads, or for sparse latents, do not fit a dense latent."""
    with pytest.raises(UsageError) as caught:
        planned(cases()[name]["config"], kv=kv)
    assert caught.value.message == message


def test_minicpm3_without_its_dims_is_refused() -> None:
    """A file that writes null for both widths leaves nothing to unpack a head with."""
    config = {
        **published("openbmb--MiniCPM3-4B"),
        "qk_nope_head_dim": None,
        "qk_rope_head_dim": None,
    }
    with pytest.raises(UnsupportedError) as caught:
        planned(config, length=4096)
    assert caught.value.message == (
        "config.json: qk_nope_head_dim: vLLM unpacks this model's latent into full heads, "
        "and the config does not say how wide a head is"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"tensor_parallel_size": 3},
            "vLLM cannot share 32 attention heads between 3 tensor-parallel ranks",
        ),
        (
            {"tensor_parallel_size": 8, "decode_context_parallel_size": 3},
            "decode context parallel size 3 does not divide tensor parallel size 8",
        ),
        (
            {"tensor_parallel_size": 8, "decode_context_parallel_size": 2},
            (
                "decode context parallel size 2 needs as many copies of the KV heads, "
                "and tensor parallel size 8 makes 1"
            ),
        ),
        ({"pipeline_parallel_size": 33}, "32 layers cannot fill 33 stages"),
        ({"block_size": 0}, "vLLM has no blocks of 0 tokens"),
        ({"block_size": 7}, "vLLM has no blocks of 7 tokens"),
    ],
)
def test_plans_that_vllm_refuses_are_refused(options: dict[str, Any], message: str) -> None:
    """A plan that makes no sense is refused by a sentence."""
    with pytest.raises(UsageError) as caught:
        planned(LLAMA, **options)
    assert caught.value.message == message


def test_a_format_of_vllm_is_refused_elsewhere() -> None:
    """No other engine lays out vLLM's own formats."""
    with pytest.raises(UsageError) as caught:
        analyze(files_of(LLAMA), Workload(kv_dtype="fp8_ds_mla"))
    assert caught.value.message == "fp8_ds_mla is a cache format of vLLM"


def test_without_the_hybrid_manager_chunks_keep_every_token() -> None:
    """Llama 4 at 1,048,576 tokens takes 192 GiB: 48 layers of 8 heads, 2 x 128 values.

    Published: reference/vllm_kv.md section 6. State models cannot do without it.
    """
    llama4 = cases()["meta-llama/Llama-4-Maverick-17B-128E-Instruct"]["config"]
    plan = planned(llama4, length=2**20, hybrid_kv_cache_manager=False)
    assert plan.max_memory_usage_bytes == 192 * GIB
    with pytest.raises(UnsupportedError) as caught:
        planned(cases()["ai21labs/Jamba-v0.1"]["config"], hybrid_kv_cache_manager=False)
    assert caught.value.message == (
        "vLLM cannot serve this model without its hybrid KV cache manager: "
        "its layers cannot be turned into one type"
    )


def test_layouts_that_were_not_read_are_refused() -> None:
    """No figure is better than a wrong one where rings and pools lie beside the pages."""
    with pytest.raises(UnsupportedError) as caught:
        planned({"model_type": "qwen4_exp_text", "dtype": "bfloat16"}, length=1024)
    assert caught.value.message == (
        "vLLM keeps rings or pools beside the pages of qwen4_exp_text, "
        "and hfkv does not read the config keys that size them"
    )
