"""The HTML report without a browser: one file, whole without its script, proof against names."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hand_made import REPORTS, architecture

from hfkv.core.engines.registry import ENGINES
from hfkv.core.files import ModelFiles, Target
from hfkv.core.gpus import parse_gpu
from hfkv.core.readings import Finding
from hfkv.core.report import Report, analyze
from hfkv.core.snapshots import loads
from hfkv.core.workload import Deployment, Workload
from hfkv.render.html import page_document, render_html
from hfkv.render.html.elements import Html, el
from hfkv.render.phrases import plan_phrase, verdict
from hfkv.render.speed import CAVEAT, ceiling_phrase
from hfkv.render.units import integer, size

CONFIGS = Path(__file__).parent.parent / "fixtures" / "configs"
MODELS = Path(__file__).parent.parent / "fixtures" / "models"
HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e{{x}}$x&amp;"


class Reader(HTMLParser):
    """What a browser would make of the page: elements, and the text a person sees."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        del tag
        self._inside = ""

    def handle_data(self, data: str) -> None:
        """Note text, of scripts apart."""
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data


def read(page: str) -> Reader:
    """Return what is in a page."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


@cache
def report_of(name: str, *gpus: str) -> Report:
    """Return the report of a fixture on some GPUs."""
    files = loads((MODELS / f"{name}.hfkv.json").read_bytes(), where=name)
    choices = tuple(choice for text in gpus for choice in parse_gpu(text))
    return analyze(files, Workload(deployment=Deployment(gpus=choices)))


def page_of(report: Report) -> str:
    """Return the page of one report."""
    return render_html([page_document(report)], title=report.files.target.id)


GEMMA = ("google--gemma-3-27b-it", "rtx4090")


def test_the_page_asks_no_network() -> None:
    """No element names an address, the styles import nothing, and the policy forbids the rest."""
    page = page_of(report_of(*GEMMA))
    reader = read(page)
    addressed = {"src", "href", "srcset", "action", "data", "poster"}
    named = [(tag, key) for tag, attrs in reader.elements for key in attrs if key in addressed]
    assert named == []
    assert not re.search(r"@import|url\(", page.split("<style>")[1].split("</style>")[0])
    policy = next(a["content"] for tag, a in reader.elements if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline'" not in policy.split("style-src")[0]


def test_a_page_is_small_enough_to_send() -> None:
    """The page of one model, plans and all, has less than 200 kB; docs/html.md says about 170."""
    files = loads((MODELS / "deepseek-ai--DeepSeek-V3.hfkv.json").read_bytes(), where="V3")
    gpus = tuple(parse_gpu("h200:8"))
    large = analyze(files, Workload(engine="vllm", deployment=Deployment(gpus=gpus)))
    for report in (report_of(*GEMMA), large):
        assert 150_000 < len(page_of(report).encode()) < 200_000


def test_the_policy_allows_the_scripts_of_the_page_and_no_other() -> None:
    """Each script that runs is named by its hash; the data is not run."""
    page = page_of(report_of(*GEMMA))
    data, *scripts = read(page).scripts
    json.loads(data)
    hashes = {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts}
    assert set(re.findall(r"'sha256-([^']+)'", page)) == hashes
    assert len(scripts) == 2


def test_the_page_carries_the_licence_of_what_it_carries() -> None:
    """UPlot's copyright and permission notice travel with its code."""
    page = page_of(report_of(*GEMMA))
    assert "Copyright (c) 2022 Leon Sorokin" in page
    assert "The above copyright notice and this permission notice shall be included in" in page


def test_the_page_says_without_its_script_what_the_text_says() -> None:
    """Verdict, sizes, layers, warnings and the path of each figure stand in the markup."""
    report = report_of(*GEMMA)
    text = read(page_of(report)).text
    assert report.weights is not None
    assert report.kv is not None
    (fit,) = report.fit
    for said in (
        verdict(report)[1],
        size(report.weights.loaded_bytes),
        f"{report.kv.bytes:,}",
        size(fit.memory_bytes),
        "every 6th from 5 to 59",
        "52 layers keep at most a window of 1,024 tokens",
        *(finding.message for finding in report.findings),
        *(way.change for way in fit.ways_to_fit),
        *(reading.source for reading in report.architecture.readings),
    ):
        assert said in text, said


def test_the_page_says_what_to_type_and_how_fast_at_most() -> None:
    """Plans, the command that starts the engine and the bound on speed are those of the text."""
    files = loads((MODELS / "deepseek-ai--DeepSeek-V3.hfkv.json").read_bytes(), where="V3")
    gpus = tuple(parse_gpu("h200:8"))
    work = Workload(context=32_768, engine="vllm", deployment=Deployment(gpus=gpus))
    report = analyze(files, work)
    (fit,) = report.fit
    text = read(page_of(report)).text
    assert [plan.tensor_parallel_size for plan in fit.plans] == [8, 4, 2, 1]
    assert fit.answers is not None
    for said in (
        *(plan_phrase(plan) for plan in fit.plans),
        *(plan.reason for plan in fit.plans if plan.reason),
        *fit.commands,
        ceiling_phrase(fit),
        CAVEAT,
        *(integer(row.max_sequences) for row in fit.answers.contexts),
    ):
        assert said in text, said


def test_what_helps_says_whether_it_is_an_estimate() -> None:
    """A format that nobody has made is one, more GPUs are not; what does not fit goes nowhere."""
    report = report_of(*GEMMA)
    page = page_of(report)
    said = [(way.change, way.fits, way.estimate) for way in report.fit[0].ways_to_fit]
    assert {estimate for _, _, estimate in said} == {True, False}
    for change, fits, estimate in said:
        row = page.split(f"<code>{change}</code>")[1].split("</tr>")[0]
        assert (">yes" in row) is fits, change
        assert (", estimated<" in row) is estimate, change
    assert "How far it goes" not in page.split("<script")[0]


def test_what_the_controls_do_not_know_leaves_them_out() -> None:
    """An option that the script cannot recalculate is told, and the page stands as asked."""
    files = loads((MODELS / f"{GEMMA[0]}.hfkv.json").read_bytes(), where=GEMMA[0])
    gpu = parse_gpu("rtx4090")
    plain = Workload(engine="vllm", deployment=Deployment(gpus=gpu))
    odd = replace(plain, deployment=Deployment(gpus=gpu, block_size=64))
    assert page_document(analyze(files, plain))["page"]["no_controls"] is None
    reader = read(page_of(analyze(files, odd)))
    assert not [tag for tag, _ in reader.elements if tag == "form"]
    assert (
        "The controls of this page do not know all the options that were given, so it has none, "
        "and every figure is as asked."
    ) in reader.text
    bars = [a for tag, a in reader.elements if a.get("class") in ("bar", "map") and tag == "div"]
    assert [bar["role"] for bar in bars] == ["img", "img"]


def test_the_controls_know_an_eager_server() -> None:
    """No graphs on any GPU, and the line to repeat says so."""
    files = loads((MODELS / f"{GEMMA[0]}.hfkv.json").read_bytes(), where=GEMMA[0])
    eager = Deployment(gpus=parse_gpu("rtx4090"), enforce_eager=True)
    page = page_document(analyze(files, Workload(engine="vllm", deployment=eager)))["page"]
    assert page["no_controls"] is None
    assert page["facts"]["overhead"]["graphs"] is False
    assert page["facts"]["command"][-1] == "--enforce-eager"


def test_weights_in_another_format_are_shown_as_they_are_counted() -> None:
    """What does not fit is the estimate, and not the 141 GB of the files."""
    files = loads((MODELS / "meta-llama--Llama-3.1-70B.hfkv.json").read_bytes(), where="70B")
    work = Workload(weights_dtype="int4", deployment=Deployment(gpus=parse_gpu("t4:2")))
    report = analyze(files, work)
    assert report.what_if is not None
    text = read(page_of(report)).text
    for said in ("weights in int4, an estimate", "37.0 GiB", f"{report.what_if.bytes:,}"):
        assert said in text
    (best,) = [plan for plan in report.fit[0].plans if plan.recommended]
    assert f"★ {size(best.short_by_bytes)} short" in text


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_of_any_shape_has_a_page(name: str) -> None:
    """Models without weights, without a cache, or that nobody can size are told as they are."""
    report = REPORTS[name]
    text = read(page_of(report)).text
    assert verdict(report)[1] in text
    assert all(finding.message in text for finding in report.findings)
    assert not set(text) & {"\x1b", "\x9b"}


def hostile() -> Report:
    """Return a report in which every foreign text tries to be markup."""
    report = REPORTS["short"]
    found = replace(
        report.fit[0], name=HOSTILE, gpu=HOSTILE, memory_source=HOSTILE, notes=(HOSTILE,)
    )
    assert report.kv is not None
    return replace(
        report,
        files=ModelFiles(target=Target(kind="hub", id=HOSTILE, revision=HOSTILE, sha=HOSTILE)),
        architecture=architecture(class_name=HOSTILE, model_type=HOSTILE, doubts=(HOSTILE,)),
        kv=replace(report.kv, dtype_source=HOSTILE),
        fit=(found, found),
        findings=(Finding(code=HOSTILE, message=HOSTILE, hint=HOSTILE),),
    )


def test_a_hostile_name_stays_text() -> None:
    """It adds no element, no attribute and no script to the page, alone or in a comparison."""
    document = page_document(hostile())
    failed = {"id": HOSTILE, "error": {"code": "x", "message": HOSTILE, "hint": HOSTILE}}
    for page in (
        render_html([document], title=HOSTILE),
        render_html([document, failed], title=HOSTILE),
    ):
        reader = read(page)
        assert len(reader.scripts) == 3
        assert not [tag for tag, _ in reader.elements if tag == "img"]
        assert not [key for _, attrs in reader.elements for key in attrs if key.startswith("on")]
        assert HOSTILE.replace("\u202e", "\\u202e") in reader.text
        assert "\u202e" not in page
        assert json.loads(reader.scripts[0])["models"][0]["id"].startswith("</script>")


def test_elements_escape_what_is_not_markup() -> None:
    """Text and attributes are escaped, `Html` is not, and None is left out."""
    assert el("p", "<b>&", None, Html("<i>")) == "<p>&lt;b&gt;&amp;<i></p>"
    assert el("input", id="a", value='"', for_="b", hidden=True, max=None) == (
        '<input id="a" value="&quot;" for="b" hidden>'
    )
    assert el("p", "a\x1b\u202eb") == "<p>a\\x1b\\u202eb</p>"


def test_figures_beyond_javascript_numbers_survive() -> None:
    """An integer that a double would round is kept to the last digit; nothing else is touched."""
    report = REPORTS["dense"]
    assert report.weights is not None
    huge = replace(report, weights=replace(report.weights, loaded_bytes=2**53 + 1))
    facts: Any = json.loads(read(page_of(huge)).scripts[0])["models"][0]["facts"]
    assert facts["weights"] == {"big": "9007199254740993"}
    assert facts["max_context"] == 131072


def test_a_comparison_links_every_model() -> None:
    """Each has a place of its own; one that failed says why and what to do."""
    failed = {"id": "a/b", "error": {"code": "not-found", "message": "no a/b", "hint": "look"}}
    documents = [page_document(REPORTS["dense"]), failed, page_document(REPORTS["hybrid"])]
    reader = read(render_html(documents, title="3 models"))
    assert [a["id"] for tag, a in reader.elements if tag == "article"] == [
        "model-0", "model-1", "model-2",
    ]  # fmt: skip
    assert [tag for tag, _ in reader.elements].count("h1") == 1
    for shown in (reader, read(render_html([failed], title="a/b"))):
        assert "no a/b" in shown.text
        assert "look" in shown.text


def test_every_engine_has_a_rule_in_the_script() -> None:
    """An engine without one could not be recalculated: its slots are in slots.js."""
    place = resources.files("hfkv.render.html").joinpath("assets", "slots.js")
    table = place.read_text(encoding="utf-8").split("const SLOTS = {")[1]
    rules = re.findall(r'^  "?([a-z.]+)"?:', table, flags=re.MULTILINE)
    assert set(rules) == set(ENGINES)


def test_scripts_and_styles_stay_readable() -> None:
    """No file of our own is longer than 350 lines."""
    assets = resources.files("hfkv.render.html").joinpath("assets")
    own = [place for place in assets.iterdir() if not place.name.startswith("uplot")]
    assert len(own) >= 9
    for place in own:
        assert place.read_text(encoding="utf-8").count("\n") <= 350, place.name


def test_a_format_that_depends_on_the_gpu_leaves_the_controls_out() -> None:
    """GLM-5 is in fp8 on a B200 under vLLM and not on an H200, unless a format is named."""
    config = json.loads((CONFIGS / "zai-org--GLM-5" / "config.json").read_bytes())
    files = ModelFiles(target=Target(kind="file", id="GLM-5"), config=config)
    work = Workload(context=8192, engine="vllm", deployment=Deployment(gpus=parse_gpu("b200:8")))
    said = page_document(analyze(files, work))["page"]["no_controls"]
    assert said is not None
    assert said.startswith("vLLM keeps this model's cache in another format on some GPUs")
    named = replace(work, kv_dtype="fp8")
    assert page_document(analyze(files, named))["page"]["no_controls"] is None
