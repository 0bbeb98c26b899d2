"""Mistral's own format: `params.json` and `consolidated.safetensors`, with published numbers."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hub_server import HubServer, weights

from hfkv.core.files import ModelFiles, Target
from hfkv.core.gpus import parse_gpu
from hfkv.core.params import as_config
from hfkv.core.readings import Confidence
from hfkv.core.report import Report, analyze
from hfkv.core.snapshots import dumps, loads
from hfkv.core.workload import Deployment, Workload
from hfkv.sources import load

FIXTURES = Path(__file__).parent.parent / "fixtures"
DEVSTRAL = "mistralai--Devstral-Small-2507"
LARGE = "mistralai--Mistral-Large-3-675B-Instruct-2512"


def params(name: str) -> dict[str, Any]:
    """Return a published params.json."""
    text = (FIXTURES / "params" / f"{name}.json").read_text(encoding="utf-8")
    read: dict[str, Any] = json.loads(text)
    return read


def read(params_or_config: dict[str, Any] | None, *, context: int | None = None) -> Report:
    """Analyze a config."""
    assert params_or_config is not None
    files = ModelFiles(
        target=Target(kind="file", id="x"), config=params_or_config, config_name="params.json"
    )
    return analyze(files, Workload(context=context, kv_dtype="bf16"))


def devstral_header() -> dict[str, tuple[int, ...]]:
    """Return Devstral's tensors under Mistral's names, by its shapes (vocabulary 131,072)."""
    shapes: dict[str, tuple[int, ...]] = {
        "tok_embeddings.weight": (131_072, 5120),
        "norm.weight": (5120,),
        "output.weight": (131_072, 5120),
    }
    for i in range(40):
        at = f"layers.{i}."
        shapes |= {
            f"{at}attention.wq.weight": (4096, 5120),
            f"{at}attention.wk.weight": (1024, 5120),
            f"{at}attention.wv.weight": (1024, 5120),
            f"{at}attention.wo.weight": (5120, 4096),
            f"{at}attention_norm.weight": (5120,),
            f"{at}ffn_norm.weight": (5120,),
            f"{at}feed_forward.w1.weight": (32_768, 5120),
            f"{at}feed_forward.w2.weight": (5120, 32_768),
            f"{at}feed_forward.w3.weight": (32_768, 5120),
        }
    return shapes


def write(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """Write a bfloat16 file of that header, its data a hole."""
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        file.truncate(8 + len(raw) + at)


def test_a_folder_in_mistrals_own_format(tmp_path: Path) -> None:
    """Devstral-Small-2507: 23,572,403,200 parameters; 40 layers of 2 x 8 x 128 bfloat16."""
    write(tmp_path / "consolidated.safetensors", devstral_header())
    (tmp_path / "params.json").write_text(json.dumps(params(DEVSTRAL)))
    files = load(str(tmp_path))
    assert files.weight_files == ("consolidated.safetensors",)
    assert [problem.code for problem in files.problems] == ["mistral-format"]
    report = analyze(files, Workload(context=131_072))
    assert report.weights is not None
    assert report.kv is not None
    assert (report.weights.parameters, report.weights.bytes) == (23_572_403_200, 47_144_806_400)
    assert {"embedding", "lm_head", "attention", "mlp", "norm"} == report.weights.by_role.keys()
    assert report.kv.bytes == 40 * 2 * 8 * 128 * 2 * 131_072
    assert report.architecture.confidence is Confidence.CONFIRMED
    sources = {r.field: r.source for r in report.architecture.readings}
    assert sources["num_key_value_heads"] == "params.json: n_kv_heads"
    assert loads(dumps(files).encode(), where="snapshot") == files


def vision_header() -> dict[str, tuple[int, ...]]:
    """Return the tower of Mistral-Small-3.1: 24 layers of 1024, 4096 wide inside, and adapters."""
    at = "vision_encoder."
    shapes: dict[str, tuple[int, ...]] = {
        f"{at}patch_conv.weight": (1024, 3 * 14 * 14),
        f"{at}ln_pre.weight": (1024,),
        "patch_merger.merging_layer.weight": (1024, 4096),
        "vision_language_adapter.w_in.weight": (5120, 1024),
        "vision_language_adapter.w_out.weight": (5120, 5120),
        "pre_mm_projector_norm.weight": (1024,),
    }
    for i in range(24):
        layer = f"{at}transformer.layers.{i}."
        shapes |= {f"{layer}attention.{name}.weight": (1024, 1024) for name in ("wq", "wk", "wv")}
        shapes |= {
            f"{layer}attention.wo.weight": (1024, 1024),
            f"{layer}attention_norm.weight": (1024,),
            f"{layer}ffn_norm.weight": (1024,),
            f"{layer}feed_forward.w1.weight": (4096, 1024),
            f"{layer}feed_forward.w2.weight": (1024, 4096),
            f"{layer}feed_forward.w3.weight": (4096, 1024),
        }
    return shapes


@pytest.mark.parametrize(("gpu", "printed"), [("h100", 44.76), ("h100:4", 11.86)])
def test_every_rank_has_the_whole_of_mistrals_own_tower(
    tmp_path: Path, gpu: str, printed: float
) -> None:
    """Logs L033 and L067: Mistral-Small-3.1, whose text model has Devstral's shapes."""
    write(tmp_path / "consolidated.safetensors", {**devstral_header(), **vision_header()})
    stated = {**params(DEVSTRAL), "max_position_embeddings": 131_072}
    (tmp_path / "params.json").write_text(json.dumps(stated))
    work = Workload(context=8192, engine="vllm", deployment=Deployment(gpus=parse_gpu(gpu)))
    (fit,) = analyze(load(str(tmp_path)), work).fit
    assert fit.weights_bytes_per_gpu is not None
    assert fit.weights_bytes_per_gpu / 2**30 == pytest.approx(printed, rel=0.005)


def test_both_descriptions_of_a_model_agree() -> None:
    """Devstral's config.json of the same commit gives the same cache; params.json no maximum."""
    text = (FIXTURES / "configs" / DEVSTRAL / "config.json").read_text(encoding="utf-8")
    ours, theirs = read(as_config(params(DEVSTRAL)), context=1000), read(json.loads(text))
    assert ours.kv is not None
    assert theirs.kv is not None
    assert ours.kv.bytes_per_token == theirs.kv.bytes_per_token == 163_840
    assert (ours.architecture.max_context, theirs.architecture.max_context) == (None, 131_072)
    codes = [finding.code for finding in read(as_config(params(DEVSTRAL))).findings]
    assert "context-assumed" in codes


def test_latent_attention() -> None:
    """Mistral Large 3: 61 layers of a latent of 512 + 64 in bfloat16; 4 of 128 experts."""
    report = read(as_config(params(LARGE)))
    arch = report.architecture
    assert report.kv is not None
    assert (arch.attention, arch.num_hidden_layers, arch.max_context) == ("MLA", 61, 294_912)
    assert report.kv.bytes_per_token == 61 * (512 + 64) * 2
    assert arch.experts is not None
    assert (arch.experts.total, arch.experts.active) == (128, 4)
    assert arch.mtp_layers == 0


BASE = {"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "head_dim": 128}


@pytest.mark.parametrize(
    ("more", "tokens"),
    [
        ({}, 32 * 8192),  # no window is none, whatever MistralConfig fills in
        ({"sliding_window": 4096}, 32 * 4096),  # Mistral-7B-v0.1
        ({"sliding_window": None}, 32 * 8192),
        ({"sliding_window": [None, 1024, 1024, 1024]}, 8 * 8192 + 24 * 1024),
        ({"moe": {"num_experts": 8, "num_experts_per_tok": 2}}, 32 * 8192),  # Mixtral-8x7B
    ],
)
def test_windows_and_experts(more: dict[str, Any], tokens: int) -> None:
    """Tokens kept by all layers together, at 2 x 8 x 128 bfloat16 a token and layer."""
    report = read(as_config({**BASE, **more}), context=8192)
    assert report.kv is not None
    assert report.kv.bytes == tokens * 2 * 8 * 128 * 2
    assert (report.architecture.experts is not None) is ("moe" in more)


def test_what_else_the_format_says() -> None:
    """fp8 by its own name, tied embeddings, and classes that see or hear."""
    fp8 = as_config({**BASE, "quantization": {"qformat_weight": "fp8_e4m3"}}) or {}
    assert fp8["quantization_config"] == {"quant_method": "fp8"}
    seeing = as_config({**BASE, "vision_encoder": {"hidden_size": 1024}}) or {}
    hearing = as_config({**BASE, "multimodal": {"whisper_model_args": {"encoder_args": {}}}}) or {}
    assert seeing["architectures"] == ["PixtralForConditionalGeneration"]
    assert hearing["architectures"] == ["VoxtralForConditionalGeneration"]
    assert read(as_config({**BASE, "tied_embeddings": True})).architecture.tie_word_embeddings


@pytest.mark.parametrize(
    "other", [{}, {"dim": 4096}, {**BASE, "multiple_of": 256}, {"learning_rate": 0.1}]
)
def test_other_files_of_that_name_are_none_of_mistrals(other: dict[str, Any]) -> None:
    """Trainers write a params.json too, and so does Meta."""
    assert as_config(other) is None


def test_a_repository_in_mistrals_own_format(hub_server: HubServer) -> None:
    """Without a config.json, params.json is read; beside one, it is not asked for."""
    one = weights(("layers.0.attention.wk.weight", "BF16", (4, 8), 64))
    repo = {"params.json": {**BASE, "n_layers": 1}, "consolidated.safetensors": one}
    hub_server.add("org/native", repo)
    files = load("org/native")
    assert files.weight_files == ("consolidated.safetensors",)
    assert files.config_name == "params.json"
    assert analyze(files).kv is not None
    hub_server.add("org/both", {**repo, "config.json": {"model_type": "llama"}})
    assert load("org/both").config_name == "config.json"
    assert not any("both" in path and "params.json" in path for path in hub_server.paths())
