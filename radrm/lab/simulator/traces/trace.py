"""The trace: CSV text to jobs and back, and the jobs that fit a server.

    submit_s,name,gpus,duration_s,memory_mib,smact       required
    NAME_mib                                             the estimate of the estimator NAME
    user,priority,due_s,weight,batch_size,family,steady_mib,command
    cpus,loss_k,report_s,saves,checkpoint_s              optional
    gpus_max,cpus_max,io_s,compute_s,sync_s              optional, see `job`
    duration_s@KIND, duration_s@2xKIND                   optional, see `job`
    any other column                                     ignored

An empty cell of an optional column means unknown. Times are seconds on one clock; the first
submission becomes the beginning of the trace. `importers` reads other forms.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from sys import intern

from msgspec import Struct

from radrm.core.records import Profiled
from radrm.errors import BadFile
from radrm.interference.model import FAMILIES
from radrm.lab.simulator.traces.job import (
    ELASTIC,
    TraceJob,
    column_of,
    duration_columns,
    with_sizes,
)
from radrm.lab.simulator.traces.table import Table, read_table, shown
from radrm.structs import replace

NEEDED = ("submit_s", "name", "gpus", "duration_s", "memory_mib", "smact")

MAX_GPUS = 1024
MAX_SECONDS = 1e10
MAX_MIB = 1e8
MAX_CPUS = 1e5
MAX_LOSS_K = 700.0  # exp(-k) stays above zero
_LONGEST_NAME = 200
_OTHERS = (
    *("user", "priority", "due_s", "weight", "batch_size", "family", "steady_mib"),
    "command",
)
_REPORTED = ("cpus", "loss_k", "report_s", "saves", "checkpoint_s")
"""Columns for which 0 means the same as an empty cell."""
_MEMORY = ("memory_mib", "steady_mib")
_NO_ESTIMATES: Mapping[str, float] = {}
_NAMED = 5


class Trace(Struct, frozen=True):
    """Jobs in the order of their submission, and notes for the user."""

    jobs: tuple[TraceJob, ...]
    notes: tuple[str, ...] = ()


def read_trace(lines: Iterable[str], source: str) -> Trace:
    """Read the jobs of a trace. Raises `BadFile`, which names the lines that cannot be used."""
    table = read_table(lines, source)
    if table.at(*NEEDED) is None and len(table.names) == 1 and ";" in table.names[0]:
        raise BadFile(f"{source} line 1: its columns are separated by ';'; save it with commas")
    table.need([[name] for name in NEEDED], "; other forms are read with --import=FORM")
    return arranged(table.each(row_reader(table)), source)


def arranged(jobs: Sequence[TraceJob], source: str, sort_quietly: bool = False) -> Trace:
    """Return the jobs as a trace, sorted by submission, the first at 0.

    Raises `BadFile` if there is no job. `sort_quietly`: a wrong order needs no note.
    """
    if not jobs:
        raise BadFile(f"{source}: holds no job; add rows below the first line")
    notes = []
    late = [b.line for a, b in pairwise(jobs) if b.submit_s < a.submit_s]
    ordered = sorted(jobs, key=lambda job: job.submit_s) if late else list(jobs)
    if late and not sort_quietly:
        what = f"line {late[0]} is" if len(late) == 1 else f"{len(late)} lines are"
        first = "" if len(late) == 1 else f" (the first: line {late[0]})"
        notes.append(f"{what} earlier than the line before{first}; the jobs were sorted by time")
    ordered = from_zero(ordered)
    if twice := _twice(ordered):
        (one, other), *_ = twice
        many = f" (and {len(twice) - 1} more)" if len(twice) > 1 else ""
        notes.append(f"lines {one} and {other} are the same job{many}; both are kept")
    return Trace(tuple(ordered), tuple(notes))


def from_zero(ordered: Sequence[TraceJob]) -> list[TraceJob]:
    """Return jobs in order of time with the first at 0."""
    begin_s = ordered[0].submit_s if ordered else 0.0
    if not begin_s:
        return list(ordered)
    return [
        replace(
            job,
            submit_s=job.submit_s - begin_s,
            due_s=None if job.due_s is None else job.due_s - begin_s,
        )
        for job in ordered
    ]


def _twice(ordered: Sequence[TraceJob]) -> list[tuple[int, int]]:
    """Return the lines of pairs of equal jobs that are submitted at the same time."""
    found = []
    seen: dict[tuple[object, ...], int] = {}
    at: float | None = None
    for job in ordered:
        if job.submit_s != at:
            at, seen = job.submit_s, {}
        same = (job.name, job.user, job.gpus, job.duration_s, job.memory_mib, job.smact)
        if same in seen:
            found.append((seen[same], job.line))
        seen.setdefault(same, job.line)
    return found


# ------------------------------------------------------------------ one row


def row_reader(table: Table) -> Callable[[int, list[str]], TraceJob]:
    """Return a function that makes a job of a row; it raises ValueError with the cause."""
    submit, name, gpus, duration, memory, smact = table.need([[n] for n in NEEDED])
    user, priority, due, weight, batch, family, steady, command = (table.at(n) for n in _OTHERS)
    estimate_columns = [
        (intern(column.removesuffix("_mib")), at)
        for at, column in enumerate(table.names)
        if column.endswith("_mib") and column not in _MEMORY and column != "_mib"
    ]
    others = (user, priority, due, weight, batch, family, steady, command)
    cpus, loss_k, report, saves, checkpoint = reported = [table.at(name) for name in _REPORTED]
    elastic = [table.at(name) for name in ELASTIC]
    durations = duration_columns(table.names, table.source)

    def needed(line: int, cells: list[str], fewest: int = 1) -> TraceJob:
        try:  # one check for all cells is faster: a trace may have a million rows
            submit_s, duration_s = float(cells[submit]), float(cells[duration])
            memory_mib, activity, count = float(cells[memory]), float(cells[smact]), cells[gpus]
            if (
                0.0 <= submit_s <= MAX_SECONDS
                and 0.0 < duration_s <= MAX_SECONDS
                and 0.0 < memory_mib <= MAX_MIB
                and 0.0 <= activity <= 1.0
                and count.isdecimal()
                and fewest <= int(count) <= MAX_GPUS
            ):
                return TraceJob(
                    submit_s=submit_s,
                    name=_name(cells[name], line),
                    gpus=int(count),
                    duration_s=duration_s,
                    memory_mib=memory_mib,
                    smact=activity,
                    estimates=_NO_ESTIMATES,
                    line=line,
                )
        except ValueError:
            pass
        return TraceJob(
            submit_s=number(cells[submit], "submit_s", 0.0, MAX_SECONDS),
            name=_name(cells[name], line),
            gpus=whole(cells[gpus], "gpus", fewest, MAX_GPUS),
            duration_s=number(cells[duration], "duration_s", 0.0, MAX_SECONDS, above=True),
            memory_mib=number(cells[memory], "memory_mib", 0.0, MAX_MIB, above=True),
            smact=_smact(cells[smact]),
            estimates=_NO_ESTIMATES,
            line=line,
        )

    def more(base: TraceJob, cells: list[str]) -> TraceJob:
        def given(at: int | None) -> str:
            return "" if at is None else cells[at].strip()

        def known(
            at: int | None, high: float, above: bool = False, low: float = 0.0
        ) -> float | None:
            if at is None or not cells[at].strip():
                return None
            return number(cells[at], table.names[at], low, high, above)

        estimates = {
            estimator: mib
            for estimator, at in estimate_columns
            if (mib := known(at, 2.0**31, above=True)) is not None
        }
        steady_mib = known(steady, MAX_MIB, above=True)
        if steady_mib is not None and steady_mib > base.memory_mib:
            raise ValueError(f"steady_mib {steady_mib:g} is above memory_mib, which is the peak")
        weighs = known(weight, 1e9)
        ranked, batches = given(priority), given(batch)
        job = replace(
            base,
            estimates=estimates or _NO_ESTIMATES,
            user=_name(given(user), base.line, "user"),
            priority=whole(ranked, "priority", -1000, 1000) if ranked else 0,
            due_s=known(due, MAX_SECONDS, low=-MAX_SECONDS),
            weight=1.0 if weighs is None else weighs,
            batch_size=whole(batches, "batch_size", 1, 10**9) if batches else None,
            family=family_of(given(family)),
            steady_mib=steady_mib,
            command=given(command) or None,
            cpus=known(cpus, MAX_CPUS) or None,
            loss_k=known(loss_k, MAX_LOSS_K) or None,
            report_s=known(report, MAX_SECONDS) or None,
            saves=_yes(given(saves)),
            checkpoint_s=known(checkpoint, MAX_SECONDS) or None,
            profile=tuple(
                Profiled(kind, count, seconds)
                for kind, count, at in durations
                if (seconds := known(at, MAX_SECONDS, above=True)) is not None
            ),
        )
        most = given(elastic[0])
        most_cpus, *parts = (known(at, MAX_CPUS) or None for at in elastic[1:])
        return with_sizes(
            job, whole(most, "gpus_max", 0, MAX_GPUS) if most else 0, most_cpus, parts
        )

    optional = (*others, *reported, *elastic, *(at for _, _, at in durations))
    if not estimate_columns and not any(at is not None for at in optional):
        return needed
    fewest = 0 if None not in elastic[1:2] else 1
    return lambda line, cells: more(needed(line, cells, fewest), cells)


def number(cell: str, what: str, low: float, high: float, above: bool = False) -> float:
    """Return the number in a cell, from `low` (or above it) to `high`. Raises ValueError."""
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if low <= value <= high and not (above and value == low):
        return value
    bound = f"above {low:g}" if above else f"from {low:g} up"
    if value > high or low < 0:
        bound = f"that can be: at most {high:g}"
    empty = "is missing" if not cell.strip() else f"{shown(cell)} is not a number {bound}"
    raise ValueError(f"{what} {empty}")


def whole(cell: str, what: str, low: int, high: int) -> int:
    """Return the whole number in a cell, written `2` or `2.0`. Raises ValueError."""
    try:
        value = float(cell)
        if low <= value <= high and value == int(value):
            return int(value)
    except (ValueError, OverflowError):
        pass
    empty = "is missing" if not cell.strip() else f"{shown(cell)} is not a whole number"
    raise ValueError(f"{what} {empty} from {low} to {high}" if cell.strip() else f"{what} {empty}")


def _smact(cell: str) -> float:
    try:
        return number(cell, "smact", 0.0, 1.0)
    except ValueError:
        try:
            percent = 1 < float(cell) <= 100
        except ValueError:
            percent = False
        if not percent:
            raise ValueError(
                f"smact {shown(cell)} is not a number from 0 to 1"
                if cell.strip()
                else "smact is missing"
            ) from None
        raise ValueError(
            f"smact {shown(cell)} is not from 0 to 1; write {float(cell) / 100:g} for "
            f"{float(cell):g} %"
        ) from None


def _yes(cell: str) -> bool:
    if cell.casefold() in ("1", "1.0", "yes", "true"):
        return True
    if cell.casefold() in ("", "0", "0.0", "no", "false"):
        return False
    raise ValueError(f"saves {shown(cell)} is neither 1 (it can save its state) nor 0")


def _name(cell: str, line: int, what: str = "name") -> str:
    name = cell.strip()
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"{what} {shown(name)} is longer than {_LONGEST_NAME} characters")
    return intern(name) or (f"job-{line}" if what == "name" else "user")


def family_of(word: str) -> str | None:
    """Return the family of models that a cell names. Raises ValueError."""
    if not word or word in FAMILIES:
        return word or None
    near = get_close_matches(word, FAMILIES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(FAMILIES)}"
    raise ValueError(f"family {shown(word)} is not known; {hint}")


# ------------------------------------------------------------------ jobs that fit a server


def fitting(
    jobs: Sequence[TraceJob], capacities_mib: Sequence[int], several: bool = False
) -> Trace:
    """Return the jobs that fit devices of these sizes, with a note on the others.

    A daemon would refuse the others at submission. `several`: the devices are of several servers;
    then only jobs that can begin on one GPU fit. Raises `BadFile` if no job is left.
    """
    sizes = sorted(capacities_mib, reverse=True)
    kept: list[TraceJob] = []
    left: list[TraceJob] = []
    for job in jobs:
        fits = job.gpus <= (1 if several else len(sizes))
        fits = fits and job.memory_mib <= sizes[job.gpus - 1]
        (kept if fits else left).append(job)
    if not left:
        return Trace(tuple(jobs))
    examples = ", ".join(
        f"line {job.line} ({_why_not(job, sizes, several)})" for job in left[:_NAMED]
    )
    more = f", and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    if not kept:
        raise BadFile(f"no job of the trace fits the server: {examples}{more}; see --gpus")
    what = "1 job fits" if len(left) == 1 else f"{len(left)} jobs fit"
    is_are = "is" if len(left) == 1 else "are"
    return Trace(
        tuple(kept), (f"{what} no GPUs of this server and {is_are} left out: {examples}{more}",)
    )


def _why_not(job: TraceJob, sizes: Sequence[int], several: bool) -> str:
    if several and job.gpus > 1:
        return f"{job.gpus} GPUs; with several servers, write 1 and duration_s@{job.gpus}xKIND"
    if job.gpus > len(sizes):
        return f"{job.gpus} GPUs of {len(sizes)}"
    on_each = f" on each of {job.gpus}" if job.gpus > 1 else ""
    return f"{job.memory_mib:g} MiB{on_each}, there are {sizes[job.gpus - 1]}"


# ------------------------------------------------------------------ jobs to text


class _Lines(list[str]):
    """A list that `csv.writer` can write to."""

    def write(self, text: str) -> None:
        self.append(text)


def _cell(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


def trace_lines(jobs: Iterable[TraceJob]) -> Iterator[str]:
    """Yield the CSV lines of these jobs. `read_trace` gives the same jobs again."""
    jobs = list(jobs)
    estimators = sorted({name for job in jobs for name in job.estimates})
    used = [name for name in (*_REPORTED, *ELASTIC) if any(getattr(job, name) for job in jobs)]
    timed = list(dict.fromkeys(column_of(each) for job in jobs for each in job.profile))
    sink = _Lines()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow([*NEEDED, *(f"{name}_mib" for name in estimators), *_OTHERS, *used, *timed])
    for job in jobs:
        writer.writerow(
            [
                *(getattr(job, name) for name in NEEDED),
                *(job.estimates.get(name) for name in estimators),
                *(_cell(getattr(job, name)) for name in (*_OTHERS, *used)),
                *map({column_of(each): each.duration_s for each in job.profile}.get, timed),
            ]
        )
        yield from sink
        sink.clear()
