"""The layer table when there is no config to read: right from tensors alone, or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from witnesses import LLAMA, NAMES, Row, files_of, load, verdict

from hfkv.core.architecture import read_architecture
from hfkv.core.evidence.rebuild import layers_from_tensors
from hfkv.core.readings import Confidence
from hfkv.core.stores import Grows

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


_TABLE = ("model.embed_tokens.weight", (100, 64), ())
_QUERY = ("model.layers.{}.self_attn.q_proj.weight", (64, 64), (0, 1))
_KEY = ("model.layers.{}.self_attn.k_proj.weight", (32, 64), (0, 1))
_VALUE = ("model.layers.{}.self_attn.v_proj.weight", (16, 64), (0, 1))


def test_an_alien_config_is_replaced_by_the_tensors() -> None:
    """A config whose keys mean nothing: layers, width and vocabulary come from the tensors."""
    alien = {"model_type": "alien", "n_widgets": 3}
    arch, _ = verdict(files_of(alien, _TABLE, _QUERY, _KEY, _VALUE))
    assert arch.confidence is Confidence.INFERRED
    assert (arch.num_hidden_layers, arch.hidden_size, arch.vocab_size) == (2, 64, 100)
    assert [layer.stores for layer in arch.layers] == [(Grows(key=32, value=16),)] * 2
    sources = {(r.field, r.value, r.source) for r in arch.readings}
    assert ("key width", 32, "`model.layers.{}.self_attn.k_proj.weight` in 2 layers") in sources


def test_a_norm_per_head_tells_the_number_of_heads() -> None:
    """With k_norm the width splits into heads, which tensor parallelism may divide."""
    norm = ("model.layers.{}.self_attn.k_norm.weight", (8,), (0, 1))
    found = layers_from_tensors(files_of(None, _QUERY, _KEY, norm))
    assert found is not None
    assert found.layers[0].stores == (Grows(heads=4, key=8, value=8),)
    # a norm over the whole width tells nothing
    whole = ("model.layers.{}.self_attn.k_norm.weight", (32,), (0, 1))
    found = layers_from_tensors(files_of(None, _QUERY, _KEY, whole))
    assert found is not None
    assert found.layers[0].stores == (Grows(key=32, value=32),)


def test_layers_without_a_mixer_keep_nothing() -> None:
    """A layer that is only an MLP is a layer without a cache."""
    mlp = ("model.layers.{}.mlp.up_proj.weight", (128, 64), (0, 1, 2))
    found = layers_from_tensors(files_of(None, _QUERY, _KEY, mlp))
    assert found is not None
    assert [len(layer.stores) for layer in found.layers] == [1, 1, 0]


REFUSED: dict[str, tuple[Row, ...]] = {
    "no layers": (_TABLE,),
    "only MLPs": (("model.layers.{}.mlp.up_proj.weight", (128, 64), (0, 1)),),
    "a hole in the stack": (
        ("model.layers.{}.self_attn.q_proj.weight", (64, 64), (0, 2)),
        ("model.layers.{}.self_attn.k_proj.weight", (32, 64), (0, 2)),
    ),
    "RWKV, whose keys are no cache": (
        ("rwkv.blocks.{}.attention.key.weight", (64, 64), (0, 1)),
        ("rwkv.blocks.{}.attention.value.weight", (64, 64), (0, 1)),
        ("rwkv.blocks.{}.attention.receptance.weight", (64, 64), (0, 1)),
    ),
    "keys of no width": (
        _QUERY,
        ("model.layers.{}.self_attn.k_proj.weight", (0, 64), (0, 1)),
    ),
    "a fused width that does not split": (
        ("transformer.h.{}.attn.c_attn.weight", (65, 64), (0, 1)),
        ("transformer.h.{}.attn.c_proj.weight", (64, 64), (0, 1)),
    ),
    "a mixer nobody knows": (
        _QUERY,
        _KEY,
        ("model.layers.{}.self_attn.strange.weight", (64, 64), (0, 1, 2)),
    ),
    "a layer that reads another's cache": (
        ("model.layers.{}.self_attn.q_proj.weight", (64, 64), (0, 1, 2)),
        _KEY,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_tensors_do_not_tell_is_refused(case: str) -> None:
    """No layer table is better than a wrong one."""
    files = files_of(None, *REFUSED[case])
    assert layers_from_tensors(files) is None
    assert verdict(files)[0].confidence is Confidence.UNKNOWN
