"""Where a job could run: the servers, the number of GPUs, and what that would cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

from radrm.core.records import Attempt, Job
from radrm.core.view import View
from radrm.deadlines.remaining import remaining_on
from radrm.planners.capacity.durations import sizes
from radrm.planners.forecast import Forecast
from radrm.planners.lateness.tardiness import Terms


@dataclass(frozen=True, slots=True)
class Server:
    """The GPUs of one kind in a node, and how many of them are in use."""

    name: str
    uuids: tuple[str, ...]
    used: int


@dataclass(frozen=True, slots=True, order=True)
class Option:
    """A job on so many GPUs of a server, from `at_s` (boot time): what it costs, and its parts."""

    cost: float
    at_s: float
    gpus: int
    left_s: float
    late: float
    name: str
    uuids: tuple[str, ...]


def servers(view: View) -> list[Server]:
    """Return the servers with their GPUs, by kind."""
    found: dict[tuple[str, str], list[str]] = {}
    for device in view.devices():
        found.setdefault((device.node, device.name), []).append(device.uuid)
    return [
        Server(name, tuple(uuids), sum(bool(view.reservations(uuid)) for uuid in uuids))
        for (_, name), uuids in found.items()
    ]


def wide(job: Job, gpus: int) -> Job:
    """Return a job as it is with this number of GPUs, one for each task."""
    if gpus == job.spec.gpus:
        return job
    (role,) = job.spec.roles
    return replace(job, spec=replace(job.spec, roles=(replace(role, count_min=gpus),)))


def options(
    terms: Terms,
    view: View,
    job: Job,
    forecast: Forecast,
    live: tuple[Attempt, str] | None = None,
    most: int = 1,
    begin_s: float = 0.0,
) -> Iterator[Option]:
    """Yield where a job could run. `most`: the GPUs that it may use beyond its least number.

    `live`: its attempt and the kind of its GPUs; then it must save and start again, which takes
    `begin_s`.
    """
    now, least = view.now, job.spec.gpus
    can = [n for n in sizes(job) or {least} if n <= least + most]
    can = [n for n in can if n == least or view.refuse_gpus(job, n) is None]
    here = None if live is None else (live[1], len(live[0].placement.devices))
    for server in servers(view):
        ready = sorted(forecast.ready_s[uuid] for uuid in server.uuids)
        for gpus in can:
            at_s = ready[gpus - 1] if gpus <= len(ready) else inf
            if at_s == inf:
                continue
            if live is None:
                left_s = terms.left(job, None, now, server.name, gpus).value_s
            else:
                left = remaining_on(job, live[0], now, (server.name, gpus), here)
                left_s = inf if left is None else left.value_s
            if gpus != least and not _is_profiled(job, server.name, gpus):
                continue
            wall_s = now.wall_s + at_s - now.boot_s + begin_s
            late = terms.lateness(job, wall_s + left_s)
            used = 0 if at_s > now.boot_s else server.used
            energy = terms.energy(server.name, gpus, wall_s, left_s, used)
            yield Option(late + energy, at_s, gpus, left_s, late, server.name, server.uuids)


def _is_profiled(job: Job, name: str, gpus: int) -> bool:
    return any(each.kind == name and each.gpus == gpus for each in job.profile)
