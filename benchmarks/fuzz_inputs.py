"""Feed what comes from outside with atheris, for as long as you like.

    pip install atheris
    python benchmarks/fuzz_inputs.py header -max_total_time=300 [-jobs=2 ...]

The target is one of tests/fuzz_targets.py; new inputs go to a folder of their own, crashes to
`crash-…` in the current one. Put what failed into fixtures/corpus/TARGET under a name that says
what it is: tests/test_fuzz.py then keeps it from failing again.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

atheris: Any = import_module("atheris")  # installed by whoever fuzzes, so not known to mypy
with atheris.instrument_imports(include=["hfkv", "json"]):
    from fuzz_targets import TARGETS, run

# Slower than this, and it is a finding too.
_SECONDS = "5"


def main() -> None:
    """Run one target on its corpus and on what atheris makes of it."""
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"name one of {', '.join(TARGETS)}")
    name = sys.argv.pop(1)
    fresh = tempfile.mkdtemp(prefix=f"hfkv-fuzz-{name}-")
    corpus = ROOT / "fixtures" / "corpus" / name
    options = [f"-timeout={_SECONDS}", "-rss_limit_mb=1024", *sys.argv[1:]]
    atheris.Setup([sys.argv[0], *options, fresh, str(corpus)], lambda raw: run(name, raw))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
