"""CPU jobs of several roles in virtual time: what is run, and the record of it.

`simulate_training` runs them under the daemon's own decisions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from random import Random
from statistics import fmean

from radrm.config import Config
from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.planning.thinking import think_in_place
from radrm.core.records import (
    Attempt,
    Checkpoint,
    Exit,
    HostUse,
    Instant,
    Job,
    JobSpec,
    Needs,
    Node,
    Placement,
    Progress,
    Role,
    TaskUse,
)
from radrm.core.rules import Planner, SlowPlanner
from radrm.core.scheduler import Scheduler
from radrm.core.words import CheckpointKind, Collocation, Outcome, Resizing
from radrm.errors import RadrmError, UsageError
from radrm.lab.simulator.courses import Task
from radrm.lab.simulator.run import AttemptRun, JobRun, Run
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.job import server_steps
from radrm.lab.simulator.world import World
from radrm.simulated.training import Rates, TaskAt, Training
from radrm.wiring import make_rules, make_settings


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A job without GPUs: submitted at `submit_s`, it ends after `steps` steps of its model.

    `roles` are as in `JobSpec`; each task needs CPUs, for its model counts them. Jobs with the same
    `fingerprint` are runs of the same program.
    """

    submit_s: float
    name: str
    training: Training
    steps: float
    roles: tuple[Role, ...]
    user: str = "user"
    priority: int = 0
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class TrainingScenario:
    """The servers, the rules, and the times of a run, in seconds.

    - `report_s`: the interval of reports: steps done, and the CPUs and the network that each task
      uses.
    - `start_s`: from a launch to its first step. `standby_s`: a job that gets another size works on
      for so long, then it stands still for `resize_s`. `save_s`: it stands still to save its work.
    - `noise`: the standard deviation of a job's speed from one report to the next, as a fraction.
      The seed draws it; the CPUs that the tasks use follow.
    - `until_s`: the run ends then, with jobs that have not ended.
    """

    nodes: tuple[Node, ...]
    config: Config = field(default_factory=Config)
    report_s: float = 10.0
    start_s: float = 0.0
    standby_s: float = 0.0
    resize_s: float = 30.0
    save_s: float = 0.0
    noise: float = 0.0
    seed: int = 0
    until_s: float = 1e7


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a job's tasks were the same: steps per second, and the CPUs in use.

    `steps_s` and `cpus` are those of the model, without noise; 0 while the job stands still.
    """

    from_s: float
    until_s: float
    tasks: tuple[TaskAt, ...]
    steps_s: float
    cpus: float

    @property
    def allocated(self) -> float:
        """The CPUs that its tasks may use."""
        return sum(task.cpus for task in self.tasks)

    def count(self, role: str) -> int:
        """Return the number of tasks of a role."""
        return sum(task.role == role for task in self.tasks)


@dataclass(frozen=True, slots=True)
class TrainingJobRun:
    """A job that was run. None: it has not started, or not ended; `reason` says why.

    `resizes` counts the times when its tasks changed while it ran, `shares` the changes of CPUs
    without that, `attempts` its launches. The spans are in order.
    """

    job: TrainingJob
    started_s: float | None = None
    ended_s: float | None = None
    resizes: int = 0
    shares: int = 0
    attempts: int = 0
    spans: tuple[Span, ...] = ()
    reason: str | None = None

    @property
    def queue_s(self) -> float | None:
        """The time until its first start."""
        return None if self.started_s is None else self.started_s - self.job.submit_s

    @property
    def run_s(self) -> float | None:
        """The time from its first start to its end."""
        if self.started_s is None or self.ended_s is None:
            return None
        return self.ended_s - self.started_s

    @property
    def jct_s(self) -> float | None:
        """The time from its submission to its end."""
        return None if self.ended_s is None else self.ended_s - self.job.submit_s


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One run: its jobs in the order in which they were given."""

    jobs: tuple[TrainingJobRun, ...]
    ended_s: float

    @property
    def unfinished(self) -> int:
        """The number of jobs that have not ended."""
        return sum(each.ended_s is None for each in self.jobs)

    def mean_queue_s(self) -> float | None:
        """Return the mean time until the first start, over the jobs that have ended."""
        return _mean([each.queue_s for each in self.jobs if each.ended_s is not None])

    def mean_jct_s(self) -> float | None:
        """Return the mean time from submission to end, over the jobs that have ended."""
        return _mean([each.jct_s for each in self.jobs])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


# ------------------------------------------------------------------
# A running attempt of a job without GPUs: its tasks, its speed, and what it has done and used.


_NOTHING = Rates(0.0, (), ())


@dataclass(slots=True, eq=False)
class LiveTraining:
    """An attempt of the job at place `at` of the trace.

    `done` counts steps. `factor`: the speed in this interval, as a multiple of the model's.
    `stops`: the reasons why it stands still. `version` counts the changes of its speed. `cpu_s` is
    the CPU time of each of its tasks, `before_cpu_s` that of tasks which have ended.
    """

    at: int
    serial: int
    job: TrainingJob
    done: float
    since_s: float
    span_s: float
    tasks: tuple[TaskAt, ...] = ()
    rates: Rates = _NOTHING
    cpu_s: list[float] = field(default_factory=list)
    before_cpu_s: float = 0.0
    factor: float = 1.0
    stops: int = 0
    version: int = 0
    over: bool = False
    spans: list[Span] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Its steps per second now."""
        return 0.0 if self.stops else self.rates.steps_s * self.factor

    @property
    def left(self) -> float:
        """The steps that are not done."""
        return max(0.0, self.job.steps - self.done)

    def run_on(self, placement: Placement, now_s: float, anew: bool) -> None:
        """Run on a placement from now on; `anew`: all its tasks are new processes."""
        self.add_up(now_s)
        self._end_span(now_s)
        needs = {role.name: role.needs.cpus for role in self.job.roles}
        self.tasks = tuple(
            TaskAt(s.role, s.task, s.cpus or needs[s.role] or 1.0, s.node) for s in placement.shares
        )
        self.rates = self.job.training.rates(self.tasks)
        if anew:
            self.before_cpu_s += sum(self.cpu_s)
            self.cpu_s = [0.0] * len(self.tasks)

    def stand(self, stops: int, now_s: float) -> None:
        """Stand still for so many reasons from now on, or go on."""
        self.add_up(now_s)
        if (stops > 0) is not (self.stops > 0):
            self._end_span(now_s)
        self.stops = stops

    def add_up(self, now_s: float) -> None:
        """Add up the steps and the CPU time since the last change."""
        passed_s, self.since_s = now_s - self.since_s, now_s
        self.done += self.speed * passed_s
        if not self.stops:
            for number, (used, task) in enumerate(zip(self.rates.cpus, self.tasks, strict=True)):
                self.cpu_s[number] += min(used * self.factor, task.cpus) * passed_s

    def _end_span(self, now_s: float) -> None:
        if now_s > self.span_s:
            speed = 0.0 if self.stops else self.rates.steps_s
            cpus = 0.0 if self.stops else sum(self.rates.cpus)
            self.spans.append(Span(self.span_s, now_s, self.tasks, speed, cpus))
        self.span_s = now_s

    def use(self, now: Instant) -> HostUse:
        """Return what it has used until now, also each task."""
        busy = 0.0 if self.stops else self.factor
        tasks = tuple(
            TaskUse(task.role, task.number, cpu_s, network=min(1.0, network * busy))
            for task, cpu_s, network in zip(self.tasks, self.cpu_s, self.rates.network, strict=True)
        )
        return HostUse(at=now, cpu_s=self.before_cpu_s + sum(self.cpu_s), tasks=tasks)


# ------------------------------------------------------------------
# Run CPU jobs of several roles in virtual time, by the daemon's own decisions.
#
# Theory of operation
# -------------------
# A job's model gives its speed for the tasks that it has now; between two changes the speed is
# constant, so its end is known. A change of CPUs applies at once. Another number of tasks takes
# `standby_s`, in which the old tasks work on, and `resize_s`, in which nothing works; a withdrawal
# before that undoes it. Saved work is what a job had done at its last checkpoint or resize.
#
# All running jobs report at the same moments. A new resize makes all its tasks new processes, so
# their CPU time counts anew.
#
# The run ends when all jobs have ended, at `until_s`, or when no job runs and none has started for
# a day: then nothing will start the others.


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


# ------------------------------------------------------------------
# A trace of jobs with parameter servers and workers: its jobs are run by `simulate_training`.


_MOST_SERVERS, _MOST_WORKERS = 16, 100
"""The most tasks of a job. The planners' own budgets come first."""
_REPORT_S = 10.0


def simulate_parameter_servers(tasks: Sequence[Task], scenario: Scenario) -> Run:
    """Return the run of a trace in which every job has parameter servers.

    Each server of the scenario has its `cpus`. Raises `UsageError` without them, for other jobs in
    the trace, and for the published loop.
    """
    others = [task.job for task in tasks if task.job.gpus or not task.job.elastic]
    if others:
        raise UsageError(
            f"line {others[0].line} is not a job with parameter servers (gpus 0, cpus_max), as "
            "others are; run them in two traces"
        )
    if scenario.cpus is None or scenario.fidelity != "radrm":
        raise UsageError(
            "jobs with parameter servers need --cpus N, the CPUs of each server, and fidelity radrm"
        )
    names = dict.fromkeys(each.device.node for each in scenario.devices)
    life = scenario.life
    found = simulate_training(
        [_job(task) for task in tasks],
        TrainingScenario(
            nodes=tuple(Node(name, cpus=scenario.cpus) for name in names),
            config=scenario.config,
            report_s=min((task.job.report_s or _REPORT_S for task in tasks), default=_REPORT_S),
            start_s=life.start_up_s,
            standby_s=life.standby_s,
            resize_s=life.resize_s,
            save_s=life.checkpoint_s,
            seed=scenario.seed,
        ),
    )
    return Run(
        jobs=tuple(_run(task, each) for task, each in zip(tasks, found.jobs, strict=True)),
        devices=World(scenario.devices).device_runs(),
        ended_s=max((each.ended_s or 0.0 for each in found.jobs), default=0.0),
        oom_count=0,
    )


def _job(task: Task) -> TrainingJob:
    job, model = task.job, server_steps(task.job)
    cpus = job.cpus or 1.0
    smallest = model.rates([TaskAt(role, 0, cpus, "") for role in ("ps", "worker")])
    needs = Needs(gpus=0, cpus=cpus, cpus_max=job.cpus_max)
    return TrainingJob(
        submit_s=job.submit_s,
        name=job.name,
        training=model,
        steps=task.course.work_s * smallest.steps_s,
        roles=(Role("ps", 1, _MOST_SERVERS, 1, needs), Role("worker", 1, _MOST_WORKERS, 1, needs)),
        user=job.user,
        priority=job.priority,
        fingerprint=job.name,
    )


def _run(task: Task, found: TrainingJobRun) -> JobRun:
    """Return the record of a job. Its attempts are one, from its first start to its end."""
    attempts: tuple[AttemptRun, ...] = ()
    if found.started_s is not None and found.ended_s is not None:
        whole = AttemptRun(
            *(found.started_s, found.ended_s, (), Outcome.COMPLETED, Collocation.EXCLUSIVE.value),
            solo_s=task.course.work_s,
        )
        attempts = (whole,)
    used_s, had_s = 0.0, 0.0
    for span in found.spans:
        used_s += span.cpus * (span.until_s - span.from_s)
        had_s += span.allocated * (span.until_s - span.from_s)
    return JobRun(task.job, attempts, found.ended_s, found.reason, found.resizes, (used_s, had_s))
