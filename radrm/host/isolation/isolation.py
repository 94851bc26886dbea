"""Which device files a job may open, and where that can be enforced.

A job may open the files of its own GPUs and MIG instances, those that belong to no GPU, and all
files of other makers. It cannot open other GPUs, whatever it sets in its environment. The kernel
checks each `open`, by a program that is attached to the attempt's control group (`bpf.py`).

NVIDIA's driver lets a process use a GPU only if the process holds its file open. So CUDA and NVML
number only the GPUs that a job may open, from 0 on.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass

from radrm.core.records import Device
from radrm.core.units import gpus_named
from radrm.core.words import DeviceKind
from radrm.errors import Refused
from radrm.host.isolation import bpf, numbers
from radrm.host.isolation.numbers import Numbers
from radrm.host.isolation.program import Rules
from radrm.host.processes import cgroups

_OFF = "gpus.isolate = false"


@dataclass(frozen=True, slots=True)
class Isolation:
    """`reason` says why new jobs are not isolated; None: they are.

    `numbers` None: no group of this daemon has a program, and none can get one.
    """

    reason: str | None = "the GPUs are simulated"
    numbers: Numbers | None = None

    def rules(self, devices: Sequence[Device]) -> Rules | None:
        """Return the rules of a new job with these devices; None: it is not isolated."""
        return None if self.reason is not None else self._rules(devices)

    def change(self, group: str, devices: Sequence[Device]) -> None:
        """Have a running job that is isolated open these devices, and no others.

        Raises `Refused` if that is impossible; then it keeps those that it has.
        """
        if self.numbers is None:
            return
        rules = self._rules(devices)
        try:
            if rules is not None:
                bpf.replace(group, rules)
            elif bpf.has_one(group):
                raise Refused(f"{self.why_not(devices)}, so the job could not open it")
        except OSError as error:
            raise Refused(
                f"the kernel does not change which GPUs the job may open: {_why(error)}"
            ) from error

    def _rules(self, devices: Sequence[Device]) -> Rules | None:
        """Return the rules; None if a file is unknown: a job must be able to open its own GPUs."""
        known = self.numbers
        if known is None or any(self._lacks(device) for device in devices):
            return None
        own = {device.minor for device in devices if device.minor is not None}
        rules: dict[int, frozenset[int]] = {known.gpu_major: known.shared | own}
        if known.caps_major is not None:
            caps = {known.caps[name] for device in devices for name in _caps_of(device)}
            rules[known.caps_major] = known.caps_shared | caps
        return rules

    def why_not(self, devices: Sequence[Device]) -> str | None:
        """Return why jobs on some of these devices are not isolated; None: they are."""
        if self.reason is not None:
            return self.reason
        lacking = [device.index for device in devices if self._lacks(device)]
        if not lacking:
            return None
        return f"the driver does not name the device files of {gpus_named(lacking)}"

    def _lacks(self, device: Device) -> bool:
        """Return whether the numbers of a device's files are not known."""
        if device.minor is None or (device.kind is DeviceKind.MIG and device.instance is None):
            return True
        caps = {} if self.numbers is None else self.numbers.caps
        return any(name not in caps for name in _caps_of(device))


def find(wanted: bool, uid: int, proc: str = "/proc") -> Isolation:
    """Return how jobs of this daemon are isolated. `wanted` is `gpus.isolate`, `uid` its user.

    It attaches a program to a control group that it makes and removes.
    """
    if uid != 0:
        return Isolation("the daemon does not run as root" if wanted else _OFF)
    known = numbers.read(proc)
    if not wanted:
        return Isolation(_OFF, known)  # jobs that were started before may be isolated
    trial = cgroups.place(f"radrm-trial-{os.getpid()}")
    if trial is None:
        return Isolation("there is no cgroup v2")
    try:
        os.mkdir(trial)
    except OSError as error:
        return Isolation(f"no control group can be made in {os.path.dirname(trial)}: {_why(error)}")
    try:
        bpf.attach(trial, {known.gpu_major: known.shared})
    except OSError as error:
        return Isolation(f"the kernel attaches no device program (eBPF): {_why(error)}")
    finally:
        cgroups.remove(trial)
    return Isolation(None, known)


def _caps_of(device: Device) -> tuple[str, ...]:
    """Return the names of the capabilities that a MIG instance is used by."""
    if device.instance is None:
        return ()
    gpu_instance, compute_instance = device.instance
    place = f"gpu{device.minor}/gi{gpu_instance}"
    return f"{place}/access", f"{place}/ci{compute_instance}/access"


def _why(error: OSError) -> str:
    if error.errno in (errno.ENOSYS, errno.EINVAL):
        return "it needs Linux 4.15 or newer, with CONFIG_CGROUP_BPF"
    return error.strerror or str(error)
