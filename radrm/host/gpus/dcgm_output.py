"""Parse what DCGM's `dcgmi` prints: rows of figures, and its names of GPUs and MIG instances.

DCGM User Guide, "dcgmi dmon", has the field numbers and the output. Names of fields have changed
between releases; field numbers have not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from radrm.core.records import Counters
from radrm.host.gpus.source import PCIE_MAX_MIB_S, ROUNDING, ratio, within
from radrm.host.gpus.stream import LineKind

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


@dataclass(frozen=True, slots=True)
class Row:
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
