"""Questions about the server: its GPUs, what was used, the user's limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from radrm.agents.answers import Gpu, Gpus, Limit, Limits, Usage
from radrm.agents.asking import daemon
from radrm.agents.bounded import fitting, maybe, moment, name, text, texts
from radrm.agents.jobs import Hours, use
from radrm.agents.jobs import Limit as Rows
from radrm.client.text import Document

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
    return Gpu(
        gpu=device["index"],
        uuid=name(device["uuid"]),
        name=name(device["name"]),
        simulated=bool(device.get("simulated")),
        state=device["state"],
        reason=maybe(device["reason"]),
        total_mib=device["total_mib"],
        used_mib=device["used_mib"],
        free_mib=device["free_mib"],
        reserved_mib=device["reserved_mib"],
        unmanaged_mib=device["unmanaged_mib"],
        smact=device["smact"],
        power_w=device["power_w"],
        jobs=texts(device["labels"], 50),
        notes=texts(device["notes"]),
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
    limits = [
        Limit(name=each["name"], limit=each["limit"], use=each["use"]) for each in found["limits"]
    ]
    return Limits(user=name(found["user"]), note=maybe(found["note"]), limits=limits)
