"""`hfkv families`: every model type that is read is listed, in every format."""

from __future__ import annotations

import csv
import io
import json

import pytest

from hfkv.cli import main
from hfkv.core.families.catalogue import catalogue
from hfkv.core.families.registry import FAMILIES
from hfkv.render.families import families_csv, families_document, families_markdown
from hfkv.render.style import Style
from hfkv.render.text_families import families_text

KNOWN = {model_type for family in FAMILIES for model_type in family.model_types}


def test_every_model_type_of_every_row_is_in_every_format() -> None:
    """A row of the registry cannot be left out of the list."""
    families = catalogue()
    document = families_document(families)["families"]
    assert {name for family in document for name in family["model_types"]} >= KNOWN
    rows = list(csv.DictReader(io.StringIO(families_csv(families))))
    assert {name for row in rows for name in row["model_types"].split()} >= KNOWN
    markdown, text = families_markdown(families), families_text(families, Style(width=80))
    for name in KNOWN:
        assert f"`{name}`" in markdown
        assert name in text


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_the_list_is_no_wider_than_the_terminal(width: int) -> None:
    """Long lists of names are wrapped."""
    lines = families_text(catalogue(), Style(width=width)).splitlines()
    assert max(map(len, lines)) <= width


def test_one_model_type_shows_the_family_that_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Gemma 3 alternates full and sliding attention, and its text part has a type of its own."""
    assert main(["families", "gemma3_text", "--json"]) == 0
    (family,) = json.loads(capsys.readouterr().out)["families"]
    assert family["name"] == "gemma3"
    assert "gemma3_text" in family["model_types"]
    assert family["kinds"] == ["full_attention", "sliding_attention"]
    assert "configuration_gemma3.py" in family["source"]
