"""A trace of jobs with parameter servers and workers: its jobs are run by `training_loop`."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.core.records import Needs, Node, Role
from radrm.core.words import Collocation, Outcome
from radrm.errors import UsageError
from radrm.simulated.training import TaskAt
from radrm.simulator.courses import Task
from radrm.simulator.elastic.training import TrainingJob, TrainingJobRun, TrainingScenario
from radrm.simulator.elastic.training_loop import simulate_training
from radrm.simulator.run import AttemptRun, JobRun, Run
from radrm.simulator.scenario import Scenario
from radrm.simulator.traces.steps import server_steps
from radrm.simulator.world import World

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
