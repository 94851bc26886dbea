"""Alibaba's traces: PAI of 2020 (`pai_task_table.csv`) and OpenB of 2023 (`openb_pod_list_*.csv`).

Of 2020, `pai_job_table.csv` beside the task table gives submissions and users, and
`pai_sensor_table.csv` gives memory and GPU time. These files have no line of names. A job of
several tasks is one job here: its instances fill as few GPUs as their requests add up to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from math import ceil

from msgspec import Struct

from radrm.errors import BadFile
from radrm.lab.simulator.traces.importers.aids import Aids
from radrm.lab.simulator.traces.job import TraceJob
from radrm.lab.simulator.traces.table import Table, read_table
from radrm.lab.simulator.traces.trace import (
    MAX_GPUS,
    MAX_MIB,
    MAX_SECONDS,
    Trace,
    arranged,
    number,
    whole,
)

_TASKS = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
_JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
_SENSORS = (
    *("job_name", "task_name", "worker_name", "inst_id", "machine", "gpu_name", "cpu_usage"),
    *("gpu_wrk_util", "avg_mem", "max_mem", "avg_gpu_wrk_mem", "max_gpu_wrk_mem"),
    *("read", "write", "read_count", "write_count"),
)
_MOST_ROWS = 20_000_000
"""Rows of a table beside the task table. Only those of its jobs are kept."""


class _Job(Struct):
    """The GPU tasks of a PAI job. `asked`: GPUs, in parts. The last two are of one instance."""

    line: int
    submit_s: float
    begin_s: float
    end_s: float
    instances: int
    asked: float
    user: str = "user"
    memory_mib: float = 0.0
    busy: float = 0.0

    @property
    def gpus(self) -> int:
        return min(MAX_GPUS, max(1, ceil(self.asked - 1e-9)))


def alibaba2020(lines: Iterable[str], source: str, aids: Aids) -> Trace:
    """Read the trace. `aids.beside` opens the other tables; `aids.fill` gives what they lack."""
    jobs, notes = _tasks(lines, source)
    _add_submissions(jobs, aids.beside("pai_job_table.csv"))
    _add_usage(jobs, aids.beside("pai_sensor_table.csv"))
    found: list[TraceJob] = []
    drawn = 0
    for name, job in jobs.items():
        # The instances share the job's GPUs equally.
        memory_mib = min(MAX_MIB, job.memory_mib * job.instances / job.gpus)
        busy = min(1.0, job.busy * job.instances / job.gpus)
        kind = aids.fill.of_memory(memory_mib) if memory_mib else aids.fill.draw(len(found))
        drawn += not (memory_mib and busy)
        found.append(
            TraceJob(
                submit_s=min(job.submit_s, job.begin_s),
                name=name,
                gpus=job.gpus,
                duration_s=job.end_s - job.begin_s,
                memory_mib=memory_mib or kind.memory_mib,
                smact=busy or kind.smact,
                user=job.user,
                batch_size=kind.batch_size,
                family=kind.family,
                line=job.line,
            )
        )
    if drawn:
        notes.append(aids.fill.note(drawn, len(found)))
    return Trace(arranged(found, source, sort_quietly=True).jobs, tuple(notes))


def _tasks(lines: Iterable[str], source: str) -> tuple[dict[str, _Job], list[str]]:
    """Return the jobs by name, and a note on the tasks that are left out."""
    table = _named_or_not(lines, source, _TASKS)
    name, instances, begin, end, asked = table.need(
        [["job_name"], ["inst_num"], ["start_time"], ["end_time"], ["plan_gpu"]],
        "; name pai_task_table.csv, which has the GPUs",
    )
    jobs: dict[str, _Job] = {}
    without = unfinished = 0
    for line, cells in table.rows:
        try:
            percent = _known(cells[asked], "plan_gpu", 1e9)
            if percent <= 0:
                without += 1
                continue
            begin_s = _known(cells[begin], "start_time", MAX_SECONDS)
            end_s = _known(cells[end], "end_time", MAX_SECONDS)
            count = _known(cells[instances], "inst_num", 1e6)
            if begin_s <= 0 or end_s <= begin_s or count < 1:
                unfinished += 1
                continue
            parts = count * percent / 100
            job = jobs.get(cells[name])
            if job is None:
                jobs[cells[name]] = _Job(line, begin_s, begin_s, end_s, int(count), parts)
            else:
                job.begin_s, job.end_s = min(job.begin_s, begin_s), max(job.end_s, end_s)
                job.instances += int(count)
                job.asked += parts
        except ValueError as error:
            table.errors.add(line, str(error))
    table.errors.raise_any()
    left = (
        f"{without} tasks without a GPU and {unfinished} whose start, end or number of instances "
        "is unknown are left out"
    )
    return jobs, [left] if without or unfinished else []


def _add_submissions(jobs: dict[str, _Job], lines: Iterable[str] | None) -> None:
    """Add submission and user of each job. Without this table a job comes when it starts."""
    if lines is None:
        return
    table = _named_or_not(lines, "pai_job_table.csv", _JOBS)
    name, user, submit = table.need([["job_name"], ["user"], ["start_time"]])
    for line, cells in table.rows:
        job = jobs.get(cells[name])
        if job is None:
            continue
        try:
            submit_s = _known(cells[submit], "start_time", MAX_SECONDS)
        except ValueError as error:
            table.errors.add(line, str(error))
            continue
        job.submit_s = submit_s or job.submit_s
        job.user = cells[user].strip()[:200] or "user"
    table.errors.raise_any()


def _add_usage(jobs: dict[str, _Job], lines: Iterable[str] | None) -> None:
    """Add the most memory and GPU time that an instance of each job used.

    GPU time is an upper bound of SM activity.
    """
    if lines is None:
        return
    table = _named_or_not(lines, "pai_sensor_table.csv", _SENSORS)
    name, busy, memory = table.need([["job_name"], ["gpu_wrk_util"], ["max_gpu_wrk_mem"]])
    for line, cells in table.rows:
        job = jobs.get(cells[name])
        if job is None:
            continue
        try:
            job.busy = max(job.busy, _known(cells[busy], "gpu_wrk_util", 1e6) / 100)
            most_mib = _known(cells[memory], "max_gpu_wrk_mem", MAX_MIB / 1024) * 1024
            job.memory_mib = max(job.memory_mib, most_mib)
        except ValueError as error:
            table.errors.add(line, str(error))
    table.errors.raise_any()


def _named_or_not(lines: Iterable[str], source: str, columns: tuple[str, ...]) -> Table:
    """Return the table of lines that may lack the line of names, as the published files do."""
    rest: Iterator[str] = iter(lines)
    first = next(rest, "")
    cells = first[:4096].removeprefix("\ufeff").split(",")
    named = not first or cells[0].strip() == columns[0]
    if not named and len(cells) != len(columns):
        raise BadFile(
            f"{source} line 1: {len(cells)} values, and this table has {len(columns)}: "
            f"{', '.join(columns)}"
        )
    return read_table(chain([first], rest), source, ",", () if named else columns, _MOST_ROWS)


def _known(cell: str, what: str, high: float) -> float:
    """Return a figure, 0 if the cell is empty. Raises ValueError."""
    return number(cell, what, 0, high) if cell.strip() else 0.0


# ------------------------------------------------------------------ 2023


def alibaba2023(lines: Iterable[str], source: str, aids: Aids) -> Trace:
    """Read the list of pods. Their `memory_mib` is host memory; `aids.fill` gives GPU memory.

    A pod that asks for a part of a GPU (`gpu_milli`) has that part as its SM activity.
    """
    table = read_table(lines, source)
    name, count, milli, submit, begin, end = table.need(
        [
            *(["name"], ["num_gpu"], ["gpu_milli"]),
            *(["creation_time"], ["scheduled_time"], ["deletion_time"]),
        ]
    )
    user = table.at("qos")
    jobs: list[TraceJob] = []
    without = never = 0
    for line, cells in table.rows:
        try:
            gpus = whole(cells[count], "num_gpu", 0, MAX_GPUS)
            if gpus == 0:
                without += 1
                continue
            ran_s = 0.0
            if cells[begin].strip() and cells[end].strip():
                ran_s = number(cells[end], "deletion_time", 0, MAX_SECONDS)
                ran_s -= number(cells[begin], "scheduled_time", 0, MAX_SECONDS)
            if ran_s <= 0:
                never += 1
                continue
            part = _known(cells[milli], "gpu_milli", 1000) / 1000
            kind = aids.fill.draw(len(jobs))
            jobs.append(
                TraceJob(
                    submit_s=number(cells[submit], "creation_time", 0, MAX_SECONDS),
                    name=cells[name].strip()[:200] or f"job-{line}",
                    gpus=gpus,
                    duration_s=ran_s,
                    memory_mib=kind.memory_mib,
                    smact=part if 0 < part < 1 else kind.smact,
                    user=(cells[user].strip()[:200] if user is not None else "") or "user",
                    batch_size=kind.batch_size,
                    family=kind.family,
                    line=line,
                )
            )
        except ValueError as error:
            table.errors.add(line, str(error))
    table.errors.raise_any()
    notes = [aids.fill.note(len(jobs), len(jobs))]
    if without or never:
        notes.append(f"{without} pods without a GPU and {never} that never ran are left out")
    return Trace(arranged(jobs, source, sort_quietly=True).jobs, tuple(notes))
