"""Read real GPUs through NVML: memory by process, power, SM activity; the source of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from radrm.core.records import AttemptMemory, Device, Instant, Reading
from radrm.errors import DeviceError
from radrm.host.gpus.nvml import library as nvml_library
from radrm.host.gpus.nvml.condition import NO_RECOVERY, Condition
from radrm.host.gpus.nvml.library import (
    BROKEN,
    GONE,
    NOT_FOUND,
    NOT_OFFERED_BY_INSTANCE,
    Library,
    mib,
    processes_of_kind,
)
from radrm.host.gpus.nvml.listing import Listing, Place
from radrm.host.gpus.nvml.xids import Xids
from radrm.host.gpus.processes import Owners, Processes
from radrm.host.gpus.source import NO_PROCESS_LIST, GpuSource, OwnerOf, split_by_owner, within
from radrm.host.processes.procfs import start_of
from radrm.structs import replace

# ------------------------------------------------------------------
# The memory of each process on a device.
#
# With NVIDIA's open kernel modules the process ids are those of the reader's pid namespace, and
# processes outside of it are not listed; older closed ones give the host's. Without a list (WSL2,
# Jetson, some vGPUs) it is unknown which processes there are: this is not the same as none.


_NO_INSTANCE = 0xFFFFFFFF


def held(library: Library, place: Place) -> dict[int, int | None] | None:
    """Return bytes by process id, None if unknown. None if the driver lists no processes.

    The driver lists MPS clients as compute processes, in their own list, or in both.
    """
    computing = _of_kind(library, place, "Compute")
    if computing is None:
        return None
    sums: dict[int, int | None] = {}
    for process in (*computing, *(_of_kind(library, place, "MPSCompute") or ())):
        before, now = sums.get(process.pid), process.usedGpuMemory
        sums[process.pid] = now if before is None else max(before, now or 0)
    return sums


_UNEXPLAINED = 128 << 20
"""Bytes: without a display, the driver itself has some MiB to 100 in use."""


def with_drawing(
    library: Library, place: Place, held: dict[int, int | None], used: int
) -> dict[int, int | None]:
    """Return `held` with the processes that only draw: displays, and jobs that render.

    They are asked for only if memory is in use that no other process has. A process that computes
    and draws is in both lists, with all its memory.
    """
    if place.is_instance or used - sum(each or 0 for each in held.values()) <= _UNEXPLAINED:
        return held
    found = dict(held)
    for process in processes_of_kind(library, place.handle, "Graphics") or ():
        found.setdefault(process.pid, process.usedGpuMemory)
    return found


def _of_kind(library: Library, place: Place, kind: str) -> Iterable[Any] | None:
    if not place.is_instance:
        return processes_of_kind(library, place.handle, kind)
    own = processes_of_kind(library, place.handle, kind, NOT_OFFERED_BY_INSTANCE)
    if place.instance is None:
        return own
    if own is not None:
        return [p for p in own if _instance(p) in (place.instance, (_NO_INSTANCE, _NO_INSTANCE))]
    # Some drivers list processes for the whole GPU only, each with its instance.
    every = processes_of_kind(library, place.gpu, kind)
    return None if every is None else [p for p in every if _instance(p) == place.instance]


def _instance(process: Any) -> tuple[int, int]:
    gpu = getattr(process, "gpuInstanceId", _NO_INSTANCE)
    compute = getattr(process, "computeInstanceId", _NO_INSTANCE)
    return gpu, compute


# ------------------------------------------------------------------
# Power in watts, from the energy counter if there is one, and the counter itself.
#
# The mean power since the last reading counts, however the power varied. The driver's own power
# figure covers only some tens of milliseconds to a second, by generation. It is used for the first
# reading, and without a counter. A MIG instance has neither: the driver knows only the whole GPU's.


POWER_MAX_W = 100_000.0
"""More than any device draws: a larger figure means "not available"."""
_SHORT_S = 0.5
"""The counter moves in steps, so a mean over less time is meaningless."""


class _Meter(Struct):
    energy_mj: int
    boot_s: float
    watts: float | None = None


class Drawn(Struct, frozen=True):
    """What a device draws. `set_back`: the counter was reset with the driver."""

    power_w: float | None
    energy_j: float | None
    set_back: bool


class Power:
    """Remembers the last value of each device's counter."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._meters: dict[str, _Meter] = {}

    def read(self, uuid: str, place: Place, boot_s: float) -> Drawn:
        """Return the power in watts, and the counter in joules."""
        if place.is_instance:
            return Drawn(None, None, set_back=False)
        handle = place.handle
        energy_mj = self._library.offered("nvmlDeviceGetTotalEnergyConsumption", handle)
        meter = self._meters.get(uuid)
        set_back = meter is not None and energy_mj is not None and energy_mj < meter.energy_mj
        mean_w, sound = None, energy_mj is not None
        if energy_mj is None:
            self._meters.pop(uuid, None)
        elif meter is None or set_back or boot_s < meter.boot_s:
            self._meters[uuid] = _Meter(energy_mj, boot_s)
        elif boot_s - meter.boot_s < _SHORT_S:
            mean_w = meter.watts
            sound = mean_w != 0
        else:
            mean_w = (energy_mj - meter.energy_mj) / 1000 / (boot_s - meter.boot_s)
            mean_w = within(mean_w, POWER_MAX_W)
            sound = bool(mean_w)
            self._meters[uuid] = _Meter(energy_mj, boot_s, mean_w)
        # A counter that stands still gives 0 W, which no GPU draws: use the driver's figure.
        energy_j = energy_mj / 1000 if sound else None
        return Drawn(mean_w or self._driver_power(handle), energy_j, set_back)

    def forget(self, uuid: str) -> None:
        self._meters.pop(uuid, None)

    def _driver_power(self, handle: Any) -> float | None:
        power_mw = self._library.offered("nvmlDeviceGetPowerUsage", handle)
        return within(power_mw / 1000 if power_mw is not None else None, POWER_MAX_W)


# ------------------------------------------------------------------
# The SM activity of each process on a GPU, to divide the energy of jobs that share it.
#
# The driver keeps samples of the last seconds, and returns those after a time that the caller
# gives. So the first call only learns that time. A process without a sample was idle. Some drivers
# return impossible samples beside good ones; those are dropped.
#
# Unknown for a MIG instance, on GPUs before Maxwell, and under an MPS server whose clients the
# driver does not tell apart: it then counts their work as the server's.


_PERCENT = 100
_AHEAD_US = 60_000_000
"""A sample so far in the future has an impossible time."""
_NO_SAMPLES = frozenset({0, NOT_FOUND})


class Shown(Struct, frozen=True):
    """The SM activity (0..1) of single processes, and of attempts; without those of which it is
    unknown."""

    of_process: Mapping[int, float] = field(default_factory=dict)
    of_attempt: Mapping[tuple[int, int], float] = field(default_factory=dict)

    def of(self, attempts: tuple[AttemptMemory, ...]) -> tuple[AttemptMemory, ...]:
        """Return the attempts on a device with their SM activity; one alone needs none."""
        if len(attempts) < 2:
            return attempts
        found = [(each, self.of_attempt.get((each.job_id, each.serial))) for each in attempts]
        return tuple(
            each if smact is None else replace(each, smact=min(1.0, smact)) for each, smact in found
        )


class Activity:
    """Remembers until when the samples of each GPU have been read."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._until_us: dict[str, int] = {}

    def read(self, owners: Owners, place: Place, wall_s: float, owner_of: OwnerOf) -> Shown:
        """Return the SM activity of the processes on a device, where there are several."""
        shown = self._read(place, wall_s) if len(owners) > 1 else None
        if shown is None:
            return Shown()
        owners = {pid: owner_of(pid) for pid in shown} | dict(owners)
        others = {pid: smact for pid, smact in shown.items() if owners[pid] is None}
        if any(map(_is_mps_server, others)):
            return Shown(others)
        sums: dict[tuple[int, int], float] = {}
        for pid, owner in owners.items():
            if owner is not None:
                sums[owner] = sums.get(owner, 0.0) + shown.get(pid, 0.0)
        return Shown({pid: shown.get(pid, 0.0) for pid in owners}, sums)

    def _read(self, place: Place, wall_s: float) -> dict[int, float] | None:
        """Return the SM activity (0..1) by process since the last call; None if unknown."""
        if place.is_instance:
            return None
        uuid = place.gpu_uuid
        since_us = self._until_us.get(uuid)
        given = place.handle, since_us or 0
        try:
            samples = self._library.call("nvmlDeviceGetProcessUtilization", *given)
        except self._library.Error as error:
            if error.value not in _NO_SAMPLES:
                return None
            samples = []
        most_us = wall_s * 1e6 + _AHEAD_US
        times = [s.timeStamp for s in samples if s.timeStamp <= most_us]
        self._until_us[uuid] = max([since_us or 0, *times])
        if since_us is None and samples:
            return None
        found: dict[int, list[int]] = {}
        for sample in samples:
            if (since_us or 0) < sample.timeStamp <= most_us and sample.smUtil <= _PERCENT:
                found.setdefault(sample.pid, []).append(sample.smUtil)
        return {pid: sum(each) / len(each) / _PERCENT for pid, each in found.items()}


def _is_mps_server(pid: int) -> bool:
    # The kernel keeps 15 characters of a name.
    return start_of(f"/proc/{pid}/comm", 64).startswith(b"nvidia-cuda-mps")


# ------------------------------------------------------------------
# The GPU source over the NVIDIA driver.
#
# Theory of operation. One thread lists and reads. Any thread may call `acknowledge` (it appends to
# a list, which the next reading empties) and `close`. An error of one device drops its handle and
# makes the next `devices` reconnect; an error of the library itself reconnects at the next call. A
# restart knows no earlier Xids; all else is read again.


SMACT_SOURCE = "nvml-utilization"
COMPARE_EVERY_S = 10.0
"""Seconds between two comparisons of the devices with the last listing."""


class Found(Struct, frozen=True):
    """The result of `find`: GPUs, or the reason why there are none."""

    gpus: NvmlGpus | None
    reason: str | None = None


def find() -> Found:
    """Find the GPUs of this machine that NVML can read."""
    try:
        pynvml = nvml_library.load()
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
        self._listing = Listing(self.library)
        self._power = Power(self.library)
        self._activity = Activity(self.library)
        self._xids = Xids(self.library)
        self._condition = Condition(self.library)
        self._processes = Processes()
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
        self.library.connect()
        count: int = self.library.call_driver("nvmlDeviceGetCount")
        return count

    def devices(self) -> tuple[Device, ...]:
        """Return every GPU, or its instances if it is in MIG mode.

        A GPU that now gives only errors is listed as it was last seen, so that its readings can
        name the error. Raises `DeviceError`.
        """
        if self._reconnect:
            self.close()
        devices = self._listing.devices()
        self.changed = False
        self._reconnect = self._listing.failed
        return devices

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        """Return one reading per device, in the given order. Raises `DeviceError`."""
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
        """Release the driver, so that an administrator can reset a GPU."""
        self.library.close()
        self._reconnect = False

    # -------------------------------------------------------------- for feeds and the monitor

    def place(self, uuid: str) -> Place:
        """Return the handles of a device. Raises `library.Error` and `DeviceError`."""
        self.library.connect()
        return self._listing.place(uuid)

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
            used_by = held(self.library, place)
            if used_by is not None and memory is not None:
                used_by = with_drawing(self.library, place, used_by, memory.used)
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
        here = {p: mib(b, total) for p, b in (used_by or {}).items()}
        attempts, owners = split_by_owner(here, owner_of)
        shown = self._activity.read(owners, place, at.wall_s, owner_of)
        smact = within(busy.gpu / 100 if busy else None, 1.0)
        return Reading(
            device=uuid,
            at=at,
            used_mib=mib(memory.used, total) if memory else None,
            attempts=None if used_by is None else shown.of(attempts),
            smact=smact,
            smact_source=SMACT_SOURCE if smact is not None else None,
            smact_coarse=smact is not None,
            processes=self._processes.describe(here, owners, shown.of_process),
            fault=self._xids.fault(place) or condition.fault,
            notes=self._xids.notes(place)
            + condition.notes
            + ((NO_PROCESS_LIST,) if used_by is None else ()),
            power_w=drawn.power_w,
            energy_j=drawn.energy_j,
        )

    def _busy(self, place: Place) -> Any:
        """Return the utilization; None for a MIG instance, which has none."""
        if place.is_instance:
            return None
        return self.library.offered("nvmlDeviceGetUtilizationRates", place.handle)

    def _error(self, error: Any, uuid: str, place: Place | None) -> str:
        message = self.library.error(error)
        self._reconnect = True
        self._listing.forget(uuid)
        self._power.forget(uuid)
        gpu_uuid = place.gpu_uuid if place else self._listing.gpu_of(uuid)
        if error.value in BROKEN:
            self._broken.add(gpu_uuid)
            self._condition.forget(gpu_uuid)
        if error.value in GONE and uuid not in self._gone:
            self._gone.add(uuid)  # once: the caller may keep asking for this device
            self.changed = True
        return message

    def _compare_devices(self, boot_s: float) -> None:
        """Compare the devices with the listing, since no reading shows a new MIG instance."""
        if self._compared_s is None or not 0 <= boot_s - self._compared_s < COMPARE_EVERY_S:
            self._compared_s = boot_s
            self.changed = self.changed or self._listing.differs()
