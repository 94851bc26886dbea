"""GPUs and MIG instances as devices, and how the driver is asked about each.

Handles go stale when a GPU is reset, a MIG instance is destroyed, or the connection is
closed. A stale one gives an error; who meets it calls `forget`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.host.gpus.nvml import figures, words
from radrm.host.gpus.nvml.library import Library
from radrm.host.gpus.nvml.reserve import Reserve


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device is: its handle, and the GPU that it is or is a part of.

    `instance` are the numbers of a MIG device's GPU instance and compute instance.
    """

    handle: Any
    gpu_uuid: str
    gpu: Any
    instance: tuple[int, int] | None = None


class Listing:
    """What there is. Its errors are the library's, unless a method says otherwise."""

    def __init__(self, library: Library, reserve: Reserve) -> None:
        self._library = library
        self._reserve = reserve
        self._generation = library.generation
        self._places: dict[str, Place] = {}
        self._seen: dict[int, tuple[Device, ...]] = {}
        self._count: int | None = None
        self.problems: tuple[str, ...] = ()
        """What the last `devices` could not list as it should, one line per GPU."""
        self.failed = False
        """Whether a GPU gave the last `devices` an error."""

    # -------------------------------------------------------------- devices

    def devices(self) -> tuple[Device, ...]:
        """Every GPU, and in place of a GPU in MIG mode its instances.

        A GPU that has been seen and now gives only errors is listed as it was seen last,
        so that its readings can say what is wrong with it. Raises `DeviceError`.
        """
        self._library.connect()
        listed: dict[str, Device] = {}  # by UUID: a GPU that is lost can shift the indices
        problems: list[str] = []
        self.failed = False
        self._count = self._library.of_all("nvmlDeviceGetCount") or 0
        for index in range(self._count):
            try:
                self._seen[index] = self._gpu(index)
                if not self._seen[index]:
                    problems.append(
                        f"GPU {index}: MIG is on and it has no instance; "
                        "make some: nvidia-smi mig -cgi PROFILE -C"
                    )
            except self._library.Error as error:
                self.failed = True
                problems.append(f"GPU {index}: {self._library.trouble(error)}")
            listed.update((device.uuid, device) for device in self._seen.get(index, ()))
        self.problems = tuple(problems)
        return tuple(listed.values())

    def gpu_of(self, uuid: str) -> str:
        """The UUID of the GPU that a device is or is a part of, as far as it was listed."""
        every = [device for devices in list(self._seen.values()) for device in devices]
        return next((d.parent for d in every if d.uuid == uuid and d.parent), uuid)

    def differs(self) -> bool:
        """Whether the driver has other devices now than when they were listed last.

        Cheap enough for every few seconds: it asks for names only. A GPU that cannot
        answer differs in nothing; its readings say what is wrong.
        """
        if self._count is None:
            return False
        if self._library.perhaps("nvmlDeviceGetCount") not in (None, self._count):
            return True
        return any(self._differs(index) for index in range(self._count))

    def _differs(self, index: int) -> bool:
        if index not in self._seen:  # it could not be listed: can it now?
            return self._library.perhaps("nvmlDeviceGetHandleByIndex", index) is not None
        try:
            gpu = self._library.call("nvmlDeviceGetHandleByIndex", index)
            parts = self._instances(gpu) if self._in_mig_mode(gpu) else (gpu,)
            now = {self._library.text("nvmlDeviceGetUUID", part) for part in parts}
        except self._library.Error:
            return False
        return now != {device.uuid for device in self._seen[index]}

    # -------------------------------------------------------------- places

    def place(self, uuid: str) -> Place:
        """Raises the library's `Error` for a device that the driver does not know."""
        self._drop_stale()
        if uuid not in self._places:
            handle = self._library.call("nvmlDeviceGetHandleByUUID", uuid)
            gpu = None
            if uuid.startswith("MIG-"):
                gpu = self._library.offered("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
            self._places[uuid] = self._placed(uuid, handle, gpu)
        return self._places[uuid]

    def forget(self, uuid: str) -> None:
        """The next `place` asks the driver anew."""
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

    def _gpu(self, index: int) -> tuple[Device, ...]:
        """A GPU as one device, or its MIG instances. Their index is the GPU's."""
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
                if error.value != words.NOT_FOUND:
                    raise

    def _device(
        self, handle: Any, index: int, gpu: Any = None, parent: str | None = None
    ) -> Device:
        uuid = self._library.text("nvmlDeviceGetUUID", handle)
        name = self._library.text("nvmlDeviceGetName", handle)
        memory = memory_of(self._library, handle)
        self._drop_stale()
        self._places[uuid] = self._placed(uuid, handle, gpu)
        return Device(
            uuid=uuid,
            index=index,
            name=name,
            total_mib=memory.total // figures.MIB,
            kind=DeviceKind.MIG if parent else DeviceKind.GPU,
            overhead_mib=self._reserve.overhead_mib(uuid, handle, memory),
            parent=parent,
            profile=name.partition("MIG ")[2] or None,
        )


def memory_of(library: Library, handle: Any) -> Any:
    """Memory in bytes. Version 2 tells the driver's own part (`reserved`) apart from
    `used`; an old driver has only version 1, where that part counts as used."""
    version = getattr(library.pynvml, "nvmlMemory_v2", None)
    found = version and library.offered("nvmlDeviceGetMemoryInfo", handle, version=version)
    return found or library.call("nvmlDeviceGetMemoryInfo", handle)
