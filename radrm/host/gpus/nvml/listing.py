"""GPUs and MIG instances as devices, with their handles and the driver's own memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from radrm.core.records import Device
from radrm.core.units import gpus_named
from radrm.core.words import DeviceKind
from radrm.host.gpus.nvml import topology
from radrm.host.gpus.nvml.library import (
    MIB,
    NOT_FOUND,
    NOT_OFFERED,
    NOT_SUPPORTED,
    Library,
    held_by_all,
    mib,
)
from radrm.host.gpus.unified import UnifiedMemory
from radrm.structs import replace

# ------------------------------------------------------------------
# GPUs and MIG instances as devices, and their handles.
#
# Theory of operation. A handle goes stale when its GPU is reset, its MIG instance is destroyed, or
# the connection closes. A stale handle gives an error, and the caller that gets the error calls
# `forget`. A closed connection drops all handles (`generation`). All methods run in the thread that
# reads, except `gpu_of`, which uses only what was listed. A restart lists all devices again.


_NO_INSTANCE = "MIG is on, but it has no instance; create instances: nvidia-smi mig -cgi PROFILE -C"


class Place(Struct, frozen=True):
    """The handle of a device, and the GPU that it is or belongs to.

    `instance` has the driver's ids of a MIG device's GPU instance and compute instance.
    """

    handle: Any
    gpu_uuid: str
    gpu: Any
    instance: tuple[int, int] | None = None

    @property
    def is_instance(self) -> bool:
        """Whether it is a MIG instance, even if the driver names neither its GPU nor its ids."""
        return self.gpu is not self.handle or self.gpu_uuid.startswith("MIG-")


class Listing:
    """The devices of this machine. Methods raise the library's `Error` if they name no other."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._generation = library.generation
        self._places: dict[str, Place] = {}
        self._seen: dict[int, tuple[Device, ...]] = {}
        self._count: int | None = None
        self._unified: dict[str, UnifiedMemory] = {}
        """By the UUIDs of GPUs without memory of their own."""
        self.problems: tuple[str, ...] = ()
        """The problems of the last `devices`, one line per cause."""
        self.failed = False
        """True if a GPU gave an error in the last `devices`."""

    # -------------------------------------------------------------- devices

    def devices(self) -> tuple[Device, ...]:
        """Return every GPU, or its instances if it is in MIG mode.

        A GPU that now gives only errors is listed as it was last seen, so that its readings can
        name the error. Raises `DeviceError`.
        """
        self._library.connect()
        listed: dict[str, Device] = {}  # by UUID: a lost GPU can shift the indices
        problems: dict[str, list[int]] = {}
        self.failed = False
        self._count = self._library.call_driver("nvmlDeviceGetCount") or 0
        for index in range(self._count):
            try:
                self._seen[index] = self._gpu(index)
                if not self._seen[index]:
                    problems.setdefault(_NO_INSTANCE, []).append(index)
            except self._library.Error as error:
                self.failed = True
                problems.setdefault(self._library.error(error), []).append(index)
            listed.update((device.uuid, device) for device in self._seen.get(index, ()))
        self.problems = tuple(f"{gpus_named(its)}: {why}" for why, its in problems.items())
        return self._with_near(listed.values())

    def gpu_of(self, uuid: str) -> str:
        """Return the UUID of the GPU that a device is or belongs to, from the last listing."""
        every = [device for devices in list(self._seen.values()) for device in devices]
        return next((d.parent for d in every if d.uuid == uuid and d.parent), uuid)

    def differs(self) -> bool:
        """Return whether the driver's devices differ from the last listing.

        It compares only UUIDs, so it is cheap enough for every few seconds. A GPU that gives an
        error does not differ; its readings name the error.
        """
        if self._count is None:
            return False
        if self._library.call_or_none("nvmlDeviceGetCount") not in (None, self._count):
            return True
        return any(self._differs(index) for index in range(self._count))

    def _differs(self, index: int) -> bool:
        if index not in self._seen:  # it could not be listed, but may answer now
            return self._library.call_or_none("nvmlDeviceGetHandleByIndex", index) is not None
        try:
            gpu = self._library.call("nvmlDeviceGetHandleByIndex", index)
            parts = self._instances(gpu) if self._in_mig_mode(gpu) else (gpu,)
            now = {self._library.text("nvmlDeviceGetUUID", part) for part in parts}
        except self._library.Error:
            return False
        return now != {device.uuid for device in self._seen[index]}

    # -------------------------------------------------------------- places

    def place(self, uuid: str) -> Place:
        """Return the place of a device. Raises the library's `Error` for an unknown one."""
        self._drop_stale()
        if uuid not in self._places:
            handle = self._library.call("nvmlDeviceGetHandleByUUID", uuid)
            gpu = None
            if uuid.startswith("MIG-"):
                gpu = self._library.offered("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
            self._places[uuid] = self._placed(uuid, handle, gpu)
        return self._places[uuid]

    def forget(self, uuid: str) -> None:
        """Make the next `place` ask the driver again."""
        self._places.pop(uuid, None)

    def _placed(self, uuid: str, handle: Any, gpu: Any) -> Place:
        if gpu is None:
            return Place(handle, uuid, handle)
        ask = self._library.offered
        numbers = (
            ask("nvmlDeviceGetGpuInstanceId", handle),
            ask("nvmlDeviceGetComputeInstanceId", handle),
        )
        parent = self._library.text("nvmlDeviceGetUUID", gpu)
        return Place(handle, parent, gpu, None if None in numbers else numbers)

    def _drop_stale(self) -> None:
        if self._generation != self._library.generation:
            self._generation = self._library.generation
            self._places.clear()

    # -------------------------------------------------------------- one GPU

    def _with_near(self, devices: Collection[Device]) -> tuple[Device, ...]:
        """Return the devices, each with the whole GPUs near it. None is near a MIG instance."""
        gpus = {
            device.index: self._places[device.uuid].gpu
            for device in devices
            if device.kind is DeviceKind.GPU and device.uuid in self._places
        }
        near = topology.near_gpus(self._library, gpus)
        return tuple(
            replace(each, **asdict(near[each.index]))
            if each.kind is DeviceKind.GPU and each.index in near
            else each
            for each in devices
        )

    def _gpu(self, index: int) -> tuple[Device, ...]:
        """Return a GPU as one device, or its MIG instances, which have the index of the GPU."""
        gpu = self._library.call("nvmlDeviceGetHandleByIndex", index)
        if not self._in_mig_mode(gpu):
            return (self._device(gpu, index),)
        parent = self._library.text("nvmlDeviceGetUUID", gpu)
        return tuple(
            self._device(instance, index, gpu, parent) for instance in self._instances(gpu)
        )

    def _in_mig_mode(self, gpu: Any) -> bool:
        mode = self._library.offered("nvmlDeviceGetMigMode", gpu)
        return bool(mode and mode[0])

    def _instances(self, gpu: Any) -> Iterator[Any]:
        for slot in range(self._library.call("nvmlDeviceGetMaxMigDeviceCount", gpu)):
            try:
                yield self._library.call("nvmlDeviceGetMigDeviceHandleByIndex", gpu, slot)
            except self._library.Error as error:
                if error.value != NOT_FOUND:
                    raise

    def _device(
        self, handle: Any, index: int, gpu: Any = None, parent: str | None = None
    ) -> Device:
        uuid = self._library.text("nvmlDeviceGetUUID", handle)
        name = self._library.text("nvmlDeviceGetName", handle)
        memory = self._listed_memory(uuid, handle, whole=parent is None)
        self._drop_stale()
        self._places[uuid] = self._placed(uuid, handle, gpu)
        sms, mhz = (None, None) if parent else sms_of(self._library, handle)
        return Device(
            uuid=uuid,
            index=index,
            name=name,
            total_mib=memory.total // MIB,
            kind=DeviceKind.MIG if parent else DeviceKind.GPU,
            overhead_mib=mib(memory.reserved, memory.total) or 0,
            parent=parent,
            profile=name.partition("MIG ")[2] or None,
            numa_node=None if parent else topology.numa_node(self._library, handle),
            numa_cpus=topology.near_cpus(self._library, gpu or handle, topology.SCOPE_NODE),
            socket_cpus=topology.near_cpus(self._library, gpu or handle, topology.SCOPE_SOCKET),
            sms=sms,
            sm_mhz=mhz,
            minor=self._library.call_or_none("nvmlDeviceGetMinorNumber", gpu or handle),
            instance=self._places[uuid].instance,
            unified=uuid in self._unified,
        )

    # -------------------------------------------------------------- memory

    def memory(self, uuid: str, handle: Any) -> Any:
        """Return the memory of a device in bytes; None if the driver does not offer it.

        That of the server for a GPU which was listed with it.
        """
        # The driver is asked in any case: it has an error for a GPU that is lost.
        found = self._own_memory(handle, NOT_OFFERED)
        if found is None and uuid in self._unified:
            return self._unified[uuid].now(held_by_all(self._library, handle))
        return found

    def _listed_memory(self, uuid: str, handle: Any, whole: bool) -> Any:
        """Return the memory of a device; that of the server for a GPU that has none.

        Raises `Error` if neither is known.
        """
        found = self._own_memory(handle, (NOT_SUPPORTED,) if whole else ())
        if found is not None:
            self._unified.pop(uuid, None)
            return found
        unified = self._unified.setdefault(uuid, UnifiedMemory())
        found = unified.listed(held_by_all(self._library, handle))
        if found is None:
            self._unified.pop(uuid)
            raise self._library.Error(NOT_SUPPORTED)
        return found

    def _own_memory(self, handle: Any, none: Collection[int]) -> Any:
        """Return the memory that the driver reports; None after one of these errors.

        Version 2 has the driver's own part (`reserved`) beside `used`.
        """
        version = self._library.pynvml.nvmlMemory_v2
        try:
            found = self._library.call("nvmlDeviceGetMemoryInfo", handle, version=version)
        except self._library.Error as error:
            if error.value in none:
                return None
            raise
        # Some drivers report no memory as 0 bytes.
        return None if none and found.total == 0 else found


# The cores of an SM by compute capability, as `_ConvertSMVer2Cores` of NVIDIA's cuda-samples has
# them (Common/helper_cuda.h): NVML tells only all cores together.
_CORES_PER_SM = {
    **dict.fromkeys(((6, 0), (7, 0), (7, 2), (7, 5), (8, 0)), 64),
    **dict.fromkeys(((6, 1), (6, 2), (8, 6), (8, 7), (8, 9), (9, 0)), 128),
    **dict.fromkeys(((10, 0), (10, 1), (10, 3), (11, 0), (12, 0), (12, 1)), 128),
}
_SM_CLOCK = 1
_MOST_MHZ = 10_000


def sms_of(library: Library, gpu: Any) -> tuple[int | None, int | None]:
    """Return the SMs of a whole GPU and their largest clock in MHz.

    Neither if the driver does not tell, or the compute capability is not known here.
    """
    capability = library.call_or_none("nvmlDeviceGetCudaComputeCapability", gpu)
    cores = library.call_or_none("nvmlDeviceGetNumGpuCores", gpu)
    mhz = library.call_or_none("nvmlDeviceGetMaxClockInfo", gpu, _SM_CLOCK)
    of_sm = _CORES_PER_SM.get(tuple(capability or ()))
    if not of_sm or not cores or cores % of_sm or not 0 < (mhz or 0) <= _MOST_MHZ:
        return None, None
    return cores // of_sm, mhz
