"""The interfaces of a source of readings, of a stage that they pass, and of a feed of SM activity.

Theory of operation. A reading goes one way: a source makes it (NVML, nvidia-smi, the simulated
driver), and it passes some stages in a row, each of which adds what it knows: SM activity, MPS,
memory caps. `readings.Readings` is the row. No stage knows another one, and none asks the driver
about a reading.

One thread reads the devices and calls the sources, stages and feeds. A call may hang in the driver
for ever. Then a watcher gives up that thread and opens a new source, which takes over what the old
one knew. So `acknowledge`, `take_over` and `close` must not wait for a call that hangs. Nothing
here is stored: a restart knows only what the driver still reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from radrm.core.records import AttemptMemory, Device, Instant, Reading

ROUNDING = 0.01
"""Amount by which counting errors may lift a ratio above 1: counters are read one by one."""
OwnerOf = Callable[[int], "tuple[int, int] | None"]
"""Returns the attempt (job id, serial) of a process; None if it belongs to no job."""
NO_PROCESS_LIST = (
    "the driver lists no processes, so the memory of single jobs and of other programs is unknown"
)
"""The note of a reading without attempts."""


class GpuSource(Protocol):
    """Lists and reads devices. Every source is a subclass and inherits the defaults.

    `devices` and `read` raise `DeviceError` when the source as a whole cannot answer. A single
    device that cannot be read gives a `Reading` with `error` set. Any thread may call them, but
    never two at a time.
    """

    name: str

    @property
    def changed(self) -> bool:
        """True when the devices have changed, so that `devices` must be called again."""
        return False

    def devices(self) -> tuple[Device, ...]:
        """Return all devices, always in the same order."""
        ...

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        """Return one reading per device, in the given order."""
        ...

    def acknowledge(self, uuid: str) -> None:
        """Forget the reported faults of a device: an administrator has acknowledged them.

        Any thread may call it, also while the source hangs in another call.
        """
        return

    def take_over(self, other: GpuSource) -> None:
        """Copy what `other` has learned, such as reported faults; this source replaces it.

        Sources of another kind are ignored. `other` may hang in a call, so only its stored
        values are read.
        """
        return

    def close(self) -> None:
        """Release the driver. Returns at once."""
        ...


class Stage:
    """What all devices and readings pass on their way. By itself it changes nothing.

    The thread that reads calls the methods.
    """

    @property
    def changed(self) -> bool:
        """True when `listed` would return other devices than it last did."""
        return False

    def listed(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        """Return the devices of a listing as the next stage sees them."""
        return devices

    def read(self, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
        """Return the readings of one round, in the same order."""
        return readings

    def take_over(self, other: Stage) -> None:
        """Copy what `other` has learned; this stage replaces it. Others are ignored."""
        return

    def close(self) -> None:
        """Release what belongs to this row of stages. Returns at once."""
        return


def split_by_owner(
    held: Mapping[int, int | None], owner_of: OwnerOf
) -> tuple[tuple[AttemptMemory, ...], dict[int, tuple[int, int] | None]]:
    """Return the memory of each attempt, and the attempt of each process.

    `held` is MiB by process id, None if unknown. One unknown process makes the sum of its
    attempt unknown.
    """
    owners = {pid: owner_of(pid) for pid in held}
    sums: dict[tuple[int, int], int | None] = {}
    for pid, owner in owners.items():
        if owner is not None:
            before, mib = sums.get(owner, 0), held[pid]
            sums[owner] = None if before is None or mib is None else before + mib
    attempts = tuple(AttemptMemory(*owner, used_mib=mib) for owner, mib in sums.items())
    return attempts, owners


class Sample(Struct, frozen=True):
    """The last SM activity that a feed measured on one device.

    `smact` is finite and in 0..1. `age_s` is the real seconds since the measurement.
    """

    smact: float
    age_s: float


SILENT_S = 5.0
"""Real seconds after which a sample is too old to show how busy a device is."""


def print_every_ms(interval_s: float) -> int:
    """Return how often a program prints figures for readings at this interval, in ms.

    At least each second: so a figure is never too old, whatever the interval.
    """
    return round(1000 * min(1.0, interval_s))


def within(value: float | None, most: float) -> float | None:
    """Return a figure of a counter if it is in 0..`most`; else None."""
    return value if value is not None and math.isfinite(value) and 0 <= value <= most else None


def ratio(value: float | None) -> float | None:
    """Return a ratio, at most 1; None if it is impossible."""
    found = within(value, 1 + ROUNDING)
    return None if found is None else min(found, 1.0)


class SmactFeed(Protocol):
    """Measures SM activity for a `GpuSource` that cannot, or only coarsely.

    `start` names the devices to measure, and is called again when they change. It and `latest`
    return at once, in every state of the feed, and raise nothing. A feed that waits for a child
    or a connection does so in its own thread. Only the thread that reads the devices calls the
    methods, except `close`.
    """

    name: str

    def start(self, devices: Sequence[Device]) -> None: ...

    def latest(self, uuid: str) -> Sample | None:
        """Return the newest sample of a device, of any age; None if there is none."""
        ...

    def error(self, uuid: str) -> str | None:
        """Return why the feed has no new sample of a device, as a message.

        None while it has one, and for a device that it does not measure.
        """
        ...

    def close(self) -> None: ...
