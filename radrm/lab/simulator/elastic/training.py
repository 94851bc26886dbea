"""CPU jobs of several roles in virtual time: what is run, and the record of it.

`simulate_training` runs them under the daemon's own decisions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from random import Random

from msgspec import Struct, field

from radrm.config import Config
from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Decision
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
    Progress,
    Role,
    Share,
    TaskUse,
)
from radrm.core.rules import Planner, SlowPlanner
from radrm.core.scheduler import Scheduler
from radrm.core.words import CheckpointKind, Collocation, Outcome, Resizing
from radrm.errors import UsageError
from radrm.lab.simulator.courses import Task
from radrm.lab.simulator.loop import TERM, Arrival, ResizingLoop, Running, Timeline, in_order
from radrm.lab.simulator.run import AttemptRun, JobRun, Run
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.traces.job import server_steps
from radrm.lab.simulator.world import World
from radrm.simulated.integral import Integral
from radrm.simulated.training import Rates, TaskAt, Training
from radrm.structs import replace
from radrm.wiring import make_rules, make_settings


class TrainingJob(Struct, frozen=True):
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


class TrainingScenario(Struct, frozen=True):
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


class Span(Struct, frozen=True):
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


class TrainingJobRun(Struct, frozen=True):
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
    def jct_s(self) -> float | None:
        """The time from its submission to its end."""
        return None if self.ended_s is None else self.ended_s - self.job.submit_s


class TrainingRun(Struct, frozen=True):
    """One run: its jobs in the order in which they were given."""

    jobs: tuple[TrainingJobRun, ...]
    ended_s: float

    @property
    def unfinished(self) -> int:
        """The number of jobs that have not ended."""
        return sum(each.ended_s is None for each in self.jobs)


# ------------------------------------------------------------------
# A running attempt of a job without GPUs: its tasks, its speed, and what it has done and used.


_NOTHING = Rates(0.0, (), ())


class LiveTraining(Running, eq=False, kw_only=True):
    """An attempt of a job. Its work counts steps.

    `factor`: the speed in this interval, as a multiple of the model's. `stops`: the reasons why it
    stands still. `cpu_s` is the CPU time of each of its tasks, `before_cpu_s` that of tasks which
    have ended. The last span began at `span_s`.
    """

    span_s: float
    tasks: tuple[TaskAt, ...] = ()
    rates: Rates = _NOTHING
    cpu_s: list[Integral] = field(default_factory=list)
    before_cpu_s: float = 0.0
    factor: float = 1.0
    stops: int = 0
    spans: list[Span] = field(default_factory=list)

    def run_on(self, tasks: tuple[TaskAt, ...], rates: Rates, now_s: float, anew: bool) -> None:
        """Run these tasks from now on; `anew`: all of them are new processes."""
        self.end_span(now_s)
        self.tasks, self.rates = tasks, rates
        if anew:
            self.before_cpu_s += sum(each.add_up(now_s) for each in self.cpu_s)
            self.cpu_s = [Integral(since_s=now_s) for _ in tasks]
        self.go_on(now_s)

    def stand(self, stops: int, now_s: float) -> None:
        """Stand still for so many reasons from now on, or go on."""
        if (stops > 0) is not (self.stops > 0):
            self.end_span(now_s)
        self.stops = stops
        self.go_on(now_s)

    def go_on(self, now_s: float) -> None:
        """Go at its present rates from now on."""
        factor = 0.0 if self.stops else self.factor
        self.work.go_at(self.rates.steps_s * factor, now_s)
        for used, cpus, task in zip(self.cpu_s, self.rates.cpus, self.tasks, strict=True):
            used.go_at(min(cpus * factor, task.cpus), now_s)

    def end_span(self, now_s: float) -> None:
        """Begin a new span, whose tasks or speed are not the same."""
        if now_s > self.span_s:
            speed = 0.0 if self.stops else self.rates.steps_s
            cpus = 0.0 if self.stops else sum(self.rates.cpus)
            self.spans.append(Span(self.span_s, now_s, self.tasks, speed, cpus))
        self.span_s = now_s

    def use(self, now: Instant) -> HostUse:
        """Return what it has used until now, also each task."""
        busy = 0.0 if self.stops else self.factor
        cpu_s = [each.add_up(now.boot_s) for each in self.cpu_s]
        tasks = tuple(
            TaskUse(task.role, task.number, used, network=min(1.0, network * busy))
            for task, used, network in zip(self.tasks, cpu_s, self.rates.network, strict=True)
        )
        return HostUse(at=now, cpu_s=self.before_cpu_s + sum(cpu_s), tasks=tasks)


# ------------------------------------------------------------------
# Run CPU jobs of several roles in virtual time, by the daemon's own decisions.
#
# Theory of operation
# -------------------
# A job's model gives its speed for the tasks that it has now. A change of CPUs applies at once,
# another number of tasks is a resize (`loop`). Saved work is what a job had done at its last
# checkpoint or resize.
#
# All running jobs report at the same moments. A new resize makes all its tasks new processes, so
# their CPU time counts anew.
#
# The run ends when all jobs have ended, at `until_s`, or when no job runs and none has started for
# a day: then nothing will start the others.


_MANY = 10**6
_STUCK_S = 86_400.0
_LEAST_FACTOR = 0.1


class _Begins(Struct, frozen=True):
    """An attempt works now, for the first time."""

    live: LiveTraining


class _Report:
    """All running jobs report now."""


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


class _TrainingLoop(ResizingLoop[LiveTraining]):
    def __init__(
        self,
        jobs: Sequence[TrainingJob],
        scenario: TrainingScenario,
        planners: Sequence[Planner | SlowPlanner] | None,
    ) -> None:
        rules = make_rules(scenario.config)
        if planners is not None:
            rules = replace(rules, planners=tuple(planners))
        settings = dataclasses.replace(make_settings(scenario.config), gpuless_at_once=_MANY)
        super().__init__(Timeline(), rules, Scheduler(rules, settings))
        self._scenario, self._jobs = scenario, jobs
        self._standby_s, self._resize_s = scenario.standby_s, scenario.resize_s
        self._runs = [TrainingJobRun(job) for job in jobs]
        self._spans: list[list[Span]] = [[] for _ in jobs]
        self._random = Random(f"training {scenario.seed}")
        self._moved_s = 0.0
        self._open = self._coming = len(jobs)

    # ------------------------------------------------------------- time

    def run(self) -> TrainingRun:
        time, until_s = self._time, self._scenario.until_s
        self._step(ev.DevicesSeen(at=self._now, devices=()))
        self._step(ev.NodesSeen(at=self._now, nodes=self._scenario.nodes))
        for at, job in enumerate(self._jobs):
            time.at(job.submit_s, Arrival(at))
        time.at(0.0, _Report())
        for _, happened in in_order([time], until_s):
            self.turn(happened)
            if not self._open or self._stuck:
                break
        return TrainingRun(tuple(self._finished(at) for at in range(len(self._jobs))), time.now_s)

    @property
    def _stuck(self) -> bool:
        """Whether no job runs, none comes, and none will have started for a day."""
        next_s = self._time.next_s
        idle = not self._live and not self._coming
        return idle and next_s is not None and next_s > self._moved_s + _STUCK_S

    def _finished(self, at: int) -> TrainingJobRun:
        live = self._live.get(at + 1)
        if live is not None:
            live.stand(live.stops + 1, self._time.now_s)
            self._spans[at] += live.spans
        found = replace(self._runs[at], spans=tuple(self._spans[at]))
        if found.ended_s is not None or found.reason is not None:
            return found
        return replace(found, reason=self._why_waiting(at + 1) or "it had not ended")

    def _note(self, event: ev.Event, decision: Decision) -> None:
        for record in decision.changed:
            if isinstance(record, Job) and record.state.final:
                ended_s = self._time.now_s if record.outcome is Outcome.COMPLETED else None
                run = self._runs[record.id - 1]
                self._runs[record.id - 1] = replace(run, ended_s=ended_s, reason=record.reason)
                self._open -= 1
            elif isinstance(record, Attempt) and record.ended is None:
                self._moved_s = self._time.now_s

    def _on(self, happened: object) -> None:
        match happened:
            case _Begins(live):
                self._stand_still(live, False)
            case LiveTraining():  # it has done its last step
                self._end(happened, Exit(code=0))
            case _Report():
                self._report()
            case _:
                self._coming -= isinstance(happened, Arrival)
                super()._on(happened)

    # ------------------------------------------------------------- actions of the core

    def _launch(self, action: act.Launch) -> None:
        at, time = action.job_id - 1, self._time
        live = LiveTraining(job=at, serial=action.serial, stops=1, span_s=time.now_s)
        live.work = Integral(self._saved.get(action.job_id, 0.0), since_s=time.now_s)
        self._live[action.job_id] = live
        self._run_on(live, action.placement.shares, anew=True)
        run = self._runs[at]
        started_s = time.now_s if run.started_s is None else run.started_s
        self._runs[at] = replace(run, started_s=started_s, attempts=run.attempts + 1)
        self._tell(ev.AttemptStarted, live)
        time.at(time.now_s + self._scenario.start_s, _Begins(live), live)

    def _stop(self, attempt: LiveTraining) -> None:
        self._end(attempt, Exit(signal=TERM))

    def _end(self, live: LiveTraining, how: Exit) -> None:
        live.stand(live.stops + 1, self._time.now_s)
        live.over = True
        self._spans[live.job] += live.spans
        del self._live[live.job + 1]
        self._tell(ev.AttemptEnded, live, exits=(how,) * len(live.tasks))

    def _save_s(self, job_id: int) -> float | None:
        return self._scenario.save_s

    def _set_shares(self, attempt: LiveTraining, shares: tuple[Share, ...]) -> None:
        self._run_on(attempt, shares, anew=False)
        run = self._runs[attempt.job]
        self._runs[attempt.job] = replace(run, shares=run.shares + 1)

    def _finish_resize(self, attempt: LiveTraining, action: act.Resize) -> None:
        self._saved[action.job_id] = attempt.work.value
        self._run_on(attempt, action.target.shares, anew=True)
        self._stand_still(attempt, False)
        run = self._runs[attempt.job]
        self._runs[attempt.job] = replace(run, resizes=run.resizes + 1)
        self._tell(ev.Resized, attempt, target=action.target, generation=action.generation)

    # ------------------------------------------------------------- speed

    def _run_on(self, live: LiveTraining, shares: tuple[Share, ...], anew: bool) -> None:
        job = self._jobs[live.job]
        needs = {role.name: role.needs.cpus for role in job.roles}
        tasks = tuple(
            TaskAt(s.role, s.task, s.cpus or needs[s.role] or 1.0, s.node) for s in shares
        )
        live.run_on(tasks, job.training.rates(tasks), self._time.now_s, anew)
        self._plan_end(live)

    def _stand_still(self, attempt: LiveTraining, still: bool) -> None:
        attempt.stand(attempt.stops + (1 if still else -1), self._time.now_s)
        self._plan_end(attempt)

    def _plan_end(self, live: LiveTraining) -> None:
        self._time.plan_end(live, self._jobs[live.job].steps, live)

    # ------------------------------------------------------------- reports

    def _report(self) -> None:
        uses = []
        for job_id, live in self._live.items():
            live.work.add_up(self._time.now_s)
            uses.append((job_id, live.serial, live.use(self._now)))
        if uses:
            self._events.append(ev.HostUsed(at=self._now, uses=tuple(uses)))
        for live in self._live.values():
            self._tell(ev.ProgressReported, live, progress=self._progress(live))
            if self._scenario.noise:
                drawn = 1 + self._scenario.noise * self._random.gauss(0.0, 1.0)
                live.factor = max(_LEAST_FACTOR, drawn)
                live.go_on(self._time.now_s)
                self._plan_end(live)
        self._time.at(self._time.now_s + self._scenario.report_s, _Report())

    def _progress(self, attempt: LiveTraining) -> Progress:
        steps, done = self._jobs[attempt.job].steps, attempt.work.value
        return Progress(self._now, step=done, total=steps, work_done=min(1.0, done / steps))

    # ------------------------------------------------------------- jobs

    def _job(self, at: int) -> Job:
        job = self._jobs[at]
        spec = JobSpec(
            name=job.name,
            user=job.user,
            uid=self._uid(job.user),
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
