"""A daemon with very many ended jobs: its start, its store, and what people ask, as commands.

python -m benchmarks.past.scale 100000         # jobs

Times are CPU seconds of daemon and command together, medians of three, so that other work on the
machine counts little; in brackets the elapsed ones.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from benchmarks.past.overview import DAYS, fill
from benchmarks.real import daemon_cpu_s, fresh_home
from benchmarks.table import Row, shown
from radrm.host.storage.paths import paths_for, prepare
from radrm.host.storage.store import Store
from tests.daemon.harness import DaemonHome

_MIB = 2**20
_COMMANDS = {
    "status --all --json": (1.5, ("status", "--all", "--json")),
    "report": (2.0, ("report", "--since", f"{DAYS}d")),
    "history": (2.0, ("history", "--since", f"{DAYS}d")),
    "history, a day": (0.5, ("history", "--since", "1d")),
}
"""The commands, each with the most seconds that it may take."""


def measure(count: int = 100_000) -> list[Row]:
    with fresh_home(8) as empty, fresh_home(8) as home:
        size = _filled(home, count)
        began = [(_start(empty), _start(home)) for _ in range(3)]
        (bare_s, _), (start_s, elapsed_s) = (_medians(each) for each in zip(*began, strict=True))
        detail = f"({elapsed_s:.2f}), an empty store: {bare_s:.2f}"
        rows = [
            Row("store", size / _MIB, 200, "MiB", f"{size / count:.0f} bytes a job"),
            Row("restart", start_s, 1.0, "s", detail),
        ]
        for what, (limit_s, words) in _COMMANDS.items():
            used = [_used(home, partial(home.radrm, *words)) for _ in range(3)]
            used_s, elapsed_s = _medians(used)
            rows.append(Row(what, used_s, limit_s, "s", f"({elapsed_s:.2f})"))
    return rows


def _filled(home: DaemonHome, count: int) -> int:
    """Make the store of a home; return its bytes."""
    paths = paths_for(home.environment, os.getuid())
    prepare(paths, False)
    store = Store(paths.database)
    fill(store, count, now_s=time.time())
    store.close()
    return os.path.getsize(paths.database)


def _start(home: DaemonHome) -> tuple[float, float]:
    """Start a daemon, in place of the one before; CPU and elapsed seconds until it answers."""
    if home.process is not None:
        home.stop()
    began_s = time.perf_counter()
    home.start()
    return daemon_cpu_s(home), time.perf_counter() - began_s


def _used(home: DaemonHome, act: Callable[[], object]) -> tuple[float, float]:
    """CPU and elapsed seconds of a command."""
    before_s, began_s = daemon_cpu_s(home) + _children_s(), time.perf_counter()
    act()
    return daemon_cpu_s(home) + _children_s() - before_s, time.perf_counter() - began_s


def _children_s() -> float:
    used = os.times()
    return used.children_user + used.children_system


def _medians(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    first, second = zip(*pairs, strict=True)
    return median(first), median(second)


def main() -> int:
    return shown(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))


if __name__ == "__main__":
    sys.exit(main())
