"""Past jobs, the newest last, and their sums: `radrm history`."""

from __future__ import annotations

import time

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.jobs import state_text
from radrm.cli.show.past.report import hours, removed_line
from radrm.cli.show.styled import Styled
from radrm.client.amounts import local_time, sane_mib
from radrm.client.text import label
from radrm.core.units import SIMULATED_GPUS, show_mib, show_seconds
from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.cli.show.styled import Part
    from radrm.client.text import Document


def history_page(answer: Document, next_page: str) -> list[Part]:
    """A row for each job, and below them the sums of all. `next_page`: the command that shows
    earlier ones; empty if there are none."""
    page: list[Part] = [_table(answer)] if answer["jobs"] else []
    if next_page:
        page.append(Styled(f"earlier jobs: {next_page}", "dim"))
    return page + _sums(answer) + [Styled(line, "dim") for line in removed_line(answer)]


def _table(answer: Document) -> Rows:
    table = Rows(
        (
            Column("ID", right=True),
            Column("NAME", least=8, most=28),
            Column("USER", least=4, rank=3, most=12),
            Column("STATE"),
            Column("GPUS", least=4, most=8),
            Column("START", rank=2),
            Column("ELAPSED", right=True),
            Column("WAITED", right=True, rank=4),
            Column("PEAK", right=True, rank=1),
            Column("(EST)", right=True, rank=5),
            Column("EXIT", right=True),
        )
    )
    for job in answer["jobs"]:
        table.add(
            plain(label(job)),
            plain(job["name"]),
            plain(job["user"]),
            state_text(job["state"]),
            _gpus(job, answer),
            _start(job["started_at"], answer["until"]),
            show_seconds(job["ran_s"]),
            show_seconds(job["waited_s"]),
            show_mib(job["peak_mib"]),
            _estimate(job),
            "-" if job["exit_code"] is None else str(job["exit_code"]),
        )
    return table


def _gpus(job: Document, answer: Document) -> str:
    index = answer["devices"]
    return ",".join(str(index.get(uuid, plain(uuid[:12]))) for uuid in job["devices"]) or "-"


def _estimate(job: Document) -> str:
    mib = sane_mib(job["estimate_mib"])
    return "-" if mib is None else f"({show_mib(mib)})"


def _start(epoch_s: float | None, until_s: float) -> str:
    """As `11-23 18:05`, with the year if it is another one than that of the end."""
    if epoch_s is None:
        return "-"
    then = time.localtime(epoch_s)
    whole = local_time(epoch_s)[:16]
    return whole if then.tm_year != time.localtime(until_s).tm_year else whole[5:]


def _sums(answer: Document) -> list[Part]:
    sums = answer["sums"]
    jobs, deaths = sums["jobs"], sums["oom_deaths"]
    gpus = f"; {SIMULATED_GPUS}" if answer.get("simulated") else ""
    time_ = Styled(
        f"{local_time(answer['since'])[:16]} to {local_time(answer['until'])[:16]}{gpus}", "dim"
    )
    if not jobs:
        return [Styled("No such job has ended."), time_]
    parts = [
        f"{jobs} {'job' if jobs == 1 else 'jobs'}",
        f"{hours(sums['gpu_s'], sums['gpu_s'])} GPU-hours",
        f"{sums['failed']} failed",
        *([f"{sums['timeout']} timed out"] if sums["timeout"] else []),
        f"{deaths} out-of-memory {'death' if deaths == 1 else 'deaths'}",
    ]
    return [Styled(", ".join(parts), "bold"), time_]
