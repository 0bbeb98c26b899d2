"""Well-known models, from their published config and real-shaped headers, to the byte.

Every expectation is worked out in this file from numbers on the model cards: layers, KV
heads, head dim, window, state sizes. The cache is 16 bit, T is 32,768 tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from hfkv.core.files import ModelFiles
from hfkv.core.report import Report, analyze
from hfkv.core.workload import Workload
from hfkv.sources import load

FIXTURES = Path(__file__).parent.parent / "fixtures"
T = 32_768
BF16 = 2
FP32 = 4


def gqa(layers: int, heads: int, dim: int) -> int:
    """Return bytes a token of ordinary attention: keys and values."""
    return 2 * layers * heads * dim * BF16


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Bytes per token at T, fixed bytes per sequence, bytes that windows hold, and warnings."""

    per_token: int
    fixed: int = 0
    windows: int = 0
    codes: tuple[str, ...] = ()
    simple: bool = True


QWEN3_NEXT_STATE = 36 * (  # 36 of 48 layers: 16 key heads and 32 value heads of 128, kernel 4
    (2 * 16 * 128 + 32 * 128) * (4 - 1) * BF16 + 32 * 128 * 128 * FP32
)
JAMBA_STATE = 28 * (8192 * (4 - 1) * BF16 + 8192 * 16 * FP32)  # 28 of 32 layers, inner 2 x 4096
NEMOTRON_STATE = 23 * (  # 23 of 52 layers: 64 heads of 64, 8 groups, state 128, kernel 4
    (64 * 64 + 2 * 8 * 128) * (4 - 1) * BF16 + 64 * 64 * 128 * FP32
)
FALCON_MAMBA_STATE = 64 * (8192 * (4 - 1) * BF16 + 8192 * 16 * FP32)  # 64 layers, inner 8192

MODELS: dict[str, Expected] = {
    "meta-llama--Llama-3.1-8B": Expected(per_token=gqa(32, 8, 128)),
    "meta-llama--Llama-3.1-70B": Expected(per_token=gqa(80, 8, 128)),
    "Qwen--Qwen2.5-7B-Instruct": Expected(per_token=gqa(28, 4, 128), codes=("window-unused",)),
    "mistralai--Devstral-Small-2507": Expected(per_token=gqa(40, 8, 128), codes=("head-dim",)),
    "microsoft--Phi-3-mini-128k-instruct": Expected(
        per_token=gqa(32, 32, 96), codes=("window-beyond-context",)
    ),
    "mistralai--Mixtral-8x7B-v0.1": Expected(per_token=gqa(32, 8, 128)),
    "tiiuae--falcon-7b-instruct": Expected(
        per_token=gqa(32, 1, 64), codes=("context-above-maximum",)
    ),
    "openai-community--gpt2": Expected(per_token=gqa(12, 12, 64), codes=("context-above-maximum",)),
    "mistralai--Mistral-7B-v0.1": Expected(
        per_token=0,
        windows=gqa(32, 8, 128) * 4096,
        codes=("sliding-window", "float32-checkpoint"),
        simple=False,
    ),
    "google--gemma-2-9b-it": Expected(
        per_token=gqa(21, 8, 256),
        windows=gqa(21, 8, 256) * 4096,
        codes=("sliding-window", "head-dim", "context-above-maximum"),
        simple=False,
    ),
    "google--gemma-3-4b-it": Expected(  # 34 layers, every 6th full; the file omits the rest
        per_token=gqa(5, 4, 256),
        windows=gqa(29, 4, 256) * 1024,
        codes=("sliding-window", "head-dim"),
        simple=False,
    ),
    "google--gemma-3-27b-it": Expected(
        per_token=gqa(10, 16, 128),
        windows=gqa(52, 16, 128) * 1024,
        codes=("sliding-window", "head-dim"),
        simple=False,
    ),
    "openai--gpt-oss-20b": Expected(
        per_token=gqa(12, 8, 64),
        windows=gqa(12, 8, 64) * 128,
        codes=("sliding-window", "head-dim", "quantization-mismatch"),
        simple=False,
    ),
    "deepseek-ai--DeepSeek-V2-Lite": Expected(
        per_token=27 * (512 + 64) * BF16, codes=("mla",), simple=False
    ),
    "deepseek-ai--DeepSeek-V3": Expected(
        per_token=61 * (512 + 64) * BF16,
        codes=("mla", "mtp-layers", "kv-dtype-not-declared"),
        simple=False,
    ),
    "Qwen--Qwen3-Next-80B-A3B-Instruct": Expected(
        per_token=gqa(12, 2, 256),
        fixed=QWEN3_NEXT_STATE,
        codes=("hybrid", "head-dim"),
        simple=False,
    ),
    "ai21labs--AI21-Jamba-1.5-Mini": Expected(
        per_token=gqa(4, 8, 128), fixed=JAMBA_STATE, codes=("hybrid",), simple=False
    ),
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": Expected(
        per_token=gqa(6, 2, 128),
        fixed=NEMOTRON_STATE,
        codes=("hybrid", "empty-layers", "head-dim"),
        simple=False,
    ),
    "LiquidAI--LFM2-1.2B": Expected(  # 6 attention layers, 10 convolutions of width 3 over 2048
        per_token=gqa(6, 8, 64),
        fixed=10 * 2048 * (3 - 1) * BF16,
        codes=("hybrid",),
        simple=False,
    ),
    "tiiuae--falcon-mamba-7b": Expected(
        per_token=0, fixed=FALCON_MAMBA_STATE, codes=("hybrid",), simple=False
    ),
    "meta-llama--Llama-3.2-11B-Vision-Instruct": Expected(  # 40 layers, 8 of them cross-attend
        per_token=gqa(32, 8, 128),
        fixed=gqa(8, 8, 128) * 4 * 1601,  # one image: 4 tiles of 40 x 40 patches + 1
        codes=("cross-attention",),
        simple=False,
    ),
    "vinai--PhoWhisper-tiny": Expected(
        per_token=gqa(4, 6, 64),
        fixed=gqa(4, 6, 64) * 1500,
        codes=("cross-attention", "float32-checkpoint", "context-above-maximum"),
        simple=False,
    ),
    "google-t5--t5-small": Expected(
        per_token=gqa(6, 8, 64),
        fixed=gqa(6, 8, 64) * 512,
        codes=("cross-attention", "float32-checkpoint", "context-above-maximum"),
        simple=False,
    ),
    "google-bert--bert-base-uncased": Expected(per_token=0, codes=("encoder-only",), simple=False),
}

# The figures as the issue that started this project states them.
STATED = {
    "meta-llama--Llama-3.1-8B": (131_072, 0, 4_294_967_296),
    "meta-llama--Llama-3.1-70B": (327_680, 0, None),
    "Qwen--Qwen2.5-7B-Instruct": (57_344, 0, None),
    "mistralai--Devstral-Small-2507": (163_840, 0, None),
    "microsoft--Phi-3-mini-128k-instruct": (393_216, 0, None),
    "mistralai--Mixtral-8x7B-v0.1": (131_072, 0, None),
    "tiiuae--falcon-7b-instruct": (8_192, 0, None),
    "openai-community--gpt2": (36_864, 0, None),
    "mistralai--Mistral-7B-v0.1": (0, 0, 536_870_912),
    "google--gemma-2-9b-it": (172_032, 0, 6_341_787_648),
    "google--gemma-3-4b-it": (20_480, 0, 792_723_456),
    "google--gemma-3-27b-it": (81_920, 0, 3_120_562_176),
    "openai--gpt-oss-20b": (24_576, 0, 808_452_096),
    "deepseek-ai--DeepSeek-V2-Lite": (31_104, 0, None),
    "deepseek-ai--DeepSeek-V3": (70_272, 0, 2_302_672_896),
    "Qwen--Qwen3-Next-80B-A3B-Instruct": (24_576, 77_266_944, 882_573_312),
    "ai21labs--AI21-Jamba-1.5-Mini": (16_384, 16_056_320, None),
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": (6_144, 49_082_368, None),
    "LiquidAI--LFM2-1.2B": (12_288, 81_920, None),
    "tiiuae--falcon-mamba-7b": (0, 36_700_160, None),
    "meta-llama--Llama-3.2-11B-Vision-Instruct": (131_072, 209_846_272, None),
    "vinai--PhoWhisper-tiny": (6_144, 9_216_000, None),
    "google-t5--t5-small": (12_288, 6_291_456, None),
    "google-bert--bert-base-uncased": (0, 0, 0),
}


@cache
def files_of(name: str) -> ModelFiles:
    """Return the snapshot of one fixture."""
    return load(str(FIXTURES / "models" / f"{name}.hfkv.json"))


@cache
def report_of(name: str) -> Report:
    """Return the report of one fixture at T tokens in 16 bit."""
    return analyze(files_of(name), Workload(context=T, kv_dtype="bf16"))


@pytest.mark.parametrize("name", MODELS)
def test_cache_to_the_byte(name: str) -> None:
    """Per token, fixed and total are what the model card's numbers multiply to."""
    expected, kv = MODELS[name], report_of(name).kv
    assert kv is not None
    assert kv.bytes_per_token == expected.per_token
    assert kv.fixed_bytes_per_sequence == expected.fixed
    assert kv.bytes == expected.per_token * T + expected.windows + expected.fixed
    assert kv.simple_formula.applies is expected.simple
    assert sum(part.bytes for part in kv.components) == kv.bytes


@pytest.mark.parametrize("name", STATED)
def test_stated_figures(name: str) -> None:
    """The figures that were stated before a line was written are met."""
    per_token, fixed, total = STATED[name]
    kv = report_of(name).kv
    assert kv is not None
    assert (kv.bytes_per_token, kv.fixed_bytes_per_sequence) == (per_token, fixed)
    assert total is None or kv.bytes == total


@pytest.mark.parametrize("name", MODELS)
def test_warnings(name: str) -> None:
    """Each model carries exactly the warnings that are true of it."""
    assert {f.code for f in report_of(name).findings} == set(MODELS[name].codes)


def test_an_encoder_has_no_components() -> None:
    """BERT keeps nothing: a known zero, not an unknown."""
    report = report_of("google-bert--bert-base-uncased")
    assert report.architecture.kind == "encoder"
    assert report.kv is not None
    assert report.kv.components == ()


def test_deepseek_v32_from_its_config_alone() -> None:
    """61 layers x (512 + 64 latent + 128 index) x 2 bytes = 85,888 a token."""
    path = FIXTURES / "configs" / "deepseek-ai--DeepSeek-V3.2" / "config.json"
    report = analyze(load(str(path)), Workload(context=T, kv_dtype="bf16"))
    assert report.kv is not None
    assert 61 * (512 + 64 + 128) * BF16 == 85_888  # by hand
    assert report.kv.bytes_per_token == 85_888
    assert report.kv.bytes == 2_814_377_984
    assert report.weights is None
    codes = {f.code for f in report.findings}
    assert {"mla", "sparse-index", "weights-unknown"} <= codes


# Published parameter counts, and bytes of the files as transformers saves them.
WEIGHTS = {
    "meta-llama--Llama-3.1-8B": (8_030_261_248, 16_060_522_496),
    "meta-llama--Llama-3.1-70B": (70_553_706_496, 141_107_412_992),
    "meta-llama--Llama-3.2-1B-Instruct": (1_235_814_400, 2_471_628_800),
    "Qwen--Qwen2.5-7B-Instruct": (7_615_616_512, 15_231_233_024),
    "mistralai--Mixtral-8x7B-v0.1": (46_702_792_704, 93_405_585_408),
    "google--gemma-2-9b-it": (9_241_705_984, 18_483_411_968),
    "openai-community--gpt2": (124_439_808, 248_879_616),
    "deepseek-ai--DeepSeek-V3": (671_026_419_200, None),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_to_the_byte(name: str) -> None:
    """Parameters and bytes are the published ones."""
    parameters, size = WEIGHTS[name]
    weights = report_of(name).weights
    assert weights is not None
    assert weights.parameters == parameters
    assert size is None or weights.bytes == size
    assert sum(part.bytes for part in weights.by_dtype.values()) == weights.bytes
    assert sum(part.bytes for part in weights.by_role.values()) == weights.bytes


def test_the_main_example_at_its_full_context() -> None:
    """Llama-3.1-8B at 131,072 tokens: 16 GiB, and the simple formula says the same."""
    kv = analyze(files_of("meta-llama--Llama-3.1-8B"), Workload()).kv
    assert kv is not None
    assert (kv.tokens, kv.dtype) == (131_072, "bfloat16")
    assert kv.bytes == kv.simple_formula.bytes == 17_179_869_184
