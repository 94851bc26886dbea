"""Gavel's traces: a job a line, tab-separated, its length in steps. They have no line of names.

    job_type, command, working_directory, num_steps_arg, needs_data_dir, total_steps,
    scale_factor, ..., arrival_time                      8 columns and more
    job_type, command, ..., total_steps, arrival_time, scale_factor
                                                         6 or 7 columns: earlier versions

A profile gives the steps a second of each type: Gavel's `simulation_throughputs.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, TypeGuard

from msgspec import Struct

from radrm.errors import BadFile, plain
from radrm.lab.simulator.traces.draw import Typical
from radrm.lab.simulator.traces.importers.aids import Aids, Alone
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.table import MAX_ROWS, LineErrors
from radrm.lab.simulator.traces.trace import (
    MAX_GPUS,
    MAX_SECONDS,
    Trace,
    arranged,
    number,
    whole,
)

FEWEST_COLUMNS = 6
_EARLIER, _MOST_COLUMNS = 7, 12
_LONGEST = 65_536
_BATCH = re.compile(r"\(batch size ([1-9]\d{0,8})\)")
_UNKNOWN = Alone()


class _Line(Struct, frozen=True):
    """The figures of one line, as text."""

    steps: str
    gpus: str
    arrival: str


def gavel(lines: Iterable[str], source: str, aids: Aids) -> Trace:
    """Read the trace. `aids.fill` gives memory and SM activity, one kind for each job type."""
    errors = LineErrors(source)
    jobs: list[TraceJob] = []
    kinds: dict[str, Typical] = {}
    unknown: dict[str, int] = {}
    never = 0
    for at, text in enumerate(lines, 1):
        if len(text) > _LONGEST or at > MAX_ROWS:
            what = f"longer than {_LONGEST} characters" if len(text) > _LONGEST else "too many jobs"
            raise BadFile(f"{source} line {at}: {what}; split the file")
        cells = text.rstrip("\r\n").split("\t")
        if cells == [""]:
            continue
        try:
            line = _figures(cells)
            called = cells[0].strip()[:200]
            steps = number(line.steps, "total_steps", 0, 1e15)
            gpus = whole(line.gpus, "scale_factor", 1, MAX_GPUS)
            key = gavel_name(called, gpus)
            rate = aids.profile.get(key, _UNKNOWN).steps_per_s
            if rate is None:
                unknown[key] = unknown.get(key, 0) + 1
                continue
            if steps <= 0:
                never += 1
                continue
            kind = kinds.get(called) or kinds.setdefault(called, aids.fill.draw(len(kinds)))
            alone = aids.profile.get(called, _UNKNOWN)
            batch = _BATCH.search(called)
            jobs.append(
                TraceJob(
                    submit_s=number(line.arrival, "arrival_time", 0, MAX_SECONDS),
                    name=called,
                    gpus=gpus,
                    duration_s=min(MAX_SECONDS, steps / rate),
                    memory_mib=kind.memory_mib,
                    smact=kind.smact if alone.smact is None else alone.smact,
                    batch_size=int(batch[1]) if batch else kind.batch_size,
                    family=kind.family,
                    line=at,
                )
            )
        except ValueError as error:
            errors.add(at, str(error))
    errors.raise_any()
    if unknown and not jobs:
        raise BadFile(
            f"{source}: the steps a second of {plain(next(iter(unknown)))} are unknown, as of all "
            "jobs; add --profile=FILE with Gavel's simulation_throughputs.json"
        )
    notes = [aids.fill.note(len(jobs), len(jobs))]
    if never:
        notes.append(f"{never} jobs without a step are left out")
    if unknown:
        notes.append(
            f"{sum(unknown.values())} jobs are left out, since the steps a second of their type "
            f"on their GPUs are unknown (the first: {plain(next(iter(unknown)))})"
        )
    return Trace(arranged(jobs, source, sort_quietly=True).jobs, tuple(notes))


def _figures(cells: list[str]) -> _Line:
    if not FEWEST_COLUMNS <= len(cells) <= _MOST_COLUMNS:
        raise ValueError(
            f"has {len(cells)} values between tabs; a line of Gavel has {FEWEST_COLUMNS} to "
            f"{_MOST_COLUMNS}"
        )
    if len(cells) <= _EARLIER:
        return _Line(steps=cells[-3], arrival=cells[-2], gpus=cells[-1])
    return _Line(steps=cells[5], gpus=cells[6], arrival=cells[-1])


# ------------------------------------------------------------------
# Its profile: `simulation_throughputs.json`.

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
