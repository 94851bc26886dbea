"""GPUs and MIG instances, and their readings."""

from __future__ import annotations

from msgspec import Struct

from radrm.core.records.time import Instant
from radrm.core.units import milli
from radrm.core.words import DeviceKind
from radrm.structs import Stored

LOCAL_NODE = "local"


class Node(Struct, frozen=True):
    """A server, with the CPUs and the host memory that jobs can have. None: unknown.

    `shares_refused` is why no CPU share of a running job can be set there; None: they can.
    """

    name: str = LOCAL_NODE
    cpus: float | None = None
    memory_mib: int | None = None
    shares_refused: str | None = None


class NodeUse(Struct, frozen=True):
    """A node, and the CPUs and the host memory that live jobs have booked there."""

    node: Node
    cpus_booked: float
    memory_booked_mib: int

    @property
    def cpus_free(self) -> float | None:
        """The CPUs that can be booked; None if the node's number is unknown."""
        if self.node.cpus is None:
            return None
        return max(0, milli(self.node.cpus) - milli(self.cpus_booked)) / 1000

    @property
    def memory_free_mib(self) -> int | None:
        """The host memory that can be booked; None if the node's memory is unknown."""
        if self.node.memory_mib is None:
            return None
        return max(0, self.node.memory_mib - self.memory_booked_mib)


class Chip(Stored):
    """A kind of GPU: its name, and its SMs times their largest clock (MHz), above 0."""

    name: str
    sm_rate: float


class Device(Struct, frozen=True):
    """A GPU or a MIG instance.

    `overhead_mib` is the driver's own memory, which jobs cannot have. `caps`: the driver can limit
    the memory that an attempt's processes hold on it together. `mps`: an MPS control
    daemon serves this device. `mps_spans`: that daemon serves other devices too, so a job on
    several devices can be its client. `mps_multiuser`: its server has taken clients of several
    users at once. `minor` is the N of the GPU's file /dev/nvidiaN, None if unknown. `instance` has
    the driver's numbers of a MIG device's GPU instance and compute instance. `unified`: it has no
    memory of its own, but uses the server's. `simulated`: it is a model, as all others are then.

    `sms` and `sm_mhz` are its SMs and their largest clock; None: unknown, as of MIG instances.

    Near devices. In one `nvlink_group`, NVLink links each GPU to each, all by as many links. GPUs
    whose links form no such group have `nvlinks`: the index of another GPU, and the links to it.
    GPUs with one `pcie_switch` reach each other without the host; with one `host_bridge`, through
    one of its PCIe bridges. All of these hold within a node. `numa_cpus` and `socket_cpus` are the
    CPUs of its NUMA node and its socket that radrm may use, as the kernel lists them (`0-15,32`).
    None, or no `nvlinks`: unknown, or none.
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
    nvlink_group: int | None = None
    nvlinks: tuple[tuple[int, int], ...] = ()
    pcie_switch: int | None = None
    host_bridge: int | None = None
    numa_node: int | None = None
    numa_cpus: str | None = None
    socket_cpus: str | None = None
    sms: int | None = None
    sm_mhz: int | None = None
    minor: int | None = None
    instance: tuple[int, int] | None = None
    caps: bool = False
    unified: bool = False
    simulated: bool = False

    @property
    def chip(self) -> Chip | None:
        """Its kind of GPU; None if its SMs or their clock are unknown."""
        return Chip(self.name, float(self.sms * self.sm_mhz)) if self.sms and self.sm_mhz else None

    @property
    def capacity_mib(self) -> int:
        """The memory that jobs can have."""
        return self.total_mib - self.overhead_mib


class AttemptMemory(Struct, frozen=True):
    """The memory of one attempt's processes on a device (None: unknown).

    `smact` is the SM activity of these processes alone, 0..1; None: unknown.
    """

    job_id: int
    serial: int
    used_mib: int | None
    smact: float | None = None

    def shows_use(self, device: Device) -> bool:
        """Return whether this proves that the attempt uses the device that was read.

        Some drivers list the processes of a whole GPU for each of its MIG instances, and do not
        tell their memory there.
        """
        return device.kind is DeviceKind.GPU if self.used_mib is None else self.used_mib > 0


class DeviceProcess(Struct, frozen=True):
    """A process on a device. Unknown fields are None.

    `attempt`: the job id and serial of the attempt that it belongs to; None: radrm did not start
    it. `mps`: it is the MPS server that radrm has started. `smact`: the SM activity of this
    process alone, 0..1.
    """

    pid: int
    used_mib: int | None = None
    user: str | None = None
    command: str | None = None
    attempt: tuple[int, int] | None = None
    smact: float | None = None
    mps: bool = False


class Reading(Struct, frozen=True):
    """One measurement of one device. A failed reading has only `error`.

    `fault` is why the device takes no job although it can be read (an Xid, a required reset).
    `notes` are lines for users (ECC errors, heat). `smact_error` is why SM activity cannot
    be read now although it was read before.
    """

    device: str
    at: Instant
    used_mib: int | None = None
    """All memory in use on the device, without the driver's overhead."""
    attempts: tuple[AttemptMemory, ...] | None = ()
    """None: the driver does not report which processes are there."""
    smact: float | None = None
    smact_source: str | None = None
    smact_coarse: bool = False
    """True if `smact` is only estimated from utilization: the part of the time with any kernel."""
    smact_error: str | None = None
    processes: tuple[DeviceProcess, ...] = ()
    """Those with most memory first."""
    fault: str | None = None
    held: bool = False
    """True if `fault` is MPS that starts, ends or recovers there, of which its keeper tells."""
    notes: tuple[str, ...] = ()
    power_w: float | None = None
    energy_j: float | None = None
    """The device's energy counter, which begins anew when the driver is loaded."""
    error: str | None = None

    @property
    def unmanaged(self) -> tuple[DeviceProcess, ...]:
        """The processes that radrm did not start."""
        return tuple(each for each in self.processes if each.attempt is None and not each.mps)


class EnergyPart(Struct, frozen=True):
    """The energy that a job used on a device; None as job: while no job was there.

    `equally_j` of it was divided equally, because the SM activity of single jobs is unknown.
    """

    job_id: int | None
    joules: float
    equally_j: float = 0.0


class DeviceEnergy(Struct, frozen=True):
    """The energy of a device in `seconds` of metered time, the last of which ended `at`."""

    device: str
    at: Instant
    seconds: float
    parts: tuple[EnergyPart, ...]
