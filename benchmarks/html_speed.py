"""How long a page of the HTML report takes to write, and how large it is.

    python benchmarks/html_speed.py       exit 1 if a page takes 100 ms or more

Computing time when everything is loaded, the best of ten; the cost of importing is that of
`hfkv inspect` and not counted.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from hfkv.core.gpus import parse_gpu
from hfkv.core.report import analyze
from hfkv.core.snapshots import loads
from hfkv.core.workload import Deployment, Workload
from hfkv.render.html import page_document, render_html

MODELS = Path(__file__).parent.parent / "fixtures" / "models"
PAGES = (
    ("meta-llama--Llama-3.1-8B", "a100-80", "none"),
    ("meta-llama--Llama-3.1-8B", "a100-80", "vllm"),
    ("google--gemma-3-27b-it", "rtx4090", "vllm"),
    ("google--gemma-3-27b-it", "rtx4090", "llama.cpp"),
    ("Qwen--Qwen3-Next-80B-A3B-Instruct", "h100-80:4", "vllm"),
    ("deepseek-ai--DeepSeek-V3", "h200:8", "vllm"),
    ("google--gemma-4-E2B-it", "rtx4090", "vllm"),
)
MOST = 0.1  # seconds


def main() -> int:
    """Print a line for each page."""
    slow = 0
    for name, gpu, engine in PAGES:
        files = loads((MODELS / f"{name}.hfkv.json").read_bytes(), where=name)
        work = Workload(engine=engine, deployment=Deployment(gpus=tuple(parse_gpu(gpu))))
        report = analyze(files, work)
        spent = []
        for _ in range(10):
            began = time.process_time()
            page = render_html([page_document(report)], title=name)
            spent.append(time.process_time() - began)
        slow += min(spent) >= MOST
        sys.stdout.write(
            f"{1000 * min(spent):4.0f} ms  {len(page.encode()) / 1000:4.0f} kB  "
            f"{name} on {gpu}, engine {engine}\n"
        )
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
