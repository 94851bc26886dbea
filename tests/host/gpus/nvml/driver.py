"""An NVIDIA driver to test the NVML edge with: what the patched calls of `pynvml` answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
from pytest_mock import MockerFixture

from radrm.host.gpus.nvml import NvmlGpus

MIB = 1024 * 1024
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, TIMEOUT, NO_FUNCTION = 3, 4, 6, 10, 13
LOST, RESET, MISMATCH, UNKNOWN = 15, 16, 18, 999
NO_INSTANCE = 0xFFFFFFFF


@dataclass
class Chip:
    """One GPU or MIG instance: its figures, and which calls fail with which error.

    A figure that is None is not supported.
    """

    uuid: str | bytes = "GPU-a"
    name: str | bytes = "NVIDIA A100-SXM4-40GB"
    total: int = 40960 * MIB
    reserved: int = 600 * MIB
    used: int = 1000 * MIB
    busy: float = 50
    power_mw: float = 250_000
    energy_mj: int | None = None
    compute: list[Any] | None = field(default_factory=list)
    mps: list[Any] = field(default_factory=list)
    drawing: list[Any] = field(default_factory=list)
    slots: list[Chip | None] | None = None
    parent: Chip | None = None
    instance: tuple[int, int] = (NO_INSTANCE, NO_INSTANCE)
    ecc: int | None = None
    remapped: tuple[int, int, int, int] | None = None
    retiring: int | None = None
    slowed: int | None = None
    celsius: int | None = None
    limit: int | None = None
    recovery: int | None = None
    minor: int | None = None
    fabric: tuple[int, int] | None = None
    """The state and the error of its registration with the NVLink fabric."""
    numa: tuple[int, ...] | None = None
    """The NUMA nodes that are nearest."""
    linked: tuple[str, ...] | None = None
    """The UUIDs of the GPUs that NVLink links to it."""
    links: tuple[str | None, ...] | None = None
    """The UUID at the far end of each NVLink: "" for a switch, None for an inactive link."""
    below: tuple[int, ...] = ()
    """What it is below: its NUMA node, host bridge, PCIe switch and own place."""
    cpus: dict[int, tuple[int, ...]] | None = None
    """The CPUs near it, by scope."""
    cores: int | None = None
    capability: tuple[int, int] | None = None
    mhz: int | None = None
    """The largest clock of its SMs."""
    samples: tuple[Any, ...] | None = None
    """Those of single processes, each as `sample` makes it."""
    gpm: bool = False
    activity: float = 50.0
    """In percent, as GPM gives it; `gpm_return` is the error of the metric itself."""
    gpm_return: int = 0
    gpm_metrics: tuple[int, ...] = (1, 2, 3, 10, 20, 21)
    """The others are not supported."""
    gpm_whole: bool = False
    """A request with a metric that is not supported is refused as a whole."""
    fails: dict[str, int] = field(default_factory=dict)


class Driver:
    """What the patched functions of `pynvml` answer."""

    def __init__(self, mocker: MockerFixture, *chips: Chip) -> None:
        self.chips = list(chips)
        self.fails: dict[str, int] = {}
        self.calls: list[str] = []
        self.inits = self.shutdowns = 0
        self.xids: list[SimpleNamespace] = []
        self.watched: list[str | bytes] = []
        self.event_sets = self.samples = 0
        """How many there are now."""
        handle_calls = {
            "nvmlDeviceGetUUID": lambda chip: chip.uuid,
            "nvmlDeviceGetName": lambda chip: chip.name,
            "nvmlDeviceGetUtilizationRates": lambda chip: SimpleNamespace(gpu=chip.busy),
            "nvmlDeviceGetPowerUsage": lambda chip: chip.power_mw,
            "nvmlDeviceGetTotalEnergyConsumption": lambda chip: given(chip.energy_mj),
            "nvmlDeviceGetMigMode": lambda chip: [int(chip.slots is not None)] * 2,
            "nvmlDeviceGetMaxMigDeviceCount": lambda chip: len(chip.slots),
            "nvmlDeviceGetMigDeviceHandleByIndex": self.instance,
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda chip: given(chip.parent),
            "nvmlDeviceGetGpuInstanceId": lambda chip: chip.instance[0],
            "nvmlDeviceGetComputeInstanceId": lambda chip: chip.instance[1],
            "nvmlDeviceGetMemoryInfo": self.memory,
            "nvmlDeviceGetTotalEccErrors": lambda chip, kind, since: given(chip.ecc),
            "nvmlDeviceGetRemappedRows": lambda chip: given(chip.remapped),
            "nvmlDeviceGetRetiredPagesPendingStatus": lambda chip: given(chip.retiring),
            "nvmlDeviceGetCurrentClocksEventReasons": lambda chip: given(chip.slowed),
            "nvmlDeviceGetTemperature": lambda chip, sensor: given(chip.celsius),
            "nvmlDeviceGetTemperatureThreshold": lambda chip, which: given(chip.limit),
            "nvmlDeviceGetFieldValues": lambda chip, fields: [self.recovery(chip)],
            "nvmlDeviceGetMinorNumber": lambda chip: given(chip.minor),
            "nvmlDeviceGetGpuFabricInfoV": self.fabric,
            "nvmlDeviceGetGpuFabricInfo": self.fabric,
            "nvmlDeviceGetMemoryAffinity": self.memory_affinity,
            "nvmlDeviceGetP2PStatus": self.p2p,
            "nvmlDeviceGetCpuAffinityWithinScope": self.cpu_affinity,
            "nvmlDeviceGetTopologyCommonAncestor": self.common_ancestor,
            "nvmlDeviceGetNvLinkState": lambda chip, link: int(
                self.far_end(chip, link) is not None
            ),
            "nvmlDeviceGetNvLinkRemotePciInfo": lambda chip, link: pci(self.far_end(chip, link)),
            "nvmlDeviceGetPciInfo": lambda chip: pci(chip.uuid),
            "nvmlDeviceGetNumGpuCores": lambda chip: given(chip.cores),
            "nvmlDeviceGetCudaComputeCapability": lambda chip: given(chip.capability),
            "nvmlDeviceGetMaxClockInfo": self.max_clock,
            "nvmlDeviceGetProcessUtilization": self.utilization,
            "nvmlDeviceRegisterEvents": lambda chip, kinds, events: self.watched.append(chip.uuid),
            "nvmlGpmQueryDeviceSupport": lambda chip: SimpleNamespace(isSupportedDevice=chip.gpm),
            "nvmlGpmSampleGet": self.sample,
            "nvmlGpmMigSampleGet": self.sample_of_instance,
        }
        for version in ("v2", "v3"):
            handle_calls |= {
                f"nvmlDeviceGetComputeRunningProcesses_{version}": lambda chip: given(chip.compute),
                f"nvmlDeviceGetMPSComputeRunningProcesses_{version}": lambda chip: chip.mps,
                f"nvmlDeviceGetGraphicsRunningProcesses_{version}": lambda chip: chip.drawing,
            }
        for name, answer in handle_calls.items():
            mocker.patch.object(pynvml, name, self.on_chip(name, answer))
        library_calls = {
            "nvmlInit": self.init,
            "nvmlShutdown": self.shutdown,
            "nvmlDeviceGetCount": lambda: len(self.chips),
            "nvmlDeviceGetHandleByIndex": lambda index: self.chips[index],
            "nvmlDeviceGetHandleByUUID": self.by_uuid,
            "nvmlEventSetCreate": lambda: self.count_sets(1),
            "nvmlEventSetFree": lambda events: self.count_sets(-1),
            "nvmlEventSetWait_v2": self.wait,
            "nvmlGpmSampleAlloc": lambda: self.count_samples(1),
            "nvmlGpmSampleFree": lambda sample: self.count_samples(-1),
            "nvmlGpmMetricsGet": self.metrics,
        }
        for name, answer in library_calls.items():
            mocker.patch.object(pynvml, name, self.on_library(name, answer))
        mocker.patch.object(pynvml, "c_nvmlGpmMetricsGet_t", self.request)

    def on_chip(self, name: str, answer: Any) -> Any:
        def call(chip: Chip, *rest: Any, **named: Any) -> Any:
            self.calls.append(name)
            self.fail(self.fails, name)
            self.fail(chip.fails, name)
            return answer(chip, *rest, **named)

        return call

    def on_library(self, name: str, answer: Any) -> Any:
        def call(*given: Any) -> Any:
            self.calls.append(name)
            self.fail(self.fails, name)
            return answer(*given)

        return call

    @staticmethod
    def fail(fails: dict[str, int], name: str) -> None:
        code = fails.get(name, fails.get("*"))
        if code is not None:
            raise pynvml.NVMLError(code)

    def init(self) -> None:
        self.inits += 1

    def shutdown(self) -> None:
        self.shutdowns += 1

    def by_uuid(self, uuid: str) -> Chip:
        every = [*self.chips, *(s for c in self.chips for s in c.slots or () if s)]
        for chip in every:
            if chip.uuid == uuid:
                return chip
        raise pynvml.NVMLError(NOT_FOUND)

    @staticmethod
    def instance(chip: Chip, slot: int) -> Chip:
        found = chip.slots[slot]
        if found is None:
            raise pynvml.NVMLError(NOT_FOUND)
        return found

    @staticmethod
    def memory(chip: Chip, version: int) -> Any:
        return SimpleNamespace(total=chip.total, used=chip.used, reserved=chip.reserved)

    @staticmethod
    def memory_affinity(chip: Chip, words: int, scope: int) -> list[int]:
        assert scope == pynvml.NVML_AFFINITY_SCOPE_NODE
        nodes = sum(1 << node for node in given(chip.numa))
        return [nodes >> 64 * word & (1 << 64) - 1 for word in range(words)]

    @staticmethod
    def p2p(chip: Chip, other: Chip, capability: int) -> int:
        assert capability == pynvml.NVML_P2P_CAPS_INDEX_NVLINK
        yes, no = pynvml.NVML_P2P_STATUS_OK, pynvml.NVML_P2P_STATUS_NOT_SUPPORTED
        return int(yes if other.uuid in given(chip.linked) else no)

    @staticmethod
    def cpu_affinity(chip: Chip, words: int, scope: int) -> list[int]:
        mask = sum(1 << cpu for cpu in given(chip.cpus)[scope])
        return [mask >> 64 * word & (1 << 64) - 1 for word in range(words)]

    @staticmethod
    def max_clock(chip: Chip, kind: int) -> Any:
        assert kind == pynvml.NVML_CLOCK_SM
        return given(chip.mhz)

    @staticmethod
    def common_ancestor(chip: Chip, other: Chip) -> int:
        if not chip.below or not other.below:
            raise pynvml.NVMLError(NOT_SUPPORTED)
        same = [a == b for a, b in zip(chip.below, other.below, strict=True)]
        levels = (
            pynvml.NVML_TOPOLOGY_NODE,
            pynvml.NVML_TOPOLOGY_HOSTBRIDGE,
            pynvml.NVML_TOPOLOGY_MULTIPLE,
            pynvml.NVML_TOPOLOGY_SINGLE,
        )
        found = [level for level, alike in zip(levels, same, strict=True) if alike]
        return int(found[-1] if found else pynvml.NVML_TOPOLOGY_SYSTEM)

    @staticmethod
    def far_end(chip: Chip, link: int) -> str | None:
        links = given(chip.links)
        if link >= len(links):
            raise pynvml.NVMLError(NOT_SUPPORTED)
        found: str | None = links[link]
        return found

    @staticmethod
    def utilization(chip: Chip, since_us: int) -> list[Any]:
        found = [each for each in given(chip.samples) if each.timeStamp > since_us]
        if not found:
            raise pynvml.NVMLError(NOT_FOUND)
        return found

    @staticmethod
    def recovery(chip: Chip) -> Any:
        error = NOT_SUPPORTED if chip.recovery is None else 0
        return SimpleNamespace(nvmlReturn=error, value=SimpleNamespace(uiVal=chip.recovery))

    @staticmethod
    def fabric(chip: Chip, reference: Any) -> int:
        info = reference._obj  # what `byref` refers to
        version = getattr(info, "version", 0) >> 24 or 1
        Driver.fail(chip.fails, f"fabric_v{version}")
        info.state, info.status = given(chip.fabric)
        return 0

    # ---------------------------------------------------------- Xids

    def count_sets(self, more: int) -> str:
        self.event_sets += more
        return "events"

    def xid(self, chip: Chip, number: int, instance: int = NO_INSTANCE) -> None:
        """The driver reports it, to whoever listens to this GPU."""
        if chip.uuid in self.watched:
            self.xids.append(
                SimpleNamespace(
                    device=chip,
                    eventType=pynvml.nvmlEventTypeXidCriticalError,
                    eventData=number,
                    gpuInstanceId=instance,
                    computeInstanceId=NO_INSTANCE,
                )
            )

    def wait(self, events: str, timeout_ms: int) -> Any:
        assert timeout_ms == 0, "a reading waits for nothing"
        if not self.xids:
            raise pynvml.NVMLError(TIMEOUT)
        return self.xids.pop(0)

    # ---------------------------------------------------------- GPM

    def count_samples(self, more: int) -> SimpleNamespace:
        self.samples += more
        return SimpleNamespace(chip=None)

    @staticmethod
    def sample(chip: Chip, into: SimpleNamespace) -> None:
        into.chip = chip

    @staticmethod
    def sample_of_instance(chip: Chip, gpu_instance: int, into: SimpleNamespace) -> None:
        into.chip = next(s for s in chip.slots or () if s and s.instance[0] == gpu_instance)

    @staticmethod
    def request() -> SimpleNamespace:
        return SimpleNamespace(metrics=[SimpleNamespace() for _ in range(8)])

    @staticmethod
    def metrics(request: Any) -> None:
        assert request.version == 1
        assert request.sample1.chip is request.sample2.chip is not None
        assert request.sample1 is not request.sample2
        chip = request.sample2.chip
        for metric in request.metrics[: request.numMetrics]:
            scale = {2: 1.0, 3: 0.5, 1: 1.25, 10: 0.25, 20: 2.0, 21: 4.0}[metric.metricId]
            offered = metric.metricId in chip.gpm_metrics
            if chip.gpm_whole and not offered:
                raise pynvml.NVMLError(NOT_SUPPORTED)
            metric.nvmlReturn = chip.gpm_return if offered else NOT_SUPPORTED
            metric.value = chip.activity * scale


def pci(uuid: str | bytes | None) -> Any:
    """The PCI place of a GPU, or of a switch (""). An inactive link has none."""
    if uuid is None:
        raise pynvml.NVMLError(NOT_SUPPORTED)
    name = uuid if isinstance(uuid, str) else uuid.decode()
    return SimpleNamespace(domain=0, bus=sum(name.encode()), device=0)


def given(figure: Any) -> Any:
    """The figure; raises the driver's error if it is not supported."""
    if figure is None:
        raise pynvml.NVMLError(NOT_SUPPORTED)
    return figure


def sample(pid: int, at_us: int, percent: int) -> Any:
    return SimpleNamespace(pid=pid, timeStamp=at_us, smUtil=percent)


def process(pid: int, mib: int | None, *instance: int) -> Any:
    gpu, compute = instance or (NO_INSTANCE, NO_INSTANCE)
    return SimpleNamespace(
        pid=pid,
        usedGpuMemory=None if mib is None else mib * MIB,
        gpuInstanceId=gpu,
        computeInstanceId=compute,
    )


def listed(mocker: MockerFixture, *chips: Chip) -> NvmlGpus:
    """The source over a driver with these chips, which it has listed."""
    Driver(mocker, *chips)
    gpus = NvmlGpus(pynvml)
    gpus.devices()
    return gpus


def mig_gpu(*slots: Chip | None) -> Chip:
    gpu = Chip(uuid="GPU-m", slots=list(slots))
    for number, slot in enumerate(slots):
        if slot is not None:
            slot.parent, slot.instance = gpu, (number + 7, 0)
    return gpu


def instance(uuid: str, profile: str) -> Chip:
    return Chip(
        uuid=uuid,
        name=f"NVIDIA A100-SXM4-40GB MIG {profile}",
        total=4864 * MIB,
        reserved=0,
        used=12 * MIB,
        fails={
            "nvmlDeviceGetUtilizationRates": NOT_SUPPORTED,
            "nvmlDeviceGetPowerUsage": NOT_SUPPORTED,
        },
    )
