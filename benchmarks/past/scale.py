"""A daemon with very many ended jobs: its start, its store, and what people ask, as commands.

python -m benchmarks.past.scale 100000         # jobs
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from benchmarks.past.overview import DAYS, fill
from benchmarks.real import fresh_home
from benchmarks.table import Row
from radrm.host.storage.paths import paths_for, prepare
from radrm.host.storage.store import Store
from tests.daemon.harness import DaemonHome

_MIB = 2**20


def measure(count: int = 100_000) -> list[Row]:
    with fresh_home(8) as empty, fresh_home(8) as home:
        size = _filled(home, count)
        began_s = [(_start(empty), _start(home)) for _ in range(3)]
        bare, restart = (median(each) for each in zip(*began_s, strict=True))
        took = {
            "status --all --json": (1.5, ("status", "--all", "--json")),
            "report": (2.0, ("report", "--since", f"{DAYS}d")),
            "history": (2.0, ("history", "--since", f"{DAYS}d")),
            "history, a day": (0.5, ("history", "--since", "1d")),
        }
        rows = [
            Row("store", size / _MIB, 200, "MiB", f"{size / count:.0f} bytes a job"),
            Row("restart", restart, 1.0, "s", f"an empty store: {bare:.2f} s"),
        ]
        for what, (limit_s, words) in took.items():
            pairs = [(_seconds(_python), _seconds(partial(home.radrm, *words))) for _ in range(3)]
            python, ours = (median(each) for each in zip(*pairs, strict=True))
            rows.append(Row(what, ours, limit_s, "s", f"{ours / python:.0f} x python -c pass"))
    return rows


def _filled(home: DaemonHome, count: int) -> int:
    """Make the store of a home; return its bytes."""
    paths = paths_for(home.environment, os.getuid())
    prepare(paths, False)
    store = Store(paths.database)
    fill(store, count, now_s=time.time())
    store.close()
    return os.path.getsize(paths.database)


def _start(home: DaemonHome) -> float:
    """Seconds until a new daemon answers and has read its GPUs."""
    if home.process is not None:
        home.stop()
    return _seconds(home.start)


def _python() -> None:
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def _seconds(act: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    act()
    return time.perf_counter() - began_s


def main() -> int:
    rows = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    for row in rows:
        print(f"{row.what:<24}{row.measured:8.2f} {row.unit:<8}(limit {row.limit:g}) {row.detail}")
    return 0 if all(row.fine for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
