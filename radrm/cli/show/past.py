"""What has been: reports of use and energy, the time that they are about, the history."""

from __future__ import annotations

import time
from contextlib import suppress

from radrm.cli.parameters import TEXT, Parameter
from radrm.cli.show.columns import Column, Rows, table_of
from radrm.cli.show.jobs import state_text
from radrm.cli.show.styled import Styled
from radrm.client.amounts import local_time, sane_mib, span
from radrm.client.text import label
from radrm.core.units import SIMULATED_GPUS, gpu_count, parse_seconds, show_mib, show_seconds
from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from radrm.cli.show.styled import Part
    from radrm.client.text import Document

SINCE = Parameter(
    "since", TEXT, "Start: 7d (ago; the default), yesterday, or a date.", "WHEN", ("--since",)
)
UNTIL = Parameter("until", TEXT, "End: 1d (ago), or a date; by default now.", "WHEN", ("--until",))

_EXAMPLE = "write 7d, 12h, yesterday, 18:00, 2030-01-31 or 2030-01-31T18:00"
_DAYS_AGO = {"today": 0, "yesterday": 1}
_LAST_YEAR = 9998


def period(since: str, until: str) -> Callable[[float], tuple[float, float]]:
    """Return a function of the daemon's time that returns begin and end, in epoch seconds.

    Raises `UsageError` for what is no time; the function does for a time that ends before it
    begins.
    """
    begin, end = _moment("--since", since or "7d"), _moment("--until", until or "0")

    def at(now_s: float) -> tuple[float, float]:
        begin_s, end_s = begin(now_s), end(now_s)
        if begin_s >= end_s:
            text = f"--since {since or '7d'} is not before --until {until or 'now'}"
            raise UsageError(f"{text}; {_EXAMPLE}")
        return begin_s, end_s

    return at


def _moment(option: str, text: str) -> Callable[[float], float]:
    """Return the epoch second of a time span before now, or of a local day or date and time."""
    if text == "0":
        return lambda now_s: now_s
    if not set(text) & set("-:"):  # 18:00 is a time of day here, no span
        with suppress(ValueError):
            span_s = parse_seconds(text)
            return lambda now_s: max(0.0, now_s - span_s)
    from datetime import datetime, timedelta
    from datetime import time as time_of_day

    def of_day(clock: time_of_day, ago: int = 0) -> Callable[[float], float]:
        def at(now_s: float) -> float:
            day = datetime.fromtimestamp(now_s) - timedelta(days=ago)
            return datetime.combine(day, clock).timestamp()

        return at

    if text in _DAYS_AGO:
        return of_day(time_of_day(), _DAYS_AGO[text])
    with suppress(ValueError):
        if text[:5].count(":") == 1:
            return of_day(time_of_day.fromisoformat(f"{text:0>5}"))
    try:
        found = datetime.fromisoformat(text)
        if 1970 < found.year <= _LAST_YEAR:
            epoch_s = found.timestamp()
            return lambda now_s: epoch_s
    except (ValueError, OverflowError, OSError):
        pass
    raise UsageError(f"{option}: {text!r} is neither a time span nor a date; {_EXAMPLE}")


_MOST_UNREAD = 4
_NOTED = 0.01
"""The part of all energy from which on its equal division is reported."""


def energy_page(answer: Document) -> list[Part]:
    """A table with rows for jobs, idle GPUs and the total, and what is unknown below it."""
    span = f"{local_time(answer['since'])[:16]} to {local_time(answer['until'])[:16]}"
    page: list[Part] = []
    if not answer["total"]["kwh"] and not answer["rows"]:
        page.append(Styled(f"No energy is on record from {span}."))
    else:
        page += [_energy_table(answer), Styled(_head(answer, span), "dim")]
    return page + [Styled(line, "dim") for line in _unknown(answer)]


def _energy_table(answer: Document) -> Rows:
    by, currency = answer["by"], answer["currency"]
    figures = (Column("KWH", right=True), Column(currency, right=True))
    first: tuple[Column, ...] = (Column(by.upper(), least=8),)
    if by == "job":
        names = Column("NAME", least=6, rank=2), Column("USER", least=6, rank=1)
        first = (Column("JOB"), *names)
    elif by == "gpu":
        first = (Column("GPU"), Column("NAME", least=6, rank=1))
    idle = (Column("IDLE KWH", right=True, rank=3),) if by in ("gpu", "day") else ()
    table = Rows((*first, *figures, Column("SHARE", right=True, rank=4), *idle))
    empty = [""] * (len(first) - 1)
    for each in answer["rows"]:
        own = [_kwh(each["idle_kwh"], answer)] if idle else []
        table.add(*_energy_names(by, each), *_energy_figures(each, answer), *own)
    more = answer["more"]
    blank = [""] if idle else []
    if more["rows"]:
        table.add(f"({more['rows']} more)", *empty, *_energy_figures(more, answer), *blank)
    own = [_kwh(answer["idle"]["kwh"], answer)] if idle else []
    table.add("(idle)", *empty, *_energy_figures(answer["idle"], answer), *own)
    table.add("total", *empty, *_energy_figures(answer["total"], answer), *blank)
    return table


def _energy_names(by: str, each: Document) -> tuple[str, ...]:
    if by == "job":
        return each["label"], each["name"] or "-", each["user"] or "-"
    if by == "gpu":
        index = each["index"]
        return each["gpu"] if index is None else str(index), each["name"] or "-"
    return (str(each[by] or "(unknown)"),)


def _energy_figures(each: Document, answer: Document) -> tuple[str, str, str]:
    share = "-" if each["share"] is None else f"{each['share']:.1%}"
    digits = 2 if answer["total"]["cost"] >= 1 else 4
    return _kwh(each["kwh"], answer), f"{each['cost']:.{digits}f}", share


def _kwh(kwh: float, answer: Document) -> str:
    return f"{kwh:.{1 if answer['total']['kwh'] >= 100 else 4}f}"


def _head(answer: Document, span: str) -> str:
    gpus = f"; {SIMULATED_GPUS}" if answer.get("simulated") else ""
    return f"{span}; costs with PUE {answer['pue']:g}{gpus}"


def _unknown(answer: Document) -> list[str]:
    lines = []
    first_s = answer["first"]
    if first_s is not None and first_s > answer["since"]:
        lines.append(f"The record begins at {local_time(first_s)[:16]}.")
    if answer["equally_kwh"] > _NOTED * answer["total"]["kwh"]:
        kwh = _kwh(answer["equally_kwh"], answer)
        lines.append(
            f"{kwh} kWh are divided equally: the SM activity of single jobs on a shared GPU could "
            "not be read."
        )
    never = [_gpu(each) for each in answer["unread"] if each["seconds"] is None]
    if never:
        lines.append(f"Not counted, because its power cannot be read: {_listed(never)}.")
    spans = [each for each in answer["unread"] if each["seconds"] is not None]
    if spans:
        each = [f"{_gpu(found)} for {show_seconds(found['seconds'])}" for found in spans]
        lines.append(f"Unknown, because no power was read: {_listed(each)}.")
    return lines


def _gpu(found: Document) -> str:
    return f"GPU {found['gpu'] if found['index'] is None else found['index']}"


def _listed(words: list[str]) -> str:
    more = len(words) - _MOST_UNREAD
    return ", ".join(words[:_MOST_UNREAD]) + (f" and {more} more" if more > 0 else "")


_COUNTS = ("jobs", "completed", "failed", "timeout", "cancelled")
_HOUR_S = 3600.0


def report_page(answer: Document) -> list[Part]:
    """A table with the total, the time that it is about below it, and what is not complete."""
    if not answer["rows"]:
        page: list[Part] = [Styled(f"Nothing is on record from {_time(answer)}.")]
    else:
        gpus = gpu_count(answer["gpus"], bool(answer.get("simulated")))
        page = [_table(answer), Styled(f"{_time(answer)}; {gpus} now", "dim")]
    return page + [Styled(line, "dim") for line in _incomplete(answer)]


def removed_line(answer: Document) -> list[str]:
    """What to say if some of the time is so long ago that jobs of it are removed."""
    until_s = answer["removed_until"]
    if until_s is None or until_s < answer["since"]:
        return []
    moment = local_time(until_s)[:16]
    return [f"Figures are complete from {moment} on: older jobs are removed ([retention])."]


def _time(answer: Document) -> str:
    return f"{local_time(answer['since'])[:16]} to {local_time(answer['until'])[:16]}"


def _incomplete(answer: Document) -> list[str]:
    lines = removed_line(answer)
    if answer["by"] == "gpu":
        lines.append("A job counts on each of its GPUs, in the total once.")
    first_s = answer["energy_since"]
    if first_s is not None and first_s > answer["since"]:
        lines.append(f"The record of energy begins at {local_time(first_s)[:16]}.")
    return lines


def _table(answer: Document) -> Rows:
    by, energy = answer["by"], bool(answer["total"]["kwh"])
    table = Rows((*_first(by), *_others(answer, energy)))
    empty = [""] * (len(_first(by)) - 1)
    for each in answer["rows"]:
        table.add(*_names(by, each), *_figures(each, energy, answer))
    more = answer["more"]
    if more["rows"]:
        table.add(f"({more['rows']} more)", *empty, *_figures(more, energy, answer))
    if energy:
        idle = dict.fromkeys((*_COUNTS, "oom_deaths", "waited_s", "gpu_s")) | answer["idle"]
        table.add("(idle)", *empty, *_figures(idle, energy, answer, ""))
    table.add("total", *empty, *_figures(answer["total"], energy, answer))
    return table


def _first(by: str) -> tuple[Column, ...]:
    if by == "job":
        names = Column("NAME", least=6, most=24), Column("USER", least=6, rank=4)
        return (Column("JOB"), *names, Column("STATE", rank=1))
    if by == "gpu":
        return Column("GPU", most=12), Column("NAME", least=6, rank=4)
    return (Column(by.upper(), least=8, most=24),)


def _others(answer: Document, energy: bool) -> list[Column]:
    found = [] if answer["by"] == "job" else _OF_MANY
    found = [*found, Column("OOM", right=True, rank=2), Column("WAITED", right=True, rank=3)]
    found.append(Column("GPU-HOURS", right=True))
    if energy:
        currency = answer["currency"]
        found += [Column("KWH", right=True, rank=6), Column(currency, right=True, rank=7)]
    return found


_OF_MANY = [
    Column("JOBS", right=True),
    Column("COMPLETED", right=True, rank=5),
    Column("FAILED", right=True, rank=1),
    Column("TIMEOUT", right=True, rank=8),
    Column("CANCELLED", right=True, rank=9),
]


def _names(by: str, each: Document) -> tuple[Styled | str, ...]:
    if by == "job":
        state = each["state"]
        return (
            each["label"],
            each["name"] or "-",
            each["user"] or "-",
            "removed" if state is None else state_text(state),
        )
    if by == "gpu":
        index = each["index"]
        return each["gpu"] if index is None else str(index), each["name"] or "-"
    return (str(each[by] or "(unknown)"),)


def _figures(each: Document, energy: bool, answer: Document, unknown: str = "-") -> list[str]:
    counts = [each[name] for name in (() if answer["by"] == "job" else _COUNTS)]
    found = [unknown if n is None else str(n) for n in (*counts, each["oom_deaths"])]
    waited_s, gpu_s = each["waited_s"], each["gpu_s"]
    found += [
        unknown if waited_s is None else span(waited_s),
        unknown if gpu_s is None else hours(gpu_s, answer["total"]["gpu_s"]),
    ]
    digits = 2 if answer["total"]["cost"] >= 1 else 4
    if energy:
        found += [f"{each['kwh']:.{digits}f}", f"{each['cost']:.{digits}f}"]
    return found


def hours(gpu_s: float, total_s: float) -> str:
    """GPU-hours, with more digits where all of them together are few."""
    digits = 1 if total_s >= 100 * _HOUR_S else 2 if total_s >= _HOUR_S else 4
    return f"{gpu_s / _HOUR_S:.{digits}f}"


def history_page(answer: Document, next_page: str) -> list[Part]:
    """A row for each run of a job, and below them the sums of all. `next_page`: the command that
    shows earlier ones; empty if there are none."""
    page: list[Part] = [_history_table(answer)] if answer["jobs"] else []
    if next_page:
        page.append(Styled(f"earlier jobs: {next_page}", "dim"))
    return page + _sums(answer) + [Styled(line, "dim") for line in removed_line(answer)]


def _history_table(answer: Document) -> Rows:
    runs = any(job["run"] > 1 for job in answer["jobs"])
    return table_of(
        answer["jobs"],
        Column("ID", label, right=True),
        *[Column("RUN", lambda job: str(job["run"]), right=True)] * runs,
        Column("NAME", lambda job: job["name"], least=8, most=28),
        Column("USER", lambda job: job["user"], least=4, rank=3, most=12),
        Column("STATE", lambda job: state_text(job["state"])),
        Column("GPUS", lambda job: _gpus(job, answer), least=4, most=8),
        Column("START", lambda job: _start(job["started_at"], answer["until"]), rank=2),
        Column("ELAPSED", lambda job: show_seconds(job.get("ran_s")), right=True),
        Column("WAITED", lambda job: show_seconds(job.get("waited_s")), right=True, rank=4),
        Column("PEAK", lambda job: show_mib(job["peak_mib"]), right=True, rank=1),
        Column("(EST)", _estimate, right=True, rank=5),
        Column("EXIT", lambda job: _exit(job["exit_code"]), right=True, rank=1),
    )


def _gpus(job: Document, answer: Document) -> str:
    index = answer["devices"]
    return ",".join(str(index.get(uuid, uuid[:12])) for uuid in job["devices"]) or "-"


def _exit(code: int | None) -> str:
    return "-" if code is None else str(code)


def _estimate(job: Document) -> str:
    mib = sane_mib(job["estimate_mib"])
    return "-" if mib is None else f"({show_mib(mib)})"


def _start(epoch_s: float | None, until_s: float) -> str:
    """As `11-23 18:05`, with the year if it is another one than that of the end."""
    if epoch_s is None:
        return "-"
    then = time.localtime(epoch_s)
    whole = local_time(epoch_s)[:16]
    return whole if then.tm_year != time.localtime(until_s).tm_year else whole[5:]


def _sums(answer: Document) -> list[Part]:
    sums = answer["sums"]
    jobs, runs, deaths = sums["jobs"], sums["runs"], sums["oom_deaths"]
    gpus = f"; {SIMULATED_GPUS}" if answer.get("simulated") else ""
    time_ = Styled(
        f"{local_time(answer['since'])[:16]} to {local_time(answer['until'])[:16]}{gpus}", "dim"
    )
    if not jobs:
        return [Styled("No such job has ended."), time_]
    parts = [
        f"{f'{runs} runs of ' if runs > jobs else ''}{jobs} {'job' if jobs == 1 else 'jobs'}",
        f"{hours(sums['gpu_s'], sums['gpu_s'])} GPU-hours",
        f"{sums['failed']} failed",
        *([f"{sums['timeout']} timed out"] if sums["timeout"] else []),
        f"{deaths} out-of-memory {'death' if deaths == 1 else 'deaths'}",
    ]
    return [Styled(", ".join(parts), "bold"), time_]
