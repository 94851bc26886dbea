"""DLRover's experiments with one job (sections 4 and 6), in its own model of a step.

The plans are the rule's own functions. Assumed for every way alike, from section 6.3: a change
comes into effect 120 s after it is decided (20 s to start tasks, 100 s to initialise them), while
the others work on, and 60 s of measuring follow. New parameter servers cost 30 s of standing still
(assumed: saving, dividing and restoring).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.elastic.models import CRITEO_STEPS, MOST_CPUS, QUOTA, Recommender
from benchmarks.elastic.training_cluster import tasks_of
from radrm.published.dlrover import Plan, hot_cpus, plan_from, workers_beside
from radrm.published.servers.layout import Layout
from radrm.simulated.training import Rates, StepModel

START_S, SAMPLE_S, REPARTITION_S = 120.0, 60.0, 30.0
INTERVAL_S = 60.0
"""DLRover changes a job at most once in this time."""
SLOW = 0.25
"""The part of its CPUs that a straggler keeps (6.2)."""
LEAST_EFFICIENCY = 0.3
"""Auto-scaling adds workers while a new one adds this part of what the others do (6.3)."""


def rates(model: StepModel, layout: Layout) -> Rates:
    """Return the steady state of a layout; its parameter servers come first."""
    return model.rates(tasks_of(layout))


def plan(job: Recommender) -> Plan:
    """Return the plan that the sample of Table 1 gives."""
    return plan_from(job.worker_used, job.servers_used, QUOTA)


def planned(found: Plan) -> Layout:
    """Return a plan's layout."""
    return Layout((found.server_cpus,) * found.servers, (found.worker_cpus,) * found.workers)


def with_cpus(layout: Layout, servers: dict[int, float]) -> Layout:
    """Return the layout with other CPUs of some parameter servers."""
    return layout.with_servers(
        [servers.get(number, cpus) for number, cpus in enumerate(layout.servers)]
    )


def hot_replaced(job: Recommender, cpus: float | None = None) -> tuple[Layout, float]:
    """Return Table 2's layout with its two hot servers replaced, and the CPUs of each.

    `cpus`: None for what the rule gives them.
    """
    found = rates(job.model, job.tuned)
    used = found.cpus[: len(job.tuned.servers)]
    if cpus is None:
        workers = len(job.tuned.workers)
        cpus = hot_cpus(max(used), sum(used), job.servers_used, workers, MOST_CPUS)
    return with_cpus(job.tuned, {0: cpus, 1: cpus}), cpus


# ---------------------------------------------------------------- stragglers


def worker_straggler(job: Recommender) -> float:
    """Return the per cent of time that dividing the data by need saves with one slow worker.

    Without it each worker has an equal part of the data, and the slow one is left alone.
    """
    slow = job.tuned.with_workers(
        [job.tuned.workers[0] * SLOW, *job.tuned.workers[1:]],
    )
    by_need_s = CRITEO_STEPS / rates(job.model, slow).steps_s
    return _saved(_with_equal_parts_s(job.model, slow), by_need_s)


def _with_equal_parts_s(model: StepModel, layout: Layout) -> float:
    """Return the time until the last worker has done its equal part; the first one is slow."""
    part = CRITEO_STEPS / len(layout.workers)
    fast = layout.with_workers(layout.workers[1:])
    together = rates(model, layout).steps_s
    # All wait alike at the servers, so the speeds of single workers follow from two states.
    slow_speed = _slow_speed(model, layout, together)
    fast_speed = (together - slow_speed) / len(fast.workers)
    fast_s = part / fast_speed
    alone = rates(model, layout.with_workers(layout.workers[:1])).steps_s
    return fast_s + max(0.0, part - slow_speed * fast_s) / alone


def _slow_speed(model: StepModel, layout: Layout, together: float) -> float:
    """Return the speed of the first worker among all: the rest of `together` is the others'.

    The time at the servers, t, is the same for all: together = 1 / (a + t) + (N - 1) / (b + t).
    """
    away_slow, away_fast = (
        model.io_s + model.compute_s * model.worker_cpus / min(cpus, model.worker_cpus)
        for cpus in layout.workers[:2]
    )
    others = len(layout.workers) - 1
    low, high = 0.0, 1e6
    for _ in range(200):
        there = (low + high) / 2
        if 1 / (away_slow + there) + others / (away_fast + there) > together:
            low = there
        else:
            high = there
    return 1 / (away_slow + low)


def server_straggler(job: Recommender) -> list[float]:
    """Return the per cent of time saved with one slow parameter server, for each server in turn.

    DLRover replaces it: the job works slowly until then, and stands still for a moment.
    """
    found = []
    for number, cpus in enumerate(job.tuned.servers):
        slow = rates(job.model, with_cpus(job.tuned, {number: cpus * SLOW})).steps_s
        whole = rates(job.model, job.tuned).steps_s
        changed_s = INTERVAL_S + START_S
        left = CRITEO_STEPS - slow * changed_s
        replaced_s = changed_s + REPARTITION_S + left / whole
        found.append(_saved(CRITEO_STEPS / slow, replaced_s))
    return found


def _saved(before_s: float, after_s: float) -> float:
    return 100 * (1 - after_s / before_s)


# ---------------------------------------------------------------- against other ways


@dataclass(frozen=True, slots=True)
class Phase:
    """A layout that is decided on when the one before has been measured."""

    layout: Layout
    pause_s: float = 0.0


def completion_s(model: StepModel, phases: Iterator[Phase]) -> float:
    """Return the time until Criteo's steps are done, from the job's start.

    The first phase begins after `START_S`; each next one is decided when the last has been
    measured, and comes into effect `START_S` later.
    """
    done, now_s = 0.0, START_S
    layout = next(phases).layout
    while True:
        speed = rates(model, layout).steps_s
        following = next(phases, None)
        lasts_s = SAMPLE_S + START_S
        if following is None or done + speed * lasts_s >= CRITEO_STEPS:
            return now_s + (CRITEO_STEPS - done) / speed
        done += speed * lasts_s
        now_s += lasts_s + following.pause_s
        layout = following.layout


def by_dlrover(job: Recommender) -> Iterator[Phase]:
    """Yield DLRover's stages: sample, servers, workers, hot servers."""
    first = plan(job)
    servers, one = planned(first).servers, (MOST_CPUS,)
    yield Phase(Layout(one, one))
    sampled = Layout(servers, one)
    yield Phase(sampled, REPARTITION_S)
    *used, worker = rates(job.model, sampled).cpus
    count = workers_beside(worker, sum(used), QUOTA, sum(servers))
    layout = Layout(servers, (first.worker_cpus,) * count)
    yield Phase(layout)
    found = rates(job.model, layout)
    used = list(found.cpus[: len(layout.servers)])
    hot = {n: each for n, each in enumerate(used) if each > 0.9 * layout.servers[n]}
    cold = len(hot) < len(used)
    if hot and cold:
        replaced = {
            n: max(
                layout.servers[n],
                hot_cpus(each, sum(used), job.servers_used, len(layout.workers), MOST_CPUS),
            )
            for n, each in hot.items()
        }
        yield Phase(with_cpus(layout, replaced), REPARTITION_S)


def by_auto_scaling(job: Recommender, servers: int, workers: int, more: int) -> Iterator[Phase]:
    """Yield `more` workers at a time, while a new one is worth it (Or et al., as in 6.3)."""
    layout = _like(job, servers, workers)
    yield Phase(layout)
    while True:
        wider = _like(job, servers, len(layout.workers) + more)
        if wider.total > QUOTA:
            return
        yield Phase(wider)
        before, after = (rates(job.model, each).steps_s for each in (layout, wider))
        layout = wider
        if (after - before) / more < LEAST_EFFICIENCY * before / (len(layout.workers) - more):
            return


def by_optimus(
    job: Recommender, servers: int, workers: int, more: tuple[int, int]
) -> Iterator[Phase]:
    """Yield what gains most of some servers and some workers more (Optimus, as in 6.3).

    It knows the model exactly, which is the best that its fitted one could do.
    """
    layout = _like(job, servers, workers)
    yield Phase(layout)
    while True:
        n_ps, n_wk = layout.counts
        wider = [_like(job, n_ps + more[0], n_wk), _like(job, n_ps, n_wk + more[1])]
        wider = [each for each in wider if each.total <= QUOTA]
        best = max(wider, key=lambda each: rates(job.model, each).steps_s, default=layout)
        if rates(job.model, best).steps_s <= 1.001 * rates(job.model, layout).steps_s:
            return
        yield Phase(best, REPARTITION_S if best.counts[0] > n_ps else 0.0)
        layout = best


def _like(job: Recommender, servers: int, workers: int) -> Layout:
    """Return a layout whose tasks have the CPUs of Table 2."""
    return Layout((job.tuned.servers[0],) * servers, (job.tuned.workers[0],) * workers)


def sooner(job: Recommender, other: Iterator[Phase]) -> float:
    """Return the per cent by which DLRover ends sooner than another way."""
    return _saved(completion_s(job.model, other), completion_s(job.model, by_dlrover(job)))
