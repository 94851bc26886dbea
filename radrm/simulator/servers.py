"""Many servers alike: every job goes to one of them, by a hash, and stays there.

A cluster's trace on one server's resource manager each, as a site has it that deals its
users out to machines: nothing is decided above the servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from zlib import crc32

from radrm.simulator.engine import simulate
from radrm.simulator.job import TraceJob
from radrm.simulator.run import AttemptRun, JobRun, Run
from radrm.simulator.scenario import Scenario

Lot = tuple[Sequence[TraceJob], Scenario]
"""The jobs of one server, and how it is simulated."""


def simulate_lot(lot: Lot) -> Run:
    return simulate(*lot)


def _in_turn(do: Callable[[Lot], Run], lots: Sequence[Lot]) -> Iterable[Run]:
    return map(do, lots)


def simulate_servers(
    jobs: Sequence[TraceJob],
    scenario: Scenario,
    servers: int,
    each: Callable[[Callable[[Lot], Run], Sequence[Lot]], Iterable[Run]] = _in_turn,
) -> Run:
    """`jobs` on so many servers (1 or more), each as `scenario` has one, as one run.

    A server's devices stand together in `Run.devices`. `each` does the servers' work in
    any way that keeps their order (the `map` of a pool of processes, say) and the run is
    the same. Raises what `simulate` raises.
    """
    lots: list[list[int]] = [[] for _ in range(servers)]
    for position in range(len(jobs)):
        lots[crc32(b"%d" % position) % servers].append(position)
    work: list[Lot] = [
        ([jobs[at] for at in lot], replace(scenario, seed=scenario.seed * servers + number))
        for number, lot in enumerate(lots)
    ]
    runs = list(each(simulate_lot, work))
    if servers == 1:
        return runs[0]
    done: list[JobRun | None] = [None] * len(jobs)
    for number, (lot, run) in enumerate(zip(lots, runs, strict=True)):
        first = number * len(scenario.devices)
        for at, job in zip(lot, run.jobs, strict=True):
            attempts = tuple(_from(first, attempt) for attempt in job.attempts)
            done[at] = replace(job, attempts=attempts)
    found = tuple(job for job in done if job is not None)
    placed = [(a.started_s, at, a.devices) for at, job in enumerate(found) for a in job.attempts]
    return Run(
        jobs=found,
        devices=tuple(device for run in runs for device in run.devices),
        ended_s=max(run.ended_s for run in runs),
        oom_count=sum(run.oom_count for run in runs),
        decisions=tuple((at, devices) for _, at, devices in sorted(placed)),
    )


def _from(first: int, attempt: AttemptRun) -> AttemptRun:
    """With the positions of its devices among those of all servers."""
    return replace(attempt, devices=tuple(first + at for at in attempt.devices))
