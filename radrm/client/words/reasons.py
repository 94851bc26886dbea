"""Why a job waits, and what is expected of it, in sentences."""

from __future__ import annotations

from radrm.client.amounts import clock, local_time, span, starts_in
from radrm.client.text import FINAL, LIVE, WAITING
from radrm.client.words.jobs import size_text, warned, why
from radrm.core.units import gpus_named, show_mib, show_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from radrm.client.text import Document


def sentences(answer: Document) -> Iterator[str]:
    """Yield why the job of an answer of `explain` waits or ended, and what is expected of it."""
    job, now = answer["job"], answer["now"]
    waits = job["state"] in WAITING
    summary = answer.get("summary") or why(job)
    if job.get("warnings"):
        summary = "; ".join(warned(each, now) for each in job["warnings"])
    if job.get("begin_at") is not None and not job.get("held"):
        left = show_seconds(job["begin_at"] - now)
        summary = f"{why(job, now=now).rstrip('.')} (in {left}); until then others pass it."
    yield from filter(None, (summary, outlook(job, now)))
    yield from _size(answer)
    if waits:
        yield from _general(answer)
        for each in answer.get("reservations") or []:
            yield f"GPU {each['index']} {reserved(each)}"


def _general(answer: Document) -> Iterator[str]:
    """Why the job starts on no GPU at all, and how many jobs are before it."""
    for reason in answer["reasons"]:
        if reason["rule"] == "count" and answer["devices"]:
            continue  # the lines of the GPUs say it
        numbers = ""
        if reason["needed"] is not None and reason["available"] is not None:
            needed, there = (amount(reason[key], reason["unit"]) for key in ("needed", "available"))
            said = {word.strip("(),;.") for word in reason["message"].split()}
            if not {needed.split()[0], there.split()[0]} & said:
                numbers = f" (needs {needed}, {there} available)"
        if numbers or reason["message"] != answer["summary"]:
            yield f"{whose(reason)}{reason['message']}{numbers}"
    if answer["ahead"]:
        one = answer["ahead"] == 1
        yield f"{answer['ahead']} {'job is' if one else 'jobs are'} before it."
    elif answer["ahead"] == 0:
        yield "It is first in the queue."


def gpu_lines(answer: Document) -> list[str]:
    """Why each GPU does not take the job, the GPUs of one reason together: `GPU 0-5: 4.6G free, job
    12 (anna) reserves 18.0G`. With their names where these differ."""
    groups: dict[tuple[str, str], list[int]] = {}
    kinds = {device["name"] for device in answer["devices"]}
    for device in answer["devices"]:
        text = "could take it"
        if device["rule"] is not None:
            text = whose(device) + (device["message"] or device["rule"])
        kind = f" ({device['name']})" if len(kinds) > 1 else ""
        groups.setdefault((kind, text), []).append(device["index"])
    return [f"{gpus_named(indices)}{kind}: {text}" for (kind, text), indices in groups.items()]


def _size(answer: Document) -> Iterator[str]:
    """The size of a running job with a range, why it does not grow, and what is refused for it."""
    job, reasons = answer["job"], answer.get("size") or ()
    if job["state"] not in LIVE:
        return
    yield from (reason["message"] for reason in reasons if reason["rule"] == "refused")
    size = size_text(job)
    if not size:
        return
    yield size
    if job.get("resize_error"):
        yield f"not resized: {job['resize_error']}"
    for reason in reasons:
        if reason["rule"] != "refused":
            yield f"does not grow: {whose(reason)}{reason['message']}"


def shows_devices(answer: Document) -> bool:
    """Whether to show the devices: not if all would take the job and a general reason holds it."""
    refusing = any(device["rule"] is not None for device in answer["devices"])
    return refusing or (bool(answer["devices"]) and not answer["reasons"])


def outlook(job: Document, now: float) -> str:
    """When a job that has not ended is expected to end, and how late that is; how late it ended.

    As `expected 14:20 to 18:40 (at worst 19:30, by history); due 18:00: late by 40m`. "" for a job
    without a due time of which nothing is expected.
    """
    due, ended = job.get("due_at"), job["state"] in FINAL
    says = not ended and (due is not None or job.get("expected_end_at") is not None)
    parts = [_expected(job, now)] if says and job["state"] != "STOPPING" else []
    if due is not None:
        late_s = job.get("late_s")
        parts.append(f"due {clock(due, now)}")
        if late_s is not None:
            least = "" if ended or job.get("expected_end_at") is not None else "at least "
            parts[-1] += f": late by {least}{span(late_s)}" if late_s >= 1 else ": in time"
        elif job.get("needs_s") is not None:
            parts[-1] += f": it must start before {clock(due - job['needs_s'], now)}"
    return "; ".join(filter(None, parts))


def expected_start(job: Document, now: float) -> str:
    """As `expected start: in 20-40m (est.), from 14:20 to 14:40`, `starts at the latest in 5h32m,
    at 19:50: jobs before it have only a time limit`, or why it is unknown."""
    found = starts_in(job, now)
    if not found:
        unknown = job.get("start_unknown")
        return f"expected start: unknown; {unknown}" if unknown else ""
    start: Any = job.get("expected_start_at")
    latest: Any = job.get("latest_start_at")
    if start is None and latest is not None:
        return f"starts {found}, at {clock(latest, now)}; {job.get('start_unknown') or ''}"
    at = f"at {clock(start, now)}"
    if latest is None:
        at = f"not before {clock(start, now)}"
    elif clock(latest, now) != clock(start, now):
        at = f"from {clock(start, now)} to {clock(latest, now)}"
    return f"expected start: {found}, {at}"


def _expected(job: Document, now: float) -> str:
    end, latest = job.get("expected_end_at"), job.get("latest_end_at")
    worst = "" if latest is None or latest == end else f"at worst {clock(latest, now)}"
    if end is None:
        unknown = job.get("expected_unknown")
        most = f", {worst}" if worst else ""
        return f"cannot say when it ends: {unknown}{most}" if unknown else ""
    start = job.get("expected_start_at") or job["started_at"]
    begins = "" if start is None else f"{clock(start, now)} to "
    source = job.get("expected_source") or ""
    by = source if source == "declared" else f"by {source}"
    return f"expected {begins}{clock(end, now)} ({', '.join(filter(None, (worst, by)))})"


def amount(value: float | None, unit: str | None) -> str:
    """A number of a rule with its unit; `-` if the rule has none."""
    if value is None:
        return "-"
    if unit in _SHOWN:
        return _SHOWN[unit](value)
    number = f"{value:,.2f}"
    number = number.rstrip("0").rstrip(".")
    one = unit is not None and number == "1" and unit.endswith("s")
    return f"{number} {unit[:-1] if one else unit}" if unit else number


_SHOWN: dict[str | None, Callable[[float], str]] = {
    "MiB": show_mib,
    "s": show_seconds,
    "fraction": "{:.0%}".format,
    "SM activity": "{:.2f}".format,
    "times": "{:.2f} times".format,
}


def whose(reason: Document) -> str:
    """The planner that gives a reason, unless it is the one that starts jobs."""
    planner = reason.get("planner")
    return f"{planner}: " if planner else ""


def reserved(found: Document) -> str:
    """As `reserved: 38.0G for job 12, 2026-11-22 14:30:00 to 2026-11-22 15:30:00 (backfill)`."""
    start, end = local_time(found["start_at"]), local_time(found["end_at"])
    what = f"{show_mib(found['reserved_mib'])} for {found['owner']}"
    return f"reserved: {what}, {start} to {end} ({found['kind']})"
