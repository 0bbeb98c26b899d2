"""What vLLM reserves, against vLLM's own answers for 158 configs and options.

fixtures/oracle/vllm_kv.json holds what vLLM 0.32 said of itself: see the README there.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from functools import cache
from typing import Any

import pytest
from vllm_plans import FIXTURES, Case, cases, deployment_of, files_of, options_of, read

from hfkv.core.engines.vllm import VLLM, VllmAdmission, admission, capacity
from hfkv.core.engines.vllm_options import VllmOptions
from hfkv.core.kv import size_cache
from hfkv.core.report import analyze
from hfkv.core.workload import Workload
from hfkv.errors import HfkvError, UnsupportedError
from hfkv.render.json import inspect_document

KINDS = {
    "FullAttentionSpec": "full",
    "SlidingWindowSpec": "sliding",
    "ChunkedLocalAttentionSpec": "chunked",
    "CrossAttentionSpec": "cross",
    "MambaSpec": "state",
}


@cache
def explained() -> frozenset[str]:
    """Return the names of cases that differ on purpose."""
    table = tomllib.loads((FIXTURES / "known_differences.toml").read_text(encoding="utf-8"))
    entries = table.get("vllm", [])
    assert all(entry["reason"] and entry["source"] for entry in entries)
    return frozenset(name for entry in entries for name in entry["cases"])


def plan_of(case: Case) -> VllmAdmission:
    """Return hfkv's plan for a case."""
    arch, precision = read(case["config"], case["options"].get("kv_cache_dtype", "auto"))
    result = case.get("result") or {}
    length = result.get("max_model_len") or arch.max_context or 4096
    return admission(arch, precision, options_of(case), max_model_len=length)


def layer_kind(spec: dict[str, Any]) -> str:
    """Return the kind of a measured spec; index keys come as latents without a rotary part."""
    if spec["type"] in KINDS:
        return KINDS[spec["type"]]
    return "index" if spec["head_size"] in (128, 132) else "latent"


def layers_of(result: dict[str, Any]) -> Counter[tuple[str, int, int]]:
    """Return measured layers by kind, bytes of content and bytes of a page."""
    found: Counter[tuple[str, int, int]] = Counter()
    for group in result["layer_specs"]:
        spec = group["spec"]
        pages = (spec["unpadded_page_size_bytes"], spec["page_size_bytes"])
        found[layer_kind(spec), *pages] += group["layers"]
    return found


def blocks_of(result: dict[str, Any]) -> set[int]:
    """Return the measured block sizes of layers that hold tokens."""
    specs = [group["spec"] for group in result["layer_specs"]]
    return {spec["block_size"] for spec in specs if spec["type"] != "MambaSpec"}


def differences(case: Case) -> list[tuple[str, object, object]]:
    """Return every figure of a case that hfkv gives otherwise: name, ours, vLLM's."""
    plan, result = plan_of(case), case["result"]
    found: list[tuple[str, object, object]] = [
        ("ideal", plan.ideal_bytes, result["ideal_bytes_for_max_model_len"]),
        (
            "layers",
            Counter((spec.kind.value, spec.content_bytes, spec.page_bytes) for spec in plan.specs),
            layers_of(result),
        ),
        (
            "block sizes",
            {spec.block_size for spec in plan.specs if spec.kind != "state"},
            blocks_of(result),
        ),
    ]
    if "groups" in result:
        found += [
            (
                "admission",
                plan.max_memory_usage_bytes,
                result["max_memory_usage_bytes_one_sequence"],
            ),
            ("blocks", plan.blocks_per_sequence, result["blocks_per_sequence"]),
            ("pool", plan.pool_bytes_per_block, result["pool_bytes_per_block"]),
            ("in flight", plan.demand.in_flight, result["max_in_flight_tokens"]),
            (
                "groups",
                sorted((len(g.specs), g.blocks(plan.demand)) for g in plan.groups),
                sorted((g["layers"], g["blocks_per_request"]) for g in result["groups"]),
            ),
        ]
    found += _of_stages(plan, result) + _of_memory(plan, result)
    return [difference for difference in found if difference[1] != difference[2]]


def _of_stages(plan: VllmAdmission, result: dict[str, Any]) -> list[tuple[str, object, object]]:
    if "per_pp_rank" not in result:
        return []
    ours = [
        {
            "layers_with_cache": stage.layers_with_cache,
            "pool_bytes_per_block": stage.pool_bytes_per_block,
            "max_memory_usage_bytes_one_sequence": stage.pool_bytes_per_block
            * plan.blocks_per_sequence,
        }
        for stage in plan.stages
    ]
    return [("stages", ours, result["per_pp_rank"])]


def _of_memory(plan: VllmAdmission, result: dict[str, Any]) -> list[tuple[str, object, object]]:
    asked = result.get("for_available_memory")
    if asked is None:
        return []
    found = capacity(plan, asked["available_bytes"])
    if "error" in asked:
        told = f"the estimated maximum model length is {found.estimated_max_model_len}."
        return [("fits", found.fits, False), ("told", told in asked["error"], True)]
    ours = (found.num_blocks, found.kv_cache_size_tokens, round(float(found.max_concurrency), 4))
    theirs = (asked["num_blocks"], asked["kv_cache_size_tokens"], asked["max_concurrency"])
    return [("fits", found.fits, True), ("capacity", ours, theirs)]


def refused(case: Case) -> bool:
    """Return whether hfkv refuses a case with a sentence."""
    try:
        plan_of(case)
    except HfkvError as error:
        return error.message.startswith("vLLM ")
    return False


@cache
def tally() -> tuple[int, int, tuple[tuple[str, object], ...]]:
    """Return the cases that agree, those that differ for a stated reason, and the wrong ones."""
    agree, known, wrong = 0, 0, []
    for name, case in cases().items():
        found = differences(case) if case["result"] else [] if refused(case) else [("refused",)]
        if not found and name not in explained():
            agree += 1
        elif found and name in explained():
            known += 1
        else:
            wrong.append((name, found))
    return agree, known, tuple(wrong)


def test_every_case_agrees_with_vllm_or_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """Specs, pages, groups, ideal, admission and capacity are vLLM's own, case by case."""
    agree, known, wrong = tally()
    with capsys.disabled():
        print(f"\nvllm oracle: {agree} agree, {known} explained, {len(wrong)} wrong")  # noqa: T201
    assert wrong == ()
    assert agree > 150  # the file was really walked


def reported() -> list[str]:
    """Return the cases that vLLM gave figures for."""
    return [name for name, case in cases().items() if case["result"]]


@pytest.mark.parametrize("name", reported())
def test_a_report_holds_the_same_figures(name: str) -> None:
    """In the document, on one GPU or stage by stage, which together are the whole model."""
    case = cases()[name]
    result = case["result"]
    work = Workload(
        engine="vllm",
        context=result["max_model_len"],
        kv_dtype=case["options"].get("kv_cache_dtype", "auto"),
        deployment=deployment_of(case),
    )
    kv = inspect_document(analyze(files_of(case["config"]), work))["kv_cache"]
    need, stages = result["ideal_bytes_for_max_model_len"], result.get("per_pp_rank")
    found = kv["per_stage"] if stages else [kv["per_gpu"]]
    admissions = [one["admission_bytes_per_sequence"] for one in found]
    asked = [one.get("max_memory_usage_bytes_one_sequence", 0) for one in stages or [result]]
    assert admissions == asked
    assert sum(admissions) == result.get("max_memory_usage_bytes_one_sequence", 0)
    assert sum(one["ideal_bytes_per_sequence"] for one in found) == need
    assert all(
        one["steady_bytes_per_sequence"] <= most for one, most in zip(found, asked, strict=True)
    )
    assert kv["per_gpu"]["admission_bytes_per_sequence"] == max(asked)
    layers = [one["layers_with_cache"] for one in stages or ()]
    assert [one["layers"] for one in kv["per_stage"]] == layers
    if not {"tp", "engine_args"} & set(case["options"]):
        assert kv["bytes"] == need


REFUSALS = {
    "MiniMaxAI/MiniMax-Text-01": (
        "vLLM does not serve MiniMaxText01ForCausalLM any more: 0.23 was the last version that did"
    ),
    "meta-llama/Llama-3.2-11B-Vision": (
        "vLLM does not serve MllamaForConditionalGeneration any more: "
        "0.10 was the last version that did"
    ),
    "facebook/bart-large-cnn": (
        "vLLM serves BartForConditionalGeneration only with its bart-plugin, "
        "whose cache hfkv does not know"
    ),
    "google-t5/t5-large": (
        "vLLM does not serve T5ForConditionalGeneration: it has no class for this encoder-decoder"
    ),
    "Qwen3 with use_sliding_window and max_window_layers 18": (
        "vLLM refuses this model: a sliding window on some but not all layers "
        "(max_window_layers) is not supported by its class"
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_model_gets_a_sentence_that_says_why(name: str) -> None:
    """What vLLM refuses is refused in one sentence."""
    with pytest.raises(UnsupportedError) as caught:
        plan_of(cases()[name])
    assert caught.value.message == REFUSALS[name]


def test_a_refused_model_still_gets_a_report() -> None:
    """A model vLLM does not serve has no cache figure, and the report says why."""
    case = cases()["MiniMaxAI/MiniMax-Text-01"]
    report = analyze(files_of(case["config"]), Workload(engine="vllm"))
    assert report.kv is None
    assert REFUSALS["MiniMaxAI/MiniMax-Text-01"] in report.architecture.doubts


def test_the_sum_of_stores_is_the_need() -> None:
    """The engine's stores add up to the ideal figure for every length, not only the longest."""
    for name, case in cases().items():
        if not case["result"] or set(case["options"]) - {"engine_args", "kv_cache_dtype"}:
            continue
        arch, precision = read(case["config"], case["options"].get("kv_cache_dtype", "auto"))
        for tokens in (130, 5000):
            plan = admission(arch, precision, VllmOptions(), max_model_len=tokens)
            kv = size_cache(arch, Workload(), VLLM, precision, tokens=tokens)
            assert kv.bytes == plan.ideal_bytes, name
