"""Simulate many equal servers. A hash sends each job to one server, where it stays.

Each server has its own resource manager, and no decision is made above the servers, as on
a site that assigns its users to machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from zlib import crc32

from radrm.simulator.engine import simulate
from radrm.simulator.run import JobRun, Run
from radrm.simulator.scenario import Scenario
from radrm.simulator.servers.joined import joined, with_devices_from
from radrm.simulator.traces.job import TraceJob

Lot = tuple[Sequence[TraceJob], Scenario]
"""The jobs of one server, and its scenario."""


def simulate_lot(lot: Lot) -> Run:
    return simulate(*lot)


def in_turn(do: Callable[[Lot], Run], lots: Sequence[Lot]) -> Iterable[Run]:
    return map(do, lots)


def simulate_servers(
    jobs: Sequence[TraceJob],
    scenario: Scenario,
    servers: int,
    each: Callable[[Callable[[Lot], Run], Sequence[Lot]], Iterable[Run]] = in_turn,
) -> Run:
    """Simulate `jobs` on one or more servers of `scenario`; return everything as one run.

    The devices of one server are adjacent in `Run.devices`. `each` may run the servers in
    parallel (the `map` of a pool of processes, say); it must keep their order. Raises what
    `simulate` raises.
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
            attempts = tuple(with_devices_from(first, attempt) for attempt in job.attempts)
            done[at] = replace(job, attempts=attempts)
    found = tuple(job for job in done if job is not None)
    return joined(found, runs)
