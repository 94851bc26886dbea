"""Ten thousand waiting jobs: the memory of their daemon, and the time of a decision.

Only `Scheduler.step` is timed, in turns with the step of a short queue. Each round has a few
events, and the slowest counts.
"""

from __future__ import annotations

import time

import psutil

from benchmarks.real import occupy, running_daemon, submit
from benchmarks.table import Row, median_ms
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.settings import CoreSettings
from radrm.policies.exclusive import Exclusive
from tests.waiting import wait_until
from tests.world import World, gpus

LIMIT_MIB = 120
LIMIT_MS = 5.0
LIMIT = 2.0
SHORT = 10


def measure(jobs: int = 10_000, decisions: int = 50) -> list[Row]:
    before, after = _memory(jobs)
    long, short = _decisions(jobs, decisions)
    waiting = f"{jobs:,} jobs waiting"
    return [
        Row(f"daemon, {waiting}", after, LIMIT_MIB, "MiB", f"without them {before:.0f} MiB"),
        Row(f"slowest decision, {waiting}", long, LIMIT_MS, "ms"),
        Row(f"the same beside {SHORT} waiting", long / short, LIMIT, "x", f"those: {short:.3f} ms"),
    ]


def _memory(jobs: int) -> tuple[float, float]:
    """The memory (MiB) of a daemon before and after it has taken in `jobs` that must wait."""
    with running_daemon() as home:
        assert home.process is not None
        occupy(home)
        daemon = psutil.Process(home.process.pid)
        before = daemon.memory_info().rss
        tickets, _ = submit(home, ("true",), jobs)
        spool = home.folder / "home" / "spool"
        wait_until(lambda: not any(spool.iterdir()), "all to be taken in")
        after = daemon.memory_info().rss
        home.ask("cancel", jobs=tickets)
    return before / 2**20, after / 2**20


class TimedWorld(World):
    """Times `step` only, not the world around it."""

    def __init__(self, length: int) -> None:
        self.seconds: list[float] = []
        """The time of each decision in this round."""
        settings = CoreSettings(stale_after_s=1e9, smact_warm_s=0, smact_after_exit_s=0)
        super().__init__(gpus(2), policy=Exclusive(), settings=settings)
        for _ in range(length + 2):
            self.submit(1000)
        self._first = 1

    def decide(self, event: ev.Event) -> Decision:
        began = time.perf_counter()
        decision = self.scheduler.step(event)
        self.seconds.append(time.perf_counter() - began)
        return decision

    def slowest(self) -> float:
        """The slowest of a submission, readings, an end with the next start, and a wake-up."""
        self.seconds.clear()
        self.submit(1000)
        self.read()
        self.end(self._first)
        self._first += 1
        self.step(ev.Tick(at=self.now))
        return max(self.seconds)


def _decisions(jobs: int, rounds: int) -> tuple[float, float]:
    """Milliseconds of the slowest decision in a round, with a long and with a short queue."""
    long, short = TimedWorld(jobs), TimedWorld(SHORT)
    pairs = [(long.slowest(), short.slowest()) for _ in range(rounds)]
    of_long, of_short = zip(*pairs, strict=True)
    return median_ms(of_long), median_ms(of_short)
