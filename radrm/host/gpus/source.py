"""What any source of GPU readings must offer, real or software, and any feed of SM activity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from radrm.core.records import AttemptMemory, Device, Instant, Reading

# Says which attempt (job id, attempt number) a process belongs to; None: not one of ours.
OwnerOf = Callable[[int], "tuple[int, int] | None"]


class GpuSource(Protocol):
    """Lists and reads devices.

    `devices` and `read` may raise `DeviceError` when the source as a whole cannot
    answer; a single device that cannot be read gives a `Reading` with `error` set.
    Both may be called from a thread of their own, never from two at a time.
    """

    name: str

    def devices(self) -> tuple[Device, ...]: ...

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]: ...

    def close(self) -> None: ...


def whose(
    held: Mapping[int, int | None], owner_of: OwnerOf
) -> tuple[tuple[AttemptMemory, ...], dict[int, int | None]]:
    """From MiB by process id (None: unknown) to what each attempt's processes hold, and the
    processes of nobody. One process whose memory is unknown makes its attempt's sum unknown.
    """
    sums: dict[tuple[int, int], int | None] = {}
    others: dict[int, int | None] = {}
    for pid, mib in held.items():
        owner = owner_of(pid)
        if owner is None:
            others[pid] = mib
            continue
        before = sums.get(owner, 0)
        sums[owner] = None if before is None or mib is None else before + mib
    attempts = tuple(AttemptMemory(*owner, used_mib=mib) for owner, mib in sums.items())
    return attempts, others


@dataclass(frozen=True, slots=True)
class Sample:
    """The last SM activity that a feed measured on one device.

    `smact` is 0..1 and finite, `age_s` real seconds since it was measured, `power_w` the
    device's draw at that time where the feed tells it.
    """

    smact: float
    age_s: float
    power_w: float | None = None


class SmactFeed(Protocol):
    """Measures SM activity beside a `GpuSource` that cannot, or only coarsely.

    `start` says which devices matter, and is called again when they change. It and
    `latest` return at once, whatever state the feed is in, and raise nothing: a feed that
    must wait for something (a child, a connection) does so in a thread of its own. All
    but `close` are called by the one thread that reads the devices.
    """

    name: str

    def start(self, devices: Sequence[Device]) -> None: ...

    def latest(self, uuid: str) -> Sample | None:
        """The newest sample of a device, however old; None where there never was one."""
        ...

    def trouble(self, uuid: str) -> str | None:
        """Why the feed gives nothing new for a device, in words; None while it does, and
        None for a device that is none of its."""
        ...

    def close(self) -> None: ...
