"""GPUs that not each job may use: they are reserved for users, or leave the server.

GPUs with the same reservations are one *part*: a job may use all of them or none. `parts_of` says
which parts a problem keeps apart. The users of a reservation may have its GPUs together with
others. So parts are put together while a job that no part is large enough for could start there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from math import inf
from typing import TypeAlias

from radrm.core.records import Device, Job
from radrm.core.reservations import length_s
from radrm.core.snapshot import Snapshot

Part: TypeAlias = "tuple[float, ...]"
"""The reservations of a device, by id, and when it leaves; empty: each job may use it."""
_OPEN: Part = ()


class Barred:
    """The parts of the server, and which of them a job may not use now."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._first: dict[Part, Device] = {}
        self._known: dict[Hashable, bool] = {}
        self._part_of: dict[str, Part] = {}
        wall_s = snapshot.now.wall_s
        ahead = [each for each in snapshot.for_users if each.end_s > wall_s]
        for each in snapshot.devices:
            device, until_s = each.device, each.device.available_until
            found = [float(mine.id) for mine in ahead if device.uuid in mine.devices]
            part = (*found, *(() if until_s is None else (until_s,)))
            self._part_of[device.uuid] = part
            if part:
                self._first.setdefault(part, device)

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
        now, until_s = self._snapshot.now, device.available_until
        if until_s is not None:
            needs_s = inf if job.limit_s is None else job.limit_s
            if now.wall_s + needs_s > until_s:
                return True
        return self._snapshot.view.free_from_s(job, device.uuid, now.boot_s) > now.boot_s

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
