"""Checks as JUnit XML, which CI servers show as tests."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hfkv.core.checks import Check, Status, Verdicts
from hfkv.render.check import sentence
from hfkv.render.units import clean

__all__ = ["check_junit"]

# Besides what `clean` writes out, XML has no place for these two.
_NONCHARACTERS = str.maketrans({"\ufffe": "\\ufffe", "\uffff": "\\uffff"})


def check_junit(answer: Verdicts) -> str:
    """Return one test suite, a test case a check; warnings are output unless they fail."""
    checks, failed = answer.checks, answer.failed
    skipped = sum(check.status is Status.SKIPPED for check in checks)
    totals = {
        "tests": str(len(checks)),
        "failures": str(len(failed)),
        "errors": "0",
        "skipped": str(skipped),
    }
    root = ET.Element("testsuites", {"name": "hfkv check", **totals})
    suite = ET.SubElement(root, "testsuite", {"name": _text(answer.name), **totals})
    for check in checks:
        _case(suite, check, answer)
    ET.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _case(suite: ET.Element, check: Check, answer: Verdicts) -> None:
    names = {"classname": f"hfkv.{_text(answer.name)}", "name": check.id}
    case = ET.SubElement(suite, "testcase", names)
    message = _text(sentence(check))
    if check in answer.failed:
        what = {"message": message, "type": str(check.status)}
        ET.SubElement(case, "failure", what).text = _text(check.hint or "")
    elif check.status is Status.SKIPPED:
        ET.SubElement(case, "skipped", {"message": message})
    else:
        warning = "warning: " if check.status is Status.WARN else ""
        hint = f" ({_text(check.hint)})" if check.hint else ""
        ET.SubElement(case, "system-out").text = f"{warning}{message}{hint}"


def _text(text: str) -> str:
    return clean(text, 2000).translate(_NONCHARACTERS)
