"""A run on many equal servers, to which jobs are dealt (`--dealer`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import ceil
from zlib import crc32

from msgspec import Struct

from radrm.core import events as ev
from radrm.core.units import parse_mib, show_mib, show_seconds
from radrm.core.words import Quantity
from radrm.errors import UsageError
from radrm.lab.simulator.courses import Task
from radrm.lab.simulator.engine import needs_reports, simulate, tasks_of
from radrm.lab.simulator.estimates import AutoEstimates
from radrm.lab.simulator.history import History
from radrm.lab.simulator.loop import Arrival, Timeline, in_order
from radrm.lab.simulator.run import AttemptRun, JobRun, Run
from radrm.lab.simulator.scenario import AUTO, Scenario
from radrm.lab.simulator.scheduling import OwnLoop
from radrm.lab.simulator.traces.job import TraceJob
from radrm.structs import replace
from radrm.wiring import make_rules, make_settings

# ------------------------------------------------------------------
# The runs of several servers as one. The devices of one server are adjacent.


def joined(jobs: tuple[JobRun, ...], runs: Sequence[Run]) -> Run:
    """Return one run of these jobs, whose attempts have the devices of all servers."""
    placed = [(a.started_s, at, a.devices) for at, job in enumerate(jobs) for a in job.attempts]
    return Run(
        jobs=jobs,
        devices=tuple(
            replace(device, node=f"{number} {device.node}")
            for number, run in enumerate(runs)
            for device in run.devices
        ),
        ended_s=max(run.ended_s for run in runs),
        oom_count=sum(run.oom_count for run in runs),
        decisions=tuple((at, devices) for _, at, devices in sorted(placed)),
    )


def with_devices_from(first: int, attempt: AttemptRun) -> AttemptRun:
    """Return the attempt with its devices counted from `first`."""

    def moved(devices: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(first + at for at in devices)

    sizes = tuple((from_s, moved(devices)) for from_s, devices in attempt.sizes)
    return replace(attempt, devices=moved(attempt.devices), sizes=sizes)


# ------------------------------------------------------------------
# Simulate many equal servers. A hash sends each job to one server, where it stays.
#
# Each server has its own resource manager, and no decision is made above the servers, as on
# a site that assigns its users to machines.


Lot = tuple[Sequence[TraceJob], Scenario]
"""The jobs of one server, and its scenario."""


def simulate_lot(lot: Lot) -> Run:
    return simulate(*lot)


def in_turn(lots: Sequence[Lot]) -> Iterable[Run]:
    return map(simulate_lot, lots)


def simulate_servers(
    jobs: Sequence[TraceJob],
    scenario: Scenario,
    servers: int,
    each: Callable[[Sequence[Lot]], Iterable[Run]] = in_turn,
) -> Run:
    """Simulate `jobs` on one or more servers of `scenario`; return everything as one run.

    The devices of one server are adjacent in `Run.devices`. `each` may run the servers in
    parallel; it must keep their order. Raises what
    `simulate` raises.
    """
    lots: list[list[int]] = [[] for _ in range(servers)]
    for position in range(len(jobs)):
        lots[crc32(b"%d" % position) % servers].append(position)
    work: list[Lot] = [
        ([jobs[at] for at in lot], replace(scenario, seed=scenario.seed * servers + number))
        for number, lot in enumerate(lots)
    ]
    runs = list(each(work))
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


# ------------------------------------------------------------------
# A queue above equal servers, as Slurm's above radrm's ([cluster.md](cluster.md)).
#
# Theory of operation. Each job asks for GPU memory: its need and the policy's margin, for each of
# its GPUs, and `slurm.default_gpumem` if nothing is known. The queue is first in, first out. Its
# head goes to the first server whose memory, less what all its jobs ask for, suffices; whether they
# run there or wait. So do Slurm's partitions without priorities and weights; its backfill is left
# out. On the server radrm's own loop decides. A job that has not begun there after
# `slurm.local_wait_s` goes to the end of the queue, and to another server if there is one, at most
# three times.
#
# Source: Slurm's documentation of select/cons_tres (nodes are filled in their order, unless
# CR_LLN is set) and of sched/builtin.


MARGIN_MIB = 2048
"""What a job asks for beyond its need, on each GPU, as `radrm submit --cluster` does."""
MOST_RETURNS = 3
"""How often a job goes back to the queue."""


class _LocalWait(Struct, frozen=True):
    """The job has waited on its server for so long."""

    job: int


class _ServerHistory(History):
    """The history of one server: it has the jobs that were dealt to it."""

    def __init__(self, jobs: Sequence[TraceJob], dealer: Dealer, server: int) -> None:
        super().__init__(jobs)
        self._dealer, self._server = dealer, server

    def job_ended(self, job: int, ended_s: float | None, reason: str | None) -> None:
        self._dealer.left(self._server, job, ended_s, reason)

    @property
    def complete(self) -> bool:
        return self._dealer.complete

    def unfinished(self) -> list[int]:
        return self._dealer.on(self._server)


class _ServerLoop(OwnLoop):
    """radrm's own loop on one server."""

    def _on(self, happened: object) -> None:
        if isinstance(happened, _LocalWait):
            self._give_back(happened.job)
        else:
            super()._on(happened)

    def take(self, position: int, at_s: float, until_s: float) -> None:
        """Have a job arrive, and wait until then at the latest."""
        self._world.at(at_s, Arrival(position))
        self._world.at(until_s, _LocalWait(position))

    def _give_back(self, position: int) -> None:
        """Cancel a job that has not begun."""
        job = self._scheduler.snapshot.job(position + 1)
        if job is not None and job.state.waiting and not job.attempts:
            cancel = ev.CancelRequested(at=self._now, job_id=job.id, by="slurm")
            self._history.job_ended(position, None, None)
            self._step(cancel)


def simulate_dealt(jobs: Sequence[TraceJob], scenario: Scenario, servers: int) -> Run:
    """Simulate `jobs`, sorted by time or not, on servers of `scenario` under one queue.

    Raises what `simulate` raises, and `UsageError` for what only one loop for all servers has.
    """
    if scenario.fidelity != "radrm":
        raise UsageError("--dealer=gpumem goes with fidelity radrm only")
    if scenario.cpus is not None or any(map(needs_reports, jobs)):
        raise UsageError("--dealer=gpumem has no CPUs, progress, checkpoints and sizes")
    if any(job.at_once is not None for job in jobs):
        raise UsageError("--dealer=gpumem has no array limits")
    order = sorted(range(len(jobs)), key=lambda at: jobs[at].submit_s)
    dealer = Dealer([jobs[at] for at in order], scenario, servers)
    run = dealer.run()
    back = sorted(range(len(order)), key=order.__getitem__)
    return joined(tuple(run[at] for at in back), dealer.runs())


class Dealer:
    """The queue, and the servers below it."""

    def __init__(self, jobs: Sequence[TraceJob], scenario: Scenario, servers: int) -> None:
        self._jobs, self._scenario = jobs, scenario
        self._tasks = tasks_of(jobs, scenario)
        config = scenario.config
        self._wait_s, default = config.slurm.local_wait_s, parse_mib(config.slurm.default_gpumem)
        self._total_mib = sum(each.device.total_mib for each in scenario.devices)
        most = min(each.device.total_mib for each in scenario.devices)
        self._asked = [_asked(task, default, most) for task in self._tasks]
        self._free = [self._total_mib] * servers
        self._queue: deque[int] = deque()
        self._ended: dict[int, tuple[float | None, str | None]] = {}
        self._where: dict[int, int] = {}
        self._last: dict[int, int] = {}
        """By job: the server where it has waited in vain."""
        self._returns: dict[int, int] = {}
        self._now_s = 0.0
        self._histories = [_ServerHistory(jobs, self, number) for number in range(servers)]
        self._loops = [self._loop(number) for number in range(servers)]

    def _loop(self, number: int) -> _ServerLoop:
        scenario = self._scenario
        rules, settings = make_rules(scenario.config), make_settings(scenario.config)
        auto = None
        if scenario.estimator == AUTO:
            auto = AutoEstimates(scenario.config, scenario.devices, self._jobs)
        history = self._histories[number]
        return _ServerLoop(scenario, rules, settings, self._tasks, history, auto)

    # ------------------------------------------------------------- what the servers tell

    @property
    def complete(self) -> bool:
        """Whether every job has ended."""
        return len(self._ended) == len(self._jobs)

    def on(self, server: int) -> list[int]:
        """Return the jobs of a server that have not ended."""
        return [job for job, where in self._where.items() if where == server]

    def left(self, server: int, job: int, ended_s: float | None, reason: str | None) -> None:
        """Note that a job has left its server: it completed (`ended_s`), failed (`reason`), or
        waited there for too long (neither)."""
        if self._where.pop(job, None) is None:
            return  # it was given back, and its cancellation follows
        self._free[server] += self._asked[job]
        if ended_s is not None or reason is not None:
            self._ended[job] = ended_s, reason
            return
        self._last[job] = server
        self._returns[job] = self._returns.get(job, 0) + 1
        if self._returns[job] > MOST_RETURNS:
            waited = show_seconds(self._wait_s)
            why = f"it waited {waited} on each of {MOST_RETURNS + 1} servers"
            self._ended[job] = None, why
        else:
            self._queue.append(job)

    # ------------------------------------------------------------- the run

    def run(self) -> list[JobRun]:
        """Run until every job has ended. Returns the runs of the jobs."""
        for loop in self._loops:
            loop.open()
        arrivals = Timeline()
        for at, each in enumerate(self._jobs):
            arrivals.at(each.submit_s, at)
        lines = [arrivals, *(loop.world for loop in self._loops)]
        for number, happened in in_order(lines):
            self._now_s = lines[number].now_s
            if isinstance(happened, int):
                self._arrive(happened)
            else:
                self._loops[number - 1].turn(happened)
            self._deal()
        for loop in self._loops:
            loop.end()
        for job in self._queue:
            self._ended[job] = None, "it would wait forever in the queue of the cluster"
        return [self._job_run(at) for at in range(len(self._jobs))]

    def _arrive(self, job: int) -> None:
        if self._asked[job] > self._total_mib:
            asked, most = show_mib(self._asked[job]), show_mib(self._total_mib)
            self._ended[job] = None, f"it asks for {asked} of GPU memory, a server has {most}"
        else:
            self._queue.append(job)

    def _deal(self) -> None:
        """Send the head of the queue to a server, while there is room."""
        while self._queue:
            ready = next((job for job in self._queue if self._is_ready(job)), None)
            server = None if ready is None else self._server_for(ready)
            if ready is None or server is None:
                return
            self._queue.remove(ready)
            self._free[server] -= self._asked[ready]
            self._where[ready] = server
            self._loops[server].take(ready, self._now_s, self._now_s + self._wait_s)

    def _is_ready(self, job: int) -> bool:
        """Return whether all jobs that it waits for have ended."""
        return all(before.job_id - 1 in self._ended for before in self._tasks[job].after)

    def _server_for(self, job: int) -> int | None:
        last = self._last.get(job) if len(self._free) > 1 else None
        for server, free in enumerate(self._free):
            if free >= self._asked[job] and server != last:
                return server
        return None

    # ------------------------------------------------------------- the result

    def runs(self) -> list[Run]:
        """Return the runs of the servers."""
        return [
            history.run(loop.world.device_runs())
            for history, loop in zip(self._histories, self._loops, strict=True)
        ]

    def _job_run(self, at: int) -> JobRun:
        ended_s, reason = self._ended.get(at, (None, "it has not ended"))
        size = len(self._scenario.devices)
        attempts = [
            with_devices_from(number * size, attempt)
            for number, history in enumerate(self._histories)
            for attempt in history.attempts_of(at)
        ]
        attempts.sort(key=lambda attempt: attempt.started_s)
        return JobRun(self._jobs[at], tuple(attempts), ended_s, reason)


def _asked(task: Task, default_mib: int, most_mib: int) -> int:
    """Return the GPU memory that a job asks for. An estimate beyond a device means a whole one."""
    found = next((e for e in task.estimates if e.quantity is Quantity.MEMORY), None)
    if found is None:
        return task.job.gpus * default_mib
    need = ceil(max(found.upper, found.value))
    return task.job.gpus * min(need + MARGIN_MIB, max(most_mib, task.declared_mib or 0))


HASH, GPUMEM = "hash", "gpumem"
DEALERS = (HASH, GPUMEM)


def simulate_many(
    jobs: Sequence[TraceJob],
    scenario: Scenario,
    servers: int,
    dealer: str = HASH,
    each: Callable[[Sequence[Lot]], Iterable[Run]] = in_turn,
) -> Run:
    """Simulate `jobs` on servers, to which this dealer deals them. `each` as in `simulate_servers`.

    Raises what they raise, and `UsageError` for an unknown dealer.
    """
    if dealer not in DEALERS:
        raise UsageError(f"--dealer={dealer[:40]}: choose {' or '.join(DEALERS)}")
    if dealer == GPUMEM:
        return simulate_dealt(jobs, scenario, servers)
    return simulate_servers(jobs, scenario, servers, each)
