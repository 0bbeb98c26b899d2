"""The HTML report in a real browser: it agrees with the command line, and everyone can use it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from asked import gpt_oss_experts
from browser.driver import Page, chromium
from browser.settings import Setting, answers, drawn
from hand_made import REPORTS

from hfkv.api.reports import Report as Answer
from hfkv.core.engines.registry import ENGINES
from hfkv.core.files import ModelFiles, Target
from hfkv.core.gpus import parse_gpu
from hfkv.core.report import Report, analyze
from hfkv.core.snapshots import loads
from hfkv.core.workload import Deployment, Workload
from hfkv.core.written import context as read_context
from hfkv.core.written import whole as read_whole
from hfkv.errors import HfkvError
from hfkv.render.html import page_document, render_html
from hfkv.render.phrases import verdict
from hfkv.render.units import integer, size

pytestmark = pytest.mark.browser

FIXTURES = Path(__file__).parent.parent / "fixtures"
GEMMA, QWEN = "google--gemma-3-27b-it", "Qwen--Qwen3-Next-80B-A3B-Instruct"
V3, V4 = "deepseek-ai--DeepSeek-V3", "deepseek-ai--DeepSeek-V4-Flash"
LLAMA, BERT = "meta-llama--Llama-3.1-8B", "google-bert--bert-base-uncased"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One browser for all tests."""
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


def files_of(name: str) -> ModelFiles:
    """Return a fixture."""
    return loads((FIXTURES / "models" / f"{name}.hfkv.json").read_bytes(), where=name)


def work_on(*gpus: str, **asked: Any) -> Workload:
    """Return a workload on some GPUs."""
    choices = tuple(choice for text in gpus for choice in parse_gpu(text))
    return Workload(deployment=Deployment(gpus=choices), **asked)


def written(folder: Path, *names: str, work: Workload) -> Path:
    """Write the page of one model or the comparison of several; a name in capitals failed."""
    failed = {"id": "a/b", "error": {"code": "not-found", "message": "no such model", "hint": None}}
    documents = [
        failed if name == "FAILED" else page_document(analyze(files_of(name), work))
        for name in names
    ]
    path = folder / "report.html"
    path.write_text(render_html(documents, title="A report"), encoding="utf-8")
    return path


PAGES = {
    "one GPU": ((GEMMA,), work_on("rtx4090")),
    "no GPU": ((QWEN,), work_on()),
    "a plan": ((V3,), work_on("h200:8", engine="vllm", context=32_768)),
    "several GPUs": ((LLAMA,), work_on("rtx4090", "a100-80", "24gb")),
    "no cache": ((BERT,), work_on("t4")),
    "a comparison": ((LLAMA, GEMMA, "FAILED", BERT), work_on("h100-80")),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write every page once."""
    return {
        title: written(tmp_path_factory.mktemp("page"), *names, work=work)
        for title, (names, work) in PAGES.items()
    }


@pytest.mark.parametrize("title", PAGES)
def test_everyone_can_use_it(page: Page, pages: dict[str, Path], title: str) -> None:
    """Axe finds nothing wrong with contrast, labels, headings or roles, light and dark."""
    page.open(pages[title])
    page.unfold()
    for theme in ("light", "dark"):
        page.look(theme)
        assert page.complaints() == [], theme


@pytest.mark.parametrize("title", PAGES)
def test_nothing_runs_off_the_side(page: Page, pages: dict[str, Path], title: str) -> None:
    """From the narrowest phone to a desk the page scrolls up and down only."""
    for width in (320, 390, 800, 1400):
        page.open(pages[title], width=width)
        page.unfold()
        assert page.run("return document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("title", PAGES)
def test_it_runs_quietly_and_asks_for_nothing(
    page: Page, pages: dict[str, Path], title: str
) -> None:
    """No error, nothing that the policy had to block, no request beside the file itself."""
    page.log()
    page.open(pages[title])
    assert page.log() == []
    assert page.run("return performance.getEntriesByType('resource').map((one) => one.name)") == []


FORMATS = "return [...document.getElementById('format').options].map((one) => one.value)"


@pytest.mark.parametrize("engine", ["none", "vllm", "llama.cpp"])
@pytest.mark.parametrize("name", [GEMMA, QWEN])
def test_the_controls_agree_with_the_command_line(
    page: Page, tmp_path: Path, name: str, engine: str
) -> None:
    """At ten random settings the page shows the verdict and every figure that hfkv prints."""
    files = files_of(name)
    page.open(written(tmp_path, name, work=work_on("rtx4090", context=4096, engine=engine)))
    for setting in drawn(20_26, 10, page.run(FORMATS), lengths=False, counts=(1, 2, 4)):
        _ask(page, setting)
        report = _report_of(files, setting, engine)
        if isinstance(report, str):
            assert page.verdict() == f"{report}.", setting
            continue
        shown = page.shown()
        assert shown["verdict"] == [(verdict(report)[1], "")], setting
        for figure, told in _printed(report).items():
            assert shown.get(figure, []) == told, (figure, setting)


@pytest.mark.parametrize("engine", ["none", "vllm", "llama.cpp"])
def test_a_comparison_agrees_with_the_command_line(page: Page, tmp_path: Path, engine: str) -> None:
    """At ten random settings every model shows what hfkv prints, in its card and in the table."""
    names = (LLAMA, GEMMA, QWEN)
    page.open(written(tmp_path, *names, work=work_on("rtx4090", context=4096, engine=engine)))
    for setting in drawn(8, 10, page.run(FORMATS), lengths=False, counts=(1, 2, 4)):
        _ask(page, setting)
        table = page.shown_in("[data-region=models] tbody tr")
        for place, name in enumerate(names):
            report = _report_of(files_of(name), setting, engine)
            if isinstance(report, str):
                assert page.verdict(place) == f"{report}.", (name, setting)
                continue
            shown, printed = page.shown(place), _printed(report)
            assert shown["verdict"] == [(verdict(report)[1], "")], (name, setting)
            for figure in ("kv.bytes", "kv.sequence", "fit.weights", "fit.kv", "fit.pool"):
                assert shown.get(figure, []) == printed[figure], (name, figure, setting)
            (fit,) = report.fit
            assert table[place]["kv.bytes"] == printed["kv.bytes"], (name, setting)
            assert table[place]["fit.sequences"] == [(integer(fit.max_sequences), "")]
            assert table[place]["fit.longest"] == [(integer(fit.max_context), "")]


def _report_of(files: ModelFiles, setting: Setting, engine: str) -> Report | str:
    """Return the report, or in words why there is none."""
    try:
        return analyze(
            files, replace(setting, utilization=setting.utilization or 90).workload(engine)
        )
    except HfkvError as error:
        return error.message


def _printed(report: Report) -> dict[str, list[tuple[str, str]]]:
    """Return the figures that hfkv prints, as the page has them: short, and to the byte."""
    (fit,), kv = report.fit, report.kv
    assert kv is not None
    sizes = {
        "kv.bytes": [kv.bytes],
        "kv.sequence": [kv.bytes_per_sequence],
        "kv.token": [kv.bytes_per_token] if kv.bytes_per_token else [],
        "kv.fixed": [kv.fixed_bytes_per_sequence] if kv.fixed_bytes_per_sequence else [],
        "kv.part": [part.bytes for part in kv.components],
        "fit.budget": [fit.budget_bytes],
        "fit.weights": [fit.weights_bytes_per_gpu or 0],
        "fit.overhead": [fit.overhead_bytes_per_gpu],
        "fit.kv": [fit.kv_bytes_per_gpu],
        "fit.pool": [fit.kv_pool_bytes_per_gpu] if fit.kv_pool_bytes_per_gpu else [],
    }
    counts = {
        "fit.sequences": fit.max_sequences,
        "fit.longest": fit.max_context,
        "fit.tokens": fit.max_tokens,
    }
    known = fit.kv_pool_bytes_per_gpu > 0
    return {
        **{name: [(size(n), f"{n:,} B") for n in values] for name, values in sizes.items()},
        **{name: [(integer(n), "")] if known else [] for name, n in counts.items()},
    }


def _ask(page: Page, setting: Setting) -> None:
    page.put("context", setting.tokens)
    page.put("sequences", setting.sequences)
    page.put("format", setting.format)
    page.put("gpu", setting.gpu)
    page.put("count", setting.count)
    page.put("utilization", setting.utilization or 90)


SCRIPTS = ("units.js", "slots.js", "overhead.js", "vllm.js", "arithmetic.js", "words.js")
# What the scripts of the page say, in the shape of `settings.answers`.
ASK = """
const plain = (value) => typeof value === "bigint" ? Number(value)
  : Array.isArray(value) ? value.map(plain) : value;
const model = exact(JSON.parse(arguments[0]));
return JSON.parse(arguments[1]).map(exact).map((setting) => {
  try {
    const told = answer(model, setting);
    const {fits: [fit], parts, bytes, perSequence, perToken, fixed, simple} = told;
    const {budget, weights, pool, each, needed, fits, short, sequences, longest, tokens} = fit;
    const found = {bytes, perSequence, perToken, fixed, simple,
      parts: parts.map((p) => [p.name, p.layers, p.slots, p.each, p.bytes, p.format]),
      tp: fit.split.tp, pp: fit.split.pp, budget, weights, pool, each, needed, fits, short,
      overhead: fit.overhead.parts.map((p) => [p.name, p.bytes]), sequences, longest, tokens,
      range: [fit.overhead.low, fit.overhead.high],
      simpleSequences: fit.simple, notes: notes(model, fit), verdict: verdict(model, told)};
    return Object.fromEntries(Object.entries(found).map(([key, value]) => [key, plain(value)]));
  } catch (error) {
    if (error instanceof Refused) return {refused: error.message};
    throw error;
  }
});
"""


def scripted(page: Page, facts: dict[str, Any], settings: list[Setting]) -> list[dict[str, Any]]:
    """Return what the page's own arithmetic answers, without its controls."""
    assets = resources.files("hfkv.render.html").joinpath("assets")
    source = "\n".join(assets.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS)
    asked = json.dumps([setting.for_script() for setting in settings])
    found: list[dict[str, Any]] = page.run(source + ASK, json.dumps(facts), asked)
    return found


def _config_only(name: str) -> ModelFiles:
    found = FIXTURES / "configs" / name / "config.json"
    config = json.loads(found.read_text(encoding="utf-8"))
    return ModelFiles(target=Target(kind="file", id=name), config=config)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_arithmetic_is_that_of_every_engine(page: Page, engine: str) -> None:
    """Any store, format, split, share and length: the script and `analyze` agree to the byte."""
    agreed = 0
    for seed, name in enumerate((LLAMA, GEMMA, QWEN, "google-t5--t5-small", V4)):
        files = _config_only(name) if name == V4 else files_of(name)
        try:
            document = page_document(analyze(files, Workload(engine=engine)))
        except HfkvError:
            continue  # the engine does not serve it
        facts = document["page"]["facts"]
        if facts is None:
            continue
        formats = [one["name"] for one in facts["formats"]]
        settings = list(drawn(seed, 7, formats, counts=(1, 1, 2, 3, 4, 8)))
        for setting, told in zip(settings, scripted(page, facts, settings), strict=True):
            assert told == answers(files, setting.workload(engine)), (name, setting)
            agreed += "refused" not in told
    assert agreed >= 10


@pytest.mark.parametrize(
    "deployment",
    [
        Deployment(max_num_batched_tokens=512),
        Deployment(max_num_seqs=1),
        Deployment(max_num_seqs=4096),  # more than the tokens of a step on small cards
        Deployment(max_num_batched_tokens=300, max_num_seqs=30),
        Deployment(max_num_seqs=2, overhead_bytes=2**30),
        Deployment(enforce_eager=True),
    ],
    ids=("tokens", "one", "many", "both", "overhead", "eager"),
)
@pytest.mark.parametrize("name", [LLAMA, GEMMA, "vinai--PhoWhisper-tiny"])
def test_the_arithmetic_follows_the_limits_of_a_step(
    page: Page, name: str, deployment: Deployment
) -> None:
    """What vLLM derives from a stated limit and the length, to the byte at short ones too."""
    files, work = files_of(name), Workload(context=8, engine="vllm", deployment=deployment)
    facts = page_document(analyze(files, work))["page"]["facts"]
    settings = [
        replace(one, tokens=tokens, deployment=deployment, gpu=gpu)
        for gpu in ("a100-80", "h100-80", "b200")
        for tokens, one in zip(
            (1, 7, 200, 448, 513, 9000),
            drawn(11, 6, ["auto"], lengths=False, counts=(1, 2)),
            strict=True,
        )
    ]
    for setting, told in zip(settings, scripted(page, facts, settings), strict=True):
        assert told == answers(files, setting.workload("vllm")), setting


def test_mxfp4_experts_are_laid_out_for_the_gpu_that_is_chosen(page: Page) -> None:
    """Kernels pad gpt-oss otherwise on each kind of GPU; the script and `analyze` agree."""
    files = replace(_config_only("openai--gpt-oss-20b"), tensors=gpt_oss_experts())
    facts = page_document(analyze(files, Workload(engine="vllm")))["page"]["facts"]
    gpus = ("a100-80", "h100-80", "b200", "mi300x", "rtx5090")
    settings = [
        replace(one, gpu=gpu, count=count)
        for one in drawn(5, 1, ["auto"], lengths=False)
        for gpu in gpus
        for count in (1, 2, 4)
    ]
    found = scripted(page, facts, settings)
    assert found == [answers(files, setting.workload("vllm")) for setting in settings]
    assert len({told["weights"] for told in found[::3]}) == 3  # B200 and 5090 pad as Marlin does


def test_it_opens_with_what_was_asked_and_comes_back_to_it(page: Page, tmp_path: Path) -> None:
    """The first answer of the script is the sentence in the markup, and so is the last."""
    work = work_on("rtx4090", seq_lens=(100, 5000, 32_000), kv_dtype="fp8")
    said = verdict(analyze(files_of(GEMMA), work))[1]
    path = written(tmp_path, GEMMA, work=work)
    assert f'data-figure="verdict">{said}<' in path.read_text(encoding="utf-8")
    page.open(path)
    assert page.verdict() == said
    assert "--seq-lens 100,5000,32000 --kv-dtype fp8 --gpu rtx4090" in page.text("pre")
    page.put("context", 1_000_000)
    assert page.verdict() != said
    page.run("document.getElementById('reset').click()")
    assert page.verdict() == said


def test_the_sliders_answer_to_the_keyboard(page: Page, tmp_path: Path) -> None:
    """An arrow key moves a slider by one step of its usual numbers, and says where it is."""
    page.open(written(tmp_path, LLAMA, work=work_on("a100-80", context=4096)))
    slider = page.chrome.find_element("id", "context-slider")
    slider.send_keys("\ue014")  # right
    assert page.run("return document.getElementById('context').value") == "5120"
    assert slider.get_attribute("aria-valuetext") == "5,120 tokens"
    assert page.shown()["kv.bytes"] == [("640 MiB", "671,088,640 B")]


@pytest.mark.parametrize("engine", ["none", "vllm", "trtllm"])
@pytest.mark.parametrize("gpus", ["a100-80", "t4", "rtx4090:2"])
def test_the_line_above_the_bar_is_that_of_the_text(
    page: Page, tmp_path: Path, engine: str, gpus: str
) -> None:
    """The engine by its title and an equation that is true, whatever the share is one of."""
    work = work_on(gpus, context=1, engine=engine)
    page.open(written(tmp_path, LLAMA, work=work))
    printed = " ".join(str(Answer.of(analyze(files_of(LLAMA), work))).split())
    assert page.text("[data-region=memory] p") in printed
    assert "1 token × 1 sequence" in page.verdict()
    page.put("sequences", 2)  # recalculated, not as it was written
    assert "1 token × 2 sequences" in page.verdict()


@pytest.mark.parametrize(("name", "reader"), [("context", read_context), ("sequences", read_whole)])
def test_a_number_that_no_command_takes_is_not_taken(
    page: Page, tmp_path: Path, name: str, reader: Callable[[str], object]
) -> None:
    """The largest number is the command's own; beyond it, and below 1, the last answer stands."""
    page.open(written(tmp_path, LLAMA, work=work_on("h100-80", context=4096)))
    most = page.run(f"return document.getElementById('{name}').max")
    assert reader(most) == int(most)
    with pytest.raises(ValueError, match="is not"):
        reader(str(int(most) + 1))
    page.put(name, most)
    said = page.verdict()
    assert f"{int(most):,} {'tokens' if name == 'context' else 'sequences'}" in said
    for wrong in (int(most) + 1, 0, -5, "1.5"):
        page.put(name, wrong)
        assert page.verdict() == said
    assert page.log() == []


def test_what_memory_does_not_limit_is_any(page: Page, tmp_path: Path) -> None:
    """An encoder keeps nothing, a state is as large for any length: no maximum is made up."""
    names = ("tiiuae--falcon-mamba-7b", BERT)
    path = written(tmp_path, *names, work=work_on("h100-80", context=512))
    assert "1,048,576" not in path.read_text(encoding="utf-8")
    page.open(path)
    mamba, bert = page.shown_in("[data-region=models] tbody tr")
    assert mamba["fit.longest"] == [("any", "")]
    assert (bert["fit.sequences"], bert["fit.longest"]) == ([("any", "")], [("–", "")])
    alone = page.text("#model-0 [data-region=memory]")
    assert "any (a longer one takes no more)" in alone
    assert "tokens in all" not in alone
    page.open(written(tmp_path, *names, work=work_on("h100-80", "a100-80", context=512)))
    assert page.shown(0)["fit.longest"] == [("any", "")] * 2
    assert page.shown(1)["fit.sequences"] == [("any", "")] * 2


def test_several_gpus_stand_side_by_side_until_one_is_chosen(page: Page, tmp_path: Path) -> None:
    """Each asked GPU has its row and its bar; choosing one gives it the whole place."""
    page.open(written(tmp_path, LLAMA, work=work_on("rtx4090", "a100-80", "24gb")))
    report = analyze(files_of(LLAMA), work_on("rtx4090", "a100-80", "24gb"))
    assert page.verdict() == verdict(report)[1]
    each = [(integer(fit.max_sequences), "") for fit in report.fit]
    assert page.shown()["fit.sequences"] == each
    page.put("gpu", "a100-80")
    assert page.shown()["fit.sequences"] == each[1:2]
    page.put("gpu", "")
    assert page.verdict() == verdict(analyze(files_of(LLAMA), Workload()))[1]


def test_a_format_that_rows_do_not_fill_is_refused_in_words(page: Page, tmp_path: Path) -> None:
    """A row of 12 values, 6 wide keys and values of one head on its rank, fills no block of 32."""
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2,
        "hidden_size": 48, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 6,
        "vocab_size": 100, "max_position_embeddings": 64, "torch_dtype": "bfloat16",
    }  # fmt: skip
    files = ModelFiles(target=Target(kind="file", id="config.json"), config=config)
    path = tmp_path / "report.html"
    path.write_text(render_html([page_document(analyze(files))], title="t"), encoding="utf-8")
    page.open(path)
    page.put("format", "q8_0")
    with pytest.raises(HfkvError) as refused:
        analyze(files, Workload(kv_dtype="q8_0", deployment=Deployment(gpus=parse_gpu("t4:8"))))
    page.put("gpu", "t4")
    page.put("count", 8)
    assert refused.value.message == (
        "q8_0 stores values in blocks of 32, and a row of 12 does not fill them"
    )
    assert page.verdict() == f"{refused.value.message}."


def test_what_no_control_changes_is_shown_for_what_was_asked(page: Page, tmp_path: Path) -> None:
    """Plans, commands and the bound on speed give way to a sentence, and come back."""
    page.open(written(tmp_path, V3, work=work_on("h200:8", engine="vllm", context=32_768)))
    seen = "return [...document.querySelectorAll('[data-asked], [data-region=otherwise]')]"
    seen += ".map((one) => one.checkVisibility())"
    assert page.run(seen) == [True, False]
    assert "--tensor-parallel-size 8" in page.text("[data-asked] .paste")
    page.put("context", 8192)
    assert page.run(seen) == [False, True]
    page.run("document.getElementById('reset').click()")
    assert page.run(seen) == [True, False]


def test_a_model_without_a_cache_keeps_its_weights_in_the_table(page: Page, tmp_path: Path) -> None:
    """What is known of it is shown beside the others; a dash is what is not."""
    documents = [page_document(report) for report in (REPORTS["alien"], REPORTS["dense"])]
    path = tmp_path / "report.html"
    path.write_text(render_html(documents, title="two"), encoding="utf-8")
    page.open(path)
    row: list[str] = page.run(
        "return [...document.querySelector('[data-region=models] tbody tr').cells]"
        ".slice(-3).map((cell) => cell.textContent)"
    )
    assert row == ["–", "13.0 GiB", "–"]


def test_lines_that_lie_on_each_other_can_be_told_apart(page: Page, tmp_path: Path) -> None:
    """Two models that keep as much are drawn in turns; a line ends where its model does."""
    names = (LLAMA, "mistralai--Mixtral-8x7B-v0.1")  # both keep 128 KiB a token
    page.open(written(tmp_path, *names, work=work_on("h100-80", context=4096)))
    dashes = "return [...document.querySelectorAll('[data-region=curves] .keys line')]"
    dashes += ".map((one) => one.getAttribute('stroke-dasharray'))"
    assert page.run(dashes) == ["", "10 10"]
    row: list[str] = page.run(
        "return [...[...document.querySelectorAll('[data-region=curves] tbody tr')].at(-1).cells]"
        ".map((cell) => cell.textContent)"
    )
    assert row == ["131,072", "16.0 GiB", "–"]  # Mixtral is made for 32,768


def test_one_setting_moves_all_models_of_a_comparison(page: Page, tmp_path: Path) -> None:
    """Each begins at its own maximum, and all follow the controls from then on."""
    page.open(written(tmp_path, LLAMA, GEMMA, "FAILED", BERT, work=work_on("h100-80")))
    for asked, change in ((work_on("h100-80"), None), (work_on("h100-80", context=8192), 8192)):
        if change:
            page.put("context", change)
        for place, name in ((0, LLAMA), (1, GEMMA), (3, BERT)):
            report = analyze(files_of(name), asked)
            assert page.verdict(place) == verdict(report)[1]
    assert "no such model" in page.text("#model-2")
    cells: list[str] = page.run(
        "return [...document.querySelectorAll('[data-region=models] tbody tr')]"
        ".map((row) => row.cells[1].textContent)"
    )
    assert cells == ["✔", "✔", "–", "✔"]


def test_the_curve_is_redrawn_and_told_in_words(page: Page, tmp_path: Path) -> None:
    """It has a name with the figures of the setting, and all of it again as a table."""
    page.open(written(tmp_path, GEMMA, work=work_on("rtx4090", context=32_768)))
    label = "return document.querySelector('.plot').getAttribute('aria-label')"
    assert page.run(label) == (
        "KV cache of 1 sequence by context: keys and values, window 1024 416 MiB, "
        "keys and values 2.50 GiB, in all 2.91 GiB, the simple formula 15.5 GiB"
    )
    before = page.run("return document.querySelector('canvas').toDataURL()")
    page.run("document.querySelector('.scale').click()")
    assert page.run("return document.querySelector('canvas').toDataURL()") != before
    page.put("sequences", 2)
    assert "KV cache of 2 sequences by context" in page.run(label)
    row: list[str] = page.run(
        "return [...[...document.querySelectorAll('[data-region=curve] tbody tr')].at(-1).cells]"
        ".map((cell) => cell.textContent)"
    )
    assert row == ["131,072", "832 MiB", "20.0 GiB", "20.8 GiB", "124 GiB"]


def test_a_missing_browser_is_skipped_unless_it_was_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where HFKV_BROWSER_TESTS=1 says that there is one, tests without it fail."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HFKV_BROWSER_TESTS", raising=False)
    with (
        pytest.raises(pytest.skip.Exception, match="HFKV_BROWSER_TESTS is not 1"),
        chromium(tmp_path),
    ):
        pass
    monkeypatch.setenv("HFKV_BROWSER_TESTS", "1")
    with (
        pytest.raises(pytest.fail.Exception, match="chromium or chromedriver is not installed"),
        chromium(tmp_path),
    ):
        pass
