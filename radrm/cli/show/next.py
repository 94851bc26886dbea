"""What one needs next: the commands below `radrm status`, and the ten lines of `radrm` alone."""

from __future__ import annotations

import os
import sys

from radrm.cli.show.jobs import job_rows
from radrm.cli.show.styled import Styled
from radrm.client.amounts import starts_in
from radrm.client.text import label, next_steps
from radrm.core.units import gpu_count, show_mib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from radrm.cli.show.styled import Part
    from radrm.client.text import Document

_MOST_JOBS = 3
_ENDS = ("FAILED", "TIMEOUT", "COMPLETED", "CANCELLED")
_COMMANDS = 2
_IS = {"failed": "has failed", "waiting": "waits", "running": "runs"}
_AT_FIRST = (
    ("radrm submit -- python train.py", "run a command on a GPU"),
    ("radrm gpus", "what each GPU has, and for whom"),
)


def are_wanted() -> bool:
    """Whether this user is shown commands: on a terminal, unless RADRM_HINTS says no."""
    return sys.stdout.isatty() and os.environ.get("RADRM_HINTS", "1").lower() not in _NO


_NO = ("0", "no", "off", "false")


def commands(own: Document) -> list[tuple[str, str]]:
    """Two commands that a user needs next, each with the reason. `own`: what that user has."""
    jobs = [(own[kind], words) for kind, words in _IS.items() if own[kind] is not None]
    if not jobs:
        return list(_AT_FIRST)
    about = [(next_steps(job), f"job {label(job)} {words}") for job, words in jobs]
    ordered = [(steps[0], reason) for steps, reason in about]
    ordered += [(step, reason) for steps, reason in about for step in steps[1:]]
    found: dict[str, str] = {}
    for step, reason in (*ordered, _AT_FIRST[1]):
        found.setdefault(step, reason)
    return list(found.items())[:_COMMANDS]


def command_lines(own: Document) -> list[Styled]:
    """The same as lines; none where the server's configuration says so."""
    if not own["hints"]:
        return []
    found = commands(own)
    width = max(len(command) for command, _ in found)
    lines = []
    for number, (command, reason) in enumerate(found):
        line = Styled("" if number else "next:", "dim", cut=True)
        line.append(" " * (6 if number else 1) + command.ljust(width))
        line.append(f"   {reason}", "dim")
        lines.append(line)
    return lines


# ------------------------------------------------------------------ the start of the day


def overview(page: Document, devices: Sequence[Document]) -> list[Part]:
    """A user's jobs, the server's GPUs and the queue, in at most ten lines. `page`: the first of
    that user's jobs, with `own`."""
    jobs, waiting = page["jobs"][:_MOST_JOBS], page["own"]["waiting"]
    if waiting is not None and label(waiting) not in map(label, jobs):
        jobs[_MOST_JOBS - 1 :] = [waiting]  # of those that run, fewer tell enough
    table: list[Part] = [job_rows(jobs, page["devices"], page["now"])] if jobs else []
    return [
        _your_jobs(page),
        *table,
        _gpus(devices, bool(page.get("simulated"))),
        _queue(page["own"], page["now"]),
        *command_lines(page["own"]),
        Styled("all commands: radrm --help", "dim"),
    ]


def _your_jobs(page: Document) -> Styled:
    """As `your jobs: 2 running, 3 pending; last 24 h: 1 failed, 12 completed`."""
    now = _counted(page["counts"]) or "none runs or waits"
    counts = page["own"]["ended"]
    ended = {state: counts[state] for state in _ENDS if counts.get(state)}
    past = f"; last 24 h: {_counted(ended)}" if ended else ""
    return Styled(f"your jobs: {now}{past}", cut=True)


def _counted(counts: Document) -> str:
    return ", ".join(f"{count} {state.lower()}" for state, count in counts.items())


def _gpus(devices: Sequence[Document], simulated: bool) -> Styled:
    """As `the server: 8 GPUs: 5 idle, 3 busy; 212.0G free, up to 39.6G on one`."""
    states: dict[str, int] = {}
    for device in devices:
        name = "used by others" if device["state"] == "others" else device["state"]
        states[name] = states.get(name, 0) + 1
    free = [device["free_mib"] or 0 for device in devices]
    memory = f"; {show_mib(sum(free))} free" if devices else ""
    if len(devices) > 1:
        memory += f", up to {show_mib(max(free))} on one"
    counted = f": {_counted(states)}" if states else ""
    return Styled(f"the server: {gpu_count(len(devices), simulated)}{counted}{memory}", cut=True)


def _queue(own: Document, now: float) -> Styled:
    """As `the queue: 14 jobs wait, 2 before your job 9, which starts in 20-40m (est.)`."""
    queued, mine = own["queued"], own["waiting"]
    line = Styled(
        f"the queue: {queued or 'no'} job{' waits' if queued < 2 else 's wait'}", cut=True
    )
    if mine is not None and mine["position"] is not None:
        before, name = mine["position"] - 1, label(mine)
        line.append(
            f", {before} before your job {name}" if before else f", your job {name} is next"
        )
        starts = starts_in(mine, now)
        line.append(f"; starts {starts}" if starts else "")
    return line
