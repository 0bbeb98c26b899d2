"""Pictures of the HTML report to look at, and the one in the README.

    PYTHONPATH=.:tests python benchmarks/html_pictures.py -o FOLDER [--only WORD]
    PYTHONPATH=.:tests python benchmarks/html_pictures.py --readme

The first takes every page of `PAGES` at phone and desktop width, light and dark, as long as
it is; the second makes docs/report.png. Both need chromium and chromedriver, the second pngquant.
"""

from __future__ import annotations

import argparse
import base64
import subprocess
import tempfile
from pathlib import Path

from browser.driver import Page, chromium
from hand_made import REPORTS

from hfkv.core.gpus import parse_gpu
from hfkv.core.report import Report, analyze
from hfkv.core.snapshots import loads
from hfkv.core.workload import Deployment, Workload
from hfkv.render.html import page_document, render_html

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "report.png"
WIDTHS = {"phone": 390, "desktop": 1280}
LLAMA, GEMMA = "meta-llama--Llama-3.1-8B", "google--gemma-3-27b-it"
QWEN, DEEPSEEK = "Qwen--Qwen3-Next-80B-A3B-Instruct", "deepseek-ai--DeepSeek-V3"


def report(name: str, *gpus: str, engine: str = "none", context: int | None = None) -> Report:
    """Return the report of a fixture."""
    files = loads((ROOT / "fixtures" / "models" / f"{name}.hfkv.json").read_bytes(), where=name)
    choices = tuple(choice for text in gpus for choice in parse_gpu(text))
    deployment = Deployment(gpus=choices)
    return analyze(files, Workload(engine=engine, context=context, deployment=deployment))


def pages() -> dict[str, list[Report]]:
    """Return what stands on each page."""
    compared = (LLAMA, GEMMA, QWEN, "mistralai--Mixtral-8x7B-v0.1")
    return {
        "dense": [report(LLAMA, "a100-80", context=32768)],
        "hybrid": [report(QWEN, "h100-80:4", engine="vllm", context=131072)],
        "latent": [report(DEEPSEEK, "h200:8", engine="vllm", context=32768)],
        "short": [report(GEMMA, "rtx4090", context=32768)],
        "choices": [report(GEMMA, "rtx4090", "a100-80", "h100-80:2", context=32768)],
        "unknown": [REPORTS["alien"]],
        "compare": [report(name, "h100-80", context=32768) for name in compared],
    }


def written(folder: Path, name: str, reports: list[Report]) -> Path:
    """Write one page."""
    title = reports[0].files.target.id if len(reports) == 1 else f"{len(reports)} models"
    path = folder / f"{name}.html"
    path.write_text(
        render_html([page_document(one) for one in reports], title=title), encoding="utf-8"
    )
    return path


def photograph(page: Page, *, width: int, height: int | None = None) -> bytes:
    """Return a PNG of the page, or of its first `height` pixels."""
    long = height or page.run("return document.documentElement.scrollHeight")
    page.chrome.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": long, "deviceScaleFactor": 1, "mobile": False},
    )
    page.chrome.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 200))")
    taken = page.chrome.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    return base64.b64decode(taken["data"])


def compressed(png: bytes) -> bytes:
    """Return a picture in 64 colours, a third as large: pngquant is installed with apt-get."""
    command = ("pngquant", "64", "--strip", "-")
    return subprocess.run(command, input=png, capture_output=True, check=True).stdout


def main() -> None:
    """Take the pictures that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="a folder for all of them")
    parser.add_argument("--only", default="", help="pages whose name contains this")
    parser.add_argument("--readme", action="store_true", help=f"make {PICTURE.name}")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium(Path(folder) / "profile") as page:
        if asked.readme:
            shown = [report(GEMMA, "h100-80", context=32768)]
            page.open(written(Path(folder), "report", shown), width=1280)
            PICTURE.write_bytes(compressed(photograph(page, width=1280, height=1660)))
        if asked.output:
            asked.output.mkdir(parents=True, exist_ok=True)
            for name, reports in pages().items():
                if asked.only not in name:
                    continue
                path = written(Path(folder), name, reports)
                for size, width in WIDTHS.items():
                    for theme in ("light", "dark"):
                        page.open(path, width=width, theme=theme)
                        taken = photograph(page, width=width)
                        (asked.output / f"{name}-{size}-{theme}.png").write_bytes(taken)


if __name__ == "__main__":
    main()
