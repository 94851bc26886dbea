"""Slurm: the output of `sacct -P`. Steps, if printed, give the memory and GPU time used."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from radrm.lab.simulator.traces.draw import Fill
from radrm.lab.simulator.traces.importers.aids import Aids, moment
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.table import Table, read_table, shown
from radrm.lab.simulator.traces.trace import MAX_MIB, MAX_SECONDS, Trace, arranged, number

_NEVER_ENDED = ("PENDING", "RUNNING", "REQUEUED", "SUSPENDED", "RESIZING", "CONFIGURING")
_SACCT = (
    "sacct -P -o JobID,JobName,User,Submit,ElapsedRaw,State,AllocTRES,TRESUsageInMax,TRESUsageInAve"
)
_LAPSE = re.compile(r"(?:(\d{1,5})-)?(\d{1,5}):(\d\d):(\d\d)(?:\.\d+)?")
_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d{1,6})(?=,|$)")
_GPUS_BY_TYPE = re.compile(r"(?:^|,)gres/gpu:[^=,]{1,64}=(\d{1,6})(?=,|$)")
_GRES = re.compile(r"(?:^|,)(?:gres[:/])?gpu(?::[^:=,(\d][^:=,(]{0,63})?[:=](\d{1,6})(?=[,(]|$)")
_USED = r"(?:^|,)gres/{}=(\d{{1,18}}(?:\.\d{{1,9}})?)([KMGT]?)(?=,|$)"
_GPU_MEMORY, _GPU_BUSY = re.compile(_USED.format("gpumem")), re.compile(_USED.format("gpuutil"))
_MIB = {"": 1 / 1048576, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1048576.0}


class _Step(Struct):
    """The most that any step of a Slurm job used. 0: unknown."""

    memory_mib: float = 0.0
    busy: float = 0.0


def slurm(lines: Iterable[str], source: str, aids: Aids) -> Trace:
    table = read_table(lines, source, "|")
    hint = f"; print them with: {_SACCT}"
    (job_id,) = table.need([["JobID", "JobIDRaw"]], hint)
    submit, state = table.need([["Submit"], ["State"]], hint)
    (elapsed,) = table.need([["ElapsedRaw", "Elapsed"]], hint)
    (tres,) = table.need([["AllocTRES", "AllocGRES", "ReqTRES", "ReqGRES"]], hint)
    seconds = _elapsed if table.names[elapsed] == "Elapsed" else _raw_elapsed
    wholes: list[tuple[int, list[str]]] = []
    steps: dict[str, _Step] = {}
    for line, cells in table.rows:
        called = cells[job_id].strip()
        if "." in called:
            _see(steps.setdefault(called.partition(".")[0], _Step()), table, cells)
        else:
            wholes.append((line, cells))
    jobs: list[TraceJob] = []
    drawn = unfinished = without = 0
    for line, cells in wholes:
        try:
            gpus = gpus_of(cells[tres])
            ran_s = 0.0 if _waits(cells[state]) else seconds(cells[elapsed])
            if gpus == 0:
                without += 1
            elif ran_s <= 0:
                unfinished += 1
            else:
                job, filled = _of_slurm(
                    table,
                    line,
                    cells,
                    gpus,
                    ran_s,
                    moment(cells[submit]),
                    steps.get(cells[job_id].strip(), _Step()),
                    aids.fill,
                    len(jobs),
                )
                jobs.append(job)
                drawn += filled
        except ValueError as error:
            table.errors.add(line, str(error))
    table.errors.raise_any()
    notes = [aids.fill.note(drawn, len(jobs))] if drawn else []
    if unfinished or without:
        notes.append(
            f"{without} jobs without a GPU and {unfinished} that never ran or still run are "
            "left out"
        )
    return Trace(arranged(jobs, source, sort_quietly=True).jobs, tuple(notes))


def _of_slurm(
    table: Table,
    line: int,
    cells: list[str],
    gpus: int,
    ran_s: float,
    submit_s: float,
    used: _Step,
    fill: Fill,
    place: int,
) -> tuple[TraceJob, bool]:
    """Return the job, and whether a value of it was drawn."""
    name, user = table.at("JobName"), table.at("User")
    # Slurm's figure is the sum over all GPUs of a process.
    memory_mib = used.memory_mib / gpus
    kind = fill.of_memory(memory_mib) if memory_mib else fill.draw(place)
    return (
        TraceJob(
            submit_s=submit_s,
            name=(cells[name].strip()[:200] if name is not None else "") or f"job-{line}",
            gpus=gpus,
            duration_s=ran_s,
            memory_mib=memory_mib or kind.memory_mib,
            smact=min(1.0, used.busy / 100) or kind.smact,
            user=(cells[user].strip()[:200] if user is not None else "") or "user",
            family=kind.family,
            batch_size=kind.batch_size,
            line=line,
        ),
        not (memory_mib and used.busy),
    )


def _see(step: _Step, table: Table, cells: list[str]) -> None:
    """Add a step's figures: the most memory, and the mean utilization of the busiest step.

    Mean utilization is an upper bound of SM activity; peak utilization is not related to it.
    """
    for name, pattern in (("TRESUsageInMax", _GPU_MEMORY), ("TRESUsageInAve", _GPU_BUSY)):
        at = table.at(name)
        found = pattern.search(cells[at]) if at is not None else None
        if found is None:
            continue
        if pattern is _GPU_MEMORY:
            mib = float(found[1]) * _MIB[found[2]]
            step.memory_mib = max(step.memory_mib, mib if mib <= MAX_MIB else 0.0)
        else:
            busy = float(found[1])
            step.busy = max(step.busy, busy if busy <= 10_000 else 0.0)


def gpus_of(tres: str) -> int:
    """Return the number of GPUs in a cell of `AllocTRES` (or `AllocGRES`, `Req...`)."""
    text = tres.strip()[:1024]
    if found := _GPUS.search(text):
        return int(found[1])
    by_type = _GPUS_BY_TYPE.findall(text) or _GRES.findall(text)
    return sum(int(count) for count in by_type)


def _waits(state: str) -> bool:
    return state.strip().partition(" ")[0] in _NEVER_ENDED


def _raw_elapsed(cell: str) -> float:
    return number(cell, "ElapsedRaw", 0, MAX_SECONDS)


def _elapsed(cell: str) -> float:
    found = _LAPSE.fullmatch(cell.strip())
    if not found:
        raise ValueError(f"Elapsed {shown(cell)} is not [DAYS-]HH:MM:SS")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24.0 + hours) * 60 + minutes) * 60 + seconds
