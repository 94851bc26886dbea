"""The inputs of importers other than the lines of a trace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from itertools import chain

from msgspec import Struct, field

from radrm.lab.simulator.traces.draw import Fill
from radrm.lab.simulator.traces.table import read_table, shown
from radrm.lab.simulator.traces.trace import MAX_MIB, MAX_SECONDS, number

# ------------------------------------------------------------------
# Dates and times as traces write them.


_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d(?:\.\d{1,9})?)")


def moment(cell: str) -> float:
    """Return the seconds of a time: a number, or `2017-10-09 07:01:55`, read as UTC.

    Raises ValueError.
    """
    text = cell.strip()
    found = _MOMENT.fullmatch(text.removesuffix("Z"))
    if not found:
        return number(text, "time", 0, MAX_SECONDS)
    year, month, day, hour, minute = (int(part) for part in found.groups()[:5])
    try:
        begin = datetime(year, month, day, hour, minute, tzinfo=timezone.utc)
    except ValueError:
        raise ValueError(f"time {shown(text)} does not exist") from None
    return begin.timestamp() + float(found[6])


# ------------------------------------------------------------------
# Profiles: figures of jobs alone on the server, by name, for traces that lack them.


START_UP_S = 60.0
"""The time of a published job before its first epoch; the published epoch times leave it out."""


class Alone(Struct, frozen=True):
    """A profile's figures of a job alone on the server. None: unknown."""

    duration_s: float | None = None
    smact: float | None = None
    steady_mib: float | None = None

    def steady_within(self, peak_mib: float) -> float | None:
        return None if self.steady_mib is None else min(self.steady_mib, peak_mib)


def read_profile(lines: Iterable[str], source: str) -> dict[str, Alone]:
    """Read a profile: CSV with `name` (or `job_name`) and figures.

    Figures are any of `duration_s`, `smact`, `steady_mib` (or `steady_mem_mb`). A trace is
    a profile, too. Raises `BadFile`.
    """
    table = read_table(lines, source)
    (name,) = table.need([["name", "job_name"]])
    places = (
        (table.at("duration_s"), "duration_s", MAX_SECONDS),
        (table.at("smact"), "smact", 1.0),
        (table.at("steady_mib", "steady_mem_mb"), "steady_mib", MAX_MIB),
    )
    published = table.at("exclusive_duration_cmd_s", "exclusive_duration_s")

    def named(line: int, cells: list[str]) -> tuple[str, Alone]:
        known = [
            None if at is None or not cells[at].strip() else number(cells[at], what, 0, high)
            for at, what, high in places
        ]
        if known[0] is None and published is not None:
            known[0] = number(cells[published], "duration", 0, MAX_SECONDS) + START_UP_S
        return cells[name].strip(), Alone(*known)

    return dict(reversed(table.each(named)))  # the first of a name counts


def joined(profiles: Iterable[Mapping[str, Alone]]) -> dict[str, Alone]:
    """Join several profiles. A later profile's figure replaces an earlier one's."""
    found: dict[str, Alone] = {}
    for name, alone in chain.from_iterable(p.items() for p in profiles):
        old = found.get(name, Alone())
        found[name] = Alone(
            old.duration_s if alone.duration_s is None else alone.duration_s,
            old.smact if alone.smact is None else alone.smact,
            old.steady_mib if alone.steady_mib is None else alone.steady_mib,
        )
    return found


class Aids(Struct, frozen=True):
    """The inputs of importers other than the lines."""

    profile: Mapping[str, Alone] = field(default_factory=dict)
    fill: Fill = field(default_factory=Fill)
