"""A headless Chromium for tests of the HTML report, and the questions that are put to it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

__all__ = ["Page", "chromium"]

_AXE = Path(__file__).parent / "axe.min.js"
# As root in a sandbox without a screen or a network.
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_SKIPPED = "chromium and chromedriver are not installed, and HFKV_BROWSER_TESTS is not 1"


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """Give a browser; without one, skip, or fail where HFKV_BROWSER_TESTS=1 promises it."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        if os.environ.get("HFKV_BROWSER_TESTS") == "1":
            pytest.fail("HFKV_BROWSER_TESTS=1, and chromium or chromedriver is not installed")
        pytest.skip(_SKIPPED)
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Page(chrome)
    finally:
        chrome.quit()


class Page:
    """One tab. What is read is what a person would see, by the names in `data-figure`."""

    def __init__(self, chrome: webdriver.Chrome) -> None:
        self.chrome = chrome

    def open(self, path: Path, *, width: int = 1400, theme: str = "light") -> None:
        """Load a file as wide a window in a colour scheme."""
        self.look(theme)
        self.chrome.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        self.chrome.get(path.as_uri())

    def look(self, theme: str) -> None:
        """Prefer a colour scheme."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def unfold(self) -> None:
        """Open everything that can be opened."""
        self.run("for (const one of document.querySelectorAll('details')) one.open = true")

    def run(self, script: str, *args: Any) -> Any:
        """Run a script in the page and return what it returns."""
        return self.chrome.execute_script(script, *args)

    def put(self, name: str, value: object) -> None:
        """Set one control as a person does: its value, then the event that follows."""
        self.run(
            "const [field, value] = [document.getElementById(arguments[0]), arguments[1]];"
            "field.value = value;"
            "if (field.value !== value) throw new Error(`${arguments[0]} has no ${value}`);"
            "field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input'))",
            name,
            str(value),
        )

    def shown(self, model: int = 0) -> dict[str, list[tuple[str, str]]]:
        """Return every figure of one model: its text, and what a resting pointer is shown."""
        found: list[tuple[str, str, str]] = self.run(
            "return [...document.querySelectorAll(`[data-model='${arguments[0]}'] [data-figure]`)]"
            ".map((one) => [one.dataset.figure, one.textContent, one.title])",
            model,
        )
        return _by_name(found)

    def shown_in(self, selector: str) -> list[dict[str, list[tuple[str, str]]]]:
        """Return the figures in every element that matches, each as `shown` has them."""
        found: list[list[tuple[str, str, str]]] = self.run(
            "return [...document.querySelectorAll(arguments[0])].map((place) =>"
            " [...place.querySelectorAll('[data-figure]')]"
            ".map((one) => [one.dataset.figure, one.textContent, one.title]))",
            selector,
        )
        return [_by_name(figures) for figures in found]

    def verdict(self, model: int = 0) -> str:
        """Return the sentence at the top of one model."""
        ((text, _),) = self.shown(model)["verdict"]
        return text

    def text(self, selector: str) -> str:
        """Return the text of the first element that matches."""
        found: str = self.run("return document.querySelector(arguments[0]).textContent", selector)
        return found

    def complaints(self) -> list[str]:
        """Return what axe has against the page, each rule with the first place it names."""
        self.run(_AXE.read_text(encoding="utf-8"))
        result = self.chrome.execute_async_script(
            "axe.run(document).then(arguments[0], (error) => arguments[0]({error: `${error}`}))"
        )
        assert "error" not in result, result
        return [
            f"{one['impact']} {one['id']}: {json.dumps(one['nodes'][0]['target'])} "
            f"{one['nodes'][0]['failureSummary']}"
            for one in result["violations"]
        ]

    def log(self) -> list[str]:
        """Return what the browser had to say, such as blocked scripts and errors."""
        found = self.chrome.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in found]


def _by_name(found: list[tuple[str, str, str]]) -> dict[str, list[tuple[str, str]]]:
    figures: dict[str, list[tuple[str, str]]] = {}
    for name, text, title in found:
        figures.setdefault(name, []).append((text, title))
    return figures
