"""How sure a reading is: contradictions, unknown types, and keys that hint at other memory."""

from __future__ import annotations

from typing import Any

import pytest

from hfkv.core.architecture import Architecture, read_architecture
from hfkv.core.files import ModelFiles, Target
from hfkv.core.readings import Confidence
from hfkv.core.stores import LayerKind

PLAIN = {
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "vocab_size": 100,
}


def read(**keys: Any) -> Architecture:
    """Read a small config with some keys changed."""
    return read_architecture(
        ModelFiles(target=Target(kind="file", id="x"), config={**PLAIN, **keys})
    )


def test_an_unknown_type_with_a_known_class_is_read_as_that_class() -> None:
    """deepseek_ref files name DeepseekV4ForCausalLM: compressed layers, not ordinary ones."""
    arch = read(
        model_type="deepseek_ref",
        architectures=["DeepseekV4ForCausalLM"],
        num_key_value_heads=1,
        head_dim=512,
        compress_ratios=[0, 4, 128, 4],
        sliding_window=128,
    )
    assert [layer.kind for layer in arch.layers] == [LayerKind.SLIDING] + [LayerKind.COMPRESSED] * 3
    assert arch.confidence is Confidence.INFERRED
    assert arch.model_type == "deepseek_ref"
    assert arch.doubts == (
        (
            "model_type deepseek_ref is unknown; it was read as deepseek_v4, by its class name "
            "DeepseekV4ForCausalLM"
        ),
    )


@pytest.mark.parametrize(
    "key",
    [
        "cla_share_factor",
        "kv_share_layers",
        "block_configs",
        "global_head_dim",
        "compress_ratios",
        "attention_pattern",
        "yoco_start",
        "kv_low_rank_compress",
        "my_ssm_width",
        "swa_num_kv_heads",
        "retention_heads",
    ],
)
def test_keys_that_look_like_memory_make_an_unknown_type_doubtful(key: str) -> None:
    """A key nobody read that hints at another cache is named."""
    arch = read(model_type="brandnew", **{key: 3})
    assert arch.confidence is Confidence.DOUBTFUL
    assert arch.unread == (key,)
    assert arch.doubts[1] == f"these keys look like memory and were not understood: {key}"


@pytest.mark.parametrize(
    "key", ["rope_theta", "max_window_layers", "tie_word_embeddings", "rms_norm_eps"]
)
def test_ordinary_keys_raise_no_alarm(key: str) -> None:
    """What every config has is not suspicious; windows that are off are not either."""
    arch = read(model_type="brandnew", use_sliding_window=False, **{key: 3})
    assert arch.confidence is Confidence.INFERRED


def test_an_unknown_encoder_decoder_is_doubtful() -> None:
    """Its cross-attention cache cannot be counted, and that is said."""
    arch = read(model_type="brandnew", is_encoder_decoder=True)
    assert arch.confidence is Confidence.DOUBTFUL
    assert arch.doubts[1] == (
        "is_encoder_decoder is true, and a cross-attention cache is not counted"
    )


def test_an_unknown_image_encoder_keeps_nothing() -> None:
    """Patches and no vocabulary: nothing is generated, nothing is kept."""
    config = {key: value for key, value in PLAIN.items() if key != "vocab_size"}
    arch = read_architecture(
        ModelFiles(
            target=Target(kind="file", id="x"),
            config={**config, "model_type": "newvit", "patch_size": 16, "image_size": 224},
        )
    )
    assert arch.kind == "encoder"
    assert {layer.kind for layer in arch.layers} == {LayerKind.NONE}


def test_a_file_without_geometry_is_doubtful() -> None:
    """A whole file that states no size gives its class defaults, and says so."""
    arch = read_architecture(
        ModelFiles(target=Target(kind="file", id="x"), config={"model_type": "mistral"})
    )
    assert arch.confidence is Confidence.DOUBTFUL
    assert arch.doubts == (
        "the file states neither layers nor hidden size: the defaults of mistral were used",
    )


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {"model_type": "gemma3n_text", "num_kv_shared_layers": 4},
            "num_kv_shared_layers: 4 of 4 layers cannot all share a cache that none keeps",
        ),
        (
            {"model_type": "llama", "num_key_value_heads": 7},
            "num_key_value_heads: 8 heads cannot be divided into 7 KV heads",
        ),
        (
            {"model_type": "llama", "num_key_value_heads": 16},
            "num_key_value_heads: 8 heads cannot be divided into 16 KV heads",
        ),
        (
            {"model_type": "minimax_m1"},
            "attn_type_list: nothing states which layers have full attention",
        ),
        (
            {"model_type": "minimax_m1", "attn_type_list": [7, 7, 7, 7]},
            "attn_type_list: does not say 0 or 1 for each of 4 layers",
        ),
        (
            {"model_type": "nemotron-nas", "block_configs": []},
            "block_configs: has 0 entries for 4 layers",
        ),
        (
            {"model_type": "lfm2", "full_attn_idxs": [2, 9]},
            "full_attn_idxs: lists layer 9 of 4",
        ),
        (
            {"model_type": "glm_moe_dsa", "indexer_types": ["full"]},
            "indexer_types: does not say full or shared for layer 1",
        ),
        (
            {
                "model_type": "falcon_h1",
                "mamba_d_ssm": 1024,
                "mamba_n_heads": 24,
                "mamba_d_head": 64,
            },
            "mamba_d_ssm: 1024 is not 24 heads of 64",
        ),
    ],
)
def test_contradictions_leave_the_cache_unknown(keys: dict[str, Any], sentence: str) -> None:
    """A file that contradicts itself gives no figure, and names the key."""
    arch = read(**keys)
    assert arch.confidence is Confidence.UNKNOWN
    assert arch.doubts[0] == f"config.json: {sentence}"


def test_hunyuan_shares_caches_across_layers_when_it_says_so() -> None:
    """Hunyuan-Large: use_cla with a factor of 2 keeps every second layer's cache."""
    shared = read(model_type="hunyuan", use_cla=True, cla_share_factor=2)
    assert [bool(layer.stores) for layer in shared.layers] == [True, False] * 2
    apart = read(model_type="hunyuan", use_cla=False, cla_share_factor=2)
    assert all(layer.stores for layer in apart.layers)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {"n_layer": 24},
            "these say the same thing differently: num_hidden_layers 4, n_layer 24",
        ),
        (
            {"sliding_window": 16},
            "sliding_window is stated without its layers, and was taken for all of them",
        ),
        (
            {"head_plan": [1, 2, 1, 2]},
            "these keys look like memory and were not understood: head_plan",
        ),
        (
            {"decay_low_rank_dim": 64, "total_ut_steps": 4},
            (
                "these keys look like memory and were not understood: decay_low_rank_dim, "
                "total_ut_steps"
            ),
        ),
    ],
)
def test_what_an_unknown_type_leaves_open_is_said(keys: dict[str, Any], sentence: str) -> None:
    """Two spellings that disagree, a window without layers, one entry a layer: doubtful."""
    arch = read(model_type="brandnew", **keys)
    assert arch.confidence is Confidence.DOUBTFUL
    assert sentence in arch.doubts


def test_a_known_type_with_code_of_its_own_is_still_looked_at() -> None:
    """A llama file that brings its own code and sharing keys is not simply a llama."""
    code = {"AutoModelForCausalLM": "modeling_x.X"}
    arch = read(model_type="llama", auto_map=code, use_cla=True, cla_share_factor=2)
    assert arch.confidence is Confidence.DOUBTFUL
    assert arch.unread == ("cla_share_factor", "use_cla")
    assert read(model_type="llama", auto_map=code).confidence is Confidence.DECLARED


def test_latent_dims_of_a_new_type_raise_no_alarm() -> None:
    """v_head_dim beside a kv_lora_rank that was read is understood."""
    arch = read(model_type="newmla", kv_lora_rank=16, qk_rope_head_dim=8, v_head_dim=32)
    assert arch.confidence is Confidence.INFERRED
