"""The time of one run of SpeCon over 100 jobs, of which a fifth ask for a move."""

from __future__ import annotations

import time

from benchmarks.table import Row, median_ms
from radrm.core import events as ev
from tests.planners.farm import CC, PC, Farm, specon

_LIMIT_MS = 5.0


def measure(rounds: int = 12) -> list[Row]:
    """Return the median time of a step with a run in it."""
    there = [(CC,) * 3 + (PC,) * 10] * 7 + [(PC,) * 9]
    farm = Farm(specon("relative", min_gain=1e9), *there)
    asking = [job for jobs in farm.on[:-1] for job in jobs[:3]]
    seconds = []
    for at in range(rounds):
        farm.boot_s += 28.6
        farm.read()
        for job in asking:
            farm.report(job, loss=1.0 + 0.1 / (at + 1) ** 3, work_done=0.1 + 0.01 * at)
        farm.boot_s += 1.6
        begun_s = time.perf_counter()
        farm.step(ev.Tick(at=farm.now))
        seconds.append(time.perf_counter() - begun_s)
    assert farm.note(asking[0])["weighed"], "it weighs moves"
    return [Row("a run of SpeCon over 100 jobs", median_ms(seconds[2:]), _LIMIT_MS, "ms")]
