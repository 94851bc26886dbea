"""The templates, and what they use: plain text, amounts and bars.

All text that a template shows is made plain and escaped (`finalize`, autoescape): names, commands
and log lines are other users' text. Only `Markup` that this package or `radrm.pages` made is not.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from radrm.client.amounts import due_text, local_time, sane_mib, show_joules, show_smact, span
from radrm.client.text import FINAL, Document, label
from radrm.client.words.jobs import age_s, names_of, params_text, remark, where
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain
from radrm.pages.document import CHARTS, THEME

_OWN = files("radrm.web").joinpath("static")
STATIC: dict[str, tuple[str, bytes]] = {
    "page.css": (
        "text/css; charset=utf-8",
        (THEME + CHARTS + _OWN.joinpath("page.css").read_text("utf-8")).encode(),
    ),
    "page.js": ("text/javascript; charset=utf-8", _OWN.joinpath("page.js").read_bytes()),
    "icon.svg": ("image/svg+xml", _OWN.joinpath("icon.svg").read_bytes()),
}
"""The type and the bytes of each file that the page loads."""
VERSION = hashlib.sha256(b"".join(data for _, data in STATIC.values())).hexdigest()[:12]
"""Changes with the files, so that browsers may keep them."""


def draw(template: str, **context: Any) -> str:
    """Return a template with its values. Raises jinja2's errors for a wrong template."""
    return _ENVIRONMENT.get_template(template).render(**context)


def job_words(job: Document, index: dict[str, int], now: float) -> dict[str, Any]:
    """The cells of one row of jobs, as `radrm status` shows them."""
    return {
        "label": label(job),
        "link": names_of(job)[0],
        "name": job["name"],
        "params": params_text(job),
        "user": job["user"],
        "state": job["state"],
        "gpu": where(job, index),
        "estimate": show_mib(sane_mib(job["estimate_mib"])),
        "reserved": show_mib(job["reserved_mib"]),
        "peak": show_mib(job["peak_mib"]),
        "time": show_seconds(age_s(job)),
        "due": due_text(job, now),
        "why": remark(job, now),
        "done": (job.get("progress") or {}).get("work_done") if _runs(job) else None,
    }


def _runs(job: Document) -> bool:
    return job["state"] not in FINAL


def bar(
    total: float | None, parts: list[tuple[str, float | None]], mark: float | None = None
) -> Markup:
    """Return a bar of parts of a total, each a class and an amount; `mark` is a line at an amount.

    Without a total, or with an unknown part, it is an empty bar: the text beside it says so.
    """
    pieces, at = [], 0.0
    for kind, amount in parts:
        if not total or amount is None:
            continue
        wide = max(0.0, min(100.0 - at, 100.0 * amount / total))
        pieces.append(f'<rect class="{kind}" x="{at:.2f}" width="{wide:.2f}" height="8"/>')
        at += wide
    if total and mark:
        x = min(99.5, 100.0 * mark / total)
        pieces.append(f'<rect class="reserved" x="{x - 0.5:.2f}" width="1" height="8"/>')
    inside = "".join(pieces)
    return Markup(
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f"{inside}</svg>"
    )


def _finalize(value: Any) -> Any:
    if isinstance(value, Markup):
        return value
    return plain(str(value)) if isinstance(value, str) else value


def _hours(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 3600:.2f}"


def _day_time(epoch_s: float | None) -> str:
    return "-" if epoch_s is None else local_time(epoch_s)[:16]


_ENVIRONMENT = Environment(
    loader=PackageLoader("radrm.web", "templates"),
    autoescape=True,
    finalize=_finalize,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_ENVIRONMENT.globals.update(bar=bar, version=VERSION)
_ENVIRONMENT.filters.update(
    mib=show_mib,
    smact=show_smact,
    seconds=show_seconds,
    joules=show_joules,
    span=lambda seconds: "-" if seconds is None else span(seconds),
    hours=_hours,
    moment=_day_time,
)
