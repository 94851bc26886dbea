"""Show the answer of `radrm explain` to people."""

from __future__ import annotations

from radrm.cli.show.card import (
    adopted,
    estimated,
    headline,
    memory_cap,
    sm_share,
)
from radrm.cli.show.columns import Column, Field, Rows
from radrm.cli.show.devices import reserved
from radrm.cli.show.jobs import warned, why
from radrm.cli.show.parts.attempts import attempts_table
from radrm.cli.show.sizes import size_text
from radrm.cli.show.styled import Styled
from radrm.client.amounts import clock, span, starts_in
from radrm.client.states import FINAL, LIVE, WAITING
from radrm.client.text import label, next_steps
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.cli.show.styled import Part
    from radrm.client.text import Document


def explanation(answer: Document) -> list[Part]:
    """The parts of the output for one document of `explain`."""
    job = answer["job"]
    last = answer["attempts"][-1]["devices"] if answer["attempts"] else []
    index = dict(zip(job["devices"], last, strict=False))
    waiting = job["state"] in WAITING
    parts: list[Part] = [headline(job, index)]
    summary = answer.get("summary") or why(job)
    if job.get("warnings"):
        summary = "; ".join(warned(each, answer["now"]) for each in job["warnings"])
    if job.get("begin_at") is not None and not job.get("held"):
        left = show_seconds(job["begin_at"] - answer["now"])
        summary = f"{why(job, now=answer['now'])} (in {left}); until then others pass it"
    if summary:
        parts.append(_indented(summary))
    if outlook(job, answer["now"]):
        parts.append(_indented(outlook(job, answer["now"])))
    parts += _size(answer)
    if waiting:
        parts += _general(answer)
        parts += [
            _indented(f"GPU {each['index']} {reserved(each)}")
            for each in answer.get("reservations") or []
        ]
        if _shows_devices(answer):
            parts += [Styled(), _devices(answer["devices"])]
    if answer["attempts"]:
        parts += [Styled(), attempts_table(job, answer["attempts"])]
    if job["state"] in FINAL and not answer["attempts"]:
        parts.append(_indented("It never started."))
    if job.get("cpu_list") and job["state"] in LIVE:
        parts.append(_indented(f"it runs on the CPUs near its GPUs: {job['cpu_list']}"))
    if job.get("not_enforced"):
        parts.append(_indented(job["not_enforced"]))
    if job.get("adopted"):
        parts.append(_indented(f"adopted: {adopted(job)}"))
    if sm_share(job):
        parts.append(_indented(f"SM share: {sm_share(job)}"))
    if memory_cap(job):
        parts.append(_indented(f"memory cap: {memory_cap(job)}"))
    lines = [_indented(f"{name}: {text}") for name, text in estimated(job)]
    parts += [Styled(), *lines] if lines else []
    steps = [step for step in next_steps(job) if step != f"radrm explain {plain(label(job))}"]
    if waiting and _start(job, answer["now"]):
        parts += [Styled(), _indented(_start(job, answer["now"]))]
    if steps:
        parts += [Styled(), _indented(f"next: {'   '.join(steps)}")]
    return parts


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
            least = "" if ended or job["expected_end_at"] is not None else "at least "
            parts[-1] += f": late by {least}{span(late_s)}" if late_s >= 1 else ": in time"
        elif job.get("needs_s") is not None:
            parts[-1] += f": it must start before {clock(due - job['needs_s'], now)}"
    return "; ".join(filter(None, parts))


def _start(job: Document, now: float) -> str:
    """As `expected start: in 20-40m, from 14:20 to 14:40 (est.)`, or why it is unknown."""
    found = starts_in(job, now)
    if not found:
        unknown = job.get("start_unknown")
        return f"expected start: unknown; {plain(unknown)}" if unknown else ""
    start, latest = job["expected_start_at"], job.get("latest_start_at")
    at = f"at {clock(start, now)}"
    if latest is None:
        at = f"not before {clock(start, now)}"
    elif clock(latest, now) != clock(start, now):
        at = f"from {clock(start, now)} to {clock(latest, now)}"
    return f"expected start: {found}, {at} (est.)"


def _expected(job: Document, now: float) -> str:
    end, latest = job.get("expected_end_at"), job.get("latest_end_at")
    worst = "" if latest is None or latest == end else f"at worst {clock(latest, now)}"
    if end is None:
        unknown = job.get("expected_unknown")
        most = f", {worst}" if worst else ""
        return f"cannot say when it ends: {plain(unknown)}{most}" if unknown else ""
    start = job.get("expected_start_at") or job["started_at"]
    begins = "" if start is None else f"{clock(start, now)} to "
    source = plain(job.get("expected_source") or "")
    by = source if source == "declared" else f"by {source}"
    return f"expected {begins}{clock(end, now)} ({', '.join(filter(None, (worst, by)))})"


def amount(value: float | None, unit: str | None) -> str:
    """A number of a rule with its unit; `-` if the rule has none."""
    if value is None:
        return "-"
    if unit and unit.lower() == "mib":
        return show_mib(value)
    if unit == "s":
        return show_seconds(value)
    return f"{value:.4g} {plain(unit)}" if unit else f"{value:.4g}"


def _indented(text: str) -> Field:
    return Field("", Styled(plain(text)), indent=2)


def _general(answer: Document) -> list[Field]:
    """Why the job starts on no GPU at all, and how many jobs are before it."""
    lines = []
    for reason in answer["reasons"]:
        numbers = ""
        if reason["needed"] is not None and reason["available"] is not None:
            needed, there = (amount(reason[key], reason["unit"]) for key in ("needed", "available"))
            if not {needed, there} <= {word.strip("(),;") for word in reason["message"].split()}:
                numbers = f": {there} of {needed}"
        if numbers or reason["message"] != answer["summary"]:
            lines.append(_indented(f"{_whose(reason)}{reason['message']}{numbers}"))
    if answer["ahead"]:
        one = answer["ahead"] == 1
        lines.append(_indented(f"{answer['ahead']} {'job is' if one else 'jobs are'} before it"))
    elif answer["ahead"] == 0:
        lines.append(_indented("it is first in the queue"))
    return lines


def _size(answer: Document) -> list[Field]:
    """The size of a running job with a range, and why it does not grow."""
    job = answer["job"]
    size = size_text(job)
    if not size or job["state"] not in LIVE:
        return []
    lines = [_indented(size)]
    if job.get("resize_error"):
        lines.append(_indented(f"not resized: {job['resize_error']}"))
    for reason in answer.get("size") or ():
        lines.append(_indented(f"does not grow: {_whose(reason)}{reason['message']}"))
    return lines


def _whose(reason: Document) -> str:
    """The planner that gives a reason, where several planners run."""
    planner = reason.get("planner")
    return f"{plain(planner)}: " if planner else ""


def _shows_devices(answer: Document) -> bool:
    """Whether to show the devices: not if all would take the job and a general reason holds it."""
    refusing = any(device["rule"] is not None for device in answer["devices"])
    return refusing or (bool(answer["devices"]) and not answer["reasons"])


def _devices(devices: list[Document]) -> Rows:
    numbers = (Column("NEEDS", right=True), Column("AVAILABLE", right=True))
    measured = any(device["needed"] is not None for device in devices)
    table = Rows(
        (
            Column("GPU", right=True),
            Column("NAME", rank=2, most=20),
            Column("REFUSED BY"),
            *(numbers if measured else ()),
            Column("WHY", least=20, wrap=True),
        )
    )
    for device in devices:
        refused = device["rule"] is not None
        amounts = [amount(device[key], device["unit"]) for key in ("needed", "available")]
        table.add(
            str(device["index"]),
            plain(device["name"]),
            plain(device["rule"]) if refused else Styled("nothing", "green"),
            *(amounts if measured else ()),
            _whose(device) + plain(device["message"] or "") if refused else "it could take the job",
        )
    return table
