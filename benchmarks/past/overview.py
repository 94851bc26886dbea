"""The overview of a long history: its CPU time beside that of a report, and its longest piece.

python -m benchmarks.past.overview 200000      # jobs
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from benchmarks.table import Row, p95_ms, shown
from radrm.core.records import DeviceEnergy, EnergyPart, Instant, Placement, Share, Usage
from radrm.core.words import Collocation, JobState, Outcome, Resizing
from radrm.daemon.answers.past.overview import overview
from radrm.daemon.answers.past.report import report
from radrm.daemon.serving.turns import InLine, Work
from radrm.daemon.views.documents import Document
from radrm.deadlines import Costs
from radrm.host.storage.paths import Paths, prepare
from radrm.host.storage.runs import Run, Said
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission, parse_envelope
from radrm.structs import replace
from tests.host.storage.envelopes import envelope
from tests.world import World, gpus

NOW_S = 1_893_456_000.0
DAYS = 30
_USERS = 20
_GPUS = 8
_AT_ONCE = 500
_LIMIT_MS = 50.0
_MOST_LONGER = 4.0
_ENDS = (
    *((JobState.COMPLETED, Outcome.COMPLETED),) * 8,
    (JobState.FAILED, Outcome.FAILED),
    (JobState.CANCELLED, Outcome.CANCELLED),
    (JobState.TIMEOUT, Outcome.TIMEOUT),
)


def fill(store: Store, count: int, seed: int = 1, now_s: float = NOW_S) -> None:
    """Save jobs that ended in the `DAYS` days until then; each tenth has died of out-of-memory
    first. Names are as long as those of a real server."""
    dice, world = random.Random(seed), World(gpus(1))
    job = world.submit(20_000)
    world.pass_time(60.0)
    world.end(job)
    ended, made, done = world.jobs[job.id], world.attempts[job.id, 1], world.decisions[-1]
    lasting_s = DAYS * 86_400 * _GPUS * 1.5 / count
    for begin in range(1, count + 1, _AT_ONCE):
        records: list[Any] = []
        runs, sent, energy = [], [], []
        for number in range(begin, min(begin + _AT_ONCE, count + 1)):
            submitted_s = now_s - DAYS * 86_400 * (1 - number / count) - lasting_s
            start_s = submitted_s + dice.lognormvariate(4, 2)
            one = envelope(script="#!/bin/bash\npython train.py\n")
            uid, state_outcome = 1000 + dice.randrange(_USERS), dice.choice(_ENDS)
            sent.append(Submission(uid, uid, one, parse_envelope(one)))
            state, outcome = state_outcome
            outcomes = [Outcome.OOM, outcome] if dice.random() < 0.1 else [outcome]
            at_s, attempts = start_s, []
            for place, each in enumerate(outcomes):
                end_s = min(at_s + dice.expovariate(1 / lasting_s), now_s - 1)
                peak_mib, serial = dice.randrange(2000, 30_000), 2 * number + place
                gpu = f"GPU-{dice.randrange(_GPUS):08x}-df3a-5408-b248-7ff10815b23b"
                use = Usage(gpu, peak_mib, dice.random(), 1e6, dice.random() < 0.5, 50)
                attempts.append(
                    replace(
                        made, job_id=number, serial=serial, number=place + 1, outcome=each,
                        placement=Placement((Share(gpu, peak_mib + 2000),), Collocation.MPS),
                        launched=_at(at_s), started=_at(at_s), ended=_at(end_s), usage=(use,),
                    )
                )  # fmt: skip
                used = EnergyPart(number, 250.0 * (end_s - at_s))
                energy.append(DeviceEnergy(gpu, _at(end_s), min(end_s - at_s, 3600.0), (used,)))
                if each is Outcome.COMPLETED:
                    told = {"fake": peak_mib * 1.2, "horus": peak_mib * dice.uniform(0.5, 2)}
                    runs.append(Run(serial, uid, f"{number % 300:032x}", "A100-40GB", Said(told)))
                at_s = end_s
            name, user = f"train{number % 50}", f"user{uid}"
            spec = replace(
                ended.spec, uid=uid, user=user, group="students", name=name, resizing=Resizing.NONE
            )
            records.append(
                replace(
                    ended, id=number, ticket=one.ticket, spec=spec, submitted=_at(submitted_s),
                    started=_at(start_s), ended=_at(at_s), state=state, attempts=len(outcomes),
                    fingerprint=f"{number % 300:032x}",
                )
            )  # fmt: skip
            records += attempts
        decision = replace(done, changed=tuple(records), dropped=(), energy=tuple(energy))
        store.save([decision], sent, runs=runs)
    store.save_volatile()


def _at(wall_s: float) -> Instant:
    return Instant(wall_s, wall_s, "1589eddc")


def loop_of(store: Store) -> Any:
    """As much of a daemon's loop as the questions about the past use."""
    devices = [SimpleNamespace(device=each) for each in gpus(_GPUS)]
    return SimpleNamespace(
        clock=SimpleNamespace(now=lambda: _at(NOW_S)),
        past=InLine(),
        parts=SimpleNamespace(costs=Costs()),
        save_volatile=lambda: None,
        scheduler=SimpleNamespace(
            snapshot=SimpleNamespace(devices=devices, jobs=[], job=lambda _: None)
        ),
        store=store,
    )


def pieces(work: Work[Document], clock: Callable[[], float]) -> tuple[list[float], Document]:
    """Return the seconds of each piece, and the answer."""
    found = []
    while True:
        began_s = clock()
        try:
            next(work)
        except StopIteration as end:
            found.append(clock() - began_s)
            answer: Document = end.value
            return found, answer
        found.append(clock() - began_s)


def measure(count: int = 20_000, clock: Callable[[], float] = time.thread_time) -> list[Row]:
    """The CPU time of an overview in that of a report, and its longest pieces."""
    with TemporaryDirectory() as folder:
        paths = Paths(folder, f"{folder}/run")
        prepare(paths, False)
        store = Store(paths.database)
        fill(store, count)
        words = {"since": NOW_S - DAYS * 86_400, "by": "user"}
        plain, _ = pieces(report(loop_of(store), words, 0), clock)
        found, answer = pieces(overview(loop_of(store), words, 0), clock)
        store.close()
    times = sum(found) / sum(plain)
    detail = f"{count} jobs: {sum(found):.1f} s beside {sum(plain):.1f} s of a report"
    longest = (
        f"{len(found)} pieces, longest {max(found) * 1e3:.1f} ms (of a report "
        f"{max(plain) * 1e3:.1f} ms); {len(answer['bars'])} bars"
    )
    return [
        Row("overview: time", times, _MOST_LONGER, "times", detail),
        Row("overview: piece, p95", p95_ms(found), _LIMIT_MS, "ms", longest),
    ]


def main() -> int:
    return shown(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000))


if __name__ == "__main__":
    sys.exit(main())
