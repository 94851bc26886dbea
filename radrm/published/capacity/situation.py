"""A view as a problem: which jobs can be planned, and which GPUs can be given to them.

A live job is one of these:
    movable   it can save its work, so it is planned anew, where it runs or elsewhere
    leaving   it is being stopped: its GPUs are given away, and it counts as waiting
    fixed     all others: it stays, and its GPUs are not given away

GPUs are dedicated. One can be given away if it is in service, no planner has reserved it, and it
holds none but movable and leaving jobs.

GPUs that not each job may use (`core/constraints/claims.py`) are a kind of their own.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from math import inf
from typing import TypeAlias

from msgspec import Struct

from radrm.published.capacity.memory import Memory
from radrm.published.capacity.problem import Configuration, Price, Problem, Server, Work, in_order
from radrm.rules import (
    ActionKind,
    Attempt,
    CheckpointKind,
    Costs,
    Device,
    DeviceSnapshot,
    Job,
    JobState,
    ReservationKind,
    StopReason,
    View,
    kind_refusal,
    length_s,
    run_times,
)

# ------------------------------------------------------------------
# GPUs that not each job may use: they are reserved for users, or leave the server.
#
# GPUs with the same reservations are one *part*: a job may use all of them or none. `parts_of` says
# which parts a problem keeps apart. The users of a reservation may have its GPUs together with
# others. So parts are put together while a job that no part is large enough for could start there.


Part: TypeAlias = "tuple[float, ...]"
"""The reservations of a device, by id, and when it leaves; empty: each job may use it."""
_OPEN: Part = ()


class Barred:
    """The parts of the server, and which of them a job may not use now."""

    def __init__(self, view: View, devices: Iterable[DeviceSnapshot]) -> None:
        self._view = view
        self._first: dict[Part, Device] = {}
        self._known: dict[Hashable, bool] = {}
        self._part_of: dict[str, Part] = {}
        wall_s = view.now.wall_s
        ahead = [each for each in view.every_reserved() if each.end_s > wall_s]
        for each in devices:
            device, until_s = each.device, each.device.available_until
            found = [float(mine.id) for mine in ahead if device.uuid in mine.devices]
            part = (*found, *(() if until_s is None else (until_s,)))
            self._part_of[device.uuid] = part
            if part:
                self._first.setdefault(part, device)

    @property
    def any(self) -> bool:
        """True if a device has a part that not each job may use."""
        return bool(self._first)

    def part_of(self, device: Device) -> Part:
        """Return the part of a device."""
        return self._part_of[device.uuid]

    def keeps_out(self, job: Job, part: Part) -> bool:
        """Return whether a job cannot start there now, however idle it is."""
        if part == _OPEN:
            return False
        spec = job.spec
        alike = part, spec.uid, spec.group, job.limit_s, length_s(job)
        found = self._known.get(alike)
        if found is None:
            found = self._known[alike] = self._asks(job, self._first[part])
        return found

    def _asks(self, job: Job, device: Device) -> bool:
        now, until_s = self._view.now, device.available_until
        if until_s is not None:
            needs_s = inf if job.limit_s is None else job.limit_s
            if now.wall_s + needs_s > until_s:
                return True
        return self._view.free_from_s(job, device.uuid, now.boot_s) > now.boot_s

    def of(self, jobs: Iterable[Job]) -> list[object]:
        """Return what changes if a job may use other parts now. Empty without parts."""
        if not self._first:
            return []
        parts = sorted(self._first)
        return [(job.id, [self.keeps_out(job, part) for part in parts]) for job in jobs]

    def parts_of(self, jobs: Iterable[Job], given: Iterable[Device]) -> Mapping[str, Part]:
        """Return the part of each device, where parts that a job needs together are one.

        `given`: the devices on which a job could start now.
        """
        if not self._first:
            return self._part_of
        there = Counter((each.node, each.name, self.part_of(each)) for each in given)
        together: set[Part] = set()
        for job in jobs:
            if job.gpus < 2:
                continue
            mine: dict[tuple[str, str], dict[Part, int]] = {}
            for (node, name, part), count in there.items():
                if not self.keeps_out(job, part):
                    mine.setdefault((node, name), {})[part] = count
            for counts in mine.values():
                if sum(counts.values()) >= job.gpus > max(counts.values()):
                    together |= counts.keys()
        return {uuid: _OPEN if p in together else p for uuid, p in self._part_of.items()}


_UNREAD_S = 60.0
"""A device that a job has left counts as usable for so long without a reading."""
_HOPE = 0.5
"""A kind on which a program has not run yet counts as that much faster with `profile`."""
_MOST_PRICES, _LAST_S = 400, 86_400.0


class Assumptions(Struct, frozen=True):
    """What the planner's settings say where the jobs and the site do not."""

    costs: Costs
    gpu_watts: float
    unknown_duration_s: float
    default_due_s: float
    rho: float
    moves: bool = True
    """False: no live job is movable."""
    profile: bool = False
    """Prefer the kinds on which a job's program has not run yet."""


def digest(view: View, seen: Mapping[str, DeviceSnapshot], memory: Memory) -> str:
    """Return a digest of what a plan follows from; while it is the same, the plan stays.

    What the plan itself changes (jobs that stop and start) is not in it.
    """
    jobs = {job.id: job for job in view.waiting()}
    jobs.update((job.id, job) for job, _ in view.running() if job.spec.gpus)
    now_s = view.now.boot_s
    parts: list[object] = [_edited(job) for _, job in sorted(jobs.items())]
    parts += [
        (each.device.uuid, each.device.name, each.device.total_mib, is_usable(each, now_s))
        for each in seen.values()
    ]
    parts += [sorted(memory.kept), sorted(memory.resting)]
    parts += Barred(view, seen.values()).of(job for _, job in sorted(jobs.items()))
    return hashlib.blake2s(repr(parts).encode(), digest_size=16).hexdigest()


def _edited(job: Job) -> tuple[object, ...]:
    spec = job.spec
    return (
        *(job.id, spec.due_s, spec.weight, spec.priority, spec.checkpoint.kind.value, spec.gpus),
        *(spec.gpu_types, spec.prefer_gpus, spec.avoid_gpus, spec.time_limit_s),
        *(job.memory_floor_mib, job.ask_mib, job.use_last, job.profile),
    )


def is_usable(each: DeviceSnapshot, now_s: float) -> bool:
    """Return whether a device can be given to jobs, now or when it has been read again."""
    if each.vanished or each.drained is not None:
        return False
    just_left = each.reading is not None and not each.reading.error and not each.reading.fault
    just_left = just_left and now_s - each.fresh_from_s < _UNREAD_S
    return each.unreadable(now_s) is None or just_left or bool(each.occupants)


def is_leaving(job: Job, attempt: Attempt) -> bool:
    """Return whether a live job is being stopped, and then goes back to its queue."""
    asked = attempt.asked(ActionKind.CHECKPOINT)
    if job.state is JobState.STOPPING:
        return attempt.stop is not None and attempt.stop.reason is StopReason.PREEMPTED
    return asked is not None and asked.stops


class _Kinds(Struct, frozen=True):
    """The kinds of device, by their number."""

    devices: list[list[Device]]
    number: dict[str, int]
    """By UUID."""
    alike: list[tuple[object, ...]]
    parts: list[Part]


class Situation:
    """What there is to decide about.

    `live`: the movable jobs, with their attempts. `leaving`: the jobs that are being stopped.
    `ready`: the devices on which a job can start at once. `seen`: what is known of each device.
    The problem is made when it is asked for, since most calls only carry a plan out.
    """

    def __init__(self, view: View, rules: Assumptions, memory: Memory) -> None:
        self._view, self._rules, self._memory = view, rules, memory
        self._now = view.now
        self.seen = {each.device.uuid: each for each in view.every_device()}
        self._running = running = tuple(view.running())
        self.live = {job.id: attempt for job, attempt in running if self._can_move(job, attempt)}
        self.leaving = frozenset(job.id for job, attempt in running if is_leaving(job, attempt))
        stopping = {job.id for job, _ in running if job.state is JobState.STOPPING}
        self._gives_way = self.live.keys() | self.leaving | stopping
        self._given = [each for each in self.seen.values() if self._can_give(each)]
        self.ready = frozenset(
            each.device.uuid
            for each in self._given
            if not each.occupants and each.unreadable(self._now.boot_s) is None
        )

    @cached_property
    def problem(self) -> Problem:
        """Return the problem of the jobs that can be planned."""
        most: dict[int, int] = {}
        for server in self._servers[0]:
            most[server.kind] = max(most.get(server.kind, 0), server.gpus)
        jobs = list(self._view.waiting())
        jobs += [job for job, _ in self._running if job.id in self.live]
        jobs += [job for job, _ in self._running if job.id in self.leaving and job.spec.gpus]
        timed = {
            job.id: (job, self._times(job, self.live.get(job.id), most))
            for job in jobs
            if job.id not in self._memory.resting
        }
        longest_s = max((s for _, times in timed.values() for s in times.values()), default=0.0)
        price = _price(self._rules.costs, self._now.wall_s, longest_s)
        watts = tuple(map(self._watts, self._kinds.devices))
        works = [self._work(job, times, watts, price) for job, times in timed.values() if times]
        return Problem(in_order(works), self._servers[0], watts, price, self._rules.rho)

    @property
    def devices(self) -> tuple[tuple[Device, ...], ...]:
        """Return the GPUs of each server of the problem."""
        return self._servers[1]

    @cached_property
    def _barred(self) -> Barred:
        return Barred(self._view, self.seen.values())

    @cached_property
    def _kinds(self) -> _Kinds:
        resting = self._memory.resting
        lined_up = (job for job in self._view.waiting() if job.id not in resting)
        parts = self._barred.parts_of(lined_up, [each.device for each in self._given])
        found = _Kinds([], {}, [], [])
        known: dict[tuple[object, ...], int] = {}
        for each in self.seen.values():
            device = each.device
            alike = (device.name, device.kind, device.profile, device.total_mib, device.mps)
            kind = known.setdefault((alike, parts[device.uuid]), len(known))
            if kind == len(found.devices):
                found.devices.append([])
                found.alike.append(alike)
                found.parts.append(parts[device.uuid])
            found.devices[kind].append(device)
            found.number[device.uuid] = kind
        return found

    # ------------------------------------------------------------- live jobs

    def _can_move(self, job: Job, attempt: Attempt) -> bool:
        asked = attempt.asked(ActionKind.CHECKPOINT)
        kept = self._memory.kept.get(job.id)
        return (
            self._rules.moves
            and bool(job.spec.gpus)
            and job.spec.checkpoint.kind is not CheckpointKind.NONE
            and job.state in (JobState.RUNNING, JobState.LAUNCHING)
            and job.target is None
            and attempt.target is None
            and attempt.stop is None
            and (asked is None or not asked.stops)
            and (kept is None or kept[0] != attempt.serial)
        )

    def _here(self, attempt: Attempt | None) -> tuple[int, int] | None:
        """Return the kind and number of GPUs of a live job; None if it shares them or has two."""
        if attempt is None or not attempt.placement.collocation.whole_device:
            return None
        uuids = attempt.placement.devices
        kinds = {self._kinds.number.get(uuid) for uuid in uuids}
        kind = kinds.pop() if len(kinds) == 1 else None
        return None if kind is None else (kind, len(uuids))

    # ------------------------------------------------------------- devices

    def _can_give(self, each: DeviceSnapshot) -> bool:
        if not is_usable(each, self._now.boot_s):
            return False
        if not self._gives_way.issuperset(each.occupants):
            return False
        if any(r.kind is not ReservationKind.RUNNING for r in each.reservations):
            return False
        unmanaged = each.unmanaged_mib or 0
        return unmanaged <= self._view.settings.idle_unmanaged_mib

    @cached_property
    def _servers(self) -> tuple[tuple[Server, ...], tuple[tuple[Device, ...], ...]]:
        number = self._kinds.number
        there: dict[tuple[str, int], list[Device]] = {}
        for each in self._given:
            key = (each.device.node, number[each.device.uuid])
            there.setdefault(key, []).append(each.device)
        used: dict[tuple[str, int], int] = {}
        first_s: dict[tuple[str, int], float] = {}
        names = {kind: each[0].name for kind, each in enumerate(self._kinds.devices)}
        for job, attempt in self._running:
            if job.id in self._gives_way or not job.spec.gpus:
                continue
            times = run_times(
                job, attempt, self._now, names, self._here(attempt), self._rules.unknown_duration_s
            )
            here = self._here(attempt)
            end_s = times.get(here, inf) if here is not None else inf
            end_s = min(times.values(), default=inf) if end_s == inf else end_s
            for uuid in attempt.placement.devices:
                device = self.seen.get(uuid)
                if device is not None:
                    key = (device.device.node, number[uuid])
                    used[key] = used.get(key, 0) + 1
                    first_s[key] = min(first_s.get(key, inf), end_s)
        keys = sorted(there)
        return (
            tuple(
                Server(key[1], len(there[key]), used.get(key, 0), first_s.get(key, inf))
                for key in keys
            ),
            tuple(tuple(there[key]) for key in keys),
        )

    def _watts(self, devices: list[Device]) -> tuple[float, ...]:
        name, rules = devices[0].name, self._rules
        on_node = Counter(device.node for device in devices)
        stated = [rules.costs.node_w(name, gpus) for gpus in range(max(on_node.values()) + 1)]
        return tuple(
            gpus * rules.gpu_watts if watts is None else watts for gpus, watts in enumerate(stated)
        )

    # ------------------------------------------------------------- jobs

    def _times(
        self, job: Job, live: Attempt | None, most: Mapping[int, int]
    ) -> dict[tuple[int, int], float]:
        needs_mib = self._need_mib(job)
        kinds = {
            kind: self._kinds.devices[kind][0].name
            for kind in most
            if self._allows(job, kind, live, needs_mib)
        }
        unknown_s = self._rules.unknown_duration_s
        # A job that runs is not moved to learn, and without a fingerprint no run teaches anything.
        learns = self._rules.profile and live is None and job.fingerprint is not None
        hope = _HOPE if learns else 1.0
        times = run_times(job, live, self._now, kinds, self._here(live), unknown_s, hope)
        limit = self._view.settings.most_gpus(job.spec.uid)
        return {pair: s for pair, s in times.items() if pair[1] <= min(limit, most[pair[0]])}

    def _allows(self, job: Job, kind: int, live: Attempt | None, needs_mib: int) -> bool:
        """Return whether a job can run on a kind of device. It may stay where it is."""
        devices, here = self._kinds.devices[kind], () if live is None else live.placement.devices
        sample, barred = devices[0], self._barred
        if needs_mib > sample.capacity_mib or not self._is_of_kind(job, sample):
            return False
        return not barred.any or not any(
            barred.keeps_out(job, barred.part_of(each)) for each in devices if each.uuid not in here
        )

    def _is_of_kind(self, job: Job, device: Device) -> bool:
        needs = [role.needs for role in job.spec.roles if role.needs.gpus]
        return all(kind_refusal(device, each, job.spec) is None for each in needs)

    def _need_mib(self, job: Job) -> int:
        """Return the need per GPU; an estimate beyond the devices means a whole device."""
        declared = [role.needs.gpu_memory_mib or 0 for role in job.spec.roles if role.needs.gpus]
        certain = max([job.memory_floor_mib or 0, *declared])
        left, largest = job.spec.gpus, 0
        for devices in sorted(self._kinds.devices, key=lambda each: -each[0].capacity_mib):
            if left > 0 and self._is_of_kind(job, devices[0]):
                largest, left = devices[0].capacity_mib, left - len(devices)
        return max(certain, min(job.need_mib or 0, largest))

    def _work(
        self,
        job: Job,
        times: Mapping[tuple[int, int], float],
        watts: tuple[tuple[float, ...], ...],
        price: Price,
    ) -> Work:
        spec, rules = job.spec, self._rules
        due_s = spec.due_s
        if due_s is None:
            due_s = job.submitted.wall_s + rules.default_due_s
        tiers = self._tiers(job, {kind for kind, _ in times})
        return Work(
            job_id=job.id,
            due_s=due_s - self._now.wall_s,
            rate=rules.costs.tardiness_cost(spec.weight, 1.0),
            configurations=tuple(
                Configuration(
                    kind,
                    gpus,
                    time_s,
                    watts[kind][min(gpus, len(watts[kind]) - 1)] * price.of_watt(time_s),
                    tiers[kind],
                )
                for (kind, gpus), time_s in sorted(times.items())
            ),
            priority=spec.priority + (_RECOVERY if job.recovers else 0),
            here=self._here(self.live.get(job.id)),
        )

    def _tiers(self, job: Job, kinds: set[int]) -> dict[int, int]:
        """Return the place of each kind in the lists of GPUs of a job. Where it may use GPUs that
        others may not, it leaves them the GPUs of this kind that all may use."""
        alike, parts = self._kinds.alike, self._kinds.parts
        few = {alike[kind] for kind in kinds if parts[kind]}
        lists = job.spec.avoid_gpus or job.spec.prefer_gpus or job.use_last
        if not (few or lists):
            return dict.fromkeys(kinds, 0)
        ranks = {}
        for kind in kinds:
            listed = (
                min(self._view.rank(job, device)[:2] for device in self._kinds.devices[kind])
                if lists
                else None
            )
            ranks[kind] = (listed, not parts[kind] and alike[kind] in few)
        order = sorted(set(ranks.values()))
        return {kind: order.index(each) for kind, each in ranks.items()}


_RECOVERY = 1 << 20
"""Jobs of the recovery queue go before all others, whatever their priority."""


def _price(costs: Costs, wall_s: float, longest_s: float) -> Price:
    """Return what a watt costs from now on, as far as the longest job lasts."""
    times, money = [0.0], [0.0]
    while len(times) < _MOST_PRICES:
        at_s = wall_s + times[-1]
        until_s = costs.price_changes_s(at_s)
        last = until_s >= wall_s + longest_s or until_s == inf
        length_s = max(1.0, min(until_s - at_s, _LAST_S))
        part = costs.cost_of_watts(1.0, at_s, length_s)
        times.append(times[-1] + (_LAST_S if last else length_s))
        money.append(money[-1] + (part * _LAST_S / length_s if last else part))
        if last:
            break
    return Price(tuple(times), tuple(money))
