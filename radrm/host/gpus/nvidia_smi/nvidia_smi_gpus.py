"""The GPU source that reads long-lived `nvidia-smi` children."""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from radrm.core.records import Device, Instant, Reading
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.gpus.nvidia_smi.instances import (
    InstanceLine,
    InstanceMemory,
    Report,
    parse_instances,
)
from radrm.host.gpus.nvidia_smi.lines import (
    APP_FIELDS,
    GPU_FIELDS,
    OLD_GPU_FIELDS,
    AppLine,
    GpuLine,
    parse_app,
    parse_gpu,
    parse_missing,
)
from radrm.host.gpus.source import (
    NO_PROCESS_LIST,
    GpuSource,
    OwnerOf,
    print_every_ms,
    split_by_owner,
)
from radrm.host.gpus.stream import LineKind, Stream, ask
from radrm.host.gpus.unified import UnifiedMemory
from radrm.host.gpus.unmanaged import UnmanagedProcesses

SMACT_SOURCE = "nvidia-smi-utilization"
INSTANCES_S = 2
"""Seconds between two reports about MIG instances: a full report takes nvidia-smi some work."""
SILENT_S = 5.0
"""Real seconds after which a line is too old for a reading."""
GONE_S = 2.5
"""Real seconds after which a process that is no longer printed has ended."""
LEAST_SHARE = 0.95
"""Least share of its nominal size that an instance has: 4864 MiB in 1g.5gb (NVIDIA, MIG User
Guide, tables of profiles)."""

_FORMAT = "--format=csv,noheader,nounits"
_NO_MIG = (
    "nvidia-smi does not report the memory of this MIG instance{}; install nvidia-ml-py to read it"
)


class NvidiaSmi(GpuSource):
    """The GPUs and MIG instances that `nvidia-smi` prints."""

    name = "nvidia-smi"

    def __init__(self, command: str = "nvidia-smi", *, interval_s: float = 1.0) -> None:
        self._command = command
        self._every_ms = print_every_ms(interval_s)
        self._fields = GPU_FIELDS
        self._gpus: dict[str, tuple[float, GpuLine]] = {}
        self._apps: dict[tuple[str, int], tuple[float, AppLine]] = {}
        self._unlisted: dict[str, float] = {}
        """When a line said that the processes of a GPU cannot be listed; "" for all GPUs."""
        self._listed: dict[str, GpuLine] = {}
        self._mig: dict[str, tuple[str, int]] = {}
        """The UUID of the GPU and the index in it, by the UUID of the instance."""
        self._report = Report()
        self._sized: dict[str, int | None] = {}
        """The size that `devices` returned for each instance; None: from its profile."""
        self._unified: dict[str, UnifiedMemory] = {}
        """By the UUIDs of GPUs without memory of their own."""
        self._unmanaged = UnmanagedProcesses()
        self._gpu_stream = Stream("nvidia-smi", self._gpu_command, self._take_gpu)
        self._app_stream = Stream(
            "nvidia-smi (processes)",
            lambda: self._looped("--query-compute-apps=" + APP_FIELDS),
            self._take_app,
            silent_s=math.inf,
        )
        self._report_stream = Stream(
            "nvidia-smi (MIG instances)", self._report_command, self._report.take
        )

    @property
    def changed(self) -> bool:
        """True when an instance has another size than `devices` returned."""
        return any(
            memory is not None and memory[1].total_mib != self._sized[uuid]
            for uuid, memory in ((uuid, self._memory(uuid)) for uuid in self._sized)
        )

    def devices(self) -> tuple[Device, ...]:
        """Return every GPU, or its instances if it is in MIG mode. Raises `DeviceError`."""
        if not self._listed:
            self._listed = self._list()
            self._gpu_stream.start()
            self._app_stream.start()
        for _, line in list(self._gpus.values()):
            self._listed[line.uuid] = line
        instances: Mapping[str, list[InstanceLine]] = {}
        if any(line.mig for line in self._listed.values()):
            instances = parse_instances(ask([self._command, "-L"]))
        devices: list[Device] = []
        for line in sorted(self._listed.values(), key=lambda line: line.index):
            if line.mig:
                devices += self._instances(line, instances.get(line.uuid, ()))
            elif line.unified:
                devices += self._unified_gpu(line)
            elif line.total_mib:
                devices.append(_gpu(line))
        there = {d.uuid for d in devices if d.kind is DeviceKind.MIG}
        for known in (self._mig, self._sized):
            for uuid in known.keys() - there:
                del known[uuid]
        return tuple(devices)

    def _instances(self, line: GpuLine, found: Sequence[InstanceLine]) -> list[Device]:
        if found:
            self._report_stream.start()
        devices = []
        for instance in found:
            place = (line.uuid, instance.number)
            if self._mig.get(instance.uuid) != place:
                self._report.memory.pop(place, None)  # of an earlier instance at this index
            self._mig[instance.uuid] = place
            seen = self._memory(instance.uuid)
            self._sized[instance.uuid] = seen[1].total_mib if seen else None
            devices.append(_instance(line, instance, seen[1] if seen else None))
        return devices

    def _unified_gpu(self, line: GpuLine) -> list[Device]:
        """Return a GPU with the server's memory; nothing if that is not known either."""
        apps = [app for _, app in list(self._apps.values())]
        held = [app.used_mib or 0 for app in apps if app.uuid == line.uuid]
        memory = self._unified.setdefault(line.uuid, UnifiedMemory()).listed(sum(held) << 20)
        if memory is None:
            return []
        sizes = replace(line, total_mib=memory.total >> 20, reserved_mib=-(-memory.reserved >> 20))
        return [replace(_gpu(sizes), unified=True)]

    def _used_mib(self, line: GpuLine, held: Mapping[int, int | None]) -> int | None:
        if not line.unified:
            return line.used_mib
        mib = sum(each or 0 for each in held.values())
        memory = self._unified[line.uuid].now(mib << 20) if line.uuid in self._unified else None
        return None if memory is None else memory.used >> 20

    def _memory(self, uuid: str) -> tuple[float, InstanceMemory] | None:
        place = self._mig.get(uuid)
        return self._report.memory.get(place) if place is not None else None

    def read(self, uuids: Sequence[str], at: Instant, owner_of: OwnerOf) -> tuple[Reading, ...]:
        now_s = time.monotonic()
        held: dict[str, dict[int, int | None]] = {}
        for key, (seen_s, app) in list(self._apps.items()):
            if now_s - seen_s > GONE_S:
                self._apps.pop(key, None)
            else:
                held.setdefault(app.uuid, {})[app.pid] = app.used_mib
        return tuple(
            self._reading_of_instance(uuid, at, now_s, held, owner_of)
            if uuid in self._mig
            else self._reading(uuid, at, now_s, held.get(uuid, {}), owner_of)
            for uuid in uuids
        )

    def close(self) -> None:
        self._gpu_stream.close()
        self._app_stream.close()
        self._report_stream.close()

    def _reading(
        self,
        uuid: str,
        at: Instant,
        now_s: float,
        held: Mapping[int, int | None],
        owner_of: OwnerOf,
    ) -> Reading:
        seen_s, line = self._gpus.get(uuid, (-math.inf, None))
        if line is None or now_s - seen_s > SILENT_S:
            quiet = "yet" if line is None else f"for {now_s - seen_s:.0f} s"
            error = self._gpu_stream.error or f"nvidia-smi has not printed this device {quiet}"
            return Reading(device=uuid, at=at, error=error)
        attempts, others = split_by_owner(held, owner_of)
        missing = self._why_unlisted(uuid, now_s)
        return Reading(
            device=uuid,
            at=at,
            used_mib=self._used_mib(line, held),
            attempts=attempts if missing is None else None,
            unmanaged=self._unmanaged.describe(others),
            smact=line.utilization,
            smact_source=SMACT_SOURCE if line.utilization is not None else None,
            smact_coarse=line.utilization is not None,
            power_w=line.power_w,
            notes=(missing,) if missing else (),
        )

    def _why_unlisted(self, uuid: str, now_s: float) -> str | None:
        """Return why the processes of a GPU are unknown; None if they are listed."""
        seen_s = max(self._unlisted.get(name, -math.inf) for name in (uuid, ""))
        return NO_PROCESS_LIST if now_s - seen_s <= GONE_S else self._app_stream.error

    def _reading_of_instance(
        self,
        uuid: str,
        at: Instant,
        now_s: float,
        held: Mapping[str, Mapping[int, int | None]],
        owner_of: OwnerOf,
    ) -> Reading:
        seen_s, memory = self._memory(uuid) or (-math.inf, None)
        if memory is None or now_s - seen_s > SILENT_S:
            cause = self._report_stream.error
            return Reading(device=uuid, at=at, error=_NO_MIG.format(f" ({cause})" if cause else ""))
        gpu, _ = self._mig[uuid]
        # Some drivers list processes for the whole GPU, without their instance. So a job's
        # processes go to every instance, with unknown memory; only the job's own one counts them.
        jobs = {pid: None for pid in held.get(gpu, {}) if owner_of(pid) is not None}
        attempts, others = split_by_owner({**jobs, **held.get(uuid, {})}, owner_of)
        missing = self._why_unlisted(gpu, now_s)
        return Reading(
            device=uuid,
            at=at,
            used_mib=memory.used_mib,
            attempts=attempts if missing is None else None,
            unmanaged=self._unmanaged.describe(others),
            notes=(missing,) if missing else (),
        )

    # ------------------------------------------------------------- the children

    def _list(self) -> dict[str, GpuLine]:
        """List all GPUs with a short-lived child. Raises `DeviceError` if there is none."""
        try:
            printed = ask([self._command, f"--query-gpu={self._fields}", _FORMAT])
        except DeviceError as error:
            if "not a valid field" not in str(error):
                raise
            self._fields = OLD_GPU_FIELDS
            printed = ask([self._command, f"--query-gpu={self._fields}", _FORMAT])
        lines = [parse_gpu(line, self._fields) for line in printed.splitlines()]
        listed = {line.uuid: line for line in lines if line is not None}
        if not listed:
            raise DeviceError("nvidia-smi lists no GPU")
        return listed

    def _gpu_command(self) -> Sequence[str]:
        return self._looped(f"--query-gpu={self._fields}")

    def _looped(self, query: str) -> Sequence[str]:
        if shutil.which(self._command) is None:
            raise DeviceError("nvidia-smi is not installed; install the NVIDIA driver")
        return [self._command, query, _FORMAT, "-lms", str(self._every_ms)]

    def _report_command(self) -> Sequence[str]:
        return [self._command, "-q", "-x", "-l", str(INSTANCES_S)]

    def _take_gpu(self, text: str) -> LineKind:
        line = parse_gpu(text, self._fields)
        if line is None:
            return LineKind.MESSAGE
        self._gpus[line.uuid] = (time.monotonic(), line)
        return LineKind.DATA

    def _take_app(self, text: str) -> LineKind:
        line = parse_app(text)
        if line is None:
            missing = parse_missing(text)
            if missing is None:
                return LineKind.MESSAGE
            self._unlisted[missing] = time.monotonic()
            return LineKind.DATA
        self._apps[line.uuid, line.pid] = (time.monotonic(), line)
        return LineKind.DATA


def _gpu(line: GpuLine) -> Device:
    return Device(
        uuid=line.uuid,
        index=line.index,
        name=line.name,
        total_mib=line.total_mib or 0,
        overhead_mib=line.reserved_mib or 0,
    )


def _instance(line: GpuLine, found: InstanceLine, memory: InstanceMemory | None) -> Device:
    """Return a MIG instance as a device.

    Until its memory is known, its size is the nominal size of its profile (`3g.20gb`) times
    `LEAST_SHARE`, so that it is never too large. A compute instance (`1c.3g.20gb`) may share it.
    """
    size = re.fullmatch(r"(?:([1-9])c\.)?([1-9])g\.([0-9]{1,5})gb.{0,20}", found.profile)
    by_profile_mib = int(int(size[3]) * 1024 * LEAST_SHARE) if size else 0
    if size and size[1]:
        by_profile_mib = by_profile_mib * int(size[1]) // int(size[2])
    return replace(
        _gpu(line),
        uuid=found.uuid,
        name=f"{line.name} MIG {found.profile}",
        total_mib=memory.total_mib if memory else by_profile_mib,
        overhead_mib=memory.reserved_mib if memory else 0,
        kind=DeviceKind.MIG,
        parent=line.uuid,
        profile=found.profile,
        instance=memory.numbers if memory else None,
    )
