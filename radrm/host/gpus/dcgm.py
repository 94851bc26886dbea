"""SM activity from DCGM, by its command `dcgmi`."""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from radrm.core.records import Counters, Device
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError
from radrm.host.gpus.source import PCIE_MAX_MIB_S, ROUNDING, Sample, print_every_ms, ratio, within
from radrm.host.gpus.stream import LineKind, Stream, ask
from radrm.structs import replace

# ------------------------------------------------------------------
# Parse what DCGM's `dcgmi` prints: rows of figures, and its names of GPUs and MIG instances.
#
# DCGM User Guide, "dcgmi dmon", has the field numbers and the output. Names of fields have changed
# between releases; field numbers have not.


POWER_MAX_W = 100_000.0
Entity = tuple[str, int]
"""What a row describes: `("GPU", 0)`, `("GPU-I", 3)`, `("GPU-CI", 3)`."""

_SMACT = re.compile(r"SMACT(IV(E|ITY))?(RATIO)?")
_POWER = re.compile(r"(POWER|PWR|POWERUSAGE|POWERDRAW)W?")
_RATIOS = {
    "graphics_activity": re.compile(r"GR(ENGINE)?ACT(IV(E|ITY))?(RATIO)?"),
    "sm_occupancy": re.compile(r"SMOCC(UPANCY)?(RATIO)?"),
    "dram_activity": re.compile(r"DRAMA(CT)?(IV(E|ITY))?(RATIO)?"),
}
_RATES = {
    "pcie_tx_mib_s": re.compile(r"PCIE?TX(BYTES)?(PERSECOND)?"),
    "pcie_rx_mib_s": re.compile(r"PCIE?RX(BYTES)?(PERSECOND)?"),
}
_MIB = 1 << 20
_ENTITIES = {"GPU", "GPU-I", "GPU-CI"}

_NO_COUNTERS = Counters()


class Row(Struct, frozen=True):
    """One line of `dmon`. None: not measured, or rejected; then `wrong` is the reason."""

    entity: Entity
    smact: float | None
    power_w: float | None
    wrong: str | None = None
    counters: Counters = _NO_COUNTERS


class Dmon:
    """Parses the lines of `dcgmi dmon`. The header names the columns."""

    def __init__(self) -> None:
        self._columns: tuple[str, ...] = ()

    def read(self, line: str) -> Row | LineKind:
        """Return the row of a line, or the kind of a line without a row."""
        words = line.split()
        if line.startswith("#"):
            self._columns = tuple(_column(w) for w in _header_words(line))
            return LineKind.HEADER
        if not words or words[0].upper() == "ID":
            return LineKind.HEADER
        entity, values = _entity(words), words[2:]
        if entity is None:
            return LineKind.MESSAGE
        if len(values) != len(self._columns):
            return LineKind.MESSAGE  # half a line: a value could belong to either column
        cells = dict(zip(self._columns, values, strict=True))
        smact = _number(cells.get("smact"))
        power_w = _number(cells.get("power"))
        wrong = None
        if smact is not None and not 0 <= smact <= 1 + ROUNDING:
            wrong = f"DCGM gives its SM activity as {smact:g}, which is not in 0..1"
            smact = None
        elif smact is None:
            wrong = _why_none(cells.get("smact"))
        if power_w is not None and not 0 <= power_w <= POWER_MAX_W:
            power_w = None
        smact = None if smact is None else min(1.0, smact)
        numbers = {name: _number(word) for name, word in cells.items()}
        return Row(entity, smact, power_w, wrong, counters_of(numbers))


def counters_of(numbers: Mapping[str, float | None]) -> Counters:
    """Return the figures by the names of `Counters`. DCGM gives PCIe in bytes a second."""
    rates = {name: numbers.get(name) for name in _RATES}
    mib = {n: None if each is None else each / _MIB for n, each in rates.items()}
    return Counters(
        **{name: ratio(numbers.get(name)) for name in _RATIOS},
        **{name: within(each, PCIE_MAX_MIB_S) for name, each in mib.items()},
    )


def counter_named(word: str) -> str | None:
    """Return which figure of `Counters` a release's name of a field means; None for none."""
    name = re.sub(r"[^A-Z]", "", word.upper())
    named = {**_RATIOS, **_RATES}.items()
    return next((figure for figure, pattern in named if pattern.fullmatch(name)), None)


def _header_words(line: str) -> list[str]:
    """Return the column names that follow `#Entity`, `#Entity ID` or `# Entity / Id`."""
    words = line.replace("#", " ", 1).split()
    while words and words[0].upper() in ("ENTITY", "ID", "/", "ENTITY/ID"):
        words = words[1:]
    return words


def _column(word: str) -> str:
    """Return our name of a figure for every release's name of it; else the word itself."""
    name = re.sub(r"[^A-Z]", "", word.upper())
    if _SMACT.fullmatch(name):
        return "smact"
    return "power" if _POWER.fullmatch(name) else counter_named(word) or word


def _entity(words: Sequence[str]) -> Entity | None:
    if len(words) < 2 or words[0] not in _ENTITIES or not words[1].isascii():
        return None
    return (words[0], int(words[1])) if words[1].isdigit() and len(words[1]) < 10 else None


def _number(word: str | None) -> float | None:
    """Return the number of a cell; None for N/A, NaN, an infinity, or no number."""
    try:
        value = float(word) if word is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _why_none(word: str | None) -> str:
    if word is None:
        return "DCGM prints no column for SM activity"
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
# These values are rejected: N/A, a number that is no ratio, a row that does not match its header,
# instances of different sizes on one GPU (DCGM reports too little for the larger ones), and
# several compute instances in one GPU instance (the row is their sum).


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
