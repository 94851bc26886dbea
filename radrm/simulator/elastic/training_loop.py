"""Run CPU jobs of several roles in virtual time, by the daemon's own decisions.

Theory of operation
-------------------
A job's model gives its speed for the tasks that it has now; between two changes the speed is
constant, so its end is known. A change of CPUs applies at once. Another number of tasks takes
`standby_s`, in which the old tasks work on, and `resize_s`, in which nothing works; a withdrawal
before that undoes it. Saved work is what a job had done at its last checkpoint or resize.

All running jobs report at the same moments. A new resize makes all its tasks new processes, so
their CPU time counts anew.

The run ends when all jobs have ended, at `until_s`, or when no job runs and none has started for a
day: then nothing will start the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from random import Random

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.planning.thinking import think_in_place
from radrm.core.records import (
    Attempt,
    Checkpoint,
    Exit,
    Instant,
    Job,
    JobSpec,
    Placement,
    Progress,
)
from radrm.core.rules import Planner, SlowPlanner
from radrm.core.scheduler import Scheduler
from radrm.core.words import CheckpointKind, Outcome, Resizing
from radrm.errors import RadrmError
from radrm.simulator.elastic.training import (
    Span,
    TrainingJob,
    TrainingJobRun,
    TrainingRun,
    TrainingScenario,
)
from radrm.simulator.elastic.training_live import LiveTraining
from radrm.wiring import make_rules, make_settings

_MANY = 10**6
_STUCK_S = 86_400.0
_LEAST_FACTOR = 0.1
_TERM = 15


@dataclass(slots=True, eq=False)
class _Resize:
    """A resize under way. `begun`: the old tasks have been stopped."""

    live: LiveTraining
    action: act.Resize
    begun: bool = False


@dataclass(frozen=True, slots=True)
class _Arrives:
    at: int


@dataclass(frozen=True, slots=True)
class _Begins:
    """An attempt works now, for the first time."""

    live: LiveTraining


@dataclass(frozen=True, slots=True)
class _Ends:
    """A job has done its last step, if its speed has not changed since."""

    live: LiveTraining
    version: int


@dataclass(frozen=True, slots=True)
class _Saved:
    live: LiveTraining


class _Report:
    """All running jobs report now."""


class _Wake:
    """The core asked to be woken at this time."""


def simulate_training(
    jobs: Sequence[TrainingJob],
    scenario: TrainingScenario,
    planners: Sequence[Planner | SlowPlanner] | None = None,
) -> TrainingRun:
    """Return the run of these jobs. The same arguments give the same run, bit for bit.

    `planners` replace those of the configuration. Raises `BadConfig` for unknown rules or settings,
    `RadrmError` for a rule that fails.
    """
    return _TrainingLoop(jobs, scenario, planners).run()


class _TrainingLoop:
    def __init__(
        self,
        jobs: Sequence[TrainingJob],
        scenario: TrainingScenario,
        planners: Sequence[Planner | SlowPlanner] | None,
    ) -> None:
        rules = make_rules(scenario.config)
        if planners is not None:
            rules = replace(rules, planners=tuple(planners))
        settings = replace(make_settings(scenario.config), gpuless_at_once=_MANY)
        self._scheduler = Scheduler(rules, settings)
        self._planners, self._scenario, self._jobs = rules.planners, scenario, jobs
        self._runs = [TrainingJobRun(job) for job in jobs]
        self._spans: list[list[Span]] = [[] for _ in jobs]
        self._saved: dict[int, float] = {}
        self._live: dict[int, LiveTraining] = {}
        self._resizes: dict[LiveTraining, _Resize] = {}
        self._uids: dict[str, int] = {}
        self._random = Random(f"training {scenario.seed}")
        self._events: deque[ev.Event] = deque()
        self._heap: list[tuple[float, int, object]] = []
        self._count = count()
        self._now_s = self._moved_s = 0.0
        self._wake_at: float | None = None
        self._open = self._coming = len(jobs)

    # ------------------------------------------------------------- time

    def run(self) -> TrainingRun:
        self._step(ev.DevicesSeen(at=self._now, devices=()))
        self._step(ev.NodesSeen(at=self._now, nodes=self._scenario.nodes))
        for at, job in enumerate(self._jobs):
            self._at(job.submit_s, _Arrives(at))
        self._at(0.0, _Report())
        while self._open and self._heap:
            when_s, _, what = heappop(self._heap)
            if when_s > self._scenario.until_s or self._stuck(when_s):
                break
            self._now_s = max(self._now_s, when_s)
            self._on(what)
            while self._events:
                self._step(self._events.popleft())
        return TrainingRun(tuple(self._finished(at) for at in range(len(self._jobs))), self._now_s)

    def _stuck(self, when_s: float) -> bool:
        return not self._live and not self._coming and when_s > self._moved_s + _STUCK_S

    def _finished(self, at: int) -> TrainingJobRun:
        live = self._live.get(at + 1)
        if live is not None:
            live.stand(live.stops + 1, self._now_s)
            self._spans[at] += live.spans
        found = replace(self._runs[at], spans=tuple(self._spans[at]))
        if found.ended_s is not None or found.reason is not None:
            return found
        refusals = self._scheduler.why_waiting(at + 1, self._now)
        why = "; ".join(dict.fromkeys(each.message for each in refusals))
        return replace(found, reason=why or "it had not ended")

    @property
    def _now(self) -> Instant:
        return Instant(self._now_s, self._now_s)

    def _at(self, when_s: float, what: object) -> None:
        heappush(self._heap, (when_s, next(self._count), what))

    def _step(self, event: ev.Event) -> None:
        decision = self._scheduler.step(event)
        if decision.log_lines:
            raise RadrmError(f"no result, since a rule failed: {decision.log_lines[0]}")
        for action in decision.actions:
            self._carry_out(action)
        for record in decision.changed:
            if isinstance(record, Job) and record.state.final:
                self._note_end(record)
            elif isinstance(record, Attempt) and record.ended is None:
                self._moved_s = self._now_s
        wake_at = decision.wake_at
        if wake_at is not None and (self._wake_at is None or wake_at < self._wake_at):
            self._wake_at = wake_at
            self._at(max(wake_at, self._now_s), _Wake())

    def _note_end(self, job: Job) -> None:
        at, well = job.id - 1, job.outcome is Outcome.COMPLETED
        ended_s = self._now_s if well else None
        self._runs[at] = replace(self._runs[at], ended_s=ended_s, reason=job.reason)
        self._open -= 1

    def _on(self, happened: object) -> None:
        match happened:
            case _Arrives(at):
                self._coming -= 1
                self._events.append(ev.JobSubmitted(at=self._now, job=self._job(at)))
            case _Begins(live):
                if not live.over:
                    self._go(live, stops=live.stops - 1)
            case _Ends(live, version):
                if not live.over and live.version == version:
                    self._end(live, Exit(code=0))
            case _Resize():
                self._continue_resize(happened)
            case _Saved(live):
                if not live.over:
                    self._save(live)
            case _Report():
                self._report()
            case _:
                if self._wake_at is not None and self._wake_at <= self._now_s:
                    self._wake_at = None
                    self._events.append(ev.Tick(at=self._now))

    # ------------------------------------------------------------- actions of the core

    def _carry_out(self, action: act.Action) -> None:
        if isinstance(action, act.Launch):
            self._launch(action)
        elif isinstance(action, act.Think):
            now, snapshot = self._now, self._scheduler.snapshot
            self._events.append(think_in_place(self._planners, action, snapshot, now))
        elif isinstance(action, act.AttemptAction):
            live = self._live.get(action.job_id)
            if live is not None and live.serial == action.serial:
                self._carry_out_on(live, action)

    def _carry_out_on(self, live: LiveTraining, action: act.AttemptAction) -> None:
        job_id, serial = action.job_id, action.serial
        if isinstance(action, act.Resize):
            self._resize(live, action)
        elif isinstance(action, act.ApplyShares):
            shares = action.shares
            self._run_on(live, replace(self._placement(live), shares=shares), anew=False)
            run = self._runs[live.at]
            self._runs[live.at] = replace(run, shares=run.shares + 1)
            done = ev.SharesApplied(at=self._now, job_id=job_id, serial=serial, shares=shares)
            self._events.append(done)
        elif isinstance(action, act.TakeCheckpoint):
            self._go(live, stops=live.stops + 1)
            self._at(self._now_s + self._scenario.save_s, _Saved(live))
        elif isinstance(action, (act.Terminate, act.Kill)):
            self._end(live, Exit(signal=_TERM))

    def _placement(self, live: LiveTraining) -> Placement:
        attempt = self._scheduler.snapshot.attempt(live.at + 1)
        assert attempt is not None
        return attempt.placement

    def _launch(self, action: act.Launch) -> None:
        at = action.job_id - 1
        live = LiveTraining(
            *(at, action.serial, self._jobs[at], self._saved.get(at, 0.0), self._now_s, self._now_s)
        )
        self._live[action.job_id], live.stops = live, 1
        self._run_on(live, action.placement, anew=True)
        run = self._runs[at]
        started_s = self._now_s if run.started_s is None else run.started_s
        self._runs[at] = replace(run, started_s=started_s, attempts=run.attempts + 1)
        self._events.append(
            ev.AttemptStarted(at=self._now, job_id=action.job_id, serial=action.serial)
        )
        self._at(self._now_s + self._scenario.start_s, _Begins(live))

    def _end(self, live: LiveTraining, how: Exit) -> None:
        self._go(live, stops=live.stops + 1)  # adds up its work and its last span
        live.over = True
        self._spans[live.at] += live.spans
        job_id = live.at + 1
        del self._live[job_id]
        self._resizes.pop(live, None)
        exits = (how,) * len(live.tasks)
        ended = ev.AttemptEnded(at=self._now, job_id=job_id, serial=live.serial, exits=exits)
        self._events.append(ended)

    # ------------------------------------------------------------- resizes

    def _resize(self, live: LiveTraining, action: act.Resize) -> None:
        here = self._resizes.get(live)
        if not action.withdrawn:
            if here is None:
                self._resizes[live] = resize = _Resize(live, action)
                self._at(self._now_s + self._scenario.standby_s, resize)
        elif here is None or not here.begun:
            self._resizes.pop(live, None)
            why = "it had not begun"
            self._events.append(ev.ActionFailed(at=self._now, action=action, reason=why))

    def _continue_resize(self, resize: _Resize) -> None:
        live, action = resize.live, resize.action
        if self._resizes.get(live) is not resize:
            return  # the attempt has ended, or the resize was withdrawn
        if not resize.begun:
            resize.begun = True
            self._go(live, stops=live.stops + 1)
            self._at(self._now_s + self._scenario.resize_s, resize)
            return
        del self._resizes[live]
        self._saved[live.at] = live.done
        self._run_on(live, action.target, anew=True)
        self._go(live, stops=live.stops - 1)
        run = self._runs[live.at]
        self._runs[live.at] = replace(run, resizes=run.resizes + 1)
        self._events.append(
            ev.Resized(
                at=self._now,
                job_id=action.job_id,
                serial=action.serial,
                target=action.target,
                generation=action.generation,
            )
        )

    def _save(self, live: LiveTraining) -> None:
        self._go(live, stops=live.stops - 1)
        self._saved[live.at] = live.done
        self._events.append(
            ev.CheckpointTaken(
                at=self._now,
                job_id=live.at + 1,
                serial=live.serial,
                progress=self._progress(live),
            )
        )

    # ------------------------------------------------------------- speed

    def _run_on(self, live: LiveTraining, placement: Placement, anew: bool) -> None:
        live.run_on(placement, self._now_s, anew)
        self._schedule_end(live)

    def _go(self, live: LiveTraining, stops: int) -> None:
        live.stand(stops, self._now_s)
        self._schedule_end(live)

    def _schedule_end(self, live: LiveTraining) -> None:
        live.version += 1
        if live.speed > 0:
            self._at(self._now_s + live.left / live.speed, _Ends(live, live.version))

    # ------------------------------------------------------------- reports

    def _report(self) -> None:
        uses = []
        for job_id, live in self._live.items():
            live.add_up(self._now_s)
            uses.append((job_id, live.serial, live.use(self._now)))
        if uses:
            self._events.append(ev.HostUsed(at=self._now, uses=tuple(uses)))
        for job_id, live in self._live.items():
            progress = self._progress(live)
            self._events.append(
                ev.ProgressReported(
                    at=self._now, job_id=job_id, serial=live.serial, progress=progress
                )
            )
            if self._scenario.noise:
                drawn = 1 + self._scenario.noise * self._random.gauss(0.0, 1.0)
                live.factor = max(_LEAST_FACTOR, drawn)
                self._schedule_end(live)
        self._at(self._now_s + self._scenario.report_s, _Report())

    def _progress(self, live: LiveTraining) -> Progress:
        steps = self._jobs[live.at].steps
        done = min(1.0, live.done / steps)
        return Progress(self._now, step=live.done, total=steps, work_done=done)

    # ------------------------------------------------------------- jobs

    def _job(self, at: int) -> Job:
        job = self._jobs[at]
        spec = JobSpec(
            name=job.name,
            user=job.user,
            uid=self._uids.setdefault(job.user, len(self._uids)),
            roles=job.roles,
            priority=job.priority,
            checkpoint=Checkpoint(CheckpointKind.SIGNAL, self._scenario.save_s),
            resizing=Resizing.LIVE,
        )
        return Job(
            id=at + 1,
            ticket=str(at + 1),
            spec=spec,
            submitted=self._now,
            fingerprint=job.fingerprint,
        )
