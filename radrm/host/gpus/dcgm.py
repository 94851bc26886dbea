"""SM activity from DCGM, by its command `dcgmi`."""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.gpus.source import SILENT_S, Sample, print_every_ms, ratio
from radrm.host.gpus.stream import LineKind, Stream, ask

# ------------------------------------------------------------------
# Parse what DCGM's `dcgmi` prints: rows of one figure, and its names of GPUs and MIG instances.
#
# DCGM User Guide, "dcgmi dmon", has the field numbers and the output. Names of fields have changed
# between releases; field numbers have not. One field is asked for, so no name is needed.


FIELD = "1002"
"""SM activity."""
Entity = tuple[str, int]
"""What a row describes: `("GPU", 0)`, `("GPU-I", 3)`."""

_ROW = re.compile(r"(GPU|GPU-I)\s+([0-9]{1,9})\s+(\S+)")


def parse_row(line: str) -> tuple[Entity, float | None, str] | LineKind:
    """Return what a row describes, its SM activity, and the cell; or the kind of another line.

    The SM activity is None if it is not measured or impossible.
    """
    if line.startswith("#") or line.split()[:1] in (["ID"], ["Id"]):
        return LineKind.HEADER
    row = _ROW.fullmatch(line.strip())
    if row is None:
        return LineKind.MESSAGE
    try:
        smact = ratio(float(row[3]))
    except ValueError:
        smact = None
    return (row[1], int(row[2])), smact, row[3]


def _why_none(cell: str) -> str:
    try:
        measured = math.isfinite(float(cell))
    except ValueError:
        measured = False
    if measured:
        return f"DCGM gives its SM activity as {float(cell):g}, which is not in 0..1"
    return "DCGM gives no SM activity for it at present (a profiler may hold the counters)"


def parse_discovery(printed: str) -> dict[str, int]:
    """Return DCGM's number of each GPU by UUID, from `dcgmi discovery -l`."""
    found: dict[str, int] = {}
    number: int | None = None
    for line in printed.splitlines():
        row = re.match(r"\|\s*(\d{1,9})?\s*\|(.*)\|\s*$", line, re.ASCII)
        if row is None:
            number = None  # a border of the table: another device follows
            continue
        if row[1]:
            number = int(row[1])
        uuid = re.search(r"Device UUID:\s*(GPU-[0-9A-Za-z-]+)", row[2])
        if uuid and number is not None:
            found[uuid[1]] = number
    return found


def parse_hierarchy(printed: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Return DCGM's number of each GPU instance and the count of its compute instances.

    The keys are the UUID of the GPU and the driver's id of the GPU instance. The text is from
    `dcgmi discovery -c`.
    """
    found: dict[tuple[str, int], tuple[int, int]] = {}
    gpu: str | None = None
    for line in printed.splitlines():
        if match := re.search(r"\bGPU (GPU-[0-9A-Za-z-]+) \(EntityID: \d{1,9}\)", line):
            gpu = match[1]
        elif gpu is None:
            continue
        elif match := re.search(r"\bCI \d+/(\d{1,9})/\d+\s.*EntityID", line, re.ASCII):
            entity, computes = found.get((gpu, int(match[1])), (None, 0))
            if entity is not None:
                found[gpu, int(match[1])] = (entity, computes + 1)
        elif match := re.search(
            r"\bI \d+/(\d{1,9})\s.*GPU Instance \(EntityID: (\d{1,9})\)", line, re.ASCII
        ):
            found[gpu, int(match[1])] = (int(match[2]), 0)
    return found


# ------------------------------------------------------------------
# SM activity from DCGM, by `dcgmi dmon`: one long-lived child per model of GPU.
#
# Theory of operation. DCGM's host engine measures; `dcgmi` only prints. Each start of a child
# asks `dcgmi discovery` for DCGM's numbers of the GPUs, because a restarted host engine may
# renumber them. Each model has its own child: DCGM watches the profiling counters of a group only
# if all its GPUs have them, so a display card would disable them for the others. The thread that
# reads the devices calls `watch`, `latest` and `error`; the stream's thread runs the rest. What
# both use is replaced as a whole, never changed in place. A restart begins without samples.
#
# These values are rejected: N/A, a number that is no ratio, instances of different sizes on one GPU
# (DCGM reports too little for the larger ones), and several compute instances in one GPU instance
# (the row is their sum).


START_LIMIT_S = 20.0
"""Real seconds from the start of the child to the first sample, discovery included."""


class Dcgm:
    """A `SmactFeed` from the DCGM of this machine."""

    name = "dcgm"

    def __init__(self, command: str = "dcgmi", *, interval_s: float = 1.0) -> None:
        self._command = command
        self._every_ms = print_every_ms(interval_s)
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[str, _Group] = {}

    def start(self, devices: Sequence[Device]) -> None:
        by_model: dict[str, list[Device]] = {}
        for device in devices:
            by_model.setdefault(device.name.partition(" MIG ")[0], []).append(device)
        for model in self._groups.keys() - by_model.keys():
            self._groups.pop(model).stream.close()
        for model, members in by_model.items():
            if model not in self._groups:
                self._groups[model] = _Group(self._command, self._every_ms)
            self._groups[model].watch(tuple(members))
        self._group_of = {
            device.uuid: self._groups[model]
            for model, members in by_model.items()
            for device in members
        }

    def latest(self, uuid: str) -> Sample | None:
        group = self._group_of.get(uuid)
        return group.latest(uuid) if group else None

    def error(self, uuid: str) -> str | None:
        group = self._group_of.get(uuid)
        return group.error(uuid) if group else None

    def close(self) -> None:
        for group in self._groups.values():
            group.stream.close()


class _Group:
    """Devices of one model, and the child that measures them.

    The reading thread calls the public methods, the stream's thread `_prepare` and `_take`.
    """

    def __init__(self, command: str, every_ms: int) -> None:
        self._command = command
        self._every_ms = every_ms
        self._devices: tuple[Device, ...] = ()
        self._since = 0.0
        self._uuids: Mapping[Entity, str] = {}
        self._unwatched: Mapping[str, str] = {}
        self._samples: dict[str, tuple[float, float]] = {}
        """When each device was last measured (monotonic seconds), and its SM activity."""
        self._wrong: dict[str, str | None] = {}
        self.stream = Stream("dcgmi", self._prepare, self._take)

    def watch(self, devices: tuple[Device, ...]) -> None:
        """Measure these devices; restart the child if they have changed."""
        if devices == self._devices:
            return
        begun = bool(self._devices)
        self._devices = devices
        self._since = time.monotonic()
        if begun:
            self.stream.renew()
        else:
            self.stream.start()

    def latest(self, uuid: str) -> Sample | None:
        found = self._samples.get(uuid)
        if found is None:
            return None
        at, smact = found
        return Sample(smact, age_s=max(0.0, time.monotonic() - at))

    def error(self, uuid: str) -> str | None:
        known = self.stream.error or self._unwatched.get(uuid)
        if known is not None:
            return known
        sample = self.latest(uuid)
        if sample is not None and sample.age_s <= SILENT_S:
            return None
        quiet_s = sample.age_s if sample else time.monotonic() - self._since
        if sample is None and quiet_s <= START_LIMIT_S:
            return None
        return self._wrong.get(uuid) or f"DCGM has given no SM activity for {quiet_s:.0f} s"

    # ------------------------------------------------------------- the stream's thread

    def _prepare(self) -> Sequence[str]:
        if shutil.which(self._command) is None:
            raise DeviceError(
                "dcgmi is not installed; install NVIDIA DCGM (datacenter-gpu-manager)"
            )
        devices = self._devices
        numbers = parse_discovery(ask([self._command, "discovery", "-l"]))
        instances = {}
        if any(device.kind is DeviceKind.MIG for device in devices):
            instances = parse_hierarchy(ask([self._command, "discovery", "-c"]))
        uuids: dict[Entity, str] = {}
        unwatched: dict[str, str] = {}
        for device in devices:
            found = self._find(device, devices, numbers, instances)
            if isinstance(found, str):
                unwatched[device.uuid] = found
            else:
                uuids[found] = device.uuid
        self._uuids, self._unwatched = uuids, unwatched
        if not uuids:
            raise DeviceError(next(iter(unwatched.values()), "DCGM has no device to measure"))
        watched = ",".join(
            f"{number}" if kind == "GPU" else f"i:{number}" for kind, number in uuids
        )
        every_ms = str(self._every_ms)
        return [self._command, "dmon", "-e", FIELD, "-i", watched, "-d", every_ms]

    def _find(
        self,
        device: Device,
        devices: Iterable[Device],
        numbers: Mapping[str, int],
        instances: Mapping[tuple[str, int], tuple[int, int]],
    ) -> Entity | str:
        """Return DCGM's name of a device, or why DCGM cannot measure its SM activity."""
        if device.kind is not DeviceKind.MIG:
            number = numbers.get(device.uuid)
            if number is None:
                return "DCGM does not know this GPU; restart nv-hostengine"
            return ("GPU", number)
        sizes = {d.profile for d in devices if d.parent == device.parent}
        if len(sizes) > 1:
            return "DCGM misreads a GPU whose MIG instances differ in size"
        if device.instance is None or device.parent is None:
            return (
                "the driver does not report the ids of this MIG instance, so DCGM's cannot be found"
            )
        entity, computes = instances.get((device.parent, device.instance[0]), (None, 0))
        if entity is None:
            return "DCGM does not know this MIG instance; restart nv-hostengine"
        if computes > 1:
            return "DCGM measures a GPU instance, and several compute instances share this one"
        return ("GPU-I", entity)

    def _take(self, line: str) -> LineKind:
        row = parse_row(line)
        if isinstance(row, LineKind):
            return row
        entity, smact, cell = row
        uuid = self._uuids.get(entity)
        if uuid is not None:
            self._wrong[uuid] = None if smact is not None else _why_none(cell)
            if smact is not None:
                self._samples[uuid] = (time.monotonic(), smact)
        return LineKind.DATA
