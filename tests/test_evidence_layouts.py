"""Layouts the evidence must read: packed, latent, fused, recurrent, and odd ones made up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from witnesses import Row, files_of, load, made_up, quantized, verdict

from hfkv.core.evidence import Evidence
from hfkv.core.readings import Confidence


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


_QUERY: Row = ("model.layers.{}.self_attn.q_proj.weight", (64, 64), (0, 1))
_KEY: Row = ("model.layers.{}.self_attn.k_proj.weight", (32, 64), (0, 1))


def sentence(claim: str, fact: str, layer: int = 0) -> tuple[str]:
    """Return the only disagreement there should be, in one layer."""
    return (f"layer {layer}: the config says {claim}, but {fact}",)


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
    assert evidence.disagreements[0] == (
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
    assert evidence.disagreements[0] == (
        "layer 0: the config says a convolution state of 288 elements, but "
        "`model.layers.0.self_attn.q_conv1d.weight` [144, 1, 4] makes it 432"
    )


_DSA = {
    "model_type": "deepseek_v32",
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "index_head_dim": 16,
}
_LATENT = ("model.layers.{}.self_attn.kv_a_proj_with_mqa.weight", (40, 64), (0,))
_INDEX = ("model.layers.{}.self_attn.indexer.wk.weight", (16, 64), (0,))


def test_an_index_cache_has_a_witness_of_its_own() -> None:
    """Sparse latent attention is confirmed by two tensors; the index key alone may differ."""
    arch, _ = made_up(_DSA, _LATENT, _INDEX)
    assert arch.confidence is Confidence.CONFIRMED
    _, evidence = made_up({**_DSA, "index_head_dim": 24}, _LATENT, _INDEX)
    assert evidence.disagreements == sentence(
        "index_head_dim 24", "`model.layers.0.self_attn.indexer.wk.weight` has 16 rows"
    )


def test_a_joint_query_and_latent_projection_is_taken_apart() -> None:
    """With fused_qkv_a_proj, the latent width is what the query's own norm leaves."""
    rows = (
        ("model.layers.{}.self_attn.fused_qkv_a_proj_with_mqa.weight", (24 + 40, 64), (0,)),
        ("model.layers.{}.self_attn.q_a_layernorm.weight", (24,), (0,)),
        _INDEX,
    )
    arch, _ = made_up(_DSA, *rows)
    assert arch.confidence is Confidence.CONFIRMED


def test_latent_attention_that_stores_keys_is_doubted() -> None:
    """A config that says MLA over ordinary keys is contradicted, and the other way round."""
    key = ("model.layers.{}.self_attn.k_proj.weight", (32, 64), (0,))
    _, evidence = made_up(_DSA, key, _INDEX)
    assert evidence.disagreements == sentence(
        "latent attention", "the layer has `model.layers.0.self_attn.k_proj.weight`"
    )
    arch, evidence = made_up({**_SMALL, "num_hidden_layers": 1}, _LATENT)
    assert arch.confidence is Confidence.DOUBTFUL
    assert evidence.disagreements == sentence(
        "full_attention with its own keys",
        "the layer has `model.layers.0.self_attn.kv_a_proj_with_mqa.weight`",
    )


def test_a_layer_without_keys_among_layers_with_keys_is_doubted() -> None:
    """A layer that has queries only reads another's cache, whatever the config says."""
    _, evidence = made_up(
        _SMALL,
        ("model.layers.{}.self_attn.k_proj.weight", (32, 64), (0,)),
        ("model.layers.{}.self_attn.q_proj.weight", (64, 64), (0, 1)),
    )
    assert evidence.disagreements == sentence(
        "full_attention with its own keys",
        "the layer has `model.layers.1.self_attn.q_proj.weight` and no keys",
        layer=1,
    )


def test_an_encoder_is_confirmed_by_its_depth() -> None:
    """An encoder keeps nothing, so its layers are counted and no more."""
    bert = load("google-bert--bert-base-uncased")
    config = {**(bert.config or {}), "num_hidden_layers": 13}
    arch, evidence = verdict(replace(bert, config=config))
    assert arch.confidence is Confidence.DOUBTFUL
    assert evidence.disagreements[0] == (
        "the config says 13 layers (config.json: num_hidden_layers), but the tensors have 12 "
        "(`bert.encoder.layer.0.attention.output.LayerNorm.bias`)"
    )
    modern = {"model_type": "modernbert", "num_hidden_layers": 2}
    arch, _ = made_up(modern, ("model.layers.{}.attn.Wqkv.weight", (192, 64), (0, 1)))
    assert arch.confidence is Confidence.CONFIRMED
    _, evidence = made_up(modern, ("something.weight", (2, 2), ()))
    assert evidence.silent == ("no tensor name looks like an encoder layer",)


def test_a_config_without_tensors_stays_declared() -> None:
    """No header, no evidence."""
    arch, evidence = made_up(_SMALL)
    assert arch.confidence is Confidence.DECLARED
    assert evidence == Evidence()


def test_a_recurrent_part_that_the_config_forgot_is_doubted() -> None:
    """Keys agree, but an A_log or a convolution beside them keeps something too."""
    decay = ("model.layers.{}.mamba.A_log", (8,), (0, 1))
    _, evidence = made_up(_SMALL, _QUERY, _KEY, decay)
    assert evidence.disagreements[0] == (
        "the config says full_attention, but `model.layers.0.mamba.A_log` is there "
        "(and 1 more layer)"
    )
    conv = ("model.layers.{}.conv.conv.weight", (64, 1, 3), (0,))
    _, evidence = made_up(_SMALL, _QUERY, _KEY, conv)
    assert evidence.disagreements == sentence(
        "full_attention", "`model.layers.0.conv.conv.weight` is there"
    )


def test_a_hybrid_layer_may_share_its_attention() -> None:
    """Zamba stores one attention block for many layers: its absence proves nothing."""
    config = {
        "model_type": "falcon_h1",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "mamba_d_ssm": 32,
        "mamba_n_heads": 4,
        "mamba_d_head": 8,
        "mamba_n_groups": 1,
        "mamba_d_state": 8,
        "mamba_d_conv": 4,
    }
    rows = (
        ("model.layers.{}.mamba.A_log", (4,), (0, 1)),
        ("model.layers.{}.mamba.conv1d.weight", (32 + 2 * 8, 1, 4), (0, 1)),
    )
    one = ("model.layers.{}.self_attn.k_proj.weight", (32, 64), (0,))
    arch, evidence = made_up(config, *rows, one)
    assert evidence.disagreements == ()
    assert evidence.silent == ("no tensor was found that tells the key width",)
    assert arch.confidence is Confidence.DECLARED


def test_a_self_attending_layer_said_to_cross_is_doubted() -> None:
    """Mllama's layer 0 has keys of its own: it does not read the image."""
    mllama = load("meta-llama--Llama-3.2-11B-Vision-Instruct")
    config = json.loads(json.dumps(mllama.config))
    config["text_config"]["cross_attention_layers"] = [0, 3, 8, 13, 18, 23, 28, 33, 38]
    _, evidence = verdict(replace(mllama, config=config))
    name = "language_model.model.layers.0.self_attn.k_proj.weight"
    assert evidence.disagreements == sentence("cross_attention", f"the layer has `{name}`")


def test_linear_attention_without_a_decay_is_not_confirmed() -> None:
    """Lightning attention has no tensor that fixes its state: it stays declared."""
    config = {**_SMALL, "model_type": "minimax", "layer_types": ["linear_attention"] * 2}
    arch, evidence = made_up(
        config, ("model.layers.{}.self_attn.qkv_proj.weight", (192, 64), (0, 1))
    )
    assert arch.confidence is Confidence.DECLARED
    assert evidence.silent == ("no tensor was found that tells the recurrent state",)


MODULES = st.sampled_from(
    [
        "self_attn.k_proj.weight",
        "self_attn.v_proj.weight",
        "self_attn.q_proj.weight",
        "self_attn.o_proj.weight",
        "self_attn.k_norm.weight",
        "self_attn.kv_a_proj_with_mqa.weight",
        "self_attn.fused_qkv_a_proj_with_mqa.weight",
        "self_attn.q_a_layernorm.weight",
        "self_attn.indexer.wk.weight",
        "attn.c_attn.weight",
        "attn.c_attn.bias",
        "cross_attn.k_proj.weight",
        "linear_attn.A_log",
        "linear_attn.conv1d.weight",
        "self_attn.k_proj.qweight",
        "self_attn.k_proj.scales",
    ]
)
SHAPES = st.lists(st.integers(0, 64), max_size=3).map(tuple)
LAYERS = st.lists(st.integers(0, 3), max_size=3, unique=True).map(lambda x: tuple(sorted(x)))
CONFIGS = st.sampled_from([None, _SMALL, {**_DSA, "num_hidden_layers": 2}])


@example(
    config=None,
    rows=[
        ("self_attn.q_proj.weight", (4, 4), (0,)),
        ("self_attn.k_proj.weight", (4, 4), (0,)),
        ("self_attn.k_norm.weight", (0,), (0,)),
    ],
)
@given(config=CONFIGS, rows=st.lists(st.tuples(MODULES, SHAPES, LAYERS), max_size=6))
def test_no_header_makes_it_fail(
    config: dict[str, object] | None,
    rows: list[tuple[str, tuple[int, ...], tuple[int, ...]]],
) -> None:
    """Whatever tensors stand together, a config is confirmed, doubted or left alone."""
    named = [(f"model.layers.{{}}.{name}", shape, layers) for name, shape, layers in rows]
    arch, evidence = verdict(files_of(config, *named))
    assert (arch.confidence is Confidence.DOUBTFUL) == bool(evidence.disagreements)
