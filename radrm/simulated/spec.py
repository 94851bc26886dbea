"""Parses `--gpus sim:...`: groups of simulated GPUs, MIG layouts, unmanaged use.

    sim:4xA100-40GB                             four GPUs
    sim:2xA100-40GB,1xH100-80GB                 several groups
    sim:1xA100-40GB:3g.20gb+2g.10gb+2g.10gb     one GPU cut into MIG instances
    sim:2xA100-40GB,unmanaged@0=8000            8000 MiB of device 0 used by others
    sim:8xA100-40GB,nvlink=2,numa=4             NVLink links every 2 GPUs, 4 GPUs per NUMA node
    sim:8xH100-80GB:nvlink=pairs                the same for the GPUs of one group; also `all`
    sim:2xRTX4090-24GB,smact=utilization        SM activity is only estimated; `none`: not read
    sim:5*2xV100-32GB/1xT4-16GB                 six servers, only for the simulator

A type of the table may leave out its size where there is only one (`4xH100`), and may be written
as clusters write it (`rtx_4090`, `a100-sxm4-80gb`). One that is not in the table, such as
`NAME-48GB`, gets the A100's power and MIG slices.
"""

from __future__ import annotations

import re
import uuid
from bisect import bisect_right

from msgspec import Struct

from radrm.core.constraints.gpu_names import is_name_of
from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.errors import UsageError, plain
from radrm.structs import replace

# ------------------------------------------------------------------
# The power that a GPU draws at an SM activity.
#
# The curve is an A100's: two lines through idle power, fitted to the power and SM activity of the
# 22 kinds of jobs in the published exclusive run of the 60-job trace (RAD-RM, arXiv 2508.19073),
# weighted by GPU time. Jobs are off it by 9.5 W (root mean square): power also depends on what the
# SMs do. `benchmarks.simulation.calibration` fits it. Other devices have the same curve between
# their own idle and peak power.


_WATTS = ((0.0, 58.0), (0.52, 216.0), (1.0, 278.0))
A100_IDLE_W = _WATTS[0][1]
A100_PEAK_W = _WATTS[-1][1]


def watts(utilisation: float, idle_w: float = A100_IDLE_W, peak_w: float = A100_PEAK_W) -> float:
    """The power draw (W) at a utilisation (0..1): the A100's curve, scaled to the device."""
    used = min(1.0, max(0.0, utilisation))
    at = min(bisect_right(_WATTS, (used, float("inf"))), len(_WATTS) - 1)
    (low, low_w), (high, high_w) = _WATTS[at - 1], _WATTS[at]
    a100 = low_w + (high_w - low_w) * (used - low) / (high - low)
    return idle_w + (peak_w - idle_w) * (a100 - A100_IDLE_W) / (A100_PEAK_W - A100_IDLE_W)


PREFIX = "sim:"
_EXAMPLE = "sim:4xA100-40GB"
_SEVERAL = "sim:5*2xV100-32GB/5*1xT4-16GB"
_MOST_DEVICES = 256
_MOST_SERVERS, _MOST_OF_ALL = 1000, 4096
"""Limits of several servers together."""
_MOST_SHOWN = 100
"""Characters of a wrong specification that an error shows."""
_NAMESPACE = uuid.UUID("6c1d1b7e-0a5e-5d0c-9f0e-7b1f3c5a9d42")

# An A100-40GB gives jobs 40,536 of its 40,960 MiB. Every simulated device keeps the same part.
_OVERHEAD = 424 / 40960

_MIG_MEMORY_SLICES = {1: (1, 2), 2: (2,), 3: (4,), 4: (4,), 7: (8,)}


class _GpuType(Struct, frozen=True):
    name: str
    memory_gb: int
    idle_w: float
    peak_w: float
    mig_slices: tuple[int, int] | None = None  # compute and memory slices


_TYPES = (
    _GpuType("A100-40GB", 40, A100_IDLE_W, A100_PEAK_W, (7, 8)),
    _GpuType("A100-80GB", 80, 62, 300, (7, 8)),
    _GpuType("H100-80GB", 80, 70, 700, (7, 8)),
    _GpuType("H200-141GB", 141, 75, 700, (7, 8)),
    _GpuType("B200-180GB", 180, 140, 1000, (7, 8)),
    _GpuType("A30-24GB", 24, 28, 165, (4, 4)),
    _GpuType("A40-48GB", 48, 30, 300),
    _GpuType("A10-24GB", 24, 16, 150),
    _GpuType("L40S-48GB", 48, 35, 350),
    _GpuType("L4-24GB", 24, 12, 72),
    _GpuType("T4-16GB", 16, 10, 70),
    _GpuType("V100-16GB", 16, 40, 300),
    _GpuType("V100-32GB", 32, 42, 300),
    _GpuType("P100-16GB", 16, 30, 250),
    _GpuType("RTXA6000-48GB", 48, 22, 300),
    _GpuType("RTX3090-24GB", 24, 20, 350),
    _GpuType("RTX4090-24GB", 24, 20, 450),
    _GpuType("RTX5090-32GB", 32, 25, 575),
)
_GROUP = re.compile(r"(?:(\d{1,4})x)?([a-z][a-z0-9 _-]*?)(?::(.+))?", re.IGNORECASE)
_PROFILE = re.compile(r"(\d)g\.(\d{1,4})gb", re.IGNORECASE)
_UNMANAGED = re.compile(r"unmanaged@(\d{1,4})=(\d{1,9})", re.IGNORECASE)
_SERVERS = re.compile(r"(?:(\d{1,5})\s*\*)?(.*)", re.DOTALL)
_SMACT = re.compile(r"smact=(utilization|none)", re.IGNORECASE)
_NEAR = re.compile(r"(nvlink|numa)=(\d{1,4}|pairs|all)", re.IGNORECASE)


class SimulatedDevice(Struct, frozen=True):
    """A device, with its compute, its power and its unmanaged memory.

    `fraction` is its part of a whole GPU's compute. `unmanaged_mib` is in use by processes that
    readings cannot identify. `smact`: what is read of its SM activity: `measured`, `utilization`
    or `none`.
    """

    device: Device
    fraction: float
    idle_w: float
    peak_w: float
    unmanaged_mib: int = 0
    smact: str = "measured"

    def under_mps(self, spans: bool, multiuser: bool = False) -> Device:
        """Return the device with an MPS server; unchanged if it is MIG.

        `spans`: the server serves all GPUs. `multiuser`: it takes clients of several users.
        """
        if self.device.kind is not DeviceKind.GPU:
            return self.device
        return replace(self.device, mps=True, mps_spans=spans, mps_multiuser=multiuser)


def parse(spec: str) -> tuple[SimulatedDevice, ...]:
    """The simulated devices of a server's spec; the same spec always gives the same UUIDs.

    Raises UsageError. If a GPU is cut into MIG instances, only these are devices.
    """
    if spec.casefold().startswith(PREFIX) and ("/" in spec or "*" in spec):
        raise _wrong(spec, "several servers ('/', '*') exist only in simulate and compare")
    return _server(spec, _without_prefix(spec))


def parse_servers(spec: str) -> tuple[SimulatedDevice, ...]:
    """The simulated devices of one or more servers: `SERVER/SERVER`, `N*SERVER` for N equal ones.

    The devices of several servers have their nodes, and are counted over all. Raises UsageError.
    """
    if "/" not in spec and "*" not in spec:
        return parse(spec)
    each: list[str] = []
    for part in _without_prefix(spec).split("/"):
        found = _SERVERS.fullmatch(part.strip())
        assert found is not None
        count = 1 if found[1] is None else int(found[1])
        if not 1 <= count <= _MOST_SERVERS - len(each):
            raise _wrong(spec, f"there can be 1 to {_MOST_SERVERS} servers", _SEVERAL)
        each += [found[2]] * count
    devices: list[SimulatedDevice] = []
    for number, text in enumerate(each, 1):
        node = f"server{number:0{len(str(len(each)))}}"
        first = len(devices)
        devices += (_on_node(one, node, first) for one in _server(spec, text))
        if len(devices) > _MOST_OF_ALL:
            raise _wrong(spec, f"more than {_MOST_OF_ALL} devices", _SEVERAL)
    return tuple(devices)


def _on_node(one: SimulatedDevice, node: str, first: int) -> SimulatedDevice:
    device = one.device

    def of_node(name: str) -> str:
        kind = name.partition("-")[0]
        return f"{kind}-{uuid.uuid5(_NAMESPACE, f'{node}:{name}')}"

    # Links of GPUs are named by a GPU's index, so they move with it.
    link = device.nvlink_group
    device = replace(
        device,
        uuid=of_node(device.uuid),
        index=first + device.index,
        node=node,
        parent=None if device.parent is None else of_node(device.parent),
        nvlink_group=None if link is None else first + link,
    )
    return replace(one, device=device)


def _without_prefix(spec: str) -> str:
    if not spec.casefold().startswith(PREFIX):
        raise _wrong(spec, f"it must begin with {PREFIX!r}")
    return spec[len(PREFIX) :]


def _server(spec: str, text: str) -> tuple[SimulatedDevice, ...]:
    """The devices of one server of a spec, which `text` describes."""
    items = [item.strip() for item in text.split(",")]
    devices: list[SimulatedDevice] = []
    gpus, near = 0, []
    for item in items:
        if any(each.fullmatch(item) for each in (_UNMANAGED, _NEAR, _SMACT)):
            continue
        found = _GROUP.fullmatch(item)
        if not found and item.casefold().startswith("smact="):
            raise _wrong(spec, f"{_shown(item)} is neither smact=utilization nor smact=none")
        if not found:
            raise _wrong(spec, f"{_shown(item)} is not COUNTxTYPE")
        count = 1 if found[1] is None else int(found[1])
        if not 1 <= count <= _MOST_DEVICES:
            raise _wrong(spec, f"a group has 1 to {_MOST_DEVICES} GPUs, not {count}")
        gpu_type = _gpu_type(spec, found[2])
        parts = (found[3] or "").split(":")
        links = [link for link in map(_NEAR.fullmatch, parts) if link]
        layout = ":".join(part for part in parts if not _NEAR.fullmatch(part))
        first = len(devices)
        for gpu in range(gpus, gpus + count):
            devices += _cut(spec, gpu_type, gpu, len(devices), layout or None)
        near += [(link, range(first, len(devices))) for link in links]
        gpus += count
        if len(devices) > _MOST_DEVICES:
            raise _wrong(spec, f"more than {_MOST_DEVICES} devices")
    if not devices:
        raise _wrong(spec, "it names no GPU")
    for item in items:
        if use := _UNMANAGED.fullmatch(item):
            _occupy(spec, devices, int(use[1]), int(use[2]))
        elif link := _NEAR.fullmatch(item):
            _group(spec, devices, link, range(len(devices)))
        elif read := _SMACT.fullmatch(item):
            devices = [replace(each, smact=read[1].casefold()) for each in devices]
    for link, of_group in near:
        _group(spec, devices, link, of_group)
    return tuple(devices)


def _gpu_type(spec: str, name: str) -> _GpuType:
    size = re.search(r"-(\d{1,4})gb$", name, re.IGNORECASE)
    known = [each for each in _TYPES if is_name_of(each.name, name)]
    if len(known) == 1:
        return known[0]
    if size is None:
        if known:
            listed = " or ".join(each.name for each in known)
            raise _wrong(spec, f"{_shown(name)} has several sizes: {listed}")
        listed = " ".join(dict.fromkeys(each.name.split("-")[0] for each in _TYPES))
        raise _wrong(spec, f"{_shown(name)} is none of {listed}, and has no size, as NAME-48GB has")
    if int(size[1]) == 0:
        raise _wrong(spec, f"{_shown(name)} has no memory")
    return _GpuType(name, int(size[1]), A100_IDLE_W, A100_PEAK_W, (7, 8))


def _cut(
    spec: str, gpu_type: _GpuType, gpu: int, first_index: int, layout: str | None
) -> list[SimulatedDevice]:
    """One whole GPU, or its MIG instances."""
    place = f"{gpu}:{gpu_type.name.casefold()}"
    gpu_uuid = f"GPU-{uuid.uuid5(_NAMESPACE, place)}"
    if layout is None:
        device = Device(
            uuid=gpu_uuid,
            index=first_index,
            name=gpu_type.name,
            total_mib=gpu_type.memory_gb * 1024,
            overhead_mib=_overhead_mib(gpu_type.memory_gb * 1024),
        )
        return [SimulatedDevice(device, 1.0, gpu_type.idle_w, gpu_type.peak_w)]
    instances = []
    for number, (profile, compute, memory_gb) in enumerate(_layout(spec, gpu_type, layout)):
        assert gpu_type.mig_slices is not None
        fraction = compute / gpu_type.mig_slices[0]
        device = Device(
            uuid=f"MIG-{uuid.uuid5(_NAMESPACE, f'{place}:{number}:{profile}')}",
            index=first_index + number,
            name=f"{gpu_type.name} MIG {profile}",
            total_mib=memory_gb * 1024,
            overhead_mib=_overhead_mib(memory_gb * 1024),
            kind=DeviceKind.MIG,
            parent=gpu_uuid,
            profile=profile,
        )
        watts = (gpu_type.idle_w * fraction, gpu_type.peak_w * fraction)
        instances.append(SimulatedDevice(device, fraction, *watts))
    return instances


def _layout(spec: str, gpu_type: _GpuType, layout: str) -> list[tuple[str, int, int]]:
    """The profile, compute slices and memory (GB) of each instance.

    Raises UsageError if the GPU has no such profile, or too few slices for all.
    """
    if gpu_type.mig_slices is None:
        raise _wrong(spec, f"the {gpu_type.name} cannot be cut into MIG instances")
    compute_slices, memory_slices = gpu_type.mig_slices
    known = {
        f"{compute}g.{int(gpu_type.memory_gb * memory / memory_slices + 0.5)}gb": (compute, memory)
        for compute, memories in _MIG_MEMORY_SLICES.items()
        for memory in memories
        if compute <= compute_slices and memory <= memory_slices
    }
    instances = []
    compute_used = memory_used = 0
    for written in layout.split("+"):
        profile = written.strip().lower()
        if profile not in known:
            only = " ".join(known)
            raise _wrong(
                spec, f"the {gpu_type.name[:40]} has no MIG profile {_shown(written)}, only {only}"
            )
        compute, memory = known[profile]
        compute_used += compute
        memory_used += memory
        instances.append((profile, compute, int(profile[3:-2])))
    if compute_used > compute_slices or memory_used > memory_slices:
        raise _wrong(
            spec,
            f"{_shown(layout)} needs {compute_used} compute and {memory_used} memory slices "
            f"of the {gpu_type.name}, which has {compute_slices} and {memory_slices}",
        )
    return instances


def _occupy(spec: str, devices: list[SimulatedDevice], index: int, mib: int) -> None:
    if index >= len(devices):
        raise _wrong(spec, f"there is no device {index}, only 0 to {len(devices) - 1}")
    used = devices[index].unmanaged_mib + mib
    if used > devices[index].device.capacity_mib:
        capacity_mib = devices[index].device.capacity_mib
        raise _wrong(spec, f"{used} MiB do not fit on device {index}, which has {capacity_mib} MiB")
    devices[index] = replace(devices[index], unmanaged_mib=used)


def _group(spec: str, devices: list[SimulatedDevice], near: re.Match[str], places: range) -> None:
    """Put every so many whole GPUs of these places into one NVLink group or on one NUMA node."""
    kind, written = near[1].casefold(), near[2].casefold()
    whole = [at for at in places if devices[at].device.kind is DeviceKind.GPU]
    size = {"pairs": 2, "all": max(1, len(whole))}.get(written) or int(written)
    if size == 0:
        raise _wrong(spec, f"{kind} needs a number of GPUs from 1 on, not 0")
    nodes = [devices[at].device.numa_node for at in range(len(devices)) if at not in places]
    node = max((number + 1 for number in nodes if number is not None), default=0)
    for number, at in enumerate(whole):
        device, first = devices[at].device, devices[whole[number - number % size]].device
        if kind == "nvlink":
            device = replace(device, nvlink_group=first.index)
        else:
            device = replace(device, numa_node=node + number // size)
        devices[at] = replace(devices[at], device=device)


def _overhead_mib(total_mib: int) -> int:
    return round(total_mib * _OVERHEAD)


def _wrong(spec: str, cause: str, example: str = _EXAMPLE) -> UsageError:
    return UsageError(
        f"{_shown(spec)} names no simulated GPUs: {cause}; write for example {example}"
    )


def _shown(text: str) -> str:
    return repr(plain(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."))
