"""Answer questions from the store while no daemon runs: the last state of the daemon before.

Theory of operation. The store is opened to be read only, and no lock of the home is taken: a daemon
that starts meanwhile finds nothing changed and waits for nobody. The records are given to a
scheduler as at a daemon's start (`core/adoption.py`). Jobs run on without a daemon, so what their
folders prove is looked at too, without taking a claim (`host/attempts/folder.py`), and the
scheduler decides what follows, as the next daemon will: in memory, and in views of this connection
that stand before the store's tables. The last phase of a start is left out, so no timer runs and no
planner is called. Nobody reads the GPUs: a waiting job waits for the daemon.

The state is that of one moment. Who asks again makes it anew.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

from radrm.config import Config, load_config
from radrm.core import events as ev
from radrm.core.records import Attempt, Instant, Job, Kept, Refusal
from radrm.core.scheduler import Scheduler
from radrm.daemon.answers.past.history import history
from radrm.daemon.answers.questions import explain, logs
from radrm.daemon.answers.status import paged, status
from radrm.daemon.attempts import Ends
from radrm.daemon.loop import Loop
from radrm.daemon.mps import Failures
from radrm.daemon.serving.replies import encoded
from radrm.daemon.serving.turns import InLine
from radrm.daemon.views.expected import Foresight
from radrm.daemon.views.tables import Tables
from radrm.errors import BadConfig, UsageError
from radrm.host.attempts import folder as attempts
from radrm.host.attempts.evidence import Ended, Evidence, Lost, Running, Saved, Void
from radrm.host.attempts.launcher import Launcher
from radrm.host.attempts.plan import step_of
from radrm.host.clock import Clock
from radrm.host.processes.controllers import Controllers
from radrm.host.processes.identity import alive, boot_id
from radrm.host.storage.database import damage_told
from radrm.host.storage.paths import Paths, system_mode
from radrm.host.storage.store import Store
from radrm.host.wall import wall_s
from radrm.wiring import make_rules, make_settings

_QUESTIONS = {
    "status": status,
    "page": paged,
    "explain": explain,
    "logs": logs,
    "history": history,
}
_WAITS = Refusal(rule="daemon", message="no decision is made while radrm is not running")
_SCALED = re.compile(r".{8}x([0-9.]+)@([0-9.]+)")
"""The boot of an instant of a clock that is faster than real time (`host/clock.py`)."""


class LastState:
    """The state of one home at one moment. Raises `StoreError` for a store that cannot be read."""

    def __init__(self, paths: Paths, uid: int) -> None:
        """`uid`: who asks."""
        self._paths, self._uid = paths, uid
        with damage_told(paths.database):
            self._store = Store(paths.database, read_only=True)
            kept = self._store.kept()
            self._clock = _clock_of(kept)
            config = _config(uid)
            self._scheduler = _Unasked(make_rules(config), make_settings(config))
            self._scheduler.step(ev.Restored(at=self._clock.now(), kept=kept))
            self._end_attempts()
        foresight = Foresight(self._scheduler)
        # What the questions read of a loop: all of it that acts is missing.
        self._loop = cast(
            Loop,
            SimpleNamespace(
                scheduler=self._scheduler,
                store=self._store,
                clock=self._clock,
                tables=Tables(),
                past=InLine(),
                reports=None,
                launcher=SimpleNamespace(controllers=Controllers()),
                parts=SimpleNamespace(
                    foresight=foresight,
                    hints=config.hints,
                    attempts=SimpleNamespace(unmanaged=SimpleNamespace(notes=lambda _: [])),
                ),
            ),
        )

    def close(self) -> None:
        self._store.close()

    def answer(self, op: str, words: dict[str, Any]) -> Any:
        """The answer to a question, as the daemon would send it. Raises `RadrmError`."""
        if op == "ping":
            return {"now": self._clock.now().wall_s}
        if op not in _QUESTIONS:
            raise UsageError(f"only a daemon answers {op!r}")
        with damage_told(self._paths.database):
            work: Generator[None, None, Any] = _QUESTIONS[op](self._loop, words, self._uid)
            answer = _result(work)
        return json.loads(b"".join(encoded({"result": answer})))["result"]

    def _end_attempts(self) -> None:
        """Tell the scheduler what became of the attempts since, and show what it makes of that."""
        launcher = Launcher(self._paths.state, self._clock)
        ends = Ends(self._clock, self._scheduler, launcher, Failures(self._clock, None))
        changed: dict[tuple[type, int], Job | Attempt] = {}
        for job, attempt in self._scheduler.snapshot.running:
            found = found_of(Evidence(launcher.folder(attempt.serial), self._clock))
            for event in ends.events_of(job, attempt, found, Saved()):
                for record in self._scheduler.step(event).changed:
                    if isinstance(record, Job):
                        changed[Job, record.id] = record
                    elif isinstance(record, Attempt):
                        changed[Attempt, record.serial] = record
        launcher.close()
        self._store.show_instead(changed.values())


class _Unasked(Scheduler):
    """A scheduler whose rules are not asked: it knows no GPU."""

    def why_waiting(self, job_id: int, now: Instant) -> tuple[Refusal, ...]:
        job = self.snapshot.job(job_id)
        return (_WAITS,) if job is not None and job.state.waiting else ()


def found_of(evidence: Evidence) -> Void | Running | Ended | Lost:
    """What a folder proves of an attempt. It is only read: no claim is taken, nothing is killed."""
    launch, _ = attempts.read_record(evidence.folder, attempts.LAUNCH)
    if launch is not None and step_of(launch) is not None:
        return Running(None)  # its step's folder is its user's: the next daemon looks there
    started, runner = evidence.started(), evidence.runner_named()
    if runner is not None and alive(runner):
        return Running(started)
    if runner is None and evidence.is_there and attempts.lock_held(evidence.folder):
        return Running(None)
    if (ended := evidence.ended()) is not None:  # a runner writes it last, so look last
        return ended
    if runner is None:
        return Void()
    went_down = runner.boot_id != boot_id()
    return evidence.lost("the server went down" if went_down else "its runner was killed")


def _result(work: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def _clock_of(kept: Kept) -> Clock:
    """The clock of the daemon that wrote these records: one of simulated GPUs may be faster."""
    written = [*(job.submitted for job in kept.jobs), *(each.launched for each in kept.attempts)]
    found = _SCALED.fullmatch(written[-1].boot or "") if written else None
    real = Clock()
    if found is None:
        return real
    scale, anchor_s = map(float, found.groups())
    return Clock(scale, anchor_s, wall_s() - (real.now().boot_s - anchor_s))


def _config(uid: int) -> Config:
    """The configuration; the default one if it is wrong, which may be why no daemon runs."""
    try:
        return load_config(os.environ, system_mode(os.environ, uid))
    except BadConfig:
        return Config()
