"""Show jobs to people: the rows of `radrm status`, and the words that describe a job."""

from __future__ import annotations

import time

from radrm.cli.show.columns import EXTRA, Column, Rows, table_of
from radrm.cli.show.styled import Styled
from radrm.client.amounts import due_text, sane_mib
from radrm.client.text import label
from radrm.client.words.jobs import age_s, params_text, remark, where, why
from radrm.core.units import gpu_count, show_mib, show_seconds
from radrm.host.wall import wall_s

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from radrm.client.text import Document

PAGE = 50
"""Rows on one page."""

_STATE_STYLE = {
    "RUNNING": "cyan",
    "LAUNCHING": "cyan",
    "STOPPING": "magenta",
    "RECOVERING": "magenta",
    "PENDING": "yellow",
    "COMPLETED": "green",
    "FAILED": "bold red",
    "TIMEOUT": "red",
    "CANCELLED": "dim",
}
"""Colours that can be read on light and dark backgrounds. Many terminals draw bold cyan or yellow
brighter, which is unreadable on white."""


# ------------------------------------------------------------------ one job


def state_text(state: str) -> Styled:
    return Styled(state, _STATE_STYLE.get(state, ""))


# ------------------------------------------------------------------ many jobs


def counts_line(counts: Mapping[str, int], devices: int, simulated: bool = False) -> Styled:
    """As `3 running, 97 pending — 4 GPUs`, or `— 4 simulated GPUs`, as far as GPUs are known."""
    line = Styled(cut=True)
    for state in [*_STATE_STYLE, *(s for s in counts if s not in _STATE_STYLE)]:
        if counts.get(state):
            line.append(", " if line.pieces else "")
            line.append(f"{counts[state]} {state.lower()}", _STATE_STYLE.get(state, ""))
    if not line.pieces:
        line.append("nothing runs or waits")
    line.append(f" — {gpu_count(devices, simulated)}" if devices else "")
    return line


def job_rows(jobs: Sequence[Document], index: Mapping[str, int], now: float | None = None) -> Rows:
    """A row for each job: its GPUs, its memory, why it waits, how far it is.

    On a narrow terminal a long reason is cut, and the user of all rows is left out first. A due
    time, where some job has one. `index`: the GPUs' indices. `now`: as for `advance`.
    """
    dues = [due_text(job, wall_s() if now is None else now) for job in jobs]
    due = any(dues)
    params = any(job.get("params") for job in jobs)
    one_user = len({job["user"] for job in jobs}) == 1
    return table_of(
        zip(jobs, dues, strict=True),
        Column("JOB", lambda row: label(row[0]), right=True),
        Column("NAME", lambda row: row[0]["name"], least=12, most=28),
        *[Column("PARAMS", lambda row: params_text(row[0]), least=14, most=32)] * params,
        Column("USER", lambda row: row[0]["user"], rank=EXTRA if one_user else 8, most=12),
        Column("STATE", lambda row: state_text(row[0]["state"])),
        Column("GPU", lambda row: where(row[0], index), least=3, most=8),
        Column("EST", lambda row: show_mib(sane_mib(row[0]["estimate_mib"])), right=True, rank=6),
        Column("RESERVED", lambda row: show_mib(row[0]["reserved_mib"]), right=True, rank=7),
        Column("PEAK", lambda row: show_mib(row[0]["peak_mib"]), right=True, rank=5),
        Column("TIME", lambda row: show_seconds(age_s(row[0])), right=True, rank=3),
        *[Column("DUE", lambda row: row[1] or "-", rank=2)] * due,
        Column("WHY", lambda row: remark(row[0], now), least=7, good=24),
    )


def no_jobs(words: Document) -> Styled:
    """The line for a question whose words select no job."""
    if words["state"] and not words["jobs"]:
        of = f" of {words['user']}" if words["user"] else ""
        return Styled(f"No job{of} is {words['state']}.")
    if words["user"] or words["state"] or words["jobs"]:
        return Styled("No such jobs." if words["all"] else "No such jobs that have not ended.")
    return Styled("No jobs." if words["all"] else "No unfinished jobs (--all shows the others).")


def change_line(job: Document, index: Mapping[str, int], now: float) -> Styled:
    """One change of a job's state, for a log of changes."""
    state = state_text(job["state"])
    line = Styled(time.strftime("%H:%M:%S", time.localtime(now)))
    line.append(f"  {label(job):<6}  {job['name']:<20}  ")
    line.extend(state)
    details = [why(job, now=now)] if why(job) else []
    if job["devices"] and job["state"] in ("LAUNCHING", "RUNNING"):
        details.insert(0, f"on GPU {where(job, index)}")
    if job["attempts"] > 1:
        details.insert(0, f"attempt {job['attempts']}")
    if details:
        line.append(" " * (12 - len(state.plain)) + ", ".join(details))
    return line
