"""Show jobs to people: the rows of `radrm status`, and the words that describe a job."""

from __future__ import annotations

import time

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.sizes import size_text
from radrm.cli.show.styled import Styled
from radrm.client.amounts import clock, due_text, number, sane_mib, starts_in
from radrm.client.states import FINAL, WAITING
from radrm.client.text import label
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain

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
    return Styled(plain(state), _STATE_STYLE.get(state, ""))


def age_s(job: Document) -> float | None:
    """The waiting time or run time of a job so far; None across a reboot."""
    if job["started_at"] is None and job["ended_at"] is not None:
        return 0.0
    found: float | None = job.get("waited_s" if job["started_at"] is None else "ran_s")
    return found


def why(job: Document, short: bool = False, now: float | None = None) -> str:
    """Why a job waits, or how it ended. `short`: for a column. `now`: as for `advance`."""
    reason = (short and job.get("reason_short")) or job["reason"] or ""
    if short and job["state"] in WAITING and job.get("held"):
        reason = "held"
    elif short and job["state"] in WAITING and job.get("after"):
        reason = f"after {', '.join(str(other['job']) for other in job['after'])}"
    if job.get("begin_at") is not None and not job.get("held"):
        then = clock(job["begin_at"], time.time() if now is None else now)
        reason = f"begins {'at ' if then[:1].isdigit() and '-' not in then else ''}{then}"
    elif job.get("warnings") and short:
        reason = warned(job["warnings"][0], now, True)
    if job["oom_count"] and job["state"] != "FAILED":
        times = "once" if job["oom_count"] == 1 else f"{job['oom_count']} times"
        recovered = f"recovered from out-of-memory {times}"
        reason = f"{recovered}; {reason}" if reason else recovered
    return plain(reason)


def warned(warning: Document, now: float | None, short: bool = False) -> str:
    """What the user of a job was warned of, and what follows: `...; it is cancelled at 18:20`."""
    said = warning["kind"] if short else warning["text"]
    if not warning["does"] or warning["does_at"] is None:
        return plain(said)
    then = clock(warning["does_at"], time.time() if now is None else now)
    return plain(f"{said}{': ' if short else '; '}{warning['does']} at {then}")


def where(job: Document, index: Mapping[str, int]) -> str:
    """The indices of the devices that a job holds or held; `-` for none."""
    uuids = job["devices"] if job["state"] not in WAITING else []
    return ",".join(str(index.get(uuid, plain(uuid[:12]))) for uuid in uuids) or "-"


def advance(job: Document, now: float | None = None) -> str:
    """How far a job is: `62 %, 14 min left, saved 3 min ago`; "" if it did not say.

    `now`, in epoch seconds on the daemon's clock, is needed for the times.
    """
    progress, found = job.get("progress") or {}, []
    if progress.get("work_done") is not None:
        found.append(f"{int(progress['work_done'] * 100)} %")
    elif progress.get("step") is not None:
        found.append(f"step {number(progress['step'])}")
    elif progress.get("epoch") is not None:
        found.append(f"epoch {number(progress['epoch'])}")
    ends = job.get("expected_end_at") is not None and job["state"] not in WAITING
    if now is not None and found and ends:
        found.append(f"{show_seconds(max(0.0, job['expected_end_at'] - now))} left")
    if now is not None and job.get("saved_at") is not None:
        found.append(f"saved {show_seconds(max(0.0, now - job['saved_at']))} ago")
    return ", ".join(found)


# ------------------------------------------------------------------ many jobs


def counts_line(counts: Mapping[str, int], devices: int) -> Styled:
    """As `3 running, 97 pending — 4 GPUs`."""
    line = Styled(cut=True)
    for state in [*_STATE_STYLE, *(s for s in counts if s not in _STATE_STYLE)]:
        if counts.get(state):
            line.append(", " if line.pieces else "")
            line.append(f"{counts[state]} {plain(state).lower()}", _STATE_STYLE.get(state, ""))
    if not line.pieces:
        line.append("nothing runs or waits")
    line.append(f" — {devices} {'GPU' if devices == 1 else 'GPUs'}")
    return line


def job_rows(jobs: Sequence[Document], index: Mapping[str, int], now: float | None = None) -> Rows:
    """A row for each job: its GPUs, its memory, why it waits, how far it is.

    A due time, where some job has one; the host, where the jobs have one. `index`: the GPUs'
    indices. `now`: as for `advance`.
    """
    dues = [due_text(job, time.time() if now is None else now) for job in jobs]
    due, hosts = any(dues), any("host" in job for job in jobs)
    params = any(job.get("params") for job in jobs)
    table = Rows(
        (
            *[Column("HOST", most=20)] * hosts,
            Column("JOB", right=True),
            Column("NAME", least=12, most=28),
            *[Column("PARAMS", least=14, most=32)] * params,
            Column("USER", rank=1, most=12),
            Column("STATE"),
            Column("GPU", least=3, most=8),
            Column("EST", right=True, rank=6),
            Column("RESERVED", right=True, rank=7),
            Column("PEAK", right=True, rank=5),
            Column("TIME", right=True, rank=3),
            *[Column("DUE", rank=2)] * due,
            Column("WHY", least=20 if params else 33),
        )
    )
    for job, its_due in zip(jobs, dues, strict=True):
        table.add(
            *[plain(job.get("host", "-"))] * hosts,
            plain(label(job)),
            plain(job["name"]),
            *[params_text(job)] * params,
            plain(job["user"]),
            state_text(job["state"]),
            where(job, index),
            show_mib(sane_mib(job["estimate_mib"])),
            show_mib(job["reserved_mib"]),
            show_mib(job["peak_mib"]),
            show_seconds(age_s(job)),
            *[its_due or "-"] * due,
            "; ".join(filter(None, (why(job, True, now), _state_of_open(job, now)))),
        )
    return table


def params_text(job: Document) -> str:
    """The values of an element of a sweep: `lr=1e-3 seed=0`, or of several elements in one row:
    `seed=0 to seed=9`, without the parameters that they share; "" for another job."""
    values, last = job.get("params") or {}, job.get("params_last") or {}
    differ = [name for name in values if last and values[name] != last.get(name)]
    texts = [
        " ".join(f"{name}={each[name]}" for name in differ or values)
        for each in ((values, last) if differ else (values,))
    ]
    return plain(" to ".join(texts))


def _state_of_open(job: Document, now: float | None) -> str:
    """The size of a job that has not ended, and how far it is, or when it starts:
    `2 of 1-4 GPUs, 37 %`, `in 20-40m (est.)`."""
    if job["state"] in FINAL:
        return ""
    starts = "" if now is None else starts_in(job, now)
    words = (size_text(job), advance(job, now), f"{starts} (est.)" if starts else "")
    return ", ".join(filter(None, words))


def no_jobs(words: Document) -> Styled:
    """The line for a question whose words select no job."""
    if words["state"] and not words["jobs"]:
        of = f" of {plain(words['user'])}" if words["user"] else ""
        return Styled(f"No job{of} is {plain(words['state'])}.")
    if words["user"] or words["state"] or words["jobs"]:
        return Styled("No such jobs." if words["all"] else "No such jobs that have not ended.")
    return Styled("No jobs." if words["all"] else "No unfinished jobs (--all shows the others).")


def change_line(job: Document, index: Mapping[str, int], now: float) -> Styled:
    """One change of a job's state, for a log of changes."""
    state = state_text(job["state"])
    line = Styled(time.strftime("%H:%M:%S", time.localtime(now)))
    line.append(f"  {plain(label(job)):<6}  {plain(job['name']):<20}  ")
    line.extend(state)
    details = [why(job, now=now)] if why(job) else []
    if job["devices"] and job["state"] in ("LAUNCHING", "RUNNING"):
        details.insert(0, f"on GPU {where(job, index)}")
    if job["attempts"] > 1:
        details.insert(0, f"attempt {job['attempts']}")
    if details:
        line.append(" " * (12 - len(state.plain)) + ", ".join(details))
    return line
