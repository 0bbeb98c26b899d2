"""A user's script is checked against the package as it is installed, py.typed and all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
from pathlib import Path
from typing import Any, assert_type

import hfkv
from hfkv import FitReport, HfkvError, KVReport, Report

report = hfkv.inspect(
    Path("config.json"), gpu=["h100:4", "rtx4090"], tp=4, context="32k", utilization=0.9,
    engine="vllm", engine_version="0.10.0", max_num_seqs=64, overhead="2gib",
)
assert_type(report, Report)
assert_type(report.kv, KVReport | None)
if report.kv is not None:
    assert_type(report.kv.bytes, int)
for fit in report.fit:
    assert_type(fit, FitReport)
    assert_type(fit.fits, bool | None)
assert_type(report.to_dict(), dict[str, Any])
assert_type(report.to_json(), str)

answer = hfkv.compare(["a/b", Path("folder")], gpu="h100", sort="kv")
assert_type(answer, hfkv.Comparison)
assert_type(answer.rows[0].report, Report | None)
assert_type(answer.rows[0].error, HfkvError | None)
assert_type(hfkv.analyze(hfkv.load("a/b"), hfkv.workload(context=8192)), Report)
assert_type(hfkv.json_schema("inspect"), dict[str, Any])

options: hfkv.InspectOptions = {"context": "32k"}
hfkv.inspect("a/b", **options)
hfkv.inspect("a/b", gpus="h100")  # type: ignore[call-arg]
hfkv.inspect("a/b", context=1.5)  # type: ignore[arg-type]
hfkv.nothing  # type: ignore[attr-defined]
"""


def test_a_script_is_clean_under_mypy_strict(tmp_path: Path) -> None:
    """Types are what they are said to be, and mistakes are found: an unused ignore is an error."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(script)]
    done = subprocess.run(
        [*command, "--cache-dir", str(tmp_path / "cache")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "Success: no issues found in 1 source file\n", done.stdout + done.stderr
