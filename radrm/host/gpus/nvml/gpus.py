"""The source of readings of this machine's GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from radrm.core.records import Device, Instant, Reading
from radrm.errors import DeviceError
from radrm.host.gpus.nvml import figures, processes, words
from radrm.host.gpus.nvml.condition import Condition
from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.listing import Listing, Place, memory_of
from radrm.host.gpus.nvml.power import Power
from radrm.host.gpus.nvml.reserve import Reserve
from radrm.host.gpus.nvml.xids import Xids
from radrm.host.gpus.source import OwnerOf, whose
from radrm.host.gpus.unmanaged import Strangers

SMACT_SOURCE = "nvml-utilization"
LOOK_AGAIN_S = 10.0
"""So often the driver is asked whether it still has the same devices."""


@dataclass(frozen=True, slots=True)
class Found:
    """What `find` came back with: GPUs, or the reason why there are none."""

    gpus: NvmlGpus | None
    reason: str | None = None


def find() -> Found:
    """The GPUs of this machine, if it has any that can be asked."""
    try:
        import pynvml
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
        return Found(None, "the NVIDIA driver is there, and it finds no GPU")
    return Found(gpus)


class NvmlGpus:
    """A `GpuSource` over the NVIDIA driver.

    Handles are kept between readings and dropped after any error, since they go stale
    when a GPU is reset or a MIG instance is destroyed. After an error of the driver the
    library is initialised anew: by the next `devices`, or by the next call at all when
    it was the library itself that failed.
    """

    name = "nvml"

    def __init__(self, pynvml: Any) -> None:
        self.library = Library(pynvml)
        self.changed = False
        """Whether the devices are others than the last `devices` gave: list them again."""
        self._reserve = Reserve(self.library)
        self._listing = Listing(self.library, self._reserve)
        self._power = Power(self.library)
        self._xids = Xids(self.library)
        self._condition = Condition(self.library)
        self._strangers = Strangers()
        self._shaken = False
        self._looked_s: float | None = None
        self._gone: set[str] = set()
        self._broken: set[str] = set()
        self._acknowledged: list[str] = []

    # -------------------------------------------------------------- the source

    @property
    def problems(self) -> tuple[str, ...]:
        """What the last `devices` could not list as it should, one line per GPU."""
        return self._listing.problems

    def count(self) -> int:
        """How many GPUs the driver finds. Raises `DeviceError`."""
        with self.library.inside():
            self.library.connect()
            count: int = self.library.of_all("nvmlDeviceGetCount")
            return count

    def devices(self) -> tuple[Device, ...]:
        """Every GPU, and in place of a GPU in MIG mode its instances.

        A GPU that has been seen and now gives only errors is listed as it was seen last,
        so that its readings can say what is wrong with it. Raises `DeviceError`.
        """
        with self.library.inside():
            if self._shaken:
                self.close()
            devices = self._listing.devices()
            self.changed = False
            self._shaken = self._listing.failed
            return devices

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        """One reading per device, in the order asked. Raises `DeviceError`."""
        with self.library.inside():
            self.library.connect()
            while self._acknowledged:
                self._xids.forget(self._acknowledged.pop())
            self._xids.collect(at)
            self._look_again(at.boot_s)
            return tuple(self._reading(uuid, at, owner_of) for uuid in uuids)

    def close(self) -> None:
        """Let go of the driver, so that an administrator can reset a GPU. Returns at once."""
        self.library.close()
        self._shaken = False

    # -------------------------------------------------------------- beside the source

    def place(self, uuid: str) -> Place:
        """How the driver is asked about a device. Raises `library.Error`, `DeviceError`."""
        with self.library.inside():
            self.library.connect()
            return self._listing.place(uuid)

    def take_over(self, other: NvmlGpus) -> None:
        """Know what another one has heard, in whose place this one reads from now on."""
        self._xids.take_over(other._xids)
        self._reserve.take_over(other._reserve)

    def acknowledge(self, uuid: str) -> None:
        """Somebody has seen to the GPU of this device: what was heard of it is over.

        The next reading is without it, but for what the driver still says. Asks the driver
        nothing, and may be called from any thread.
        """
        self._acknowledged.append(self._listing.gpu_of(uuid))

    # -------------------------------------------------------------- reading

    def _reading(self, uuid: str, at: Instant, owner_of: OwnerOf) -> Reading:
        place = None
        try:
            place = self._listing.place(uuid)
            memory = self._memory(place.handle)
            busy = self.library.offered("nvmlDeviceGetUtilizationRates", place.handle)
            power_w, set_back = self._power.read(uuid, place.handle, at.boot_s)
            held = processes.held(self.library, place)
        except self.library.Error as error:
            return Reading(device=uuid, at=at, error=self._trouble(error, uuid, place))
        self._xids.watch(place)
        condition = self._condition.of(place, at.boot_s)
        if set_back or condition.set_back or place.gpu_uuid in self._broken:
            self._xids.forget(place.gpu_uuid, before_s=at.boot_s)
            self._broken.discard(place.gpu_uuid)
        self._gone.discard(uuid)
        total = memory.total if memory else 0
        used_mib, about_memory = self._in_use(uuid, place, memory, alone=not held)
        attempts, others = whose({p: figures.mib(b, total) for p, b in held.items()}, owner_of)
        smact = figures.within(busy.gpu / 100 if busy else None, 1.0)
        return Reading(
            device=uuid,
            at=at,
            used_mib=used_mib,
            attempts=attempts,
            smact=smact,
            smact_source=SMACT_SOURCE if smact is not None else None,
            smact_coarse=smact is not None,
            strangers=self._strangers.describe(others),
            fault=self._xids.fault(place) or condition.fault,
            notes=self._xids.notes(place) + condition.notes + about_memory,
            power_w=power_w,
        )

    def _in_use(
        self, uuid: str, place: Place, memory: Any, alone: bool
    ) -> tuple[int | None, tuple[str, ...]]:
        """MiB in use, the driver's own left out, and what is to be said of that."""
        if memory is None:
            return None, ()
        used_mib = self._reserve.used_mib(uuid, place.handle, memory, alone)
        self.changed = self.changed or self._reserve.is_new(uuid)
        note = self._reserve.note(uuid, memory)
        return used_mib, (note,) if note else ()

    def _memory(self, handle: Any) -> Any:
        try:
            return memory_of(self.library, handle)
        except self.library.Error as error:
            if error.value in words.NOT_OFFERED:
                return None
            raise

    def _trouble(self, error: Any, uuid: str, place: Place | None) -> str:
        told = self.library.trouble(error)
        self._shaken = True
        self._listing.forget(uuid)
        self._power.forget(uuid)
        gpu_uuid = place.gpu_uuid if place else self._listing.gpu_of(uuid)
        if error.value in words.BROKEN:
            self._broken.add(gpu_uuid)
            self._condition.forget(gpu_uuid)
        if error.value in words.GONE and uuid not in self._gone:
            self._gone.add(uuid)  # once: it may stay among those that are asked for
            self.changed = True
        return told

    def _look_again(self, boot_s: float) -> None:
        """MIG instances come and go while nothing that is read changes."""
        if self._looked_s is None or not 0 <= boot_s - self._looked_s < LOOK_AGAIN_S:
            self._looked_s = boot_s
            self.changed = self.changed or self._listing.differs()
