"""Ten thousand waiting jobs: the memory of a daemon that holds them, and the time of a decision.

Decisions are timed in `Scheduler.step` alone, in turns with those of a short queue:
rounds of a few events each, of which the slowest counts.
"""

from __future__ import annotations

import time

import psutil

from benchmarks.real import hand_in, occupy, running_daemon
from benchmarks.table import Row, median_ms
from radrm.core import events as ev
from radrm.core.settings import CoreSettings
from radrm.core.state.state import Decision
from radrm.policies.exclusive import Exclusive
from tests.daemon.harness import wait_until
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
    """MiB that a daemon holds before and after it has taken in `jobs` that must wait."""
    with running_daemon() as home:
        assert home.process is not None
        occupy(home)
        daemon = psutil.Process(home.process.pid)
        before = daemon.memory_info().rss
        tickets, _ = hand_in(home, ("true",), jobs)
        spool = home.folder / "home" / "spool"
        wait_until(lambda: not any(spool.iterdir()), "all to be taken in")
        after = daemon.memory_info().rss
        home.ask("cancel", jobs=tickets)
    return before / 2**20, after / 2**20


class TimedWorld(World):
    """Times `step` only, not the world around it."""

    def __init__(self, length: int) -> None:
        self.seconds: list[float] = []
        """Of each decision in this round."""
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
        """Of a submission, readings, a job's end with the next one's start, and a wake-up."""
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
