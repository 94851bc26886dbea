"""Which server and which GPUs each job of a plan gets.

In the published system a move is free. Here none is made that wins nothing: servers that are alike
can be exchanged in a plan, so a job that keeps its configuration keeps its server, if the plan does
not cost more by that.
"""

from __future__ import annotations

from collections.abc import Mapping

from radrm.core.constraints.kinds import rank
from radrm.core.records import Device
from radrm.planners.capacity.greedy import Room
from radrm.planners.capacity.problem import Allocation, Configuration, Problem, Server, objective
from radrm.planners.capacity.situation import Situation

_SAME = 1e-9


def settle(
    situation: Situation, plan: Allocation, code: bool = False, whole: bool = False
) -> dict[int, tuple[str, ...]]:
    """Return the devices of each job of a plan, by the job's id.

    `whole`: each job has its server alone.
    """
    stays = _staying(situation, plan)
    packed = _packed(situation.problem, plan, stays) if stays and not whole else None
    best = objective(situation.problem, plan, code)
    if packed is None or objective(situation.problem, packed, code) > best + _SAME * abs(best):
        packed = _exchanged(situation.problem, plan, stays)
    return _devices(situation, packed)


def _staying(situation: Situation, plan: Allocation) -> dict[int, int]:
    """Return the server of each job that can stay: it keeps its configuration."""
    place_of = {
        device.uuid: place for place, devices in enumerate(situation.devices) for device in devices
    }
    found = {}
    for number, (_, configuration) in plan.items():
        work = situation.problem.works[number]
        live = situation.live.get(work.job_id)
        if live is None or work.here != (configuration.kind, configuration.gpus):
            continue
        places = {place_of.get(uuid) for uuid in live.placement.devices}
        place = places.pop() if len(places) == 1 else None
        if place is not None:
            found[number] = place
    return found


def _packed(problem: Problem, plan: Allocation, stays: Mapping[int, int]) -> Allocation | None:
    """Return the plan with all that can stay at its server, the others as they fit best."""
    found: dict[int, tuple[int, Configuration]] = {}
    free = [server.gpus for server in problem.servers]
    for number, place in stays.items():
        found[number] = (place, plan[number][1])
        free[place] -= plan[number][1].gpus
    left = [
        Server(server.kind, gpus, server.used)
        for server, gpus in zip(problem.servers, free, strict=True)
    ]
    room = Room(left)
    others = [number for number in plan if number not in stays]
    for number in sorted(others, key=lambda each: -plan[each][1].gpus):
        configuration = plan[number][1]
        at = room.take(configuration.kind, configuration.gpus)
        if at is None:
            return None
        found[number] = (at, configuration)
    return found


def _exchanged(problem: Problem, plan: Allocation, stays: Mapping[int, int]) -> Allocation:
    """Return the plan with servers that are alike exchanged, so that more jobs stay."""
    won: dict[tuple[int, int], int] = {}
    for number, place in stays.items():
        if problem.servers[place] == problem.servers[plan[number][0]]:
            pair = (plan[number][0], place)
            won[pair] = won.get(pair, 0) + 1
    goes: dict[int, int] = {}
    for (old, new), _ in sorted(won.items(), key=lambda each: (-each[1], each[0])):
        if old not in goes and new not in goes.values():
            goes[old] = new
    free: dict[Server, list[int]] = {}
    for place in reversed(range(len(problem.servers))):
        if place not in goes.values():
            free.setdefault(problem.servers[place], []).append(place)
    for place, server in enumerate(problem.servers):
        if place not in goes:
            goes[place] = free[server].pop()
    return {number: (goes[place], each) for number, (place, each) in plan.items()}


def _devices(situation: Situation, plan: Allocation) -> dict[int, tuple[str, ...]]:
    """Return the GPUs of each job: those that it has, then those that are free now."""
    left = [{device.uuid: device for device in devices} for devices in situation.devices]
    found: dict[int, tuple[str, ...]] = {}
    works = situation.problem.works
    moving = []
    for number, (place, configuration) in plan.items():
        work = works[number]
        live = situation.live.get(work.job_id)
        uuids = live.placement.devices if live is not None else ()
        same = work.here == (configuration.kind, configuration.gpus)
        if same and left[place].keys() >= set(uuids):
            found[work.job_id] = uuids
            for uuid in uuids:
                del left[place][uuid]
        else:
            moving.append(number)
    for number in sorted(moving):
        place, configuration = plan[number]
        job = situation.jobs[works[number].job_id]

        def suits(device: Device) -> tuple[object, ...]:
            return (rank(device, job, ()), device.uuid not in situation.ready, device.index)  # noqa: B023

        chosen = sorted(left[place].values(), key=suits)[: configuration.gpus]
        found[job.id] = tuple(device.uuid for device in sorted(chosen, key=lambda d: d.index))
        for device in chosen:
            del left[place][device.uuid]
    return found
