"""Transactions per minute while jobs only report progress and grow, and no user does anything.

Eight jobs report progress and are read once a second, and their memory grows. SQLite syncs its
log once in each transaction.

    strace -f -c -e trace=fsync,fdatasync python -m benchmarks.saving
"""

from __future__ import annotations

import sys
from tempfile import TemporaryDirectory
from unittest.mock import Mock

from benchmarks.table import Row
from radrm.core import events as ev
from radrm.core.records import Progress
from radrm.daemon.decisions import Decisions
from radrm.host.storage.store import Store
from tests.host.storage.stores import submission_of
from tests.world import GIB, World, gpus

LIMIT = 4.0
JOBS = 8


def measure(seconds: int = 60) -> list[Row]:
    with TemporaryDirectory() as folder:
        per_minute = _transactions(f"{folder}/radrm.sqlite", seconds) * 60 / seconds
    detail = f"{JOBS} jobs that report each second and grow, over {seconds} s"
    return [Row("transactions of running jobs", per_minute, LIMIT, "per min", detail)]


def _transactions(path: str, seconds: int) -> int:
    world, store = World(gpus(JOBS)), Store(path)
    jobs = [world.submit(20 * GIB, smact=0.9) for _ in range(JOBS)]
    store.save(world.decisions, map(submission_of, jobs))
    decisions = Decisions(
        world.scheduler,
        store,
        Mock(**{"carry_out.return_value": [], "ended_by.return_value": []}),
        None,
    )
    count = 0

    def note(query: str) -> None:
        nonlocal count
        count += query == "COMMIT"

    store._db.connection.set_trace_callback(note)
    for second in range(seconds):
        world.boot_s += 1.0
        for job in jobs:
            world.used[job.id] = GIB + 200 * second
            progress = Progress(at=world.now, step=float(second))
            decisions.process(
                [ev.ProgressReported(at=world.now, job_id=job.id, serial=job.id, progress=progress)]
            )
        readings = tuple(world._reading(device.uuid) for device in world.devices)
        decisions.process([ev.ReadingsTaken(at=world.now, readings=readings)])
        decisions.save_volatile(world.boot_s)
    decisions.save_volatile()
    store.close()
    return count


if __name__ == "__main__":
    print(measure()[0], file=sys.stderr)
