"""GPUs and MIG instances, and what is read of them."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core.records.time import Instant
from radrm.core.words import DeviceKind

LOCAL_NODE = "local"


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or a MIG instance.

    `overhead_mib` is what the driver keeps for itself: total - overhead is what
    jobs can have. `mps` says whether an MPS control daemon serves this device,
    `mps_spans` whether that daemon serves others with it, so that a job on several
    devices can be its client, and `mps_multiuser` whether its server was seen to take
    clients of several users at once.
    """

    uuid: str
    index: int
    name: str
    total_mib: int
    kind: DeviceKind = DeviceKind.GPU
    node: str = LOCAL_NODE
    overhead_mib: int = 0
    mps: bool = False
    mps_spans: bool = False
    mps_multiuser: bool = False
    parent: str | None = None
    profile: str | None = None
    available_until: float | None = None
    """Wall-clock end of this device's availability (maintenance, outer allocation)."""

    @property
    def capacity_mib(self) -> int:
        return self.total_mib - self.overhead_mib


@dataclass(frozen=True, slots=True)
class AttemptMemory:
    """What one attempt's processes hold on the read device (None: cannot be told)."""

    job_id: int
    attempt: int
    used_mib: int | None


@dataclass(frozen=True, slots=True)
class Stranger:
    """A process on a device that radrm did not start. What is not known of it is None."""

    pid: int
    used_mib: int | None = None
    user: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One device at one time. A reading that failed has `error` and nothing else.

    `fault` is why the device takes no job although it can be read (an Xid, a reset that
    it needs); `notes` are what people should know besides (ECC errors, heat).
    `smact_trouble` is why SM activity that could be read before cannot be read now.
    """

    device: str
    at: Instant
    used_mib: int | None = None
    """All memory in use on the device, the driver's own overhead left out."""
    attempts: tuple[AttemptMemory, ...] = ()
    smact: float | None = None
    smact_source: str | None = None
    smact_coarse: bool = False
    """True where SMACT is only the share of time with any kernel running."""
    smact_trouble: str | None = None
    strangers: tuple[Stranger, ...] = ()
    fault: str | None = None
    notes: tuple[str, ...] = ()
    power_w: float | None = None
    error: str | None = None
