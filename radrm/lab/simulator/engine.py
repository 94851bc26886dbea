"""Simulate a trace: make its tasks from a seed, run a loop over them, return the run."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from random import Random

from radrm.core.records import DECLARED, Dependency
from radrm.core.rules import Policy, Rules
from radrm.core.words import Condition
from radrm.errors import UsageError
from radrm.lab.simulator.courses import Course, Task, course_of
from radrm.lab.simulator.elastic.loop import ElasticLoop
from radrm.lab.simulator.elastic.training import simulate_parameter_servers
from radrm.lab.simulator.estimates import (
    AS_DECLARED,
    AutoEstimates,
    as_records,
    declared_of,
    errors_of,
    estimate_of,
    known_records,
    off,
    told_profile,
)
from radrm.lab.simulator.history import History
from radrm.lab.simulator.published import PublishedLoop
from radrm.lab.simulator.reporting import ReportingLoop
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import AUTO, FIDELITIES, Life, Scenario
from radrm.lab.simulator.scheduling import OwnLoop
from radrm.lab.simulator.traces.job import TraceJob, most_of_each, profile_there
from radrm.planners.order_policy import OrderPolicy
from radrm.structs import replace
from radrm.wiring import make_rules, make_settings

_OBJECTS_PER_COLLECTION = 100_000


def simulate(
    jobs: Sequence[TraceJob], scenario: Scenario, on_step: Callable[[], object] = lambda: None
) -> Run:
    """Return the run of these jobs. The same arguments give the same run, bit for bit.

    `Run.jobs` have the order of `jobs`, which need not be sorted by time. A job that fits no
    device has no attempts, but a reason. `on_step` is called when a job is submitted, and
    when it has ended.

    Raises `BadConfig` for unknown rules or settings, `UsageError` for an unknown estimator or
    fidelity.
    """
    if scenario.fidelity not in FIDELITIES:
        raise UsageError(f"fidelity {scenario.fidelity!r} is not one of {', '.join(FIDELITIES)}")
    order = sorted(range(len(jobs)), key=lambda at: jobs[at].submit_s)
    if order != list(range(len(jobs))):
        return _in_order_of(order, simulate([jobs[at] for at in order], scenario, on_step))
    tasks = tasks_of(jobs, scenario)
    if any(job.elastic and not job.gpus for job in jobs):
        return simulate_parameter_servers(tasks, scenario)
    rules, settings = make_rules(scenario.config), make_settings(scenario.config)
    history = History(jobs, on_step)
    loop: OwnLoop | PublishedLoop
    if scenario.fidelity == "published":
        if any(job.after or job.after_arrays or job.at_once is not None for job in jobs):
            raise UsageError(
                "the published loop has no --after and no array limits, and the trace uses them; "
                "choose fidelity radrm"
            )
        several = len({each.device.node for each in scenario.devices}) > 1
        if several or any(job.profile for job in jobs):
            raise UsageError(
                "the published loop has one server and one run time for each job; choose "
                "fidelity radrm"
            )
        if scenario.cpus is not None or any(map(needs_reports, jobs)):
            raise UsageError(
                "the published loop has no CPUs, no progress, no checkpoints and one size for "
                "each job, and the trace uses more; choose fidelity radrm"
            )
        if scenario.estimator == AUTO:
            raise UsageError(
                "the published loop has no estimator auto; choose a column of the trace"
            )
        policy = _policy(rules)
        loop = PublishedLoop(scenario.devices, scenario.mps, policy, tasks, history)
    else:
        auto = None
        if scenario.estimator == AUTO:
            auto = AutoEstimates(scenario.config, scenario.devices, jobs)
        kind = OwnLoop
        if scenario.cpus is not None or any(map(needs_reports, jobs)):
            kind = ElasticLoop if any(job.elastic for job in jobs) else ReportingLoop
        loop = kind(scenario, rules, settings, tasks, history, auto)
    loop.world.loss = scenario.loss
    with _few_collections():
        loop.run()
    return history.run(loop.world.device_runs())


def needs_reports(job: TraceJob) -> bool:
    """Return whether a job uses CPUs, progress or checkpoints."""
    return bool(job.elastic or job.cpus or job.loss_k or job.report_s or job.can_save)


@contextmanager
def _few_collections() -> Iterator[None]:
    """Let Python look for unreachable cycles less often: a run makes hardly any.

    By default it looks after every 700 new objects, at all that the run keeps again and again.
    """
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _in_order_of(order: Sequence[int], run: Run) -> Run:
    """Return the run with its jobs in the caller's order. `order[0]` is the first in time."""
    back = sorted(range(len(order)), key=order.__getitem__)
    return replace(
        run,
        jobs=tuple(run.jobs[at] for at in back),
        decisions=tuple((order[at], devices) for at, devices in run.decisions),
    )


def _policy(rules: Rules) -> Policy:
    planner = rules.planners[0]
    if len(rules.planners) > 1 or type(planner) is not OrderPolicy:
        named = "+".join(each.name for each in rules.planners)
        raise UsageError(f"the published loop has no planner {named!r}; leave planner at 'strict'")
    return planner.policy


def tasks_of(jobs: Sequence[TraceJob], scenario: Scenario) -> list[Task]:
    """Return what `simulate` runs: the jobs (by time) with the random values of the seed.

    The values are drawn in the order of the trace, before the run. So they depend on the seed
    alone, and every policy gets the same jobs. Raises `UsageError` for an unknown estimator.
    """
    names = frozenset(name for job in jobs for name in job.estimates)
    errors = errors_of(scenario.estimator, names)
    life_rng, error_rng = Random(f"life {scenario.seed}"), Random(f"errors {scenario.seed}")
    known_rng, declared_rng = Random(f"known {scenario.seed}"), Random(f"declared {scenario.seed}")
    tasks = []
    most = most_of_each(each.device for each in scenario.devices)
    tells = scenario.known.duration is not None
    arrays = _arrays(jobs)
    before = _dependencies(jobs, arrays)
    for at, job in enumerate(jobs):
        estimate_mib = estimate_of(job, scenario.estimator, errors, error_rng)
        known = known_records(job, scenario.known, known_rng)
        given = {each.quantity for each in known}
        known += tuple(each for each in job.predicted if each.quantity not in given)
        if scenario.known.memory is not None:
            estimate_mib = None
        estimator = scenario.estimator
        if scenario.known.declared is not None:
            estimator = DECLARED
            estimate_mib = declared_of(job, scenario.known.declared, declared_rng)
        if estimate_mib is not None:
            known = as_records(job, estimator, estimate_mib) + known
        declared = ceil(estimate_mib) if estimator in AS_DECLARED and estimate_mib else None
        profile = profile_there(job, most)
        tasks.append(
            Task(
                job=job,
                course=_course(job, scenario.life, life_rng),
                estimates=known,
                declared_mib=declared,
                after=before.get(at, ()),
                array=arrays.get(at),
                profile=told_profile(profile, job, known) if tells else (),
                most_gpus=max((each.gpus for each in profile), default=job.gpus_max or job.gpus),
            )
        )
    return tasks


def _dependencies(
    jobs: Sequence[TraceJob], arrays: Mapping[int, tuple[int, int]]
) -> dict[int, tuple[Dependency, ...]]:
    """Return the dependencies of each job; only earlier jobs count."""
    if not any(job.after or job.after_arrays for job in jobs):
        return {}
    place = {job.line: at for at, job in enumerate(jobs)}
    first = {jobs[at].array: found[0] for at, found in arrays.items()}
    return {
        at: (
            *_earlier(at, [place.get(line, at) for line in job.after]),
            *_earlier(at, [first.get(name, at) for name in job.after_arrays], array=True),
        )
        for at, job in enumerate(jobs)
    }


def _earlier(at: int, positions: Sequence[int], array: bool = False) -> list[Dependency]:
    return [Dependency(p + 1, Condition.ANY, array) for p in positions if p < at]


def _arrays(jobs: Sequence[TraceJob]) -> dict[int, tuple[int, int]]:
    """Return, for each job of an array, the position of the first job and its own number."""
    first: dict[str, int] = {}
    count: Counter[str] = Counter()
    found = {}
    for at, job in enumerate(jobs):
        if job.array is not None:
            found[at] = first.setdefault(job.array, at), count[job.array]
            count[job.array] += 1
    return found


def _course(job: TraceJob, life: Life, rng: Random) -> Course:
    low, high = life.steady

    def spread(seconds: float) -> float:
        return seconds * (1 + life.spread * (2 * rng.random() - 1))

    start_up_s, ramp_s, hold_s = map(spread, (life.start_up_s, life.ramp_s, life.hold_s))
    part = low + (high - low) * (rng.random() if life.spread else 0.5)
    work = 1 + off(rng) * life.work_sd
    return course_of(job, start_up_s, ramp_s, hold_s, life.first_mib, part, work, life.start_up_s)
