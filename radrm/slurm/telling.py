"""What the daemon of a node tells Slurm's controller, for all jobs of its node: one voice.

Theory of operation. Each command is a request to slurmctld, which serves thousands of nodes. So the
steps ask the daemon, and it speaks for them: one command at a time, in one thread. What is to be
told of a job replaces what has not been told of it yet, so a controller that was away hears the
last state only. A job costs

    one question when its step begins (`serving.py`), and one update at its end
    if it waits for longer: one update then, and one at its start

and a change of its reason at most one update of the node in a minute.

A job's time limit is Slurm's. Slurm counts it from the start of the step, so the wait is given
back: while a job waits its limit is longer by the patience, at its start by the time that it has
waited. The comment says by how much, and slurmctld adds it (`comment.py`). Where Slurm has no
limit, that of the job's file becomes Slurm's.

Only root may write an AdminComment or lengthen a limit; any other daemon tells nothing.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable

from radrm.core.units import show_seconds
from radrm.errors import RadrmError
from radrm.slurm import comment
from radrm.slurm.asking import is_up, one_line, run
from radrm.slurm.facts import fields_of
from radrm.slurm.outer import Told, length_s

log = logging.getLogger("radrm.slurm")

_NOTED_AFTER_S, _NOTED_PART = 30.0, 0.1
"""A job is noted that has waited so long, or this part of its limit: most start at once."""
_AGAIN_S = 60.0
"""Between two notes of a node about jobs whose reason has changed."""
_UPDATE_S, _PING_S = 10.0, 5.0
_PAUSE_S = 1.0
_KEPT = 4096
_FAULTS = 3
"""So many jobs that a node could not serve, one after the other, drain it."""


class Voice:
    """Does one thing after another, in a thread. Of one name only the last thing is done."""

    def __init__(self) -> None:
        self.may_tell = os.geteuid() == 0
        self._todo: dict[str, Callable[[], object]] = {}
        self._now: str | None = None
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def do(self, name: str, work: Callable[[], object]) -> None:
        """Have `work` done, which may raise `RadrmError`, in place of other work of this name."""
        with self._changed:
            self._todo.pop(name, None)
            self._todo[name] = work
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="slurm-told", daemon=True)
                self._thread.start()
            self._changed.notify()

    def is_telling(self, name: str) -> bool:
        """Return whether work of this name is to be done or is being done."""
        with self._changed:
            return name in self._todo or self._now == name

    def _work(self) -> None:
        while True:
            with self._changed:
                self._now = None
                while not self._todo:
                    self._changed.wait()
                name = self._now = next(iter(self._todo))
                work = self._todo.pop(name)
            try:
                work()
            except RadrmError as error:
                log.warning("Slurm refuses the update of %s: %s", name, one_line(error))
                time.sleep(_PAUSE_S)


class _Job:
    """One job of Slurm's on this node. `own_min`: its limit in whole minutes, as Slurm counts,
    without what was added for its wait; None without one. `noted`: its comment is to be replaced
    at its start."""

    def __init__(self, told: Told) -> None:
        self.named = told.named
        self.began_s = time.monotonic() - told.ran_s
        self.returned, added_min = comment.returned(told.note), comment.added_min(told.note)
        self.own_min: int | None = None
        if told.limit_s is not None:
            self.own_min = max(1, math.ceil(told.limit_s / 60) - added_min)
        self.noted = added_min > 0 or comment.why_waiting(told.note) is not None
        self.kind: frozenset[str] | None = None
        self.has_started = self.has_ended = False

    @property
    def waited_s(self) -> float:
        return time.monotonic() - self.began_s


class Notes:
    """What Slurm shows of the jobs of this node: why they wait, what they have used."""

    def __init__(self, patience_s: float, voice: Voice | None = None) -> None:
        self._patience_min = math.ceil(patience_s / 60)
        self._voice = voice or Voice()
        self._jobs: dict[str, _Job] = {}
        self._again_s = float("-inf")
        self._faults: set[str] = set()
        self._timeout_s: float | None = None
        self._pinged_s = float("-inf")
        self._unanswered_s: float | None = None
        """Since when no ping has been answered; None: the last one was."""

    def begin(self, told: Told) -> None:
        """Note a run of a job whose step has been vouched for. Runs are named as Slurm says
        (`Told.run`), and never as a step does: what follows is done with the rights of root."""
        if len(self._jobs) >= _KEPT:
            self._jobs = {key: job for key, job in self._jobs.items() if not job.has_ended}
        self._jobs.setdefault(told.run, _Job(told))

    def own_limit_s(self, name: str) -> float | None:
        """Return the time limit of a run, without what was added for its wait; None without one."""
        job = self._jobs.get(name)
        return None if job is None or job.own_min is None else job.own_min * 60.0

    def limit(self, name: str, limit_s: float | None) -> None:
        """Let Slurm have the limit of a job's file, if it has none."""
        job = self._jobs.get(name)
        if job is None or limit_s is None or job.own_min is not None or not self._voice.may_tell:
            return
        job.own_min = math.ceil(limit_s / 60)
        text = str(job.own_min)
        self._voice.do(f"the limit of {name}", lambda: _update(job.named, TimeLimit=text))

    def is_due(self, name: str) -> bool:
        """Return whether it is to be told that this job waits, if its reason is another."""
        job = self._jobs.get(name)
        if job is None or not self._voice.may_tell:
            return False
        if job.kind is not None:
            return time.monotonic() >= self._again_s
        limit_s = math.inf if job.own_min is None else job.own_min * 60.0
        return job.waited_s >= min(_NOTED_AFTER_S, _NOTED_PART * limit_s)

    def waiting(self, name: str, why: str, kind: frozenset[str]) -> None:
        """Tell why a job waits, if it does so for another kind of reason than was told."""
        job = self._jobs[name]
        if job.kind == kind or job.has_started:
            return
        if job.kind is not None:
            self._again_s = time.monotonic() + _AGAIN_S
        job.kind, job.noted = kind, True
        added_min = 0 if job.own_min is None else self._patience_min
        self._comment(name, job, comment.waiting(why, job.returned, added_min))

    def started(self, name: str) -> None:
        """Tell that a job runs, and give it back the time that it has waited."""
        job = self._jobs.get(name)
        if job is None or job.has_started:
            return
        job.has_started = True
        self._faults.clear()
        if job.noted and self._voice.may_tell:
            # A step that stays for longer gains nothing by it.
            waited_min = min(math.ceil(job.waited_s / 60), self._patience_min)
            self._comment(name, job, comment.started(waited_min if job.own_min else 0))

    def returns(self, name: str, why: str) -> None:
        """Tell that a job goes back to Slurm because it has waited too long, and how often."""
        job = self._jobs.get(name)
        if job is not None and self._voice.may_tell:
            self._comment(name, job, comment.waiting(why, job.returned + 1))

    def _comment(self, name: str, job: _Job, text: str) -> None:
        self._voice.do(name, lambda: _update(job.named, AdminComment=text))

    def ended(self, name: str, use: comment.Use) -> bool:
        """Tell what a job has used. Returns whether that is done: its step waits so long, since
        Slurm takes no comment of a job that has ended."""
        job = self._jobs.get(name)
        if job is None:
            return True
        before, job.has_ended = job.has_ended, True
        if not before and self._voice.may_tell:
            self._comment(name, job, use.text())
        return not self._voice.is_telling(name)

    # ------------------------------------------------------------- the node

    def fault(self, told: Told, why: str) -> None:
        """Count a job that this node cannot serve. The third one drains the node."""
        self._faults.add(told.id)
        if len(self._faults) < _FAULTS or not self._voice.may_tell or not told.node:
            return
        self._faults.clear()
        words = f"NodeName={told.node}", "State=DRAIN", f"Reason=radrm: {why}"
        log.warning("node %s is drained: %s", told.node, why)
        self._voice.do("the node", lambda: _scontrol("update", *words))

    def silence(self) -> tuple[str | None, float]:
        """Return why a job ends because the controller is silent, None while it is not; and after
        how many seconds a step asks again."""
        now_s, timeout_s = time.monotonic(), self._timeout_s or _DEFAULT_S
        every_s = timeout_s / _ASKS if self._timeout_s else _LEAST_S
        if now_s - self._pinged_s >= 0.9 * every_s:
            self._pinged_s = now_s
            self._voice.do("the controller", self._ping)
        silent_s = 0.0 if self._unanswered_s is None else now_s - self._unanswered_s
        if silent_s < timeout_s:
            return None, every_s
        silent = show_seconds(silent_s)
        why = f"Slurm's controller has been silent for {silent}, and may start the job elsewhere"
        return why, every_s

    def _ping(self) -> None:
        if self._unanswered_s is None:
            self._unanswered_s = self._pinged_s
        if is_up(_PING_S):
            self._unanswered_s = None
            if self._timeout_s is None:
                self._timeout_s = _slurmd_timeout_s(_scontrol("show", "config"))


_ASKS = 4
"""How often the controller is asked within the time after which it counts as silent."""
_LEAST_S, _DEFAULT_S = 4.0, 300.0
"""The shortest time that is waited, and Slurm's default of `SlurmdTimeout`."""


def _slurmd_timeout_s(config: str) -> float:
    """`SlurmdTimeout` in the output of `scontrol show config`; Slurm's default without it."""
    words = fields_of(config.splitlines()).get("SlurmdTimeout", "").split()
    return max(_LEAST_S, length_s(words[0]) or _DEFAULT_S) if words else _DEFAULT_S


def _update(named: str, **fields: str) -> None:
    _scontrol("update", f"JobId={named}", *(f"{key}={text}" for key, text in fields.items()))


def _scontrol(*words: str) -> str:
    return run("scontrol", *words, timeout_s=_UPDATE_S)
