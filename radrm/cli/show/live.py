"""The live picture of `status --follow`: counts, devices, and the jobs that fit."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.live import Live

from radrm.cli.show.amounts import show_smact, show_watts
from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.devices import device_jobs, device_name, memory_bar
from radrm.cli.show.jobs import counts_line, job_rows
from radrm.cli.show.styled import Styled, console
from radrm.client.connection import Client
from radrm.client.text import Document
from radrm.core.units import show_mib
from radrm.errors import Unreachable, plain

_REFRESH_S = 1.0
_FEWEST_JOBS = 5


def watch(client: Client, words: Mapping[str, Any], first: int, most: int) -> None:
    """Draw until Ctrl-C: up to `most` rows from row `first` on, as many as fit.

    Raises `Unreachable` if the daemon does not answer at first. Later it may restart.
    """
    drawing, shown = console(), None
    try:
        with Live(console=drawing, screen=True, auto_refresh=False) as live:
            while True:
                cause = None
                try:
                    devices = client.ask("gpus")
                    room = rows_for_jobs(drawing.height, len(devices))
                    page = client.ask("page", **words, offset=first, limit=min(most, room))
                    shown = picture(page, devices, drawing.height, first)
                except Unreachable:
                    if shown is None:
                        raise
                    text = "The daemon does not answer; trying again. Jobs run on."
                    cause = Styled(text, "bold red")
                live.update(Group(cause, shown) if cause else shown, refresh=True)
                time.sleep(_REFRESH_S)
    except KeyboardInterrupt:
        pass


def rows_for_devices(height: int, devices: int) -> int:
    """The rows for devices, such that a few jobs fit below them."""
    return max(1, min(devices, height - _FEWEST_JOBS - 6))


def rows_for_jobs(height: int, devices: int) -> int:
    """The rows for jobs. Six lines hold other things: counts, headers, what is left out."""
    return max(1, height - rows_for_devices(height, devices) - 6)


def picture(page: Document, devices: Sequence[Document], height: int, first: int = 0) -> Group:
    """The whole screen for one answer of `page` and one of `gpus`."""
    room = rows_for_devices(height, len(devices))
    jobs, total = page["jobs"], page["total"]
    parts: list[Any] = [counts_line(page["counts"], len(devices)), _bars(devices[:room])]
    if len(devices) > room:
        parts.append(Styled(f"... and {len(devices) - room} more (radrm gpus)", "dim"))
    else:
        parts.append(Styled(""))
    parts.append(job_rows(jobs, page["devices"], page["now"]))
    left = total - first - len(jobs)
    if left > 0:
        parts.append(Styled(f"... and {left} more (radrm status)", "dim"))
    return Group(*parts)


def _bars(devices: Sequence[Document]) -> Rows:
    table = Rows(
        (
            Column("GPU", right=True),
            Column("NAME", least=8, rank=2),
            Column("MEMORY"),
            Column("USED", right=True),
            Column("TOTAL", right=True, rank=4),
            Column("SMACT", right=True),
            Column("POWER", right=True, rank=3),
            Column("STATE", rank=1),
            Column("JOBS", least=8),
        )
    )
    for device in devices:
        table.add(
            str(device["index"]),
            device_name(device),
            memory_bar(device["used_mib"], device["total_mib"]),
            show_mib(device["used_mib"]),
            show_mib(device["total_mib"]),
            show_smact(device["smact"]),
            show_watts(device["power_w"]),
            plain(device["state"]),
            device_jobs(device),
        )
    return table
