"""Run each variant with each seed; the results as JSON.

A worker process returns only the metrics of a run.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from radrm.config import Config
from radrm.core.rules import is_slow
from radrm.deadlines import Costs
from radrm.errors import Refused
from radrm.lab.experiments.simulations.variants import Variant
from radrm.lab.simulator.bounds import Bounds, bounds, drawn, mean_of
from radrm.lab.simulator.engine import simulate
from radrm.lab.simulator.metrics import ELASTIC, MEASURED, Metrics, metrics, over_seeds
from radrm.lab.simulator.run import Run
from radrm.lab.simulator.scenario import Scenario
from radrm.lab.simulator.servers import Lot, simulate_many
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import SimulatedDevice
from radrm.structs import replace
from radrm.wiring import find_rule, make_costs

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

T = TypeVar("T")

_WORTH_PROCESSES = 2_000
"""Jobs times runs below which starting processes takes longer than it saves."""


def capacities_mib(devices: Sequence[SimulatedDevice]) -> list[int]:
    """The memory of each device that jobs can use."""
    return [each.device.capacity_mib - each.unmanaged_mib for each in devices]


# ------------------------------------------------------------------ running


class Result(Struct, frozen=True):
    """A variant's runs, by seed. `limits`: the lower bounds for every policy, means over the
    seeds."""

    variant: Variant
    runs: tuple[Metrics, ...]
    limits: Bounds


class _Task(Struct, frozen=True):
    """One run."""

    variant: int
    seed: int


Progress = Callable[[int, int], object]
"""It is called with the number of jobs that are done, and of all jobs of all runs. A job is half
done when it is submitted: on a busy server most of the work is before the first ends."""
_Done = tuple[Metrics, "Bounds | None"]
Map = Callable[[Sequence[Lot]], Iterable[Run]]
"""How the servers of a run are run."""

_LOOK_S = 0.5
"""How often the ends of jobs in other processes are counted."""

Draws = Sequence[Sequence[TraceJob]]
"""The jobs of a run, by seed. With fewer draws than seeds they begin again."""


class _Work(Struct, frozen=True):
    """What all runs share. `on_step` is called when a job is submitted, and when it has
    ended."""

    draws: Draws = ((),)
    variants: Sequence[Variant] = ()
    on_step: Callable[[], object] = lambda: None


_work = _Work()


def _begin(work: _Work) -> None:
    """Set up a worker process."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback


def _do(task: _Task) -> tuple[_Task, _Done]:
    return task, _once(_work, task)


def _do_lot(lot: Lot) -> Run:
    return simulate(*lot, _work.on_step)


def _once(work: _Work, task: _Task, servers: Map | None = None) -> _Done:
    """Run a task. `servers` runs its servers elsewhere; None: here, in turn."""
    variant = work.variants[task.variant]
    scenario = replace(variant.scenario, seed=task.seed)
    jobs = work.draws[task.seed % len(work.draws)]

    def in_turn(lots: Sequence[Lot]) -> Iterator[Run]:
        return (simulate(*lot, work.on_step) for lot in lots)

    run = simulate_many(jobs, scenario, variant.servers, variant.dealer, servers or in_turn)
    # All variants run the same jobs, so the bounds of a seed hold for all of them.
    limits = _limits(run, variant) if task.variant == 0 else None
    return metrics(run, _costs(scenario, jobs)), limits


def _costs(scenario: Scenario, jobs: Sequence[TraceJob]) -> Costs | None:
    """Return what energy and lateness cost; None if neither the trace nor the site speaks of it."""
    config, usual = scenario.config, Config()
    stated = (config.energy, config.deadlines) != (usual.energy, usual.deadlines)
    if not stated and all(job.due_s is None for job in jobs):
        return None
    return make_costs(config)


def _limits(run: Run, variant: Variant) -> Bounds:
    scenario = variant.scenario
    parts = [each.fraction for each in scenario.devices] * variant.servers
    life = scenario.life
    return bounds(*drawn(run, life.start_up_s * (1 - life.spread), life.start_up_s), parts)


def silent(done: int, of: int) -> None:
    """Show no progress."""


def results(
    draws: Draws,
    variants: Sequence[Variant],
    seeds: Sequence[int],
    progress: Progress = silent,
) -> list[Result]:
    """Run every variant with every seed; each seed has its own draw of the jobs. Raises errors of
    the runs."""
    tasks = [_Task(at, seed) for seed in seeds for at in range(len(variants))]
    jobs = sum(len(draws[task.seed % len(draws)]) for task in tasks)
    found: dict[tuple[int, int], _Done] = {}
    progress(0, jobs)
    for task, done in _all(
        draws, variants, tasks, lambda steps: progress(min(steps // 2, jobs), jobs)
    ):
        found[task.variant, task.seed] = done
    progress(jobs, jobs)
    limits = mean_of([b for seed in seeds if (b := found[0, seed][1]) is not None])
    return [
        Result(variant, tuple(found[at, seed][0] for seed in seeds), limits)
        for at, variant in enumerate(variants)
    ]


def _all(
    draws: Draws,
    variants: Sequence[Variant],
    tasks: Sequence[_Task],
    told: Callable[[int], object],
) -> Iterator[tuple[_Task, _Done]]:
    """Run all tasks. `told` is called again and again with the number of steps: a job has two."""
    cpus = len(os.sched_getaffinity(0))
    lots = len(tasks) * max(variant.servers for variant in variants)
    quick = len(draws[0]) * len(tasks) < _WORTH_PROCESSES and not any(map(_thinks, variants))
    if cpus < 2 or lots < 2 or quick:
        ended = count(1)
        here = _Work(draws, variants, lambda: told(next(ended)))
        for task in tasks:
            yield task, _once(here, task)
        return
    # Forked, so that all processes share the memory of a long trace, and the count.
    forked = multiprocessing.get_context("fork")
    number = forked.Value("Q", 0)
    work = _Work(draws, variants, lambda: _add_one(number))

    def look() -> None:
        told(number.value)

    with ProcessPoolExecutor(min(cpus, lots), forked, _begin, (work,)) as pool:

        def servers(lots: Sequence[Lot]) -> Iterator[Run]:
            futures = [pool.submit(_do_lot, lot) for lot in lots]
            list(_as_done(futures, look))
            return (future.result() for future in futures)

        try:
            if len(tasks) == 1:
                yield tasks[0], _once(work, tasks[0], servers)
            else:
                yield from _as_done([pool.submit(_do, task) for task in tasks], look)
        except BrokenProcessPool:
            raise Refused(
                "a process of the simulation was killed, usually because memory ran out; "
                "try a shorter trace or fewer seeds"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _add_one(number: Synchronized[int]) -> None:
    with number.get_lock():
        number.value += 1


def _as_done(futures: Iterable[Future[T]], look: Callable[[], object]) -> Iterator[T]:
    """Yield the results as they come; meanwhile call `look`. Raises errors of the runs."""
    left = set(futures)
    while left:
        done, left = wait(left, _LOOK_S, FIRST_COMPLETED)
        look()
        for future in done:
            yield future.result()


def _thinks(variant: Variant) -> bool:
    """Return whether a slow planner runs: it may take seconds for a few jobs."""
    return any(is_slow(find_rule("planners", name)) for name in variant.scenario.config.planner)


def document(result: Result, left_out: int = 0) -> dict[str, Any]:
    """The document of one variant: means over the seeds, and standard deviations (null for one
    seed)."""
    scenario, found = result.variant.scenario, over_seeds(result.runs)
    limits = result.limits
    figures: dict[str, Any] = {
        "yours": result.variant.yours,
        "policy": result.variant.policy,
        "order": scenario.config.order,
        "planner": scenario.config.planners_joined,
        "estimator": scenario.estimator,
        "collocation": result.variant.mode,
        "recovery": scenario.config.recovery,
        "fidelity": scenario.fidelity,
        "devices": len(scenario.devices) * result.variant.servers,
        "servers": result.variant.servers,
        "dealer": result.variant.dealer,
        "seeds": len(result.runs),
        "jobs": result.runs[0].jobs,
        "left_out": left_out,
        "unfinished": found["unfinished"].mean,
    }
    elastic = [name for name in ELASTIC if found[name].mean is not None]
    figures |= {name: found[name].mean for name in (*MEASURED, *elastic)}
    figures |= {f"{name}_sd": found[name].sd for name in (*MEASURED, *elastic)}
    figures |= {
        "bound_makespan_s": limits.makespan_s,
        "bound_mean_jct_s": limits.mean_jct_s,
        "fluid_makespan_s": limits.fluid_makespan_s,
        "fluid_mean_jct_s": limits.fluid_mean_jct_s,
    }
    return figures
