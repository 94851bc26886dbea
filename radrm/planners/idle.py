"""Running jobs that hold GPUs and do not use them are warned, and then stopped.

Theory of operation
-------------------
A job is *idle* while all its GPUs show SM activity below `smact_below`. The time counts from
`warmup_s` after its start. After `for_s` its user is warned; `warn_s` later, if it is still idle,
the `action` follows. `notify` only warns. With `only_sessions` it looks at nothing but sessions of
`radrm run`: where a site sets no action, their users are warned all the same.

SM activity is that of a device, which jobs may share. So a reading proves that a job is idle there
in two cases: the whole device is below the limit; or the job's own processes are, by figures that
make sense because those of another job reach the limit. A coarse figure (the time with any kernel)
is never below SM activity, so it counts, too.

Unknown is never zero. A reading without a sound figure of each GPU of the job, or none for
`CoreSettings.stale_after_s`, ends the idle time: it begins anew, and a warning is taken back.

What follows:
- `cancel`: a job that saves on a signal is asked to save first, then stopped.
- `requeue`: it saves its work and waits behind all others; one that can neither save nor run again
  is only warned. A job that is idle once more after `MOST_REQUEUES` requeues is cancelled.

Invariants:
- No job is stopped without a warning in this daemon's life, `warn_s` before.
- A job with `--expect-idle` is left alone, also if an edit says so after the warning.

What a restart sees: the number of requeues by job. The idle times begin anew (`View.scratch`), and
warnings of an earlier daemon are taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from msgspec import Struct

from radrm.core import events as ev
from radrm.core.proposals import Cancel, Preempt, Proposal, TakeCheckpointNow, Warn
from radrm.core.records import Attempt, Job, Reading, Refusal
from radrm.core.rules import Plan, Planner
from radrm.core.units import show_seconds
from radrm.core.view import View
from radrm.core.words import ActionKind, CheckpointKind, JobState

NAME = "idle"
OFF, NOTIFY, REQUEUE, CANCEL = "off", "notify", "requeue", "cancel"
MOST_REQUEUES = 2
"""How often a job is requeued for being idle."""


class _Track(Struct):
    """A live attempt without proof of activity: boot-time seconds since when, and of the last
    proof. `asked`: it was asked to save, as its action is due."""

    serial: int
    since_s: float
    last_s: float
    asked: bool = False


class _Shown(Struct):
    """What one reading proves: the SM activity of the device, and of attempts by their serials.

    `device` is None if it is unknown.
    """

    device: float | None
    own: Mapping[int, float]

    @classmethod
    def by(cls, reading: Reading, smact_below: float) -> _Shown:
        device = reading.smact
        if reading.error or reading.fault or reading.smact_error or not _is_figure(device):
            return cls(None, {})
        found = {each.serial: each.smact for each in reading.attempts or ()}
        own = {serial: smact for serial, smact in found.items() if _is_figure(smact)}
        if max(own.values(), default=0.0) < smact_below:
            own = {}  # they do not tell whose the activity is
        return cls(device, own)

    def of(self, serial: int) -> float | None:
        """Return what an attempt shows there at most; None if that is unknown."""
        own = None if self.device is None else self.own.get(serial)
        return self.device if own is None or self.device is None else min(own, self.device)


@dataclass(frozen=True, slots=True)
class Idle(Planner):
    """Warn the users of idle jobs, and stop these. The settings are those of the table `[idle]`.

    `interactive_for_s` takes the place of `for_s` for sessions of `radrm run`, unless it is 0.
    """

    action: str
    smact_below: float
    for_s: float
    warmup_s: float
    warn_s: float
    interactive_for_s: float = 0.0
    only_sessions: bool = False
    name: str = NAME
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset({ev.ReadingsTaken})

    def plan(self, view: View, event: ev.Event, state: Any) -> Plan:
        if not isinstance(event, ev.ReadingsTaken):
            return Plan(state=state)
        found = Plan(state=state)
        found.proposals = self._proposals(view, event.readings, found)
        return found

    def explain(self, view: View, job: Job) -> Sequence[Refusal]:
        return ()

    # ------------------------------------------------------------- who is idle

    def _proposals(self, view: View, readings: Sequence[Reading], plan: Plan) -> Iterator[Proposal]:
        tracks: dict[int, _Track] = view.scratch.setdefault(NAME, {})
        running = [e for e in view.running() if e[0].spec.interactive or not self.only_sessions]
        if not running and not tracks and plan.state is None:
            return
        taken = {each.device: _Shown.by(each, self.smact_below) for each in readings}
        live: set[int] = set()
        for job, attempt in running:
            live.add(job.id)
            devices = attempt.placement.devices
            if not devices or any(uuid not in taken for uuid in devices):
                continue  # these readings say nothing of it
            shown = None
            if _may_be_idle(job, attempt):
                each = [taken[uuid].of(attempt.serial) for uuid in devices]
                known = [figure for figure in each if figure is not None]
                shown = max(known) if len(known) == len(each) else None
            if shown is None or shown >= self.smact_below:
                tracks.pop(job.id, None)
                if attempt.warning(NAME) is not None:
                    yield Warn(job_id=job.id, kind=NAME)
                continue
            track = self._tracked(view, tracks, attempt)
            yield from self._look(view, job, attempt, track, shown, plan)
        for job_id in tracks.keys() - live:
            del tracks[job_id]
        if plan.state is not None:
            kept = {key: n for key, n in plan.state.items() if view.job(int(key)) is not None}
            plan.state = kept or None

    def _tracked(self, view: View, tracks: dict[int, _Track], attempt: Attempt) -> _Track:
        """Return an idle attempt's track, a new one after a gap."""
        now_s, found = view.now.boot_s, tracks.get(attempt.job_id)
        stale = found is None or now_s - found.last_s > view.settings.stale_after_s
        if found is None or stale or found.serial != attempt.serial:
            found = tracks[attempt.job_id] = _Track(attempt.serial, now_s, now_s)
        found.last_s = now_s
        return found

    # ------------------------------------------------------------- what follows

    def _look(
        self, view: View, job: Job, attempt: Attempt, track: _Track, shown: float, plan: Plan
    ) -> Iterator[Proposal]:
        now_s, warning = view.now.boot_s, attempt.warning(NAME)
        began_s = attempt.started.boot_s if attempt.started is not None else now_s
        idle_s = now_s - max(track.since_s, began_s + self.warmup_s)
        warned_s = None if warning is None else view.now.since(warning.at)
        for_s = self._for_s(job)
        if warning is not None and (warned_s is None or warned_s >= now_s - track.since_s):
            yield Warn(job_id=job.id, kind=NAME)  # of an earlier idle time
        elif idle_s >= for_s and warning is None:
            where = _named(view, attempt)
            text = (
                f"{where} SM activity below {self.smact_below:g} for {show_seconds(idle_s)} "
                f"(now {shown:.2f})"
            )
            does = {CANCEL: "it is cancelled", REQUEUE: "it is requeued"}.get(self._act(job, plan))
            in_s = None if does is None else self.warn_s
            yield Warn(job_id=job.id, kind=NAME, text=text, does=does or "", in_s=in_s)
        elif warned_s is None or warned_s < self.warn_s or idle_s < for_s:
            return
        elif attempt.asked(ActionKind.CHECKPOINT) is None:
            why = (
                f"idle: {_named(view, attempt)} SM activity {shown:.2f}, below "
                f"{self.smact_below:g} for {show_seconds(idle_s)}"
            )
            yield from self._stop(view, job, track, why, plan)

    def _for_s(self, job: Job) -> float:
        return self.interactive_for_s or self.for_s if job.spec.interactive else self.for_s

    def _act(self, job: Job, plan: Plan) -> str:
        """Return what follows for a job: its times are over, or it can do something else."""
        if self.action != REQUEUE:
            return self.action
        if _requeues(plan.state, job) >= MOST_REQUEUES:
            return CANCEL
        can = job.spec.requeue or job.spec.checkpoint.kind is not CheckpointKind.NONE
        return REQUEUE if can else NOTIFY

    def _stop(
        self, view: View, job: Job, track: _Track, why: str, plan: Plan
    ) -> Iterator[Proposal]:
        act = self._act(job, plan)
        if act == REQUEUE:
            yield Preempt(job_id=job.id, behind=True, reason=why)
            after = view.attempt(job.id)
            carried_out = after is None or after.stop is not None or after.pending != ()
            if carried_out and not track.asked:
                track.asked = True  # it may not save in its time, and be asked again
                plan.state = {**(plan.state or {}), str(job.id): _requeues(plan.state, job) + 1}
        elif act == CANCEL:
            if job.spec.checkpoint.kind is CheckpointKind.SIGNAL and not track.asked:
                track.asked = True
                yield TakeCheckpointNow(job_id=job.id)
                return
            times = _requeues(plan.state, job)
            again = f", once more after {times} requeues" if times else ""
            yield Cancel(job_id=job.id, reason=why + again)


def _may_be_idle(job: Job, attempt: Attempt) -> bool:
    """Return whether it can be told that a job is idle: not while it starts, moves or stops."""
    if job.state is not JobState.RUNNING or attempt.started is None or job.spec.expect_idle:
        return False
    return attempt.stop is None and attempt.target is None and job.target is None


def _is_figure(smact: float | None) -> TypeGuard[float]:
    return smact is not None and 0 <= smact < float("inf")


def _requeues(state: Any, job: Job) -> int:
    counted = state if isinstance(state, Mapping) else {}
    times = counted.get(str(job.id), 0)
    return times if isinstance(times, int) else 0


def _named(view: View, attempt: Attempt) -> str:
    """Return `GPU 0 shows` or `GPUs 0, 1 show`."""
    index = {device.uuid: device.index for device in view.devices()}
    found = [str(index.get(uuid, uuid)) for uuid in attempt.devices]
    return f"GPU {found[0]} shows" if len(found) == 1 else f"GPUs {', '.join(found)} show"
