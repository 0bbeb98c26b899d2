"""200 models at once from a Hub that refuses a third of all requests; 100 kills in mid-write.

    python benchmarks/hub_crowd.py --hubsim PATH/hubsim.py [--models 200] [--kills 100]

The exit code is 1 when one model could not be read, or one look after a kill was wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hub_fault_list import load_simulator, write_repositories

from hfkv.core.report import analyze
from hfkv.errors import HfkvError
from hfkv.sources import load
from hfkv.sources.cache import Cache, Key
from hfkv.sources.several import load_many

WRITER = """
import sys
from pathlib import Path
from hfkv.sources.cache import Cache, Key
cache = Cache(Path(sys.argv[1]))
key = Key(endpoint=sys.argv[2], repo="sim/four-400B", revision="main")
files = cache.latest(key)
print("ready", flush=True)
while True:
    cache.keep(key, files)
"""


def read_arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hubsim", required=True, type=Path)
    parser.add_argument("--models", default=200, type=int)
    parser.add_argument("--kills", default=100, type=int)
    return parser.parse_args()


def crowd(hub: object, root: Path, models: int) -> int:
    """Read many models at once, a third of all requests refused; return how many failed."""
    for number in range(models):
        (root / "sim" / f"m{number}").symlink_to(root / "sim" / "one-1B")
    hub.server.reload()  # type: ignore[attr-defined]
    hub.reset()  # type: ignore[attr-defined]
    hub.fault(kind="ratelimit", every=3, bare=1)  # type: ignore[attr-defined]
    started = time.monotonic()
    failed = 0
    names = [f"sim/m{number}" for number in range(models)]
    for target, outcome in load_many(names, at_once=models):
        if isinstance(outcome, HfkvError):
            failed += 1
            print(f"  {target}: {outcome}")
        else:
            analyze(outcome)
    stats = hub.stats()  # type: ignore[attr-defined]
    print(
        f"{models} models at once: {failed} failed, {stats['requests']:,} requests of which "
        f"{stats['by_status'].get('429', 0):,} were refused, {stats['connections']} connections,"
        f" {time.monotonic() - started:.1f} s"
    )
    return failed


def kill(hub: object, cache: Path, times: int) -> int:
    """Kill a process that writes the cache, again and again; return how often that did harm."""
    hub.reset()  # type: ignore[attr-defined]
    os.environ["HFKV_CACHE"] = str(cache)
    right = load("sim/four-400B")
    endpoint = os.environ["HF_ENDPOINT"]
    key = Key(endpoint=endpoint, repo="sim/four-400B", revision="main")
    harm = damaged = 0
    for _ in range(times):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(cache), endpoint], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.uniform(0, 0.02))  # noqa: S311
        process.kill()
        process.wait()
        process.stdout.close()
        damaged += Cache(cache).latest(key) is None
        harm += load("sim/four-400B") != right
        harm += load("sim/four-400B", offline=True) != right
    left = sum(1 for path in cache.rglob(".*"))
    print(f"{times} kills: {damaged} damaged entries, {left} files left over, {harm} wrong looks")
    return harm


def main() -> int:
    """Run both and say how it went."""
    arguments = read_arguments()
    simulator = load_simulator(arguments.hubsim)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "repos"
        write_repositories(root)
        with simulator.HubSim(str(root)) as hub:
            os.environ.update(HF_ENDPOINT=hub.endpoint, HFKV_CACHE=f"{folder}/first")
            failed = crowd(hub, root, arguments.models)
            harm = kill(hub, Path(folder) / "second", arguments.kills)
    return 1 if failed or harm else 0


if __name__ == "__main__":
    sys.exit(main())
