"""Fifty terminals with `radrm status --follow` beside twenty thousand waiting jobs.

Each connection asks the two questions of the live picture once a second: the devices, then a page.
Every answer counts, from the moment at which its questions were due.
First the connections ask in turn, then all at the same moment (as after a restart of the daemon).
Meanwhile short jobs run one after another: each start and end changes the table of all jobs.

    python -m benchmarks.serving.pages
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from benchmarks.launch import printed_times
from benchmarks.real import daemon_cpu_s, occupy, running_daemon, submit, waiting
from benchmarks.table import Row, median_ms, p95_ms, shown
from radrm.client.connection import Client
from radrm.errors import RadrmError
from radrm.host.storage.paths import paths_for
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

LIMIT_MS = 300.0
MOST_SLOWER = 2.0
"""The limit of how much later jobs start while the pages are asked for."""
ROWS = 50
EVERY_S = 1.0
_SHORT = ("sh", "-c", "date +%s.%N; sleep 0.3; exec date +%s.%N")
_PATIENCE_S = 1200.0


@dataclass
class Seen:
    """What the connections have seen. `late_s`: of each picture, the seconds since it was due."""

    late_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def measure(jobs: int = 20_000, connections: int = 50, starts: int = 40) -> list[Row]:
    rows = []
    with running_daemon(devices=2) as home:
        # Known run times, so that the daemon plays the line forward for the expected starts.
        occupy(home, duration="1h")
        submit(home, ("true",), jobs, gpus="2", duration="10m")
        wait_until(lambda: waiting(home) >= jobs, "all to be taken in", patience_s=_PATIENCE_S)
        for how, spread_s in {"in turn": EVERY_S, "all at once": 0.0}.items():
            alone = _starts(home, starts)
            with _watched(home, jobs, connections, spread_s) as seen:
                cpu_s, began = daemon_cpu_s(home), time.monotonic()
                gaps = _starts(home, starts)
                share = (daemon_cpu_s(home) - cpu_s) / (time.monotonic() - began)
            rows += _rows(f"{connections} pages a second, {how}", seen, share, gaps, alone)
        home.ask("cancel", state="pending")
    return rows


def _rows(
    what: str, seen: Seen, share: float, gaps: list[float], alone: list[float]
) -> tuple[Row, Row]:
    if seen.wrong:
        raise AssertionError(f"{what}: {len(seen.wrong)} answers are wrong: {seen.wrong[0]}")
    late, slower = p95_ms(seen.late_s), median(gaps) / median(alone)
    of_all = f"of {len(seen.late_s):,}: median {median_ms(seen.late_s):.0f} ms, "
    of_all += f"longest {max(seen.late_s) * 1e3:.0f} ms; the daemon takes {share:.0%} of a core"
    beside = (
        f"{median_ms(gaps):.0f} ms (p95 {p95_ms(gaps):.0f} ms) beside {median_ms(alone):.0f} ms"
    )
    return (
        Row(f"{what}: p95", late, LIMIT_MS, "ms", of_all),
        Row("end to next start, beside without pages", slower, MOST_SLOWER, "x", beside),
    )


def _starts(home: DaemonHome, jobs: int) -> list[float]:
    """Seconds from the end of each short job to the start of the next one."""
    tickets, _ = submit(home, _SHORT, jobs, gpus="1", priority="100")
    home.ask("intake", jobs=tickets)
    last = tickets[-1]
    wait_until(lambda: home.job(last)["state"] == "COMPLETED", "the short jobs' end")
    times = [printed_times(home, ticket) for ticket in tickets]
    return [later[0] - earlier[1] for earlier, later in pairwise(times)]


@contextmanager
def _watched(home: DaemonHome, jobs: int, connections: int, spread_s: float) -> Iterator[Seen]:
    """Let this number of connections ask while the block runs; their moments are spread over so
    many seconds."""
    seen, over = Seen(), threading.Event()
    begin = time.monotonic() + 0.5
    threads = [
        threading.Thread(
            target=_watch, args=(home, jobs, begin + spread_s * n / connections, seen, over)
        )
        for n in range(connections)
    ]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(seen.late_s) >= connections or seen.wrong, "the first answers")
        yield seen
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _watch(home: DaemonHome, jobs: int, due: float, seen: Seen, over: threading.Event) -> None:
    """Ask as the live picture does, on one connection, until `over`."""
    with Client((paths_for(home.environment, os.getuid()),)) as client:
        try:
            client.connect()
            while not over.wait(max(0.0, due - time.monotonic())):
                devices = client.ask("gpus")
                page = client.ask("page", jobs=[], all=False, offset=0, limit=ROWS)
                seen.late_s.append(time.monotonic() - due)
                due += EVERY_S
                read = all(device["state"] in ("idle", "busy") for device in devices)
                if len(page["jobs"]) != ROWS or page["total"] < jobs or not read:
                    seen.wrong.append(f"{len(page['jobs'])} of {page['total']} jobs, {devices}")
        except RadrmError as error:
            seen.wrong.append(str(error))


def main() -> int:
    return shown(measure(*map(int, sys.argv[1:])))


if __name__ == "__main__":
    sys.exit(main())
