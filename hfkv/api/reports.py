"""Reports that can tell themselves: as documents, as text, in a notebook.

The core's reports are plain data and know no format. These are the same data with the ways
to show it; each format is loaded when it is asked for.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from hfkv.core import comparison, report

__all__ = ["Comparison", "Report", "Row"]


class Report(report.Report):
    """Everything hfkv has to say about one model and one workload.

    `print(report)` shows what `hfkv inspect` prints; a notebook shows a table. See
    `hfkv.core.report.Report` for the fields.
    """

    __slots__ = ()

    @classmethod
    def of(cls, found: report.Report) -> Report:
        """Return a report of the core with the ways to show it."""
        return cls(**_values(found))

    def to_dict(self) -> dict[str, Any]:
        """Return the `hfkv.inspect/1` document that `hfkv inspect --json` writes."""
        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def to_json(self) -> str:
        """Return that document as text, byte for byte what the command writes."""
        from hfkv.render.documents import dumps  # noqa: PLC0415
        from hfkv.render.json import inspect_document  # noqa: PLC0415

        return dumps(inspect_document(self))

    def __str__(self) -> str:
        from hfkv.render.style import Style  # noqa: PLC0415
        from hfkv.render.text import inspect_text  # noqa: PLC0415

        return inspect_text(self, Style()).rstrip("\n")

    def __repr__(self) -> str:
        from hfkv.render.phrases import verdict  # noqa: PLC0415
        from hfkv.render.units import clean  # noqa: PLC0415

        return f"<Report {clean(self.files.target.id)}: {verdict(self)[1]}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from hfkv.render.notebook import report_fragment  # noqa: PLC0415

        return report_fragment(self)


class Row(comparison.Row):
    """One model of a comparison: its report, or the failure that stands in its place."""

    __slots__ = ()

    report: Report | None

    @classmethod
    def of(cls, found: comparison.Row) -> Row:
        """Return a row whose report can tell itself."""
        told = None if found.report is None else Report.of(found.report)
        return cls(id=found.id, report=told, error=found.error)


class Comparison(comparison.Comparison):
    """Several models under one workload, a row a model, in the order they are told in.

    `print(comparison)` shows what `hfkv compare` prints.
    """

    __slots__ = ()

    rows: tuple[Row, ...]

    @classmethod
    def of(cls, found: comparison.Comparison) -> Comparison:
        """Return a comparison of the core with the ways to show it."""
        return cls(workload=found.workload, rows=tuple(Row.of(row) for row in found.rows))

    def to_dict(self) -> dict[str, Any]:
        """Return the `hfkv.compare/1` document that `hfkv compare --json` writes."""
        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def to_json(self) -> str:
        """Return that document as text, byte for byte what the command writes."""
        from hfkv.render.compare import compare_document  # noqa: PLC0415
        from hfkv.render.documents import dumps  # noqa: PLC0415

        return dumps(compare_document(self))

    def __str__(self) -> str:
        from hfkv.render.style import Style  # noqa: PLC0415
        from hfkv.render.text_compare import compare_text  # noqa: PLC0415

        return compare_text(self, Style()).rstrip("\n")

    def __repr__(self) -> str:
        from hfkv.core.counts import counted  # noqa: PLC0415
        from hfkv.render.compare import workload_phrase  # noqa: PLC0415

        return f"<Comparison of {counted(len(self.rows), 'model')} at {workload_phrase(self)}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from hfkv.render.notebook import comparison_fragment  # noqa: PLC0415

        return comparison_fragment(self)


def _values(record: report.Report) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}
