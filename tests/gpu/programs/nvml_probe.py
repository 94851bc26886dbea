"""What the driver answers this user: every call of NVML that radrm leans on, with its error code.

Prints one JSON object. Run as root and as a user without rights, it says what needs rights. An
error is written as `{"error": NUMBER}`. Needs nvidia-ml-py, and no PyTorch.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import time
from collections.abc import Callable
from typing import Any

ONE_GPU = (
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRetiredPagesPendingStatus",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetNumGpuCores",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceGetAddressingMode",
)
LISTS = tuple(
    f"nvmlDeviceGet{kind}RunningProcesses_v3" for kind in ("Compute", "MPSCompute", "Graphics")
)
ONE_INSTANCE = (
    "nvmlDeviceGetName",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetAttributes",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetUtilizationRates",
)
FABRIC = ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t", "c_nvmlGpuFabricInfo_t")
LINKS = 36
"""More than any GPU has today: what a driver answers beyond the last one is of interest."""
GPM = {1: "graphics", 2: "smact", 3: "occupancy", 10: "dram", 20: "pcie_tx", 21: "pcie_rx"}
"""NVML_GPM_METRIC_... of nvml.h."""
_APART_S = 0.5


class Probe:
    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.found: dict[str, Any] = {}

    def ask(self, name: str, *given: Any, called: str | None = None, **named: Any) -> Any:
        """Note the answer of a function; return it as it is, None after an error."""
        return self.note(called or name, lambda: getattr(self.nvml, name)(*given, **named))

    def note(self, name: str, question: Callable[[], Any]) -> Any:
        try:
            answer = question()
        except self.nvml.NVMLError as error:
            self.found[name] = {"error": error.value, "text": str(error)}
            return None
        except AttributeError:
            self.found[name] = {"error": "nvidia-ml-py has no such function"}
            return None
        except Exception as error:
            self.found[name] = {"error": f"{type(error).__name__}: {error}"}
            return None
        self.found[name] = plain(answer)
        return answer


def plain(value: Any) -> Any:
    """The same as JSON."""
    fields = getattr(value, "_fields_", None)
    if fields is not None:
        return {name: plain(getattr(value, name)) for name, *_ in fields}
    if isinstance(value, (str, int, float, type(None))):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if hasattr(value, "__iter__"):
        return [plain(each) for each in value]
    return type(value).__name__  # a pointer


def instances(nvml: Any, index: int) -> dict[str, Any]:
    """The same of each MIG instance of a GPU, by UUID; {} without MIG."""
    gpu = nvml.nvmlDeviceGetHandleByIndex(index)
    found: dict[str, Any] = {}
    for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place)
        except nvml.NVMLError:
            continue  # no instance has this place
        probe = Probe(nvml)
        for name in (*ONE_INSTANCE, *LISTS):
            probe.ask(name, instance)
        probe.ask("nvmlDeviceGetProcessUtilization", instance, 0)
        found[nvml.nvmlDeviceGetUUID(instance)] = probe.found
    return found


def pairs(nvml: Any) -> dict[str, Any]:
    """For each two GPUs their nearest common ancestor and NVLink; for each link its other end."""
    gpus = [nvml.nvmlDeviceGetHandleByIndex(each) for each in range(nvml.nvmlDeviceGetCount())]
    probe = Probe(nvml)
    for (one, first), (two, second) in itertools.combinations(enumerate(gpus), 2):
        words = f"{one} {two}"
        probe.ask("nvmlDeviceGetTopologyCommonAncestor", first, second, called=f"ancestor {words}")
        link = nvml.NVML_P2P_CAPS_INDEX_NVLINK
        probe.ask("nvmlDeviceGetP2PStatus", first, second, link, called=f"nvlink {words}")
    for one, gpu in enumerate(gpus):
        for link in range(LINKS):
            name = "nvmlDeviceGetNvLinkRemotePciInfo"
            probe.ask(name, gpu, link, called=f"link {one} {link}")
    return probe.found


def look(nvml: Any, index: int) -> dict[str, Any]:
    probe = Probe(nvml)
    probe.found["uid"] = os.geteuid()
    probe.ask("nvmlSystemGetDriverVersion")
    probe.ask("nvmlSystemGetCudaDriverVersion_v2")
    gpu = nvml.nvmlDeviceGetHandleByIndex(index)
    for name in ONE_GPU:
        probe.ask(name, gpu)
    v2 = getattr(nvml, "nvmlMemory_v2", 0)
    probe.ask("nvmlDeviceGetMemoryInfo", gpu, version=v2, called="memory v2")
    probe.ask("nvmlDeviceGetTotalEccErrors", gpu, 1, 0)
    probe.ask("nvmlDeviceGetTemperatureThreshold", gpu, 1)
    probe.ask("nvmlDeviceGetTemperature", gpu, 0)
    probe.ask("nvmlDeviceGetFieldValues", gpu, [230], called="recovery action (field 230)")
    probe.ask("nvmlDeviceGetMemoryAffinity", gpu, 4, 0)
    probe.ask("nvmlDeviceGetCpuAffinity", gpu, 4)
    probe.ask("nvmlDeviceGetProcessUtilization", gpu, 0)
    for name in LISTS:
        probe.ask(name, gpu)
    for structure in FABRIC:
        probe.note(structure, lambda structure=structure: fabric(nvml, gpu, structure))
    for scope in (0, 1):
        name = "nvmlDeviceGetCpuAffinityWithinScope"
        probe.ask(name, gpu, 16, scope, called=f"{name} {scope}")
    for link in range(LINKS):
        probe.ask("nvmlDeviceGetNvLinkState", gpu, link, called=f"nvmlDeviceGetNvLinkState {link}")
    probe.note("xid events", lambda: events(nvml, gpu))
    probe.ask("nvmlGpmQueryDeviceSupport", gpu)
    probe.note("gpm", lambda: gpm(nvml, gpu))
    probe.found["nvmlDeviceSetMemoryLimits_v1"] = hasattr(nvml, "nvmlDeviceSetMemoryLimits_v1")
    return probe.found


def fabric(nvml: Any, gpu: Any, structure: str) -> Any:
    """The GPU's registration with the NVLink fabric, in one version of the structure."""
    found = getattr(nvml, structure)()
    versioned = structure != "c_nvmlGpuFabricInfo_t"
    name = "nvmlDeviceGetGpuFabricInfoV" if versioned else "nvmlDeviceGetGpuFabricInfo"
    getattr(nvml, name)(gpu, ctypes.byref(found))
    return found


def events(nvml: Any, gpu: Any) -> str:
    made = nvml.nvmlEventSetCreate()
    try:
        nvml.nvmlDeviceRegisterEvents(gpu, nvml.nvmlEventTypeXidCriticalError, made)
    finally:
        nvml.nvmlEventSetFree(made)
    return "registered"


def gpm(nvml: Any, gpu: Any) -> dict[str, Any]:
    """For each metric its return code and its value, between two samples."""
    samples = [nvml.nvmlGpmSampleAlloc() for _ in range(2)]
    nvml.nvmlGpmSampleGet(gpu, samples[0])
    time.sleep(_APART_S)
    nvml.nvmlGpmSampleGet(gpu, samples[1])
    asked = nvml.c_nvmlGpmMetricsGet_t()
    asked.version, asked.numMetrics = 1, len(GPM)
    asked.sample1, asked.sample2 = samples
    for place, number in enumerate(GPM):
        asked.metrics[place].metricId = number
    nvml.nvmlGpmMetricsGet(asked)
    found = {
        name: [asked.metrics[place].nvmlReturn, asked.metrics[place].value]
        for place, name in enumerate(GPM.values())
    }
    for sample in samples:
        nvml.nvmlGpmSampleFree(sample)
    return found


def _version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("nvidia-ml-py")
    except PackageNotFoundError:
        return None


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What NVML answers this user.")
    parser.add_argument("--index", type=int, default=0)
    parser.add_argument("--mig", action="store_true", help="the GPU's MIG instances instead")
    parser.add_argument("--pairs", action="store_true", help="what connects all GPUs instead")
    parser.add_argument("--user", type=int, metavar="UID", help="become this user first")
    args = parser.parse_args(argv)
    import pynvml

    package = _version()
    if args.user is not None:  # after the imports: it may not be able to read them
        os.setgroups([])
        os.setgid(args.user)
        os.setuid(args.user)
    pynvml.nvmlInit()
    if args.mig:
        found = instances(pynvml, args.index)
    elif args.pairs:
        found = pairs(pynvml)
    else:
        found = {"nvidia-ml-py": package, **look(pynvml, args.index)}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
