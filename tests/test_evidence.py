"""Tensors as a second witness: they agree with true configs and contradict changed ones."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from witnesses import LLAMA, NAMES, load, verdict

from hfkv.core.architecture import Architecture, read_architecture
from hfkv.core.evidence import witness
from hfkv.core.files import ModelFiles
from hfkv.core.readings import Confidence, Reading
from hfkv.core.report import analyze
from hfkv.core.stores import Grows
from hfkv.core.workload import Workload
from hfkv.errors import HfkvError
from hfkv.render.evidence import confidence_phrase


def changed(name: str, path: tuple[str, ...], value: Any) -> ModelFiles:
    """Return a snapshot whose config has another value at one place."""
    config = copy.deepcopy(load(name).config)
    part = config
    for key in path[:-1]:
        assert part is not None
        part = part[key]
    assert part is not None
    part[path[-1]] = value
    return replace(load(name), config=config)


@pytest.mark.parametrize("name", NAMES)
def test_tensors_confirm_every_true_config(name: str) -> None:
    """All forty-four header sets agree with the config they were made from."""
    arch, evidence = verdict(load(name))
    assert evidence.disagreements == ()
    assert arch.confidence is Confidence.CONFIRMED


def test_what_confirms_llama() -> None:
    """Each figure of Llama-3.1-8B names the tensor that confirms it: 8 heads × 128 = 1,024."""
    _, evidence = verdict(load(LLAMA))
    assert evidence.agreements == (
        Reading(field="num_hidden_layers", value=32, source="`model.layers.{}`"),
        Reading(field="hidden_size", value=4096, source="`model.embed_tokens.weight`"),
        Reading(field="vocab_size", value=128_256, source="`model.embed_tokens.weight`"),
        Reading(
            field="key width",
            value=1024,
            source="`model.layers.{}.self_attn.k_proj.weight` in 32 layers",
        ),
        Reading(
            field="value width",
            value=1024,
            source="`model.layers.{}.self_attn.v_proj.weight` in 32 layers",
        ),
    )


_FALCON = "transformer.h.0.self_attention.query_key_value.weight"
SENTENCES: dict[str, tuple[str, tuple[str, ...], Any, str, str]] = {
    "kv heads": (
        LLAMA,
        ("num_key_value_heads",),
        4,
        "4 KV heads × 128 = 512 (config.json: num_key_value_heads)",
        "`model.layers.0.self_attn.k_proj.weight` has 1024 rows (and 31 more layers)",
    ),
    "layers": (
        LLAMA,
        ("num_hidden_layers",),
        31,
        "31 layers (config.json: num_hidden_layers)",
        "the tensors have 32 (`model.layers.{}`)",
    ),
    "latent rank": (
        "deepseek-ai--DeepSeek-V3",
        ("kv_lora_rank",),
        256,
        "latent and rotary width 320 (config.json: kv_lora_rank)",
        "`model.layers.0.self_attn.kv_a_proj_with_mqa.weight` has 576 rows (and 60 more layers)",
    ),
    "one head instead of all": (
        "tiiuae--falcon-7b-instruct",
        ("multi_query",),
        False,
        "4544 query rows and 71 KV heads × 64 = 4544 (num_attention_heads)",
        f"`{_FALCON}` has 4672 rows (and 31 more layers)",
    ),
    "convolution": (
        "LiquidAI--LFM2-1.2B",
        ("conv_L_cache",),
        4,
        "a convolution state of 6144 elements",
        "`model.layers.0.conv.conv.weight` [2048, 1, 3] makes it 4096 (and 9 more layers)",
    ),
    "state": (
        "tiiuae--falcon-mamba-7b",
        ("state_size",),
        8,
        "a recurrent state of 65536 elements",
        "`backbone.layers.0.mixer.A_log` [8192, 16] makes it 131072 (and 63 more layers)",
    ),
    "pattern": (
        "Qwen--Qwen3-Next-80B-A3B-Instruct",
        ("full_attention_interval",),
        2,
        "full_attention with its own keys",
        "the layer has `model.layers.1.linear_attn.A_log` (and 11 more layers)",
    ),
    "source": (
        "vinai--PhoWhisper-tiny",
        ("max_source_positions",),
        3000,
        "3000 source positions",
        "`model.encoder.embed_positions.weight` has 1500 rows",
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_a_disagreement_is_one_sentence_with_both_values(case: str) -> None:
    """The sentence names both values, the tensor and the config key; no value is overwritten."""
    name, path, value, claim, fact = SENTENCES[case]
    files = changed(name, path, value)
    arch, evidence = verdict(files)
    assert arch.confidence is Confidence.DOUBTFUL
    assert evidence.disagreements[0] == f"the config says {claim}, but {fact}"
    assert evidence.disagreements[0] in arch.doubts
    assert arch.layers == read_architecture(files).layers


# Keys that leave no trace in a header: how long a window is, how many positions T5 reads, and
# which of several layers of equal shape have the window.
_NO_TRACE = {"sliding_window", "n_positions"}
_SKIPPED = {"vision_config", "audio_config", "quantization_config", "rope_scaling"}
# Keys that shape no cache by any reading; trying them would only take time.
_BESIDE = re.compile(r"_ids?$|vocab|version|expert|moe|tie_|use_cache|bias|router|is_encoder|scal")


def numbers(part: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every number and flag of a config with other values for it."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key not in _SKIPPED | _NO_TRACE and not _BESIDE.search(key):
                yield from numbers(value, (*path, key))
    elif isinstance(part, bool):
        yield path, not part
    elif isinstance(part, int):
        yield path, part // 2
        if re.search("layer|head", path[-1]):
            yield path, part + 1


def cache_elements(arch: Architecture, tokens: int = 32_768) -> int:
    """Return what all stores of an architecture hold at one length."""
    total = 0
    for layer in arch.layers:
        for store in layer.stores:
            if not isinstance(store, Grows):
                total += store.elements
            elif store.role == "cross":
                total += (arch.source_tokens or 0) * store.elements
            else:
                total += store.slots(tokens) * store.elements
    return total


def mutants(name: str) -> Iterator[tuple[tuple[str, ...], Any, Architecture, ModelFiles]]:
    """Yield the changed configs of a model that are readable and change its cache."""
    true_size = cache_elements(read_architecture(load(name)))
    for path, value in numbers(load(name).config):
        files = changed(name, path, value)
        try:
            arch = read_architecture(files)
        except HfkvError:
            continue
        if arch.layers and cache_elements(arch) != true_size:
            yield path, value, arch, files


@pytest.mark.parametrize("name", NAMES)
def test_no_changed_number_that_changes_the_cache_is_confirmed(name: str) -> None:
    """Numbers of every config, halved or one more: a wrong cache size comes out doubtful."""
    found = {
        (".".join(path), value, witness(arch, files)[0].confidence)
        for path, value, arch, files in mutants(name)
    }
    missed = {case for case in found if case[-1] is not Confidence.DOUBTFUL}
    # Gemma-4-26B stores keys in every layer, so that sharing none or one looks the same:
    # the report stays at "declared" and says why
    sharing = {("text_config.num_kv_shared_layers", 1, Confidence.DECLARED)}
    assert missed == (sharing if name == "google--gemma-4-26B-A4B" else set())


PATTERNS: dict[str, tuple[str, tuple[str, ...], Any]] = {
    "lfm2 turned around": (
        "LiquidAI--LFM2-1.2B",
        ("full_attn_idxs",),
        [0, 1, 3, 4, 6, 7],
    ),
    "jamba shifted": ("ai21labs--AI21-Jamba-1.5-Mini", ("attn_layer_offset",), 3),
    "mllama without one": (
        "meta-llama--Llama-3.2-11B-Vision-Instruct",
        ("text_config", "cross_attention_layers"),
        [3, 8, 13, 18, 23, 28, 33],
    ),
    "gemma-4 all wide": (
        "google--gemma-4-26B-A4B",
        ("text_config", "layer_types"),
        ["full_attention"] * 30,
    ),
}


@pytest.mark.parametrize("case", PATTERNS)
def test_a_changed_layer_pattern_is_noticed(case: str) -> None:
    """A layer said to be of another kind than its tensors makes the reading doubtful."""
    name, path, value = PATTERNS[case]
    arch, evidence = verdict(changed(name, path, value))
    assert arch.confidence is Confidence.DOUBTFUL
    assert evidence.disagreements


@pytest.mark.parametrize("swap", ["*-", "*M", "M*", "E*"])
def test_a_changed_letter_in_nemotrons_pattern_is_noticed(swap: str) -> None:
    """One letter of the hybrid pattern changed: mamba, attention, MLP and experts differ."""
    name = "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
    pattern = (load(name).config or {})["hybrid_override_pattern"]
    files = changed(name, ("hybrid_override_pattern",), pattern.replace(swap[0], swap[1], 1))
    arch, _ = verdict(files)
    assert arch.confidence is Confidence.DOUBTFUL


def test_windows_leave_no_trace_and_the_evidence_says_so() -> None:
    """Gemma-2 is confirmed in everything but its windows."""
    _, evidence = verdict(load("google--gemma-2-9b-it"))
    assert evidence.silent == ("windows leave no trace in the tensors",)


def test_what_leaves_no_trace_is_said_beside_the_confirmation() -> None:
    """Windows and T5's source length are the config's word alone, and the phrase says so."""
    for name, silent in (
        ("google--gemma-3-27b-it", "windows leave no trace in the tensors"),
        ("google-t5--t5-small", "the source length leaves no trace in the tensors"),
    ):
        report = analyze(load(name), Workload(context=64))
        assert report.architecture.confidence is Confidence.CONFIRMED
        assert silent in report.evidence.silent
        assert silent in confidence_phrase(report.architecture, report.evidence)
