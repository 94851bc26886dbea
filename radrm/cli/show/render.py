"""Tables and lines for people. What programs read is `--json`, and not made here."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.text import Text

from radrm.cli.show.columns import Column, Rows
from radrm.client.text import Document, label
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain
from radrm.jobfile.radfile import WHOLE_DEVICE_MIB

PAGE = 50
"""Rows that people are shown at once."""

_PIPE_WIDTH = 4096
"""Where there is no terminal: wide enough that nothing is cut."""

_STATE_STYLE = {
    "RUNNING": "bold cyan",
    "LAUNCHING": "cyan",
    "STOPPING": "magenta",
    "RECOVERING": "bold yellow",
    "PENDING": "yellow",
    "COMPLETED": "green",
    "FAILED": "bold red",
    "TIMEOUT": "red",
    "CANCELLED": "dim",
}
_DEVICE_STYLE = {
    "busy": "cyan",
    "idle": "green",
    "drained": "yellow",
    "unreadable": "bold red",
    "vanished": "bold red",
}
_WAITING = ("PENDING", "RECOVERING")


# ------------------------------------------------------------------ where it goes


def out() -> Console:
    """Standard output; coloured on a terminal only, and nothing is cut for a pipe."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a bar is no reason to fail on a plain terminal
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)


# ------------------------------------------------------------------ words


def state_text(state: str) -> Text:
    return Text(plain(state), style=_STATE_STYLE.get(state, ""))


def when(epoch_s: float | None, now: float) -> str:
    """A moment in local time, and how far from now that is."""
    if epoch_s is None:
        return "-"
    moment = datetime.fromtimestamp(epoch_s).strftime("%Y-%m-%d %H:%M:%S")
    if epoch_s > now:
        return f"{moment} (in {show_seconds(epoch_s - now)})"
    return f"{moment} ({show_seconds(now - epoch_s)} ago)"


def show_joules(joules: float | None) -> str:
    """Energy for people: `850 J`, `12.3 kJ`, `4.1 MJ`; `-` when unknown."""
    if joules is None:
        return "-"
    if joules < 1000:
        return f"{joules:.0f} J"
    return f"{joules / 1e3:.1f} kJ" if joules < 1e6 else f"{joules / 1e6:.1f} MJ"


def show_smact(smact: float | None) -> str:
    return "-" if smact is None else f"{smact:.2f}"


def sane_mib(mib: int | None) -> int | None:
    """No estimate for the mark that means a whole device, whatever its size."""
    return None if mib is None or mib >= WHOLE_DEVICE_MIB else mib


def age_s(job: Document) -> float | None:
    """Waiting time, run time so far, or the run time it had; None where a reboot lies between."""
    if job["started_at"] is None and job["ended_at"] is not None:
        return 0.0
    found: float | None = job.get("waited_s" if job["started_at"] is None else "ran_s")
    return found


def why(job: Document) -> str:
    """Why it waits, or how it ended."""
    reason = job["reason"] or ""
    if job["oom_count"] and job["state"] != "FAILED":
        times = "once" if job["oom_count"] == 1 else f"{job['oom_count']} times"
        recovered = f"recovered from out-of-memory {times}"
        reason = f"{recovered}; {reason}" if reason else recovered
    return plain(reason)


def where(job: Document, index: Mapping[str, int]) -> str:
    """The indices of the devices that it holds or held; `-` for none."""
    uuids = job["devices"] if job["state"] not in _WAITING else []
    return ",".join(str(index.get(uuid, plain(uuid[:12]))) for uuid in uuids) or "-"


def counts_line(counts: Mapping[str, int], devices: int) -> Text:
    """As `3 running, 97 pending — 4 GPUs`."""
    line = Text(no_wrap=True, overflow="ellipsis")
    for state in [*_STATE_STYLE, *(s for s in counts if s not in _STATE_STYLE)]:
        if counts.get(state):
            line.append(", " if line else "")
            line.append(
                f"{counts[state]} {plain(state).lower()}", style=_STATE_STYLE.get(state, "")
            )
    if not line:
        line.append("nothing runs or waits")
    line.append(f" — {devices} {'GPU' if devices == 1 else 'GPUs'}")
    return line


# ------------------------------------------------------------------ jobs


def jobs_table(
    jobs: Sequence[Document], devices: Sequence[Document] | Mapping[str, int], now: float
) -> Group:
    """Jobs by rows: where they are, why they wait, what they hold. At most a page of them.

    `devices` are the documents of `gpus`, or their indices by UUID.
    """
    index = devices if isinstance(devices, Mapping) else {d["uuid"]: d["index"] for d in devices}
    parts: list[RenderableType] = [job_rows(jobs[:PAGE], index, now)]
    if len(jobs) > PAGE:
        parts.append(Text(f"... and {len(jobs) - PAGE} more"))
    return Group(*parts)


def job_rows(jobs: Sequence[Document], index: Mapping[str, int], now: float) -> Rows:
    alone = len({job["user"] for job in jobs}) < 2
    table = Rows(
        (
            Column("JOB", right=True),
            Column("NAME", least=14, most=28),
            Column("USER", rank=9 if alone else 4, most=12),
            Column("STATE"),
            Column("GPU", least=3, most=8),
            Column("EST", right=True, rank=6),
            Column("RESERVED", right=True, rank=7),
            Column("PEAK", right=True, rank=5),
            Column("TIME", right=True, rank=3),
            Column("WHY", least=28),
        )
    )
    for job in jobs:
        table.add(
            plain(label(job)),
            plain(job["name"]),
            plain(job["user"]),
            state_text(job["state"]),
            where(job, index),
            show_mib(sane_mib(job["estimate_mib"])),
            show_mib(job["reserved_mib"]),
            show_mib(job["peak_mib"]),
            show_seconds(age_s(job)),
            why(job),
        )
    return table


def change_line(job: Document, index: Mapping[str, int], now: float) -> Text:
    """One change of a job's state, for a log of them."""
    line = Text(datetime.fromtimestamp(now).strftime("%H:%M:%S"), no_wrap=True)
    line.append(f"  {plain(label(job)):<6}  {plain(job['name']):<20}  ")
    line.append_text(state_text(job["state"]))
    line.append(" " * max(0, 10 - len(job["state"])))
    told = [why(job)] if why(job) else []
    if job["devices"] and job["state"] in ("LAUNCHING", "RUNNING"):
        told.insert(0, f"on GPU {where(job, index)}")
    if job["attempts"] > 1:
        told.insert(0, f"attempt {job['attempts']}")
    line.append(f"  {', '.join(told)}")
    line.rstrip()
    return line


# ------------------------------------------------------------------ devices


def devices_table(devices: Sequence[Document]) -> Rows:
    """Devices by rows: who is on them, what is free."""
    table = Rows(
        (
            Column("GPU", right=True),
            Column("NAME", least=10),
            Column("STATE"),
            Column("MEMORY", rank=8),
            Column("USED", right=True),
            Column("RESERVED", right=True, rank=7),
            Column("UNMANAGED", right=True, rank=9),
            Column("FREE", right=True),
            Column("SMACT", right=True, rank=3),
            Column("WATT", right=True, rank=4),
            Column("JOBS", least=8),
            Column("WHY", least=10),
        )
    )
    for device in devices:
        table.add(
            str(device["index"]),
            device_name(device),
            Text(device["state"], style=_DEVICE_STYLE.get(device["state"], "")),
            memory_bar(device["used_mib"], device["total_mib"]),
            show_mib(device["used_mib"]),
            show_mib(device["reserved_mib"]),
            show_mib(device["unmanaged_mib"]),
            show_mib(device["free_mib"]),
            show_smact(device["smact"]),
            show_watts(device["power_w"]),
            device_jobs(device),
            plain(device["reason"] or ""),
        )
    return table


def device_name(device: Document) -> str:
    return plain(f"{device['name']} {device['profile'] or ''}".strip())


def device_jobs(device: Document) -> str:
    return plain(" ".join(map(str, device.get("labels") or device["jobs"]))) or "-"


def show_watts(power_w: float | None) -> str:
    return "-" if power_w is None else f"{power_w:.0f}"


def memory_bar(used_mib: int | None, total_mib: int, width: int = 20) -> Text:
    if used_mib is None:
        return Text("?" * width, style="dim")
    full = min(width, round(width * used_mib / total_mib)) if total_mib else 0
    return Text("█" * full + "░" * (width - full), style="cyan")
