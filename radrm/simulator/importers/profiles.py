"""Jobs alone on the server, by name: what a trace itself may not tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from radrm.simulator.table import read_table
from radrm.simulator.trace import MAX_MIB, MAX_SECONDS, number

START_UP_S = 60.0
"""What a published job took before its first epoch; the epoch times leave it out."""


@dataclass(frozen=True, slots=True)
class Alone:
    """A job alone on the server, as a profile tells it; None where it does not."""

    duration_s: float | None = None
    smact: float | None = None
    steady_mib: float | None = None

    def steady_within(self, peak_mib: float) -> float | None:
        return None if self.steady_mib is None else min(self.steady_mib, peak_mib)


def read_profile(lines: Iterable[str], source: str) -> dict[str, Alone]:
    """Jobs alone on the server: CSV with `name` (or `job_name`) and any of `duration_s`,
    `smact`, `steady_mib` (or `steady_mem_mb`); a trace will do. Raises `BadFile`."""
    table = read_table(lines, source)
    (name,) = table.need([["name", "job_name"]])
    places = (
        (table.at("duration_s"), "duration_s", MAX_SECONDS),
        (table.at("smact"), "smact", 1.0),
        (table.at("steady_mib", "steady_mem_mb"), "steady_mib", MAX_MIB),
    )
    published = table.at("exclusive_duration_cmd_s", "exclusive_duration_s")
    found: dict[str, Alone] = {}
    for line, cells in table.rows:
        try:
            known = [
                None if at is None or not cells[at].strip() else number(cells[at], what, 0, high)
                for at, what, high in places
            ]
            if known[0] is None and published is not None:
                known[0] = number(cells[published], "duration", 0, MAX_SECONDS) + START_UP_S
            found.setdefault(cells[name].strip(), Alone(*known))
        except ValueError as error:
            table.troubles.add(line, str(error))
    table.troubles.raise_any()
    return found


def joined(profiles: Iterable[Mapping[str, Alone]]) -> dict[str, Alone]:
    """Several profiles as one; what a later one tells of a job beats what stood before."""
    found: dict[str, Alone] = {}
    for name, alone in chain.from_iterable(p.items() for p in profiles):
        old = found.get(name, Alone())
        found[name] = Alone(
            old.duration_s if alone.duration_s is None else alone.duration_s,
            old.smact if alone.smact is None else alone.smact,
            old.steady_mib if alone.steady_mib is None else alone.steady_mib,
        )
    return found
