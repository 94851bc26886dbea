"""The GPU source over the NVIDIA driver.

Theory of operation. One thread lists and reads. Any thread may call `acknowledge` (it appends to
a list, which the next reading empties), `take_over` and `close`. A new source takes over the
Xids and learned memory of one whose thread hangs. An error of one device drops its handle and
makes the next `devices` reconnect; an error of the library itself reconnects at the next call. A
restart knows no earlier Xids; all else is read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.records import Device, Instant, Reading
from radrm.errors import DeviceError
from radrm.host.gpus.nvml import figures, loading, processes, words
from radrm.host.gpus.nvml.activity import Activity
from radrm.host.gpus.nvml.condition import NO_RECOVERY, Condition
from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.listing import Listing, Place
from radrm.host.gpus.nvml.power import Power
from radrm.host.gpus.nvml.reserve import Reserve
from radrm.host.gpus.nvml.xids import Xids
from radrm.host.gpus.source import NO_PROCESS_LIST, GpuSource, OwnerOf, split_by_owner
from radrm.host.gpus.unmanaged import UnmanagedProcesses

SMACT_SOURCE = "nvml-utilization"
COMPARE_EVERY_S = 10.0
"""Seconds between two comparisons of the devices with the last listing."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of `find`: GPUs, or the reason why there are none."""

    gpus: NvmlGpus | None
    reason: str | None = None


def find() -> Found:
    """Find the GPUs of this machine that NVML can read."""
    try:
        pynvml = loading.load()
    except DeviceError as error:
        return Found(None, str(error))
    except Exception as error:  # a broken package may raise anything
        return Found(
            None,
            f"the Python package nvidia-ml-py cannot be imported ({error}); "
            "install it again: pip install --force-reinstall nvidia-ml-py",
        )
    gpus = NvmlGpus(pynvml)
    try:
        count = gpus.count()
    except DeviceError as error:
        return Found(None, str(error))
    if count == 0:
        gpus.close()
        return Found(None, "the NVIDIA driver is loaded, but it finds no GPU")
    return Found(gpus)


class NvmlGpus(GpuSource):
    """A `GpuSource` over the NVIDIA driver.

    It keeps handles between readings. It drops them after an error, because a reset GPU or a
    destroyed MIG instance makes them stale.
    """

    name = "nvml"
    changed = False

    def __init__(self, pynvml: Any) -> None:
        self.library = Library(pynvml)
        self._reserve = Reserve(self.library)
        self._listing = Listing(self.library, self._reserve)
        self._power = Power(self.library)
        self._activity = Activity(self.library)
        self._xids = Xids(self.library)
        self._condition = Condition(self.library)
        self._unmanaged = UnmanagedProcesses()
        self._reconnect = False
        self._compared_s: float | None = None
        self._gone: set[str] = set()
        self._broken: set[str] = set()
        self._acknowledged: list[str] = []

    # -------------------------------------------------------------- the source

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of the last `devices`, one line per cause."""
        return self._listing.problems

    def count(self) -> int:
        """Return the number of GPUs that the driver finds. Raises `DeviceError`."""
        with self.library.inside():
            self.library.connect()
            count: int = self.library.call_driver("nvmlDeviceGetCount")
            return count

    def devices(self) -> tuple[Device, ...]:
        """Return every GPU, or its instances if it is in MIG mode.

        A GPU that now gives only errors is listed as it was last seen, so that its readings can
        name the error. Raises `DeviceError`.
        """
        with self.library.inside():
            if self._reconnect:
                self.close()
            devices = self._listing.devices()
            self.changed = False
            self._reconnect = self._listing.failed
            return devices

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        """Return one reading per device, in the given order. Raises `DeviceError`."""
        with self.library.inside():
            self.library.connect()
            while self._acknowledged:
                gpu_uuid = self._acknowledged.pop()
                self._xids.forget(gpu_uuid)
                self._condition.accept(gpu_uuid)
            for gpu_uuid in self._xids.collect(at):
                self._condition.ask_again(gpu_uuid)
            self._compare_devices(at.boot_s)
            return tuple(self._reading(uuid, at, owner_of) for uuid in uuids)

    def close(self) -> None:
        """Release the driver, so that an administrator can reset a GPU. Returns at once."""
        self.library.close()
        self._reconnect = False

    # -------------------------------------------------------------- for feeds and the monitor

    def place(self, uuid: str) -> Place:
        """Return the handles of a device. Raises `library.Error` and `DeviceError`."""
        with self.library.inside():
            self.library.connect()
            return self._listing.place(uuid)

    def take_over(self, other: GpuSource) -> None:
        if isinstance(other, NvmlGpus):
            self._xids.take_over(other._xids)
            self._reserve.take_over(other._reserve)
            self._condition.take_over(other._condition)

    def acknowledge(self, uuid: str) -> None:
        """Make the next reading forget the Xids of this device's GPU, and accept its fabric.

        Other faults that the driver still reports stay.
        """
        self._acknowledged.append(self._listing.gpu_of(uuid))

    # -------------------------------------------------------------- reading

    def _reading(self, uuid: str, at: Instant, owner_of: OwnerOf) -> Reading:
        place = None
        try:
            place = self._listing.place(uuid)
            # First: its errors tell whether the device is there at all.
            memory = self._listing.memory(uuid, place.handle)
            busy = self._busy(place)
            drawn = self._power.read(uuid, place, at.boot_s)
            held = processes.held(self.library, place)
        except self.library.Error as error:
            return Reading(device=uuid, at=at, error=self._error(error, uuid, place))
        self._xids.watch(place)
        condition = self._condition.read(place, at.boot_s)
        if drawn.set_back or condition.set_back or place.gpu_uuid in self._broken:
            self._xids.forget(place.gpu_uuid, before_s=at.boot_s)
            self._broken.discard(place.gpu_uuid)
        if condition.recovery == NO_RECOVERY:
            self._xids.recovered(place.gpu_uuid)
        self._gone.discard(uuid)
        total = memory.total if memory else 0
        used_mib, about_memory = self._in_use(uuid, place, memory, alone=held == {})
        attempts, others = split_by_owner(
            {p: figures.mib(b, total) for p, b in (held or {}).items()}, owner_of
        )
        attempts = self._activity.add(attempts, place, at.wall_s, owner_of)
        smact = figures.within(busy.gpu / 100 if busy else None, 1.0)
        return Reading(
            device=uuid,
            at=at,
            used_mib=used_mib,
            attempts=None if held is None else attempts,
            smact=smact,
            smact_source=SMACT_SOURCE if smact is not None else None,
            smact_coarse=smact is not None,
            unmanaged=self._unmanaged.describe(others),
            fault=self._xids.fault(place) or condition.fault,
            notes=self._xids.notes(place)
            + condition.notes
            + about_memory
            + ((NO_PROCESS_LIST,) if held is None else ()),
            power_w=drawn.power_w,
            energy_j=drawn.energy_j,
        )

    def _busy(self, place: Place) -> Any:
        """Return the utilization; None for a MIG instance, which has none."""
        if place.is_instance:
            return None
        return self.library.offered("nvmlDeviceGetUtilizationRates", place.handle)

    def _in_use(
        self, uuid: str, place: Place, memory: Any, alone: bool
    ) -> tuple[int | None, tuple[str, ...]]:
        """Return the MiB in use without the driver's own, and the notes about it."""
        if memory is None:
            return None, ()
        used_mib = self._reserve.used_mib(uuid, place.handle, memory, alone)
        self.changed = self.changed or self._reserve.is_new(uuid)
        note = self._reserve.note(uuid, memory)
        return used_mib, (note,) if note else ()

    def _error(self, error: Any, uuid: str, place: Place | None) -> str:
        message = self.library.error(error)
        self._reconnect = True
        self._listing.forget(uuid)
        self._power.forget(uuid)
        gpu_uuid = place.gpu_uuid if place else self._listing.gpu_of(uuid)
        if error.value in words.BROKEN:
            self._broken.add(gpu_uuid)
            self._condition.forget(gpu_uuid)
        if error.value in words.GONE and uuid not in self._gone:
            self._gone.add(uuid)  # once: the caller may keep asking for this device
            self.changed = True
        return message

    def _compare_devices(self, boot_s: float) -> None:
        """Compare the devices with the listing, since no reading shows a new MIG instance."""
        if self._compared_s is None or not 0 <= boot_s - self._compared_s < COMPARE_EVERY_S:
            self._compared_s = boot_s
            self.changed = self.changed or self._listing.differs()
