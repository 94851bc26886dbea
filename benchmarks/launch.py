"""Time from an acknowledged submission to the job's first instruction, and from end to next start.

The jobs print the time with `date`, so the times include the start of one small program: about
1 ms.
"""

from __future__ import annotations

import os
from itertools import pairwise

from benchmarks.real import running_daemon, submit
from benchmarks.table import Row, median_ms, p95_ms
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

LIMIT_MS = 50
_NOW = ("date", "+%s.%N")
_NOW_AND_SOON = ("sh", "-c", "date +%s.%N; sleep 0.1; exec date +%s.%N")


def measure(jobs: int = 30) -> list[Row]:
    """Time `jobs` one after another on an idle daemon, then the same number in one queue."""
    with running_daemon() as home:
        alone = [_first_instruction(home) for _ in range(jobs)]
        gaps = _between(home, jobs)
    return [
        Row("acknowledged to first instruction", median_ms(alone), LIMIT_MS, "ms", _p95(alone)),
        Row("end to next start on its device", median_ms(gaps), LIMIT_MS, "ms", _p95(gaps)),
    ]


def _p95(seconds: list[float]) -> str:
    return f"p95 {p95_ms(seconds):.0f} ms"


def _first_instruction(home: DaemonHome) -> float:
    """Seconds from the acknowledgement of a job to its first instruction."""
    logs = len(os.listdir(home.work))
    (ticket,), acknowledged = submit(home, _NOW)
    wait_until(lambda: len(os.listdir(home.work)) > logs, "the job's log")
    home.wait_end(ticket)
    (began,) = printed_times(home, ticket)
    return began - acknowledged


def _between(home: DaemonHome, jobs: int) -> list[float]:
    """Seconds from each job's last instruction to the next one's first."""
    tickets, _ = submit(home, _NOW_AND_SOON, jobs)
    home.ask("intake", jobs=tickets)  # answered once they are taken in
    wait_until(lambda: not home.ask("status"), "the jobs' end")
    times = [printed_times(home, ticket) for ticket in tickets]
    return [later[0] - earlier[1] for earlier, later in pairwise(times)]


def printed_times(home: DaemonHome, ticket: str) -> list[float]:
    """The times that a job has printed, in epoch seconds."""
    return [float(line) for line in home.output(home.job(ticket)["id"]).split()]
