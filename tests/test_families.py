"""Family rows: complete, unambiguous, and each backed by a measured or published model."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hfkv.core.architecture import Architecture, read_architecture
from hfkv.core.config import Config, known_model_types
from hfkv.core.descend import decoder_part
from hfkv.core.families.catalogue import catalogue
from hfkv.core.families.registry import FAMILIES
from hfkv.core.files import ModelFiles, Target
from hfkv.core.readings import Confidence
from hfkv.core.report import analyze
from hfkv.core.stores import Grows, LayerKind, Role
from hfkv.core.workload import Workload
from hfkv.errors import MalformedError

FIXTURES = Path(__file__).parent.parent / "fixtures"
# Rows whose evidence is arithmetic in this file: no public file or measurement was at hand.
BY_HAND = {
    "gemma4_assistant",
    "afmoe",
    "kimi_linear",
    "longcat_flash",
    "bailing_hybrid",
    "xlnet",
    "reformer",
    "jetmoe",
    "hrm_text",
    "olmo_hybrid",
    "zamba2",
    "beam",
    "flint",
    "muse_spark",
}


def read(**config: Any) -> Architecture:
    """Read one config."""
    return read_architecture(ModelFiles(target=Target(kind="file", id="x"), config=config))


@cache
def evidenced_types() -> frozenset[str]:
    """Return the decoder model types of every oracle case and every real config."""
    configs = []
    for name in ("transformers_kv.jsonl", "transformers_full.jsonl"):
        with (FIXTURES / "oracle" / name).open(encoding="utf-8") as file:
            configs += [json.loads(line).get("config") for line in file]
    for path in FIXTURES.glob("configs/*/config.json"):
        configs.append(json.loads(path.read_text(encoding="utf-8")))
    found = set()
    for config in configs:
        if isinstance(config, dict):
            found.add(decoder_part(Config(config)).model_type or "")
    return frozenset(found)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda row: row.name)
def test_every_row_has_a_source_and_evidence(family: Any) -> None:
    """A row names where its rule was read, and a fixture shows it on a real model."""
    assert family.source
    assert family.name in BY_HAND or set(family.model_types) & evidenced_types()


def test_no_model_type_is_claimed_twice() -> None:
    """Each model type has one row at most."""
    counts = Counter(name for row in FAMILIES for name in row.model_types)
    assert [name for name, count in counts.items() if count > 1] == []


def test_the_catalogue_lists_every_known_model_type() -> None:
    """The list leaves nothing out that has a cache, and shows kinds for each entry."""
    listed = {name for entry in catalogue() for name in entry.model_types}
    rows = {name for row in FAMILIES for name in row.model_types}
    assert rows <= listed
    assert len(listed & known_model_types()) > 300
    assert all(entry.kinds for entry in catalogue())


def widths(arch: Architecture) -> list[int]:
    """Return elements per token of every layer."""
    return [sum(s.elements for s in layer.stores if isinstance(s, Grows)) for layer in arch.layers]


def test_shared_layers_keep_nothing() -> None:
    """Gemma 3n E4B: 35 layers, the last 15 attend to earlier caches (model card)."""
    arch = read(
        model_type="gemma3n_text",
        num_hidden_layers=35,
        num_kv_shared_layers=15,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=256,
        hidden_size=2048,
    )
    assert [layer.kind for layer in arch.layers[20:]] == [LayerKind.SHARED] * 15
    assert all(layer.stores for layer in arch.layers[:20])


def test_gemma4_full_layers_have_dims_of_their_own() -> None:
    """Gemma 4 26B-A4B: 8 heads of 256 on window layers, 2 of 512 on full ones (its config)."""
    arch = read(
        model_type="gemma4_text",
        num_hidden_layers=6,
        num_attention_heads=16,
        hidden_size=2816,
        num_key_value_heads=8,
        head_dim=256,
        global_head_dim=512,
        num_global_key_value_heads=2,
        attention_k_eq_v=True,
        sliding_window=1024,
    )
    assert widths(arch) == [2 * 8 * 256] * 5 + [2 * 2 * 512]
    assert arch.num_key_value_heads is None  # they differ by layer


def test_kimi_linear_reads_its_nested_sizes() -> None:
    """Kimi-Linear-48B: every 4th layer latent (512 + 64), delta layers 32 heads of 128."""
    arch = read(
        model_type="kimi_linear",
        num_hidden_layers=4,
        num_attention_heads=32,
        hidden_size=2304,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        linear_attn_config={
            "full_attn_layers": [4],
            "kda_layers": [1, 2, 3],
            "num_heads": 32,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
    )
    assert widths(arch) == [0, 0, 0, 576]
    fixed = [s.elements for s in arch.layers[0].stores if not isinstance(s, Grows)]
    assert fixed == [3 * 32 * 128 * 3, 32 * 128 * 128]


def test_longcat_keeps_two_caches_a_block() -> None:
    """LongCat-Flash: 28 blocks of two latent attentions are 56 caches of 576."""
    arch = read(model_type="longcat_flash", num_layers=28)
    assert widths(arch) == [576] * 56


def test_jetmoe_caches_its_own_head_count() -> None:
    """JetMoE-8B: 24 layers, 16 KV heads of 128 (kv_channels), two experts read them."""
    arch = read(model_type="jetmoe", num_hidden_layers=2, num_key_value_heads=16, kv_channels=128)
    assert widths(arch) == [2 * 16 * 128] * 2


def test_hrm_runs_its_stacks_in_cycles() -> None:
    """16 layers x 2 high cycles x (3 low cycles + 1) are 128 caches; the product may be saved."""
    assert len(read(model_type="hrm_text").layers) == 128
    saved = read(model_type="hrm_text", num_hidden_layers=128, num_layers_per_stack=16)
    assert len(saved.layers) == 128


def test_bailing_hybrid_keeps_delta_state_and_latents() -> None:
    """Every 6th layer is latent, the others keep 32 heads of 128 squared."""
    arch = read(model_type="bailing_hybrid", num_hidden_layers=6)
    assert widths(arch) == [0] * 5 + [512 + 64]
    fixed = [s.elements for s in arch.layers[0].stores if not isinstance(s, Grows)]
    assert fixed == [3 * 32 * 128 * 3, 32 * 128 * 128]


def test_olmo_hybrid_derives_absent_sizes() -> None:
    """30 heads of 128: keys 96 wide, values 192 (transformers 5.24 configuration)."""
    arch = read(model_type="olmo_hybrid", num_hidden_layers=4)
    fixed = [s.elements for s in arch.layers[0].stores if not isinstance(s, Grows)]
    assert fixed == [(2 * 30 * 96 + 30 * 192) * 3, 30 * 96 * 192]


def test_zamba2_needs_to_be_told_its_hybrid_layers() -> None:
    """54 layers have a class default, another count without a list cannot be read honestly."""
    kinds = Counter(layer.kind for layer in read(model_type="zamba2").layers)
    assert kinds == {LayerKind.HYBRID: 9, LayerKind.STATE_SPACE: 45}
    other = read(model_type="zamba2", num_hidden_layers=38)
    assert other.confidence is Confidence.UNKNOWN
    assert other.doubts == (
        "config.json: layer_types: nothing states which of the 38 layers have attention",
    )
    told = read(model_type="zamba2", num_hidden_layers=4, hybrid_layer_ids=[1, 3])
    assert [layer.kind is LayerKind.HYBRID for layer in told.layers] == [False, True] * 2


def test_last_layers_decide_some_patterns() -> None:
    """BEAM and Flint end on a full layer; Muse-Spark counts its pattern from the end."""

    def full(model_type: str, count: int) -> list[int]:
        layers = read(model_type=model_type, num_hidden_layers=count).layers
        return [i for i, layer in enumerate(layers) if layer.kind is LayerKind.FULL]

    assert full("beam", 52) == [5, 11, 17, 23, 29, 35, 41, 47, 51]
    assert full("flint", 12) == [0, 1, 5, 9, 11]
    assert full("muse_spark_text", 6) == [1, 5]
    assert full("afmoe", 8) == [3, 7]


def test_xlnet_and_reformer_keep_hidden_states() -> None:
    """Neither keeps keys and values: 1024 and 256 wide states a layer."""
    assert widths(read(model_type="xlnet", n_layer=2)) == [1024] * 2
    arch = read(model_type="reformer", attn_layers=["local", "lsh"], num_hashes=1)
    assert widths(arch) == [256, 256 + 12]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            {"model_type": "new", "num_hidden_layers": 2, "layer_types": ["spiral"] * 2},
            "config.json: layer_types: unknown layer type 'spiral'",
        ),
        (
            {"model_type": "new", "num_hidden_layers": 1, "layer_types": ["mamba"]},
            (
                "config.json: layer_types: a layer is recurrent, and the config states no "
                "state size that hfkv knows"
            ),
        ),
        (
            {"model_type": "new"},
            "config.json: num_hidden_layers: the config does not state it",
        ),
    ],
)
def test_what_cannot_be_read_honestly_is_unknown(config: dict[str, Any], sentence: str) -> None:
    """Unknown layer types and missing essentials give no figure, and say why."""
    arch = read(**config)
    assert arch.confidence is Confidence.UNKNOWN
    assert arch.layers == ()
    assert arch.doubts[0] == sentence


def test_new_model_types_are_inferred_or_doubtful() -> None:
    """The generic reading says so; unread keys that look like memory lower it further."""
    plain = {
        "model_type": "brandnew",
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "hidden_size": 64,
    }
    arch = read(**plain)
    assert arch.confidence is Confidence.INFERRED
    assert arch.doubts == ("model_type brandnew is unknown; it was read the generic way",)
    odd = read(**plain, my_mamba_width=4, conv_kernel_count=3, chunk_size_feed_forward=4)
    assert odd.confidence is Confidence.DOUBTFUL
    assert odd.unread == ("conv_kernel_count", "my_mamba_width")


def test_an_unknown_source_length_asks_for_it() -> None:
    """A wrapped decoder whose encoder states no length needs --source-tokens."""
    config = {
        "model_type": "encoder-decoder",
        "decoder": {
            "model_type": "bert",
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "hidden_size": 8,
        },
        "encoder": {"model_type": "mystery"},
    }
    files = ModelFiles(target=Target(kind="file", id="x"), config=config)
    report = analyze(files, Workload(context=4))
    assert report.kv is None
    assert "nothing states how many source positions cross-attention holds" in (
        report.architecture.doubts
    )
    told = analyze(files, Workload(context=4, source_tokens=10, kv_dtype="bf16")).kv
    assert told is not None
    # 2 layers x 2 (k, v) x 8 wide x 2 bytes, for 4 text and 10 source positions
    assert told.bytes == 2 * 2 * 8 * 2 * (4 + 10)


LATENT = {"kv_lora_rank": 512, "num_attention_heads": 8, "hidden_size": 64}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # released files call indexed layers full_attention (transformers' own config classes)
        (
            {
                "model_type": "qwen4_exp_text",
                "num_hidden_layers": 2,
                "layer_types": ["linear_attention", "full_attention"],
                "num_attention_heads": 8,
                "num_key_value_heads": 2,
                "head_dim": 256,
                "indexer_head_dim": 128,
            },
            [0, 2 * 2 * 256 + 128],
        ),
        (
            {
                **LATENT,
                "model_type": "dots3_note_text",
                "num_hidden_layers": 2,
                "layer_types": ["full_attention", "sliding_attention"],
                "swa_kv_lora_rank": 40,
                "swa_qk_rope_head_dim": 8,
            },
            [512 + 64 + 128, 40 + 8],
        ),
        (
            {
                **LATENT,
                "model_type": "glm5_next_text",
                "num_hidden_layers": 2,
                "qk_rope_head_dim": 0,
                "layer_types": ["linear_attention", "full_attention"],
            },
            [0, 512 + 128],
        ),
        # a file that states num_hidden_layers alone has counted both attentions
        ({"model_type": "longcat_flash", "num_hidden_layers": 8}, [576] * 8),
    ],
)
def test_released_spellings(config: dict[str, Any], expected: list[int]) -> None:
    """Elements a token, for spellings that the Hub's files use and saved configs do not."""
    assert widths(read(**config)) == expected


def test_listed_window_layers() -> None:
    """Inkling lists its window layers; Cohere2-MoE starts with full ones of its own."""

    def windows(**config: Any) -> list[int]:
        return [
            i
            for i, layer in enumerate(read(**config).layers)
            if layer.attention and layer.attention.window
        ]

    assert windows(model_type="inkling_text", num_hidden_layers=6, local_layer_ids=[0, 1, 2]) == [
        0,
        1,
        2,
    ]
    assert windows(model_type="cohere2_moe", num_hidden_layers=6, first_k_dense_replace=2) == [
        2,
        3,
        4,
    ]
    last = ["full_attention", "sliding_attention"]
    assert windows(model_type="gemma4_text", num_hidden_layers=2, layer_types=last) == []
    assert windows(model_type="muse_glimmer_text", num_hidden_layers=6) == [0, 2, 3, 4]
    assert windows(
        model_type="brandnew",
        num_hidden_layers=3,
        num_attention_heads=1,
        hidden_size=8,
        sliding_window=[16, None, 0],
    ) == [0]


def test_draft_models_keep_nothing_of_their_own() -> None:
    """Gemma 4's assistant reads the target's cache."""
    arch = read(model_type="gemma4_assistant", num_hidden_layers=2)
    assert {layer.kind for layer in arch.layers} == {LayerKind.SHARED}


def test_minus_one_is_no_window() -> None:
    """Grok-2 writes sliding_window_size: -1."""
    arch = read(model_type="mistral", num_hidden_layers=1, sliding_window=-1)
    assert arch.sliding_window is None
    assert arch.layers[0].kind is LayerKind.FULL


def test_lists_may_count_next_token_layers_too() -> None:
    """Step-3.5 pads layer_types by num_nextn_predict_layers; the class trims it."""
    arch = read(
        model_type="step3p5",
        num_hidden_layers=2,
        num_nextn_predict_layers=1,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        sliding_window=16,
    )
    assert len(arch.layers) == 2


@pytest.mark.parametrize("model_type", ["dory", "inkling2_loop_text"])
@pytest.mark.parametrize("entry", [5, {}, "spiral"])
def test_looped_families_refuse_nonsense_in_their_lists(model_type: str, entry: object) -> None:
    """A layer list of numbers or objects is a sentence, never a traceback."""
    config = {"model_type": model_type, "num_hidden_layers": 6, "layer_types": [entry] * 6}
    if entry == "spiral":
        assert read(**config).confidence is Confidence.UNKNOWN
    else:
        with pytest.raises(MalformedError, match="expected layer type names"):
            read(**config)


def test_an_unknown_wrapper_around_a_known_decoder_still_crosses() -> None:
    """is_encoder_decoder with a nested decoder: its layers keep source positions."""
    arch = read(
        model_type="newed",
        is_encoder_decoder=True,
        encoder={"model_type": "bert", "max_position_embeddings": 512},
        decoder={"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8},
    )
    assert all(any(s.role is Role.CROSS for s in layer.stores) for layer in arch.layers)
    assert arch.source_tokens == 512


def test_numbers_that_stand_outside_the_nested_decoder_count() -> None:
    """An outer copy of the sizes does not hide the nested KV heads."""
    arch = read(
        model_type="newvl",
        num_hidden_layers=2,
        hidden_size=64,
        num_attention_heads=8,
        text_config={"model_type": "qwen2", "num_key_value_heads": 4},
    )
    assert widths(arch) == [2 * 4 * 8] * 2
