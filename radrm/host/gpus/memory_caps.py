"""Memory caps that the NVIDIA driver enforces for all processes in a control group.

Theory of operation. Since R615 the driver counts the GPU memory of each control group of version 2,
and refuses an allocation beyond the group's limit as it does when the GPU is full. Each attempt has
a group of its own, so a limit there is a cap of all its processes together. Only root can set one.
The limit belongs to the group: it goes with it, and a restart of the daemon changes nothing.

Whether it works is tried on each GPU, on a group that is made for that and removed. Drivers differ,
and so do kernels: with the controller `dmem` (Linux 6.14) the kernel counts, and a group takes a
limit only if those above it share out `dmem`; else the driver counts, by the controller `misc`. A
limit that appears at the group above, too, would cap all jobs together, so then none is set.

The soft limit is always 0. With another one the driver changes those of the groups above, and does
not change them back when a group is removed.

Calls of the driver may hang, so one thread makes them. While it hangs, every question is answered
at once: no.

Sources: NVIDIA's guide "MPS v3 Memory Partitioning", the page of `nvmlDeviceSetMemoryLimits_v1` in
the NVML API reference, and memacct.c in the open kernel modules, release 615.71.09. Untested on
real GPUs.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from radrm.core.records import Caps, Device
from radrm.core.words import DeviceKind
from radrm.host.gpus.nvml.library import (
    FUNCTION_NOT_FOUND,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    query,
)
from radrm.host.gpus.source import Stage
from radrm.host.processes import cgroups
from radrm.structs import replace

log = logging.getLogger("radrm")

_MIB = 1 << 20
_TRIAL_MIB = 1
"""So much less than the GPU has is the limit that is tried."""
_ANSWER_S = 3.0
"""Seconds in which the driver must answer before it counts as hanging."""
_CONTROLLERS = ("dmem", "misc")
_OLD = "the driver has no memory limits of control groups (R615 and nvidia-ml-py 13.615 have them)"
_HANGS = f"the driver has not answered within {_ANSWER_S:g} s"


class CapsDriver(Struct, frozen=True):
    """The driver's calls about the limit of a group, in bytes, on the GPU of a UUID.

    `get` returns the limit that holds in the group; None: none. They may raise anything.
    """

    get: Callable[[str, str], int | None]
    put: Callable[[str, str, int], None]


def nvml_caps() -> CapsDriver:
    """Return the calls of the NVIDIA driver. `put` needs root."""

    def get(uuid: str, group: str) -> int | None:
        def ask(nvml: Any, gpu: Any) -> int | None:
            limits = nvml.c_nvmlGetMemoryLimits_v1_t()
            limits.nameSpace = os.fsencode(group)
            try:
                nvml.nvmlDeviceGetMemoryLimits_v1(gpu, limits)
            except nvml.NVMLError as error:
                if error.value in (NOT_SUPPORTED, NOT_FOUND):
                    return None  # the driver counts, and no group up to the root has a limit
                raise
            most = int(limits.hardLimit)
            return None if most == nvml.NVML_DEVICE_MEMORY_LIMIT_MAX else most

        found: int | None = query(ask, uuid)
        return found

    def put(uuid: str, group: str, most: int) -> None:
        def ask(nvml: Any, gpu: Any) -> None:
            limits = nvml.c_nvmlSetMemoryLimits_v1_t()
            limits.nameSpace = os.fsencode(group)
            limits.softLimit, limits.hardLimit = 0, most
            nvml.nvmlDeviceSetMemoryLimits_v1(gpu, limits)

        query(ask, uuid)

    return CapsDriver(get, put)


def why_never(wanted: bool, source: str) -> str | None:
    """Return why no GPU of this server can have caps; None: each GPU must be tried.

    `wanted` is `gpus.memory_caps`, `source` the name of the GPU source.
    """
    if not wanted:
        return "gpus.memory_caps = false"
    if os.geteuid() != 0:
        return "the daemon does not run as root"
    return None if source == "nvml" else "the GPUs are not read through NVML"


class MemoryCaps(Stage):
    """Sets caps, where the driver and this daemon's control groups take them.

    As a stage of the readings it marks the devices where that is so. `reason` says why no GPU of
    this server can have caps; None: each GPU is tried.
    """

    def __init__(self, driver: CapsDriver, reason: str | None = None) -> None:
        self.reason = reason
        self.why_not: Mapping[str, str] = {}
        """Why a GPU that was tried takes no caps."""
        self._driver = driver
        self._offered: dict[str, bool] = {}
        self._asked: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._busy_since: float | None = None

    # ------------------------------------------------------------- which GPUs take caps

    def listed(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        """Return the devices; those that take caps say so. New ones are tried, for `_ANSWER_S`."""
        gpus = [] if self.reason is not None else _whole(devices)
        new = [gpu for gpu in gpus if gpu.uuid not in self._offered]
        if new and not self._hangs:
            done = threading.Event()
            self._do(lambda: self._try_all(new, done))
            done.wait(_ANSWER_S)
        taken = {gpu.uuid for gpu in gpus if self._offered.get(gpu.uuid)}
        return tuple(replace(e, caps=True) if e.uuid in taken else e for e in devices)

    def _try_all(self, gpus: list[Device], done: threading.Event) -> None:
        try:
            for gpu in gpus:
                if gpu.uuid not in self._offered:
                    self._try(gpu)
        finally:
            done.set()

    def _try(self, gpu: Device) -> None:
        try:
            self._try_on_a_group(gpu)
        except Exception as error:
            why = _reason(error)
            if why not in self.why_not.values() and why != _OLD:
                log.info("the driver caps no GPU memory: %s", why)
            self.why_not = {**self.why_not, gpu.uuid: why}
            self._offered[gpu.uuid] = False
        else:
            self._offered[gpu.uuid] = True

    def _try_on_a_group(self, gpu: Device) -> None:
        trial = cgroups.place(f"radrm-caps-{os.getpid()}")
        if trial is None:
            raise _Refused("there is no cgroup v2")
        above, most = os.path.dirname(trial), (gpu.total_mib - _TRIAL_MIB) * _MIB
        self._driver.get(gpu.uuid, above)  # an old driver fails here, before anything is changed
        for controller in _CONTROLLERS:
            cgroups.limit(above, "cgroup.subtree_control", f"+{controller}")
        if not cgroups.make(trial):
            raise _Refused(f"no control group can be made in {above}")
        try:
            self._driver.put(gpu.uuid, trial, most)
            found = self._driver.get(gpu.uuid, trial)
            if found is None:
                raise _Refused("it forgets the limit of a control group")
            if self._driver.get(gpu.uuid, above) == found:
                raise _Refused(f"the limit of a control group would hold for all in {above}")
        finally:
            cgroups.remove(trial)

    # ------------------------------------------------------------- caps of an attempt

    def set(self, group: str, caps: Caps, then: Callable[[str | None], None]) -> None:
        """Set the caps of an attempt's group. `then` gets why that failed, or None.

        It is called from another thread, or at once if the driver hangs.
        """
        self._ask(lambda: self._set(group, caps), then)

    def restore(self, group: str, caps: Caps, then: Callable[[str | None], None]) -> None:
        """Set those caps of a running attempt that its group does not have, as `set` does."""

        def ask() -> None:
            missing = [(uuid, mib) for uuid, mib in caps if self._driver.get(uuid, group) is None]
            self._set(group, tuple(missing))

        self._ask(ask, then)

    def _set(self, group: str, caps: Caps) -> None:
        for uuid, mib in caps:
            self._driver.put(uuid, group, mib * _MIB)

    def _ask(self, what: Callable[[], None], then: Callable[[str | None], None]) -> None:
        def work() -> None:
            try:
                what()
            except Exception as error:
                then(_reason(error))
            else:
                then(None)

        if self._hangs:
            then(_HANGS)
        else:
            self._do(work)

    # ------------------------------------------------------------- the thread

    @property
    def _hangs(self) -> bool:
        since = self._busy_since
        return since is not None and time.monotonic() - since > _ANSWER_S

    def _do(self, work: Callable[[], None]) -> None:
        """Have the thread do this, after what it was asked before."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="memory-caps", daemon=True)
            self._thread.start()
        self._asked.put(work)

    def _run(self) -> None:
        while True:
            work = self._asked.get()
            self._busy_since = time.monotonic()
            try:
                work()
            except Exception:
                log.exception("a memory cap is not set, by a defect of radrm")
            finally:
                self._busy_since = None


class _Refused(Exception):
    """Why a GPU takes no caps, in words."""


def _whole(devices: Iterable[Device]) -> list[Device]:
    """Return the GPUs that are not cut into instances: the driver limits no instance."""
    return [each for each in devices if each.kind is DeviceKind.GPU]


def _reason(error: Exception) -> str:
    if isinstance(error, AttributeError):
        return _OLD  # of nvidia-ml-py
    number: Any = getattr(error, "value", None)
    if number == FUNCTION_NOT_FOUND:
        return _OLD
    if number == NOT_FOUND:
        return (
            "the control group has no files dmem.*; as root, for each group above the daemon's: "
            "echo +dmem > /sys/fs/cgroup/.../cgroup.subtree_control"
        )
    if number == NOT_SUPPORTED:
        return (
            "its memory accounting is off (RmMemacctMode), or the kernel has neither dmem nor misc"
        )
    if number == NO_PERMISSION:
        return "only root may set a limit"
    return str(error) or type(error).__name__
