"""Tables and lines for people. What programs read is `--json`, and not made here."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from radrm.core.units import show_mib, show_seconds
from radrm.radfile import WHOLE_DEVICE_MIB

Document = dict[str, Any]

PAGE = 50
"""Rows that people are shown at once."""

_STATE_STYLE = {
    "PENDING": "yellow",
    "LAUNCHING": "cyan",
    "RUNNING": "bold cyan",
    "STOPPING": "magenta",
    "RECOVERING": "bold yellow",
    "COMPLETED": "green",
    "FAILED": "bold red",
    "TIMEOUT": "red",
    "CANCELLED": "dim",
}


def out() -> Console:
    """Standard output; wide where it is no terminal, so that nothing is cut for a pipe."""
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=2))


def plain(text: str) -> str:
    """Text that others wrote, without what would move the cursor or recolour the screen."""
    return "".join(c if c.isprintable() else "�" for c in text)


def _plain_table(*columns: tuple[str, JustifyMethod]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in columns:
        table.add_column(name, justify=justify, no_wrap=name != "WHY")
    return table


def jobs_table(jobs: Sequence[Document], devices: Sequence[Document], now: float) -> Group:
    """Jobs by rows: where they are, why they wait, what they hold. At most a page of them."""
    index = {d["uuid"]: str(d["index"]) for d in devices}
    table = _plain_table(
        ("JOB", "right"),
        ("NAME", "left"),
        ("USER", "left"),
        ("STATE", "left"),
        ("GPU", "left"),
        ("EST", "right"),
        ("RESERVED", "right"),
        ("PEAK", "right"),
        ("TIME", "right"),
        ("WHY", "left"),
    )
    for job in jobs[:PAGE]:
        table.add_row(
            str(job["id"]),
            _clip(job["name"], 28),
            _clip(job["user"], 12),
            Text(job["state"], style=_STATE_STYLE.get(job["state"], "")),
            ",".join(index.get(uuid, uuid[:12]) for uuid in _holding(job)) or "-",
            show_mib(_sane(job["estimate_mib"])),
            show_mib(job["reserved_mib"]),
            show_mib(job["peak_mib"]),
            show_seconds(_age(job, now)),
            Text(plain(_why(job))),
        )
    parts: list[RenderableType] = [table]
    if len(jobs) > PAGE:
        parts.append(Text(f"... and {len(jobs) - PAGE} more (radrm status --json has all)"))
    return Group(*parts)


def _holding(job: Document) -> list[str]:
    return job["devices"] if job["state"] not in ("PENDING", "RECOVERING") else []


def _sane(mib: int | None) -> int | None:
    """No estimate for the mark that means a whole device, whatever its size."""
    return None if mib is None or mib >= WHOLE_DEVICE_MIB else mib


def _age(job: Document, now: float) -> float | None:
    """Waiting time, run time so far, or the run time it had."""
    if job["ended_at"] is not None:
        return float(job["ended_at"] - (job["started_at"] or job["ended_at"]))
    return float(now - (job["started_at"] or job["submitted_at"]))


def _why(job: Document) -> str:
    reason = job["reason"] or ""
    if job["oom_count"] and job["state"] not in ("FAILED",):
        times = "once" if job["oom_count"] == 1 else f"{job['oom_count']} times"
        recovered = f"recovered from out-of-memory {times}"
        return f"{recovered}; {reason}" if reason else recovered
    return reason


def _clip(text: str, width: int) -> Text:
    text = plain(text)
    return Text(text if len(text) <= width else text[: width - 1] + "…")


def job_details(job: Document) -> Table:
    """Everything on one job, a line each."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for key, value in job.items():
        if value is None or value == []:
            text = "-"
        elif key.endswith("_mib"):
            text = f"{show_mib(value)} ({value} MiB)"
        else:
            text = ", ".join(value) if isinstance(value, list) else str(value)
        table.add_row(key.replace("_", " "), Text(plain(text)))
    return table


def devices_table(devices: Sequence[Document]) -> Table:
    table = _plain_table(
        ("GPU", "right"),
        ("NAME", "left"),
        ("STATE", "left"),
        ("MEMORY", "left"),
        ("USED", "right"),
        ("RESERVED", "right"),
        ("UNMANAGED", "right"),
        ("FREE", "right"),
        ("SMACT", "right"),
        ("WATT", "right"),
        ("JOBS", "left"),
        ("WHY", "left"),
    )
    for device in devices:
        table.add_row(
            str(device["index"]),
            f"{device['name']} {device['profile'] or ''}".strip(),
            Text(device["state"], style=_DEVICE_STYLE.get(device["state"], "")),
            memory_bar(device["used_mib"], device["total_mib"]),
            show_mib(device["used_mib"]),
            show_mib(device["reserved_mib"]),
            show_mib(device["unmanaged_mib"]),
            show_mib(device["free_mib"]),
            "-" if device["smact"] is None else f"{device['smact']:.2f}",
            "-" if device["power_w"] is None else f"{device['power_w']:.0f}",
            " ".join(map(str, device["jobs"])) or "-",
            Text(plain(device["reason"] or "")),
        )
    return table


_DEVICE_STYLE = {"busy": "cyan", "idle": "green", "drained": "yellow"}


def memory_bar(used_mib: int | None, total_mib: int, width: int = 20) -> Text:
    if used_mib is None:
        return Text("?" * width, style="dim")
    full = min(width, round(width * used_mib / total_mib)) if total_mib else 0
    return Text("█" * full + "░" * (width - full), style="cyan")
