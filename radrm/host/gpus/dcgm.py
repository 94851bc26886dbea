"""SM activity from DCGM, by `dcgmi dmon`: one long-lived child per model of GPU.

Theory of operation. DCGM's host engine measures; `dcgmi` only prints. Each start of a child
asks `dcgmi discovery` for DCGM's numbers of the GPUs, because a restarted host engine may
renumber them. Each model has its own child: DCGM watches the profiling counters of a group only
if all its GPUs have them, so a display card would disable them for the others. The thread that
reads the devices calls `watch`, `latest` and `error`; the stream's thread runs the rest. What
both use is replaced as a whole, never changed in place. A restart begins without samples.

These values are rejected: N/A, a number that is no ratio, a row that does not match its header,
instances of different sizes on one GPU (DCGM reports too little for the larger ones), and
several compute instances in one GPU instance (the row is their sum).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.gpus.dcgm_output import Dmon, Entity, parse_discovery, parse_hierarchy
from radrm.host.gpus.source import Sample, print_every_ms
from radrm.host.gpus.stream import LineKind, Stream, ask

FIELDS = "1002,155"
"""SM activity and power."""
MORE_FIELDS = f"{FIELDS},1001,1003,1005,1009,1010"
"""Also graphics engine activity, SM occupancy, memory activity, PCIe bytes sent and received."""
WITHOUT_S = 8.0
"""Real seconds of rows without SM activity after which `MORE_FIELDS` are given up."""
SILENT_S = 5.0
"""Real seconds after which a sample is too old to show how busy a device is."""
START_LIMIT_S = 20.0
"""Real seconds from the start of the child to the first sample, discovery included."""

MigIds = Callable[[str], "tuple[int, int] | None"]
"""Returns the driver's ids of the GPU instance and compute instance of a MIG device, by its UUID.
It asks the driver, so only the reading thread may call it."""


class Dcgm:
    """A `SmactFeed` from the DCGM of this machine."""

    name = "dcgm"

    def __init__(self, mig_ids: MigIds, command: str = "dcgmi", *, interval_s: float = 1.0) -> None:
        self._mig_ids = mig_ids
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
            ids = {d.uuid: self._mig_ids(d.uuid) for d in members if d.kind is DeviceKind.MIG}
            self._groups[model].watch(tuple(members), ids)
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
        self._ids: Mapping[str, tuple[int, int] | None] = {}
        self._since = 0.0
        self._uuids: Mapping[Entity, str] = {}
        self._unwatched: Mapping[str, str] = {}
        self._dmon = Dmon()
        self._fields = MORE_FIELDS
        self._began_s: float | None = None
        """When the present child printed its first row."""
        self._tried = self._proven = False
        """The last child was started; a child with `MORE_FIELDS` has given SM activity."""
        self._samples: dict[str, tuple[float, Sample]] = {}
        self._wrong: dict[str, str | None] = {}
        self.stream = Stream("dcgmi", self._prepare, self._take)

    def watch(self, devices: tuple[Device, ...], ids: Mapping[str, tuple[int, int] | None]) -> None:
        """Measure these devices; restart the child if they have changed."""
        if (devices, ids) == (self._devices, self._ids):
            return
        begun = bool(self._devices)
        self._devices, self._ids = devices, ids
        self._since = time.monotonic()
        if begun:
            self.stream.renew()
        else:
            self.stream.start()

    def latest(self, uuid: str) -> Sample | None:
        found = self._samples.get(uuid)
        if found is None:
            return None
        at, sample = found
        return replace(sample, age_s=max(0.0, time.monotonic() - at))

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
        self._choose_fields()
        self._dmon = Dmon()
        self._uuids, self._unwatched = uuids, unwatched
        if not uuids:
            raise DeviceError(next(iter(unwatched.values()), "DCGM has no device to measure"))
        self._tried = True
        watched = ",".join(
            f"{number}" if kind == "GPU" else f"i:{number}" for kind, number in uuids
        )
        every_ms = str(self._every_ms)
        return [self._command, "dmon", "-e", self._fields, "-i", watched, "-d", every_ms]

    def _choose_fields(self) -> None:
        """Give up the further fields if a child with them has ended without SM activity.

        DCGM refuses all fields if the GPUs or its release lack one, and a field may need counters
        that SM activity needs too.
        """
        if self._tried and not self._proven and self.stream.error is not None:
            self._fields = FIELDS
        self._tried, self._began_s = False, None

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
        ids = self._ids.get(device.uuid)
        if ids is None or device.parent is None:
            return (
                "the driver does not report the ids of this MIG instance, so DCGM's cannot be found"
            )
        entity, computes = instances.get((device.parent, ids[0]), (None, 0))
        if entity is None:
            return "DCGM does not know this MIG instance; restart nv-hostengine"
        if computes > 1:
            return "DCGM measures a GPU instance, and several compute instances share this one"
        return ("GPU-I", entity)

    def _take(self, line: str) -> LineKind:
        row = self._dmon.read(line)
        if isinstance(row, LineKind):
            return row
        uuid = self._uuids.get(row.entity)
        if uuid is not None:
            self._wrong[uuid] = row.wrong
            if row.smact is not None:
                self._proven = self._fields == MORE_FIELDS or self._proven
                found = Sample(row.smact, 0.0, row.power_w, row.counters)
                self._samples[uuid] = (time.monotonic(), found)
        self._give_up_fields()
        return LineKind.DATA

    def _give_up_fields(self) -> None:
        if self._proven or self._fields == FIELDS:
            return
        now_s = time.monotonic()
        self._began_s = now_s if self._began_s is None else self._began_s
        if now_s - self._began_s > WITHOUT_S:
            self._fields = FIELDS
            self.stream.renew()
