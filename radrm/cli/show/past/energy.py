"""Show people the energy report."""

from __future__ import annotations

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.styled import Styled
from radrm.client.amounts import local_time
from radrm.core.units import SIMULATED_GPUS, show_seconds
from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.cli.show.styled import Part
    from radrm.client.text import Document

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
        page += [_table(answer), Styled(_head(answer, span), "dim")]
    return page + [Styled(line, "dim") for line in _unknown(answer)]


def _table(answer: Document) -> Rows:
    by, currency = answer["by"], plain(answer["currency"])
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
        table.add(*_names(by, each), *_figures(each, answer), *own)
    more = answer["more"]
    blank = [""] if idle else []
    if more["rows"]:
        table.add(f"({more['rows']} more)", *empty, *_figures(more, answer), *blank)
    own = [_kwh(answer["idle"]["kwh"], answer)] if idle else []
    table.add("(idle)", *empty, *_figures(answer["idle"], answer), *own)
    table.add("total", *empty, *_figures(answer["total"], answer), *blank)
    return table


def _names(by: str, each: Document) -> tuple[str, ...]:
    if by == "job":
        return plain(each["label"]), plain(each["name"] or "-"), plain(each["user"] or "-")
    if by == "gpu":
        index = each["index"]
        return plain(each["gpu"] if index is None else str(index)), plain(each["name"] or "-")
    return (plain(str(each[by] or "(unknown)")),)


def _figures(each: Document, answer: Document) -> tuple[str, str, str]:
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
    return f"GPU {plain(str(found['gpu'] if found['index'] is None else found['index']))}"


def _listed(words: list[str]) -> str:
    more = len(words) - _MOST_UNREAD
    return ", ".join(words[:_MOST_UNREAD]) + (f" and {more} more" if more > 0 else "")
