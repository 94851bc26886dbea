"""The cost of reports: for a job, and for a daemon with a thousand jobs that report each second.

python -m benchmarks.reports
"""

from __future__ import annotations

import os
import resource
import socket
import statistics
import sys
import time
from tempfile import TemporaryDirectory
from unittest.mock import Mock, patch

from benchmarks.table import Row, shown
from radrm.core.records import Instant
from radrm.core.settings import CoreSettings
from radrm.daemon.decisions import Decisions
from radrm.daemon.progress import Reports
from radrm.host.clock import Clock
from radrm.host.progress import Receiver
from radrm.host.storage.store import Store
from radrm.report import Reporter
from tests.host.storage.stores import submission_of
from tests.world import World, gpus

JOBS = 1000
MOST_OF_A_CORE = 5.0
MOST_US = 10.0


def measure(count: int = JOBS) -> list[Row]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 100:  # a socket for each job
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with TemporaryDirectory(prefix="radrm-b-") as folder:
        os.mkdir(f"{folder}/p")
        receiver = Receiver(f"{folder}/p", give_away=False)
        try:
            shares = _daemon(folder, receiver, count)
            each_us = _job(receiver)
        finally:
            receiver.release()
    longest = f"{count} jobs, one report a second each; worst second {max(shares):.1f}"
    return [
        Row("reports: the daemon", statistics.mean(shares), MOST_OF_A_CORE, "% core", longest),
        Row("reports: the job", each_us, MOST_US, "µs", "one call of Reporter.progress"),
    ]


def _daemon(folder: str, receiver: Receiver, count: int, seconds: int = 30) -> list[float]:
    """The part of a core, in percent, that each second of reports costs."""
    settings = CoreSettings(gpuless_at_once=count)
    world, store = World(gpus(1), settings=settings), Store(f"{folder}/radrm.sqlite")
    jobs = [world.submit(gpus=0) for _ in range(count)]
    store.save(world.decisions, map(submission_of, jobs))
    decisions = Decisions(
        world.scheduler,
        store,
        Mock(**{"carry_out.return_value": [], "ended_by.return_value": []}),
        None,
    )
    clock = Mock(spec=Clock)
    clock.now = lambda: Instant(world.boot_s, 1e9 + world.boot_s, "bench")
    reports = Reports(clock, world.scheduler, receiver, 10.0, 1.0)
    paths = [reports.open(job, job.id) for job in jobs]
    found = []
    for second in range(seconds):
        for path in paths:
            # A socket each: what one socket has sent and nobody has read is limited.
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"step=%d\ntotal=1000\nloss=0.31" % second, path)
        world.boot_s += 1.0
        began = time.process_time()
        decisions.process(reports.events())
        decisions.save_volatile(world.boot_s)
        found.append((time.process_time() - began) * 100)
    progress = world.scheduler.snapshot.job(jobs[-1].id)
    assert progress is not None and progress.progress is not None
    store.close()
    return found


def _job(receiver: Receiver, calls: int = 20_000) -> float:
    """Microseconds of one report, for the program that makes it."""
    environment = {"RADRM_PROGRESS": receiver.open(10**6, os.getuid())}
    with patch.dict(os.environ, environment):
        reporter = Reporter()
        began = time.perf_counter()
        for step in range(calls):
            reporter.progress(step=step, total=calls, loss=0.31)
        return (time.perf_counter() - began) / calls * 1e6


def main() -> int:
    return shown(measure())


if __name__ == "__main__":
    sys.exit(main())
