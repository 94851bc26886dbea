"""Sums of what has been, by user, group, job, GPU or day: `radrm report`."""

from __future__ import annotations

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.jobs import state_text
from radrm.cli.show.styled import Styled
from radrm.client.amounts import local_time, span
from radrm.core.units import gpu_count
from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.cli.show.styled import Part
    from radrm.client.text import Document

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
        currency = plain(answer["currency"])
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
            plain(each["label"]),
            plain(each["name"] or "-"),
            plain(each["user"] or "-"),
            "removed" if state is None else state_text(state),
        )
    if by == "gpu":
        index = each["index"]
        return plain(each["gpu"] if index is None else str(index)), plain(each["name"] or "-")
    return (plain(str(each[by] or "(unknown)")),)


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
