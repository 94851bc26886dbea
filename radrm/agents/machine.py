"""Questions about the server: GPUs, use, limits, how full it is, and who waits for what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Annotated, Literal

from pydantic import Field

from radrm.agents.answers import Gpu, Gpus, Limit, Limits, Pressure, Usage, User, Waiting
from radrm.agents.bounded import daemon, fitting, maybe, moment, name, text, texts
from radrm.agents.jobs import Hours, use
from radrm.agents.jobs import Limit as Rows
from radrm.client.text import LIVE, WAITING, Document, label

OUT_OF_SERVICE = frozenset({"drained", "unhealthy", "unreadable", "vanished"})
"""The states of a GPU that takes no job."""


def list_gpus() -> Gpus:
    """The GPUs: memory, SM activity, power, jobs, and why one takes no job."""
    with daemon() as client:
        devices = client.ask("gpus")
    rows = fitting(map(gpu, devices))
    return Gpus(gpus=rows, left_out=len(devices) - len(rows))


def gpu(device: Document) -> Gpu:
    """One GPU of the daemon's answer."""
    labels = texts(device["labels"], 50)
    simulated = bool(device.get("simulated"))
    return Gpu.of(
        device, gpu=device["index"], simulated=simulated, jobs=labels, notes=texts(device["notes"])
    )


def usage_report(
    by: Annotated[
        Literal["user", "job", "gpu", "day", "group"], Field(description="One row for each.")
    ] = "user",
    last_hours: Hours = 7 * 24.0,
    limit: Rows = 20,
) -> Usage:
    """What was used in the last hours: GPU-hours, energy, cost, deaths by out-of-memory."""
    with daemon() as client:
        now_s = client.ask("ping")["now"]
        since_s = max(0.0, now_s - last_hours * 3600)
        found = client.ask("report", by=by, since=since_s, until=now_s)
    rows = fitting(use(each, _key(each, by)) for each in found["rows"][:limit])
    return Usage(
        by=by,
        since=moment(found["since"]),
        until=moment(found["until"]),
        currency=maybe(found["currency"]),
        total=use(found["total"], "all"),
        rows=rows,
        left_out=len(found["rows"]) - len(rows) + found["more"]["rows"],
    )


def _key(found: Document, by: str) -> str:
    if by == "job":
        return text(f"{found['label']} {found['name'] or ''}".rstrip())
    if by == "gpu" and found["index"] is not None:
        return text(f"GPU {found['index']}")
    return text(found[by])


def my_limits() -> Limits:
    """The limits of this user, and what counts for them now."""
    with daemon() as client:
        found = client.ask("limits")
    limits = [Limit.of(each) for each in found["limits"]]
    return Limits(user=name(found["user"]), note=maybe(found["note"]), limits=limits)


_ROWS = 500
"""Rows of the queue that are looked at: more would not change what to do."""
_MOST_USERS = 30
_KINDS = ("held", "begin", "dependency", "estimate", "line", "GPUs", "other")


def queue_pressure() -> Pressure:
    """How full the server is: jobs that wait, by reason; free memory; expected waits; users; GPUs
    that are out of service. Ask this before choosing how large a job to submit."""
    with daemon() as client:
        page = client.ask("page", limit=_ROWS)
        devices = client.ask("gpus")
    return pressure(page, devices)


def pressure(page: Document, devices: Sequence[Document]) -> Pressure:
    """The figures of a page of jobs and of all devices."""
    jobs, now = page["jobs"], page["now"]
    waiting = [job for job in jobs if job["state"] in WAITING]
    out = [each for each in devices if each["state"] in OUT_OF_SERVICE]
    able = [each for each in devices if each["state"] not in OUT_OF_SERVICE]
    free = [each["free_mib"] or 0 for each in able]
    starts = [job.get("expected_start_at") for job in waiting]
    waits = sorted(max(0.0, start - now) for start in starts if start is not None)
    return Pressure(
        now=moment(now),
        counts={key: count for key, count in page["counts"].items() if count},
        gpus=len(devices),
        gpus_idle=sum(1 for each in able if each["state"] == "idle"),
        gpus_out_of_service=[gpu(each) for each in out[:16]],
        free_mib=sum(free),
        largest_free_mib=max(free, default=0),
        total_mib=sum(each["total_mib"] for each in devices),
        waiting=_waiting(waiting),
        oldest_wait_s=max((job.get("waited_s") or 0.0 for job in waiting), default=None),
        expected_wait_s=[waits[0], median(waits), waits[-1]] if waits else [],
        expected_unknown=len(waiting) - len(waits),
        users=_users(jobs),
        looked_at=len(jobs),
        left_out=page["total"] - len(jobs),
    )


def _waiting(jobs: Iterable[Document]) -> list[Waiting]:
    """The waiting jobs by what they wait for; the first of each kind is the example."""
    found: dict[str, Waiting] = {}
    for job in jobs:
        kind = kind_of(job)
        if kind not in found:
            reason = maybe(job["reason"])
            found[kind] = Waiting(kind=kind, jobs=0, example=name(label(job)), reason=reason)
        found[kind].jobs += job.get("count", 1)
    return sorted(found.values(), key=lambda each: _KINDS.index(each.kind))


def kind_of(job: Document) -> str:
    """What a waiting job waits for, in one word of `_KINDS`."""
    if job.get("held"):
        return "held"
    if job.get("begin_at") is not None:
        return "begin"
    if job.get("after"):
        return "dependency"
    if job.get("behind"):
        return "line"
    if job["position"] is None and job["estimate_source"] is None and job["gpus"]:
        return "estimate"
    return "GPUs" if job["gpus"] else "other"


def _users(jobs: Iterable[Document]) -> list[User]:
    """Who runs and waits, the largest first."""
    found: dict[str, User] = {}
    for job in jobs:
        who = name(job["user"])
        row = found.setdefault(who, User(user=who, running=0, waiting=0, gpus_held=0))
        count = job.get("count", 1)
        if job["state"] in LIVE:
            row.running += count
            row.gpus_held += len(job["devices"]) * count
        else:
            row.waiting += count
    ranked = sorted(found.values(), key=lambda u: (-u.gpus_held, -u.running, -u.waiting))
    return ranked[:_MOST_USERS]
