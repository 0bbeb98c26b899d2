"""What a notebook shows: whole, harmless, and the same answer as everywhere."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hand_made import REPORTS

import hfkv
from hfkv.core.files import Target
from hfkv.core.readings import Finding
from hfkv.render.html import page_document, render_html
from hfkv.render.markdown import inspect_markdown
from hfkv.render.phrases import verdict
from hfkv.render.style import Style
from hfkv.render.text import inspect_text

MODELS = Path(__file__).parent.parent / "fixtures" / "models"
LLAMA = str(MODELS / "meta-llama--Llama-3.1-8B.hfkv.json")
GEMMA = str(MODELS / "google--gemma-3-27b-it.hfkv.json")
HOSTILE = "</td><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e&amp;"
ALLOWED = {
    *("caption", "code", "div", "li", "span", "strong", "table", "tbody", "td", "th", "thead"),
    *("tr", "ul"),
}


class Reader(HTMLParser):
    """The elements of a fragment, whether they nest, and the text a person sees."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.styles: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(fragment)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self._open.append(tag)
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.styles += [value or "" for name, value in attrs if name == "style"]

    def handle_endtag(self, tag: str) -> None:
        """Leave an element, which must be the last that was entered."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += f"{data}\n"


def harmless(fragment: str) -> Reader:
    """Return what is in it, after looking for what must not be."""
    seen = Reader(fragment)
    assert seen.names <= ALLOWED
    assert seen.attributes <= {"aria-label", "role", "scope", "style"}
    # nothing from elsewhere, and no colour of text or background that only one theme can bear
    for style in seen.styles:
        assert "url(" not in style
        assert not re.search(r"(?:^|; )color: (?!inherit)", style)
    return seen


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_is_shown(name: str) -> None:
    """With its verdict, and as much as is known; a hand-made report of each shape."""
    report = hfkv.Report.of(REPORTS[name])
    seen = harmless(report._repr_html_())
    assert verdict(report)[1] in seen.text
    for finding in report.findings:
        assert finding.code in seen.text


def test_the_figures_are_those_of_the_report() -> None:
    """Weights, cache, each GPU and the warnings of Gemma 3 27B, as the text has them."""
    report = hfkv.inspect(GEMMA, gpu=["rtx4090", "h100:4"], context="32k")
    seen = harmless(report._repr_html_())
    for words in ("51.1 GiB", "2.91 GiB", "GeForce RTX 4090", "4 × H100 80GB SXM5", "131,072"):
        assert f"{words}\n" in seen.text, words
    assert "short by" in seen.text
    assert "sliding-window" in seen.text


def test_the_bar_is_the_memory_of_the_gpu() -> None:
    """Its cells add up to all of it; where the model does not fit, to what it would take."""
    for gpu in ("a100-80", "24gib"):
        report = hfkv.inspect(LLAMA, gpu=gpu, context="128k", concurrency=2)
        styles = Reader(report._repr_html_()).styles
        widths = [float(found[1]) for s in styles if (found := re.match(r"width: ([\d.]+)%", s))]
        assert len(widths) >= 3
        assert abs(sum(widths) - 100) < 0.01


def test_a_comparison_is_shown() -> None:
    """The best in bold, a model that failed with the reason."""
    answer = hfkv.compare([LLAMA, GEMMA, "./<b>"], gpu="h100", context="32k")
    fragment = answer._repr_html_()
    seen = harmless(fragment)
    assert "<strong>2.91 GiB</strong>" in fragment
    assert "not read" in seen.text
    assert "./<b>" in seen.text
    assert "3 models at 32,768 tokens × 1 sequence" in seen.text


def test_names_cannot_break_out() -> None:
    """A repository, a class and a warning that are markup are shown as text."""
    dense = REPORTS["dense"]
    changed = hfkv.Report.of(dense)
    object.__setattr__(changed, "files", hfkv.ModelFiles(target=Target(kind="hub", id=HOSTILE)))
    hostile = Finding(code="mla", message=HOSTILE, hint=HOSTILE)
    object.__setattr__(changed, "findings", (hostile,))
    seen = harmless(changed._repr_html_())
    assert seen.text.count("<script>alert(1)</script>") == 3
    assert "\u202e" not in seen.text


def test_what_memory_does_not_limit_is_any() -> None:
    """As in the text: an encoder keeps nothing, and no maximum is made up for it."""
    bert = hfkv.inspect(MODELS / "google-bert--bert-base-uncased.hfkv.json", gpu="t4")
    seen = harmless(bert._repr_html_()).text
    assert "yes\nany\n–\n" in seen
    assert "1,048,576" not in seen


def test_the_gpu_table_is_the_same_in_every_form() -> None:
    """The columns of notebook, Markdown, terminal and page have one order and one name each."""
    report = hfkv.inspect(LLAMA, gpu=["24gb", "h100:2"], context=8192)
    columns = ["GPU", "memory", "weights", "overhead", "left for KV", "fits"]
    columns += ["sequences", "longest"]
    lines = inspect_markdown(report).splitlines()
    start = lines.index(f"| {' | '.join(columns)} |")
    rows = [line.strip("| ").split(" | ") for line in lines[start + 2 : start + 4]]
    assert [row[3][:2] for row in rows] == ["≈ ", "≈ "]
    notebook = report._repr_html_().partition(">On which GPU<")[2]
    cells = [html.unescape(cell) for cell in re.findall(r"<t[hd]\b[^>]*>([^<]*)<", notebook)]
    assert cells == [*columns, *(cell.replace("\\", "") for row in rows for cell in row)]
    page = render_html([page_document(report)], title="").partition(">On each GPU<")[2]
    named = re.findall(r"<th\b[^>]*>([^<]*)<", page)[:7]
    assert named == [*columns[:3], columns[4], "verdict", *columns[6:]]
    heading = " +".join([*columns[:3], columns[4], *columns[6:]])
    assert re.search(f"(?m)^ *{heading}", inspect_text(report, Style(width=80)))
