"""Real GPUs, read through NVML. The only file of the daemon that knows `pynvml`.

`pynvml` (package nvidia-ml-py) is imported when `find` is called, so that this
module can be imported where the package or the driver is missing.

Three kinds of trouble, kept apart:
    a quantity that a device does not offer    None for that quantity
    a device that cannot be read               a `Reading` with `error`
    a driver that does not answer at all       `DeviceError`

Not here: SM activity by hardware counters (DCGM, GPM). What NVML calls utilization
is the share of time with any kernel running, and is marked as coarse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from radrm.core.records import AttemptMemory, Device, Instant, Reading
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.source import OwnerOf

SMACT_SOURCE = "nvml-utilization"

_MIB = 1024 * 1024
_POWER_MAX_W = 100_000.0  # above any device: a counter that means "not available"

# NVML's error numbers, as its header gives them.
_UNINITIALIZED, _INVALID_ARGUMENT, _NOT_SUPPORTED, _NO_PERMISSION = 1, 2, 3, 4
_NOT_FOUND, _DRIVER_NOT_LOADED, _TIMEOUT, _LIBRARY_NOT_FOUND = 6, 9, 10, 12
_FUNCTION_NOT_FOUND, _GPU_IS_LOST, _RESET_REQUIRED = 13, 15, 16
_LIBRARY_MISMATCH, _ARGUMENT_VERSION, _GPU_NOT_FOUND = 18, 25, 28

_NOT_OFFERED = {_NOT_SUPPORTED, _NO_PERMISSION, _FUNCTION_NOT_FOUND, _ARGUMENT_VERSION}

_LIBRARY_TROUBLE = {
    _UNINITIALIZED: "the NVIDIA driver has closed the connection; it is opened anew by itself",
    _DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded; load it with: modprobe nvidia",
    _LIBRARY_NOT_FOUND: "the NVIDIA driver's library libnvidia-ml.so.1 is not installed; "
    "install the NVIDIA driver",
    _LIBRARY_MISMATCH: "the NVIDIA driver was upgraded while its old version is loaded; "
    "reboot the server",
}

_GONE = "the driver does not know it any more; see nvidia-smi -L for what is there"
_DEVICE_TROUBLE = {
    _INVALID_ARGUMENT: _GONE,
    _NOT_FOUND: _GONE,
    _GPU_NOT_FOUND: _GONE,
    _NO_PERMISSION: "the driver does not let this user read it",
    _NOT_SUPPORTED: "the driver cannot read it",
    _TIMEOUT: "the driver did not answer in time",
    _GPU_IS_LOST: "the GPU is lost: it has fallen off the bus; reboot the server",
    _RESET_REQUIRED: "the GPU must be reset; run nvidia-smi --gpu-reset or reboot the server",
}

_T = TypeVar("_T")


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
        self._nvml = pynvml
        self._ready = False
        self._shaken = False
        self._handles: dict[str, Any] = {}
        self._seen: dict[int, tuple[Device, ...]] = {}
        self.problems: tuple[str, ...] = ()
        """What the last `devices` could not list as it should, one line per GPU."""

    # -------------------------------------------------------------- the source

    def count(self) -> int:
        """How many GPUs the driver finds. Raises `DeviceError`."""
        self._connect()
        count: int = self._of_library(self._nvml.nvmlDeviceGetCount)
        return count

    def devices(self) -> tuple[Device, ...]:
        """Every GPU, and in place of a GPU in MIG mode its instances.

        A GPU that has been seen and now gives only errors is listed as it was seen last,
        so that its readings can say what is wrong with it. Raises `DeviceError`.
        """
        if self._shaken:
            self.close()
        listed: dict[str, Device] = {}  # by UUID: a GPU that is lost can shift the indices
        problems: list[str] = []
        for index in range(self.count()):
            try:
                self._seen[index] = self._gpu(index)
                if not self._seen[index]:
                    problems.append(
                        f"GPU {index}: MIG is on and it has no instance; "
                        "make some: nvidia-smi mig -cgi PROFILE -C"
                    )
            except self._nvml.NVMLError as error:
                problems.append(f"GPU {index}: {self._trouble(error)}")
            listed.update((device.uuid, device) for device in self._seen.get(index, ()))
        self.problems = tuple(problems)
        return tuple(listed.values())

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        """One reading per device, in the order asked. Raises `DeviceError`."""
        self._connect()
        return tuple(self._reading(uuid, at, owner_of) for uuid in uuids)

    def close(self) -> None:
        """Let go of the driver, so that an administrator can reset a GPU."""
        if self._ready:
            try:
                self._nvml.nvmlShutdown()
            except self._nvml.NVMLError:
                pass  # a driver that is gone holds nothing of ours
        self._ready = self._shaken = False
        self._handles.clear()

    # -------------------------------------------------------------- listing

    def _gpu(self, index: int) -> tuple[Device, ...]:
        """A GPU as one device, or its MIG instances. Their index is the GPU's."""
        gpu = self._nvml.nvmlDeviceGetHandleByIndex(index)
        mode = self._offered(self._nvml.nvmlDeviceGetMigMode, gpu)
        if not mode or not mode[0]:
            return (self._device(gpu, index),)
        parent = _text(self._nvml.nvmlDeviceGetUUID(gpu))
        instances: list[Device] = []
        for slot in range(self._nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
            try:
                instance = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot)
            except self._nvml.NVMLError as error:
                if error.value != _NOT_FOUND:
                    raise
            else:
                instances.append(self._device(instance, index, parent))
        return tuple(instances)

    def _device(self, handle: Any, index: int, parent: str | None = None) -> Device:
        uuid = _text(self._nvml.nvmlDeviceGetUUID(handle))
        name = _text(self._nvml.nvmlDeviceGetName(handle))
        memory = self._memory(handle)
        self._handles[uuid] = handle
        return Device(
            uuid=uuid,
            index=index,
            name=name,
            total_mib=memory.total // _MIB,
            kind=DeviceKind.MIG if parent else DeviceKind.GPU,
            overhead_mib=_mib(getattr(memory, "reserved", 0), memory.total) or 0,
            parent=parent,
            profile=name.partition("MIG ")[2] or None,
        )

    # -------------------------------------------------------------- reading

    def _reading(self, uuid: str, at: Instant, owner_of: OwnerOf) -> Reading:
        try:
            handle = self._handle(uuid)
            memory = self._offered(self._memory, handle)
            busy = self._offered(self._nvml.nvmlDeviceGetUtilizationRates, handle)
            power_mw = self._offered(self._nvml.nvmlDeviceGetPowerUsage, handle)
            held = self._held(handle)
        except self._nvml.NVMLError as error:
            return Reading(device=uuid, at=at, error=self._trouble(error, uuid))
        total = memory.total if memory else 0
        smact = _within(busy.gpu / 100 if busy else None, 1.0)
        return Reading(
            device=uuid,
            at=at,
            used_mib=_mib(memory.used if memory else None, total),
            attempts=_attempts({pid: _mib(b, total) for pid, b in held.items()}, owner_of),
            smact=smact,
            smact_source=SMACT_SOURCE if smact is not None else None,
            smact_coarse=smact is not None,
            power_w=_within(power_mw / 1000 if power_mw is not None else None, _POWER_MAX_W),
        )

    def _handle(self, uuid: str) -> Any:
        if uuid not in self._handles:
            self._handles[uuid] = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
        return self._handles[uuid]

    def _memory(self, handle: Any) -> Any:
        """Memory in bytes. Version 2 tells the driver's own part (`reserved`) apart from
        `used`; an old driver has only version 1, where that part counts as used."""
        read = self._nvml.nvmlDeviceGetMemoryInfo
        try:
            return read(handle, version=self._nvml.nvmlMemory_v2)
        except self._nvml.NVMLError as error:
            if error.value not in _NOT_OFFERED:
                raise
        return read(handle)

    def _held(self, handle: Any) -> dict[int, int | None]:
        """Bytes held by process id. Clients of MPS may stand in either list or in both."""
        held: dict[int, int | None] = {}
        for kind in ("Compute", "MPSCompute"):
            for process in self._processes(kind, handle):
                before, now = held.get(process.pid), process.usedGpuMemory
                held[process.pid] = now if before is None else max(before, now or 0)
        return held

    def _processes(self, kind: str, handle: Any) -> Sequence[Any]:
        for version in ("v3", "v2"):  # drivers before 510 have no v3
            read = getattr(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses_{version}")
            processes: Sequence[Any] | None = self._offered(read, handle)
            if processes is not None:
                return processes
        return ()

    # -------------------------------------------------------------- errors

    def _connect(self) -> None:
        if not self._ready:
            self._of_library(self._nvml.nvmlInit)
            self._ready = True

    def _of_library(self, call: Callable[[], _T]) -> _T:
        """Call what concerns the library as a whole."""
        try:
            return call()
        except self._nvml.NVMLError as error:
            self._give_up(error)

    def _offered(self, read: Callable[[Any], _T], handle: Any) -> _T | None:
        """What `read` gives for a device; None when the device does not offer it."""
        try:
            return read(handle)
        except self._nvml.NVMLError as error:
            if error.value in _NOT_OFFERED:
                return None
            raise

    def _trouble(self, error: Any, uuid: str | None = None) -> str:
        """An error of one device in plain words. Raises `DeviceError` for the driver's own."""
        if error.value in _LIBRARY_TROUBLE:
            self._give_up(error)
        self._shaken = True
        if uuid is not None:
            self._handles.pop(uuid, None)
        words = _DEVICE_TROUBLE.get(error.value)
        return f"{words or error} (NVML error {error.value})"

    def _give_up(self, error: Any) -> NoReturn:
        self.close()
        words = _LIBRARY_TROUBLE.get(
            error.value, f"the NVIDIA driver does not answer: {error}; look at nvidia-smi"
        )
        raise DeviceError(f"{words} (NVML error {error.value})") from error


# ------------------------------------------------------------------ numbers and words


def _attempts(held: dict[int, int | None], owner_of: OwnerOf) -> tuple[AttemptMemory, ...]:
    """Add up what the processes of each attempt hold; one unknown makes the sum unknown."""
    sums: dict[tuple[int, int], int | None] = {}
    for pid, mib in held.items():
        owner = owner_of(pid)
        if owner is not None:
            before = sums.get(owner, 0)
            sums[owner] = None if before is None or mib is None else before + mib
    return tuple(
        AttemptMemory(job_id=job_id, attempt=attempt, used_mib=mib)
        for (job_id, attempt), mib in sums.items()
    )


def _mib(count: int | None, total: int) -> int | None:
    """Bytes as MiB, rounded up; None for what cannot be on a device of this size."""
    if count is None or not 0 <= count <= total:
        return None
    return -(-count // _MIB)


def _within(value: float | None, limit: float) -> float | None:
    if value is None or not math.isfinite(value) or not 0 <= value <= limit:
        return None
    return value


def _text(value: str | bytes) -> str:
    """Some versions of `pynvml` return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
