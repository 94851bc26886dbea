"""The live picture of `status --follow`: counts, devices, and the jobs that fit."""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.live import Live

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.devices import device_jobs, device_name, device_state, memory_bar
from radrm.cli.show.jobs import counts_line, job_rows
from radrm.cli.show.styled import Styled, console
from radrm.client.amounts import show_smact, show_watts
from radrm.client.connection import Client
from radrm.client.text import Document
from radrm.core.units import show_mib
from radrm.errors import Unreachable

_REFRESH_S = 1.0
_FEWEST_JOBS = 5
_PAUSE_S = 0.1
"""Shortest time between two pictures, so that a held key does not ask the daemon without end."""
_KEY = re.compile(rb"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|[^\x1b]", re.DOTALL)
_ROWS: dict[bytes, int] = {b"\x1b[A": -1, b"k": -1, b"\x1b[B": 1, b"j": 1}
_PAGES: dict[bytes, int] = {b"\x1b[5~": -1, b"b": -1, b"\x1b[6~": 1, b" ": 1, b"f": 1}
_ENDS: dict[bytes, bool] = {b"g": False, b"\x1b[H": False, b"G": True, b"\x1b[F": True}


def watch(client: Client, words: Mapping[str, Any], first: int, most: int) -> None:
    """Draw until `q` or Ctrl-C: up to `most` rows from row `first` on, as many as fit.

    Arrows, `j k`, pages, `g` and `G` scroll. Raises `Unreachable` if the daemon does not answer at
    first. Later it may restart.
    """
    drawing, shown, room, total = console(), None, 1, 0
    try:
        with Keys() as keys, Live(console=drawing, screen=True, auto_refresh=False) as live:
            while True:
                cause = None
                try:
                    devices = client.ask("gpus")
                    room = min(most, rows_for_jobs(drawing.height, len(devices)))
                    page = client.ask("page", **words, offset=first, limit=room)
                    total = page["total"]
                    shown = picture(page, devices, drawing.height, first)
                except Unreachable:
                    if shown is None:
                        raise
                    text = "The daemon does not answer; trying again. Jobs run on."
                    cause = Styled(text, "bold red")
                live.update(Group(cause, shown) if cause else shown, refresh=True)
                typed = keys.typed(_REFRESH_S)
                if QUIT & set(typed):
                    return
                first = scrolled(first, typed, room, total)
    except KeyboardInterrupt:
        pass


QUIT = {b"q", b"Q", b"\x04"}


def scrolled(first: int, typed: Sequence[bytes], room: int, total: int) -> int:
    """Return the first row after these keys, of `total` rows of which `room` fit."""
    last = max(0, total - room)
    for key in typed:
        if key in _ENDS:
            first = last if _ENDS[key] else 0
        else:
            first += _ROWS.get(key, 0) + _PAGES.get(key, 0) * max(1, room - 1)
        first = min(max(0, first), last)
    return first


class Keys:
    """The keys that are typed meanwhile; none where standard input is no terminal."""

    def __enter__(self) -> Keys:
        self._before = None
        with contextlib.suppress(termios.error, OSError, ValueError, AttributeError):
            self._fd = sys.stdin.fileno()
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def typed(self, seconds: float) -> list[bytes]:
        """Return the next keys; none if none comes in this time."""
        if self._before is None:
            time.sleep(seconds)
            return []
        if not select.select([self._fd], [], [], seconds)[0]:
            return []
        time.sleep(_PAUSE_S)
        data = os.read(self._fd, 1024)
        return _KEY.findall(data) or [b"\x04"] * (not data)


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
    parts: list[Any] = [
        counts_line(page["counts"], len(devices), bool(page.get("simulated"))),
        _bars(devices[:room]),
    ]
    if len(devices) > room:
        parts.append(Styled(f"... and {len(devices) - room} more (radrm gpus)", "dim"))
    else:
        parts.append(Styled(""))
    parts.append(job_rows(jobs, page["devices"], page["now"]))
    left = total - first - len(jobs)
    more = f"... and {left} more; arrows scroll, " if left > 0 else "arrows scroll, " * bool(first)
    parts.append(Styled(f"{more}q quits", "dim"))
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
            device_state(device["state"]),
            device_jobs(device),
        )
    return table
