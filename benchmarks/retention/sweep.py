"""The longest piece of a sweep that removes most jobs of a large store, and the file's size.

python -m benchmarks.retention.sweep 200000       # jobs; the file is about 1.4 GB
python -m benchmarks.retention.sweep 20000 65536  # jobs with environments of so many bytes
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory

from benchmarks.table import Row, p95_ms, shown
from radrm.config import RetentionConfig
from radrm.core.records import ArrayElement, Instant
from radrm.core.words import JobState
from radrm.estimators.learning.contention import Alone
from radrm.host.storage.paths import Paths, prepare
from radrm.host.storage.retention.rows import Steady
from radrm.host.storage.retention.sweep import Retention
from radrm.host.storage.runs import Run, Said
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission, parse_envelope
from radrm.structs import replace
from tests.host.storage.envelopes import envelope
from tests.world import World, gpus

LIMIT_MS = 50.0
DAY_S = 86400.0
_USERS = 20
_ENVIRONMENTS = 400
_SAVED_AT_ONCE = 500
_SCRIPT = (
    "#!/bin/bash\n#RAD --gpus=1 --gpu-memory=20G --time=8h\n"
    + "# a comment line\n" * 40
    + "python train.py\n"
)


def fill(store: Store, count: int, environment_bytes: int, now_s: float) -> None:
    """Save finished jobs of `_USERS` users, which ended in the last 200 days; a tenth of them in
    arrays of 100. Each of the large environments is another."""
    world = World(gpus(1))
    job = world.submit(20_000)
    world.pass_time(60.0)
    world.end(job)
    ended, attempt, done = world.jobs[job.id], world.attempts[job.id, 1], world.decisions[-1]
    shared = [_environment(n, 4096) for n in range(_ENVIRONMENTS)]
    for begin in range(1, count + 1, _SAVED_AT_ONCE):
        records, sent, runs = [], [], []
        for number in range(begin, min(begin + _SAVED_AT_ONCE, count + 1)):
            at_s = now_s - 200 * DAY_S * (1 - number / count)
            at = Instant(at_s, at_s, "boot")
            uid, first = 1000 + number // 100 % _USERS, number - number % 100
            array = ArrayElement(first, number - first) if first and first % 1000 == 0 else None
            new = array is None or array.index == 0
            if new:
                env = _environment(number, environment_bytes) if environment_bytes else None
                env = env or shared[number % _ENVIRONMENTS]
                one = envelope(script=_SCRIPT, environment=env)
                sent.append(Submission(uid, uid, one, parse_envelope(one)))
            spec = replace(ended.spec, uid=uid, user=f"user{uid}", name=f"train{number % 50}")
            records.append(
                replace(
                    ended, id=number, ticket=one.ticket, spec=spec, array=array, submitted=at,
                    started=at, ended=at, state=JobState.COMPLETED,
                )
            )  # fmt: skip
            records.append(
                replace(attempt, job_id=number, serial=number, launched=at, started=at, ended=at)
            )
            runs.append(Run(number, uid, f"program {number % 300}", "A100", Said(shown=Alone())))
        store.save([replace(done, changed=tuple(records), dropped=())], sent, runs=runs)


def _environment(number: int, size: int) -> dict[str, str]:
    return {"NUMBER": str(number), "NOISE": os.urandom(size // 2).hex()}


def sweep(
    paths: Paths, store: Store, config: RetentionConfig, now_s: float, clock: Callable[[], float]
) -> list[float]:
    """The seconds of each piece of one sweep."""
    now = Instant(now_s, now_s, "boot")
    store.rows.note_steady(Steady(now_s - 2 * DAY_S, now))
    at_s = 0.0

    def tick() -> float:
        return clock() + at_s

    retention, pieces = Retention(config, store.rows, store.energy, paths, tick), []
    while (due_s := retention.due_in_s) < 600.0:
        at_s += due_s + 1e-6
        began_s = clock()
        retention.work(now, ready=True)
        pieces.append(clock() - began_s)
    return pieces


def measure(
    count: int = 10_000,
    environment_bytes: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> list[Row]:
    """The 95th percentile and the longest of all pieces of a sweep."""
    with TemporaryDirectory() as folder:
        paths = Paths(folder, f"{folder}/run")
        prepare(paths, False)
        store, now_s = Store(paths.database), 1.7e9
        fill(store, count, environment_bytes, now_s)
        before = os.path.getsize(paths.database)
        pieces = sweep(paths, store, RetentionConfig(finished_days=20), now_s, clock)
        left = len(store.finished(count))
        store.close()
        after = os.path.getsize(paths.database)
    sizes = f"{count} jobs, {left} left; {before >> 20} MiB before, {after >> 20} MiB after"
    detail = f"{len(pieces)} pieces; {sizes}"
    return [
        Row("a piece of a sweep, p95", p95_ms(pieces), LIMIT_MS / 4, "ms", detail),
        Row("a piece of a sweep, longest", max(pieces) * 1e3, LIMIT_MS, "ms", ""),
    ]


if __name__ == "__main__":
    chosen = time.thread_time if sys.argv[3:] == ["cpu"] else time.monotonic
    sys.exit(shown(measure(*map(int, sys.argv[1:3]), clock=chosen)))
