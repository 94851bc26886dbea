"""Profiles: figures of jobs alone on the server, by name, for traces that lack them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeGuard

from radrm.errors import BadFile
from radrm.simulator.traces.table import read_table
from radrm.simulator.traces.trace import MAX_MIB, MAX_SECONDS, number

START_UP_S = 60.0
"""The time of a published job before its first epoch; the published epoch times leave it out."""


@dataclass(frozen=True, slots=True)
class Alone:
    """A profile's figures of a job alone on the server. None: unknown."""

    duration_s: float | None = None
    smact: float | None = None
    steady_mib: float | None = None
    steps_per_s: float | None = None

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
            table.errors.add(line, str(error))
    table.errors.raise_any()
    return found


_GAVEL_GPU = "v100"
_FASTEST = 1e9


def gavel_name(job_type: str, gpus: int) -> str:
    """Return the name of a job type on so many GPUs in Gavel's throughputs."""
    return f"('{job_type}', {gpus})"


def read_throughputs(text: str, source: str) -> dict[str, Alone]:
    """Read Gavel's `simulation_throughputs.json`: steps a second of each job type alone.

    It has a table for each type of GPU; the one of the V100 counts, else the first. A type
    that does not run there has 0 or fewer steps, and is left out. Raises `BadFile`.
    """
    try:
        tables = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{source}: not JSON: {error}") from None
    table = tables.get(_GAVEL_GPU, next(iter(tables.values()), None)) if _is_table(tables) else None
    if not _is_table(table):
        raise BadFile(
            f"{source}: not Gavel's throughputs; it must have steps a second by type of GPU and job"
        )
    found = {name: each.get("null") for name, each in table.items() if _is_table(each)}
    return {
        name: Alone(steps_per_s=float(rate))
        for name, rate in found.items()
        if isinstance(rate, (int, float)) and 0 < rate <= _FASTEST
    }


def _is_table(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def joined(profiles: Iterable[Mapping[str, Alone]]) -> dict[str, Alone]:
    """Join several profiles. A later profile's figure replaces an earlier one's."""
    found: dict[str, Alone] = {}
    for name, alone in chain.from_iterable(p.items() for p in profiles):
        old = found.get(name, Alone())
        found[name] = Alone(
            old.duration_s if alone.duration_s is None else alone.duration_s,
            old.smact if alone.smact is None else alone.smact,
            old.steady_mib if alone.steady_mib is None else alone.steady_mib,
            old.steps_per_s if alone.steps_per_s is None else alone.steps_per_s,
        )
    return found
