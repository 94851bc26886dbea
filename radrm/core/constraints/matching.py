"""Whether the roles of a job can have devices all together.

No two roles share a device. So two roles that find devices singly may block each other. This
searches an assignment by augmenting paths (Kuhn's algorithm): it finds one if any exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from radrm.core.records import Device
from radrm.core.words import DeviceKind

Wanted: TypeAlias = Sequence[tuple[int, Sequence[str]]]
"""Each role's number of devices, and the UUIDs of the devices that suit it."""


def shortage_of(wanted: Wanted) -> tuple[int, int] | None:
    """Return None if all roles can have devices together.

    Otherwise: how many devices some of the roles want together, and how many suit any of these.
    """
    role_of: dict[str, int] = {}

    def take(role: int, seen: dict[str, None]) -> bool:
        """Find one more device for a role; other roles may change theirs."""
        fresh = [uuid for uuid in wanted[role][1] if uuid not in seen]
        # All at once: so this calls itself at most once per role.
        seen.update(dict.fromkeys(fresh))
        for uuid in fresh:
            if uuid not in role_of:
                role_of[uuid] = role
                return True
        for uuid in fresh:
            if role_of[uuid] != role and take(role_of[uuid], seen):
                role_of[uuid] = role
                return True
        return False

    for role, (count, suitable) in enumerate(wanted):
        if count > len(suitable):
            return count, len(suitable)
        for _ in range(count):
            seen: dict[str, None] = {}
            if not take(role, seen):
                # The roles that hold these devices and this one can have no others (Hall).
                stuck = {role, *(role_of[uuid] for uuid in seen)}
                return sum(wanted[each][0] for each in stuck), len(seen)
    return None


def shortage(wanted: Sequence[tuple[int, Iterable[Device]]]) -> tuple[int, int] | None:
    """Return how many devices are wanted and how many one placement can have, if too few.

    None if they suffice. `wanted`: each role's number of devices, and the devices that suit it.
    A placement has one mode, so it has GPUs or MIG instances.
    """
    found: tuple[int, int] | None = None
    for kind in DeviceKind:
        of_kind = [(n, [d.uuid for d in devices if d.kind is kind]) for n, devices in wanted]
        short = shortage_of(of_kind)
        if short is None:
            return None
        # Of GPUs and MIG instances, report the kind with more suitable devices.
        if found is None or short[1] >= found[1]:
            found = short
    return found
