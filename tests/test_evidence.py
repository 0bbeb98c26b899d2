"""Tensors as a second witness: they agree with true configs and contradict changed ones."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hfkv.core.architecture import Architecture, read_architecture
from hfkv.core.evidence import Evidence, layers_from_tensors, witness
from hfkv.core.files import ModelFiles, Target, TensorGroup
from hfkv.core.headers import parse_shard
from hfkv.core.readings import Confidence, Reading
from hfkv.core.snapshots import loads
from hfkv.core.stores import Grows
from hfkv.errors import HfkvError

FOLDER = Path(__file__).parent.parent / "fixtures" / "models"
NAMES = sorted(path.name.removesuffix(".hfkv.json") for path in FOLDER.glob("*.hfkv.json"))
LLAMA = "meta-llama--Llama-3.1-8B"


@cache
def load(name: str) -> ModelFiles:
    """Read one snapshot."""
    path = FOLDER / f"{name}.hfkv.json"
    return loads(path.read_bytes(), where=path.name)


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


def verdict(files: ModelFiles) -> tuple[Architecture, Evidence]:
    """Read an architecture and let the tensors speak."""
    return witness(read_architecture(files), files)


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


# Elements per token of all layers, by hand: layers × KV heads × (key + value), or the latent.
WITHOUT_CONFIG = {
    LLAMA: 32 * 8 * 256,
    "Qwen--Qwen2.5-7B-Instruct": 28 * 4 * 256,
    "google--gemma-2-9b-it": 42 * 8 * 512,
    "mistralai--Mixtral-8x7B-v0.1": 32 * 8 * 256,
    "deepseek-ai--DeepSeek-V3": 61 * 576,
    "openai-community--gpt2": 12 * 12 * 128,
    "tiiuae--falcon-7b-instruct": 32 * 128,
    "tiiuae--falcon-40b-transformers": 60 * 8 * 128,
    "google--gemma-4-26B-A4B": 25 * 8 * 512 + 5 * 2 * 1024,
    "databricks--dbrx-instruct": 40 * 8 * 256,
}


@pytest.mark.parametrize("name", WITHOUT_CONFIG)
def test_the_layer_table_comes_from_tensors_when_there_is_no_config(name: str) -> None:
    """With the config deleted, bytes per token are still right, and labelled."""
    arch, _ = verdict(replace(load(name), config=None))
    per_token = sum(
        s.elements for layer in arch.layers for s in layer.stores if isinstance(s, Grows)
    )
    assert per_token == WITHOUT_CONFIG[name]
    assert arch.confidence is Confidence.INFERRED
    assert arch.doubts[-2:] == (
        "the layer table is from tensors, not from a config",
        "windows leave no trace in tensors: every layer is taken to keep all tokens",
    )


@pytest.mark.parametrize("name", NAMES)
def test_without_a_config_the_table_is_right_or_absent(name: str) -> None:
    """Recurrent, cross-attending and sharing models are refused, never guessed."""
    found = layers_from_tensors(replace(load(name), config=None))
    if found is None:
        arch = read_architecture(load(name))
        kinds = {str(layer.kind) for layer in arch.layers}
        plain = {"full_attention", "sliding_attention", "latent_attention"}
        assert kinds - plain or arch.kind == "encoder-decoder"
        return
    true = read_architecture(load(name))
    widths = [sum(s.elements for s in layer.stores) for layer in true.layers]
    assert [sum(s.elements for s in layer.stores) for layer in found.layers] == widths


QUANTIZED = Path(__file__).parent.parent / "fixtures" / "quantized"


@pytest.mark.parametrize("name", ["gptq-4bit", "awq-gemm", "bnb-nf4", "ct-w4a16", "modelopt-nvfp4"])
def test_packed_tensors_are_unpacked_before_they_testify(name: str) -> None:
    """A 4-bit k_proj of 128 rows confirms two heads of 64 and contradicts four."""
    files = quantized(name)
    assert verdict(files)[0].confidence is Confidence.CONFIRMED
    config = {**(files.config or {}), "num_key_value_heads": 4}
    arch, evidence = verdict(replace(files, config=config))
    assert arch.confidence is Confidence.DOUBTFUL
    assert evidence.disagreements[0].startswith(
        "the config says 4 KV heads × 64 = 256 (config.json: num_key_value_heads), but "
    )
    assert "has 128 rows" in evidence.disagreements[0]


def quantized(name: str) -> ModelFiles:
    """Read a quantized fixture (its header only)."""
    data = (QUANTIZED / name / "model.safetensors.header").read_bytes()
    config = json.loads((QUANTIZED / name / "config.json").read_text(encoding="utf-8"))
    shard = parse_shard(data, file_size=None, path="model.safetensors")
    target = Target(kind="folder", id=name)
    return ModelFiles(target=target, config=config, tensors=shard.groups)


def made_up(config: dict[str, Any], *rows: tuple[str, tuple[int, ...], tuple[int, ...]]) -> Any:
    """Let made-up tensors witness about a config."""
    tensors = tuple(
        TensorGroup(name=name, dtype="BF16", shape=shape, nbytes=2, layers=layers)
        for name, shape, layers in rows
    )
    return verdict(ModelFiles(target=Target(kind="file", id="x"), config=config, tensors=tensors))


_SMALL = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def test_unknown_names_neither_confirm_nor_contradict() -> None:
    """Tensors whose names nobody understands leave the confidence where it was."""
    arch, evidence = made_up(_SMALL, ("model.layers.{}.strange.thing", (32, 64), (0, 1)))
    assert arch.confidence is Confidence.DECLARED
    assert evidence.silent == ("no tensor was found that tells the key width",)


def test_tensors_that_are_no_layers_say_nothing() -> None:
    """A file with only an adapter or a table has no decoder stack."""
    arch, evidence = made_up(_SMALL, ("something.weight", (32, 64), ()))
    assert arch.confidence is Confidence.DECLARED
    assert evidence.silent == ("no tensor name looks like a decoder layer",)


def test_a_layer_in_disguise_is_named_alone() -> None:
    """One layer that differs from the others is named by its number."""
    arch, evidence = made_up(
        _SMALL,
        ("model.layers.{}.self_attn.k_proj.weight", (32, 64), (0,)),
        ("model.layers.{}.self_attn.k_proj.weight", (64, 64), (1,)),
    )
    assert arch.confidence is Confidence.DOUBTFUL
    (sentence,) = evidence.disagreements
    assert sentence == (
        "layer 1: the config says 2 KV heads × 16 = 32 (config.json: num_key_value_heads), "
        "but `model.layers.1.self_attn.k_proj.weight` has 64 rows"
    )


def test_mtp_layers_do_not_count_as_layers() -> None:
    """A next-token layer behind the last one is no disagreement."""
    arch, evidence = made_up(
        _SMALL,
        ("model.layers.{}.self_attn.k_proj.weight", (32, 64), (0, 1, 2)),
        ("model.layers.{}.eh_proj.weight", (64, 128), (2,)),
    )
    assert evidence.disagreements == ()
    assert arch.confidence is Confidence.CONFIRMED


def test_a_multimodal_models_towers_do_not_testify() -> None:
    """The vision tower's k_proj is not the decoder's."""
    arch, evidence = made_up(
        _SMALL,
        ("model.layers.{}.self_attn.k_proj.weight", (32, 64), (0, 1)),
        ("vision_tower.encoder.layers.{}.self_attn.k_proj.weight", (99, 99), tuple(range(24))),
        ("talker.model.layers.{}.self_attn.k_proj.weight", (99, 99), tuple(range(24))),
    )
    assert evidence.disagreements == ()
    assert arch.confidence is Confidence.CONFIRMED


def test_three_convolutions_of_kimi_linear_are_one_state() -> None:
    """KDA keeps q, k and v convolutions apart: 3 × 2 heads × 16, and three past columns."""
    config = {
        "model_type": "kimi_linear",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "kv_lora_rank": 32,
        "qk_rope_head_dim": 8,
        "linear_attn_config": {
            "num_heads": 2,
            "head_dim": 16,
            "short_conv_kernel_size": 4,
            "kda_layers": [1],
            "full_attn_layers": [2],
        },
    }
    tensors = [
        ("model.layers.{}.self_attn.A_log", (1, 1, 2, 1), (0,)),
        ("model.layers.{}.self_attn.kv_a_proj_with_mqa.weight", (40, 64), (1,)),
        *(
            (f"model.layers.{{}}.self_attn.{name}_conv1d.weight", (32, 1, 4), (0,))
            for name in "qkv"
        ),
    ]
    arch, evidence = made_up(config, *tensors)
    assert evidence.disagreements == ()
    assert arch.confidence is Confidence.CONFIRMED
    wider = [(name, (48, 1, 4) if "conv1d" in name else dims, at) for name, dims, at in tensors]
    _, evidence = made_up(config, *wider)
    (sentence,) = evidence.disagreements
    assert sentence == (
        "layer 0: the config says a convolution state of 288 elements, but "
        "`model.layers.0.self_attn.q_conv1d.weight` [144, 1, 4] makes it 432"
    )
