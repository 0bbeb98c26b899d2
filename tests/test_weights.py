"""Weights: totals as published, every byte has a role, and what engines do not load is apart."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hfkv.core.files import ModelFiles, RepoFile, Target, TensorGroup
from hfkv.core.roles import ROLES, mtp_layers, role_of
from hfkv.core.snapshots import loads
from hfkv.core.weights import DtypeTotal, RoleTotal, WeightReport, weigh
from hfkv.errors import MalformedError

FOLDER = Path(__file__).parent.parent / "fixtures" / "models"
NAMES = sorted(path.name.removesuffix(".hfkv.json") for path in FOLDER.glob("*.hfkv.json"))


@cache
def load(name: str) -> ModelFiles:
    """Read one snapshot."""
    path = FOLDER / f"{name}.hfkv.json"
    return loads(path.read_bytes(), where=path.name)


def weighed(name: str) -> WeightReport:
    """Return the weight report of one snapshot."""
    report = weigh(load(name))
    assert report is not None
    return report


# Parameters as published: model cards, and for the rest transformers' own count
# (model.num_parameters of the class that the config names).
PUBLISHED = {
    "Qwen--Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen--Qwen3-30B-A3B": 30_532_122_624,
    "databricks--dbrx-instruct": 131_596_523_520,
    "deepseek-ai--DeepSeek-V3": 671_026_419_200,
    "google--gemma-2-9b-it": 9_241_705_984,
    "google--gemma-3-4b-it": 4_300_079_472,
    "google--gemma-3-27b-it": 27_432_406_640,
    "meta-llama--Llama-3.1-70B": 70_553_706_496,
    "meta-llama--Llama-3.1-8B": 8_030_261_248,
    "meta-llama--Llama-3.2-11B-Vision-Instruct": 10_670_220_835,
    "meta-llama--Llama-3.2-1B-Instruct": 1_235_814_400,
    "mistralai--Mistral-7B-v0.1": 7_241_732_096,
    "mistralai--Mixtral-8x7B-v0.1": 46_702_792_704,
    "openai-community--gpt2": 124_439_808,
    "openai--gpt-oss-20b": 20_914_757_184,
    "vinai--PhoWhisper-tiny": 37_760_640,
}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_parameters_are_the_published_ones(name: str) -> None:
    """Logical parameters equal the published count; DeepSeek's block scales count none."""
    assert weighed(name).parameters == PUBLISHED[name]


def test_llama_31_8b_to_the_byte() -> None:
    """Llama-3.1-8B: every figure worked out by hand from its shapes."""
    hidden, inner, layers, vocab = 4096, 14_336, 32, 128_256
    attention = layers * (2 * hidden * hidden + 2 * 1024 * hidden)
    mlp = layers * 3 * hidden * inner
    norm = (2 * layers + 1) * hidden
    found = weighed("meta-llama--Llama-3.1-8B")
    assert found == WeightReport(
        bytes=16_060_522_496,
        parameters=8_030_261_248,
        stored_elements=8_030_261_248,
        tensors=9 * layers + 3,
        source="safetensors-headers",
        loaded_bytes=16_060_522_496,
        tied_embeddings=False,
        by_dtype={"BF16": DtypeTotal(bytes=16_060_522_496, elements=8_030_261_248, tensors=291)},
        by_role={
            "embedding": RoleTotal(bytes=2 * vocab * hidden, parameters=vocab * hidden),
            "attention": RoleTotal(bytes=2 * attention, parameters=attention),
            "mlp": RoleTotal(bytes=2 * mlp, parameters=mlp),
            "norm": RoleTotal(bytes=2 * norm, parameters=norm),
            "lm_head": RoleTotal(bytes=2 * vocab * hidden, parameters=vocab * hidden),
        },
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_has_a_role(name: str) -> None:
    """Roles add up to the whole, and less than one percent is other."""
    report = weighed(name)
    assert sum(role.bytes for role in report.by_role.values()) == report.bytes
    assert sum(dtype.bytes for dtype in report.by_dtype.values()) == report.bytes
    assert report.bytes == sum(header.data_bytes for header in load(name).headers)
    other = report.by_role.get("other", RoleTotal(bytes=0, parameters=0))
    assert 100 * other.bytes <= report.bytes
    assert set(report.by_role) <= set(ROLES)


def test_there_are_forty_four_models() -> None:
    """The glob finds the fixtures."""
    assert len(NAMES) == 44


# One name per habit; the role is what the module does in that architecture's paper or code.
HABITS = {
    "attention": (
        "transformer.h.{}.attn.c_attn",
        "transformer.h.{}.self_attention.query_key_value",
        "bert.encoder.layer.{}.attention.output.dense",
        "decoder.block.{}.layer.{}.EncDecAttention.k",
        "model.layers.{}.mamba.in_proj",
        "backbone.layers.{}.mixer.A_log",
        "model.layers.{}.linear_attn.in_proj_qkvz",
        "model.layers.{}.conv.conv",
        "model.layers.{}.temporal_block.linear_x",
        "rwkv.blocks.{}.attention.time_decay",
        "model.layers.{}.self_attn.indexer.wk",
        "layers.{}.attn.wq_a",
        "blk.{}.attn_q",
    ),
    "mlp": (
        "transformer.h.{}.mlp.c_proj",
        "decoder.block.{}.layer.{}.DenseReluDense.wo",
        "bert.encoder.layer.{}.output.dense",
        "backbone.layers.{}.mixer.up_proj",
        "model.transformer.blocks.{}.ff_proj",
        "model.layers.{}.feed_forward.w1",
        "decoder.layers.{}.fc1",
    ),
    "experts": (
        "model.layers.{}.mlp.experts.{}.up_proj",
        "model.layers.{}.mlp.experts.gate_up_proj",
        "model.layers.{}.mlp.gate",
        "model.layers.{}.mlp.shared_expert_gate",
        "model.layers.{}.block_sparse_moe.gate",
        "transformer.blocks.{}.ffn.experts.mlp.w1",
        "backbone.layers.{}.mixer.experts.{}.up_proj",
        "layers.{}.ffn.gate",
    ),
    "norm": (
        "transformer.ln_f",
        "model.layers.{}.self_attn.q_norm",
        "bert.embeddings.LayerNorm",
        "transformer.blocks.{}.norm_attn_norm.norm_1",
        "decoder.layernorm_embedding",
        "gpt_neox.final_layer_norm",
        "model.layers.{}.mlp.post_feedforward_layernorm_2",
    ),
    "embedding": (
        "model.embed_tokens",
        "transformer.wpe",
        "shared",
        "backbone.embeddings",
        "embed",
        "model.language_model.embed_tokens_per_layer",
    ),
    "lm_head": ("lm_head", "embed_out", "head", "proj_out", "cls.predictions.transform.dense"),
    "vision": (
        "visual.blocks.{}.attn.qkv",
        "model.vision_tower.encoder.layers.{}.self_attn.k_proj.linear",
        "multi_modal_projector.linear_1",
        "mlp1.{}",
    ),
    "audio": ("model.audio_tower.layers.{}.self_attn.k_proj", "model.encoder.conv1"),
    "other": ("model.layers.{}.layer_scalar",),
}


@pytest.mark.parametrize(
    ("role", "module"), [(role, module) for role, names in HABITS.items() for module in names]
)
def test_naming_habits(role: str, module: str) -> None:
    """Each family's way of naming a module gives the role the module has there."""
    assert role_of(module) == role


def group(
    name: str, *shape: int, dtype: str = "BF16", layers: tuple[int, ...] = (), count: int = 0
) -> TensorGroup:
    """Make a tensor group of two-byte (BF16) or four-byte (F32) elements."""
    elements = 1
    for dim in shape:
        elements *= dim
    width = {"BF16": 2, "F32": 4, "BOOL": 1}[dtype]
    return TensorGroup(
        name=name,
        dtype=dtype,
        shape=shape,
        nbytes=elements * width,
        count=count or len(layers) or 1,
        layers=layers,
    )


def model(config: dict[str, Any] | None, *tensors: TensorGroup) -> WeightReport:
    """Weigh made-up tensors."""
    files = ModelFiles(target=Target(kind="file", id="x"), config=config, tensors=tensors)
    report = weigh(files)
    assert report is not None
    return report


def test_mtp_layers_behind_the_last_one_are_apart_and_not_loaded() -> None:
    """DeepSeek stores its next-token layer as layer 61: its share of every group is MTP."""
    report = model(
        {"num_hidden_layers": 3},
        group("model.layers.{}.self_attn.o_proj.weight", 8, 8, layers=(0, 1, 2, 3)),
        group("model.layers.{}.mlp.experts.{}.up_proj.weight", 4, 8, layers=(1, 2, 3), count=12),
        group("model.layers.{}.eh_proj.weight", 8, 16, layers=(3,)),
        group("model.layers.{}.shared_head.head.weight", 32, 8, layers=(3,)),
    )
    # one o_proj, four of twelve experts, eh_proj and the head's copy, two bytes each
    mtp = 2 * (64 + 4 * 32 + 128 + 256)
    assert report.by_role["mtp"] == RoleTotal(bytes=mtp, parameters=mtp // 2)
    assert report.by_role["experts"].bytes == 2 * 8 * 32
    assert report.loaded_bytes == report.bytes - mtp
    (note,) = report.notes
    assert note == (
        f"{mtp:,} bytes of next-token (MTP) layers are stored; "
        "engines load them only for speculative decoding"
    )


def test_mtp_by_name() -> None:
    """Qwen3-Next and Nemotron keep theirs under mtp."""
    report = model(
        {"num_hidden_layers": 1},
        group("model.layers.{}.self_attn.o_proj.weight", 8, 8, layers=(0,)),
        group("mtp.layers.{}.self_attn.o_proj.weight", 8, 8, layers=(0,)),
        group("model.mtp_layers.{}.proj.weight", 8, 8, layers=(0,)),
    )
    assert report.by_role["mtp"].bytes == 2 * 2 * 64


def test_a_config_that_states_too_few_layers_makes_no_mtp_layer() -> None:
    """A layer that looks like all others is a layer, whatever the config says."""
    report = model(
        {"num_hidden_layers": 2},
        group("model.layers.{}.self_attn.o_proj.weight", 8, 8, layers=(0, 1, 2)),
    )
    assert "mtp" not in report.by_role
    assert report.loaded_bytes == report.bytes


def test_without_a_config_the_names_tell_the_mtp_layer() -> None:
    """With no layer count, DeepSeek's and GLM's own names mark the layer."""
    tensors = (
        group("model.layers.{}.self_attn.o_proj.weight", 8, 8, layers=(0, 1, 2)),
        group("model.layers.{}.enorm.weight", 8, layers=(2,)),
    )
    assert mtp_layers(tensors, None) == {2}
    assert mtp_layers(tensors, 3) == frozenset()


def test_a_redundant_head_is_not_loaded() -> None:
    """A stored lm_head beside tied embeddings is skipped by engines; a real head is not."""
    tensors = (group("model.embed_tokens.weight", 32, 8), group("lm_head.weight", 32, 8))
    tied = model({"tie_word_embeddings": True}, *tensors)
    assert (tied.tied_embeddings, tied.loaded_bytes, tied.bytes) == (True, 512, 1024)
    assert tied.notes == (
        "`lm_head.weight` repeats the tied embedding (512 bytes) and is not loaded",
    )
    free = model({"tie_word_embeddings": False}, *tensors)
    assert (free.tied_embeddings, free.loaded_bytes) == (False, 1024)


def test_tied_embeddings_may_be_a_class_default() -> None:
    """Gemma's file says nothing: its class ties, and a copied head is redundant."""
    tensors = (group("model.embed_tokens.weight", 32, 8), group("lm_head.weight", 32, 8))
    assert model({"model_type": "gemma2"}, *tensors).tied_embeddings
    # an unknown model without the key is judged by what it stores
    assert not model({"model_type": "nobody-knows"}, *tensors).tied_embeddings
    assert model({"model_type": "nobody-knows"}, tensors[0]).tied_embeddings


def test_a_float32_checkpoint_has_a_second_size() -> None:
    """Mistral-7B-v0.1 in float32: 28.97 GB stored, half of it loaded by vLLM and SGLang."""
    report = weighed("mistralai--Mistral-7B-v0.1")
    assert report.bytes == 4 * 7_241_732_096
    assert report.half_precision_bytes == 2 * 7_241_732_096
    assert weighed("meta-llama--Llama-3.1-8B").half_precision_bytes is None


def test_float32_routers_do_not_make_a_float32_checkpoint() -> None:
    """DeepSeek-V2-Lite keeps its routers in float32 and is loaded as stored."""
    assert weighed("deepseek-ai--DeepSeek-V2-Lite").half_precision_bytes is None


def test_masks_are_neither_parameters_nor_loaded() -> None:
    """GPT-2 on the Hub stores a causal mask in every layer; engines build it themselves."""
    report = model(
        {"model_type": "gpt2"},
        group("h.{}.attn.c_attn.weight", 8, 24, layers=(0, 1)),
        group("h.{}.attn.bias", 1, 1, 16, 16, dtype="F32", layers=(0, 1)),
        group("h.{}.attn.c_attn.bias", 24, layers=(0, 1)),
    )
    assert report.parameters == 2 * (8 * 24 + 24)
    assert report.bytes - report.loaded_bytes == 2 * 256 * 4
    assert report.notes == (
        "2,048 bytes of masks and position tables are rebuilt and hold no parameters",
    )


def files(**fields: Any) -> ModelFiles:
    """Make files without headers."""
    return ModelFiles(target=Target(kind="hub", id="x/y"), **fields)


def test_the_hubs_own_counts_stand_in_for_headers() -> None:
    """A gated repository still tells its parameters by dtype."""
    hub = {"safetensors": {"parameters": {"BF16": 8_030_261_248}, "total": 8_030_261_248}}
    assert weigh(files(hub=hub)) == WeightReport(
        bytes=16_060_522_496,
        parameters=8_030_261_248,
        stored_elements=8_030_261_248,
        tensors=None,
        source="hub-api",
        loaded_bytes=16_060_522_496,
        by_dtype={"BF16": DtypeTotal(bytes=16_060_522_496, elements=8_030_261_248, tensors=None)},
        notes=("summed from the Hub's metadata; headers were not read",),
    )


def test_the_hubs_counts_of_packed_weights_are_no_parameters() -> None:
    """The Hub counts int32 words, which hold eight values each: parameters stay unknown."""
    report = weigh(files(hub={"safetensors": {"parameters": {"I32": 100, "F16": 10}}}))
    assert report is not None
    assert (report.bytes, report.parameters) == (420, None)


def test_the_hubs_float32_counts_have_a_second_size() -> None:
    """What is loaded of a float32 checkpoint is half, from the Hub's counts too."""
    report = weigh(files(hub={"safetensors": {"parameters": {"F32": 100, "BF16": 10}}}))
    assert report is not None
    assert (report.bytes, report.half_precision_bytes) == (420, 220)


def test_file_sizes_are_the_last_resort() -> None:
    """Without headers and counts, the sizes of the weight files are an upper bound."""
    listing = (
        RepoFile(path="a.bin", size=100),
        RepoFile(path="b.bin", size=50),
        RepoFile(path="README.md", size=7),
    )
    report = weigh(files(files=listing, weight_files=("a.bin", "b.bin")))
    assert report is not None
    assert (report.bytes, report.parameters, report.source) == (150, None, "file-sizes")
    assert report.notes == ("summed from file sizes, which include the files' headers",)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"weight_files": ("a.bin",)},
        {"weight_files": ("a.bin",), "files": (RepoFile(path="a.bin", size=None),)},
        {"hub": {"safetensors": None}},
        {"hub": {"safetensors": {"parameters": {}}}},
        {"hub": {"safetensors": {"parameters": {"Q4_K": 5}}}},
    ],
)
def test_nothing_known_is_nothing_said(fields: dict[str, Any]) -> None:
    """No headers, no counts, no sizes: no report rather than a zero."""
    assert weigh(files(**fields)) is None


@pytest.mark.parametrize(
    ("hub", "message"),
    [
        (
            {"safetensors": []},
            "hub metadata: safetensors.parameters: expected an object",
        ),
        (
            {"safetensors": {"parameters": 8}},
            "hub metadata: safetensors.parameters: expected an object",
        ),
        (
            {"safetensors": {"parameters": {"BF16": "many"}}},
            'hub metadata: safetensors.parameters.BF16: expected a whole number, got "many"',
        ),
    ],
)
def test_broken_metadata_is_refused_with_its_path(hub: dict[str, Any], message: str) -> None:
    """Metadata of wrong types is malformed, not a crash."""
    with pytest.raises(MalformedError) as caught:
        weigh(files(hub=hub))
    assert str(caught.value) == message


def test_a_config_of_wrong_types_is_refused() -> None:
    """A layer count that is text is malformed here as everywhere."""
    with pytest.raises(MalformedError) as caught:
        model({"num_hidden_layers": "many"}, group("lm_head.weight", 2, 2))
    message = 'config.json: num_hidden_layers: expected a whole number, got "many"'
    assert str(caught.value) == message


def test_ninety_thousand_tensors_weigh_milliseconds() -> None:
    """DeepSeek-V3's 90,000 tensors are 37 templates: the best of five runs is below 50 ms."""
    snapshot = replace(load("deepseek-ai--DeepSeek-V3"))
    assert sum(g.count for g in snapshot.tensors) > 89_000
    spent = []
    for _ in range(5):
        start = time.perf_counter()
        weigh(snapshot)
        spent.append(time.perf_counter() - start)
    assert min(spent) < 0.05
