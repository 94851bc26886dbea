"""What `radrm top` shows: devices with their past, jobs, one job."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from io import StringIO

from rich.console import Console
from rich.text import Text

from radrm.cli.show.card import card, explanation, given_fields
from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.devices import device_jobs, device_name, device_state, processes_page
from radrm.cli.show.jobs import job_rows
from radrm.cli.show.styled import Styled
from radrm.client.amounts import show_smact, show_watts
from radrm.client.text import WAITING, Document
from radrm.core.units import show_mib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.cli.show.styled import Part

MOST = 120
"""Readings kept of each GPU."""
_MOST_DEVICES = 1024
_BARS = "▁▂▃▄▅▆▇█"
_KEYS = ("used_mib", "smact", "power_w")


class History:
    """The last readings of each GPU, by UUID: its memory, SM activity and power."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, deque[float | None]]] = {}

    def add(self, devices: Sequence[Document]) -> None:
        """Add one answer of `gpus`. GPUs that are gone are forgotten."""
        known = {}
        for device in devices[:_MOST_DEVICES]:
            empty: dict[str, deque[float | None]] = {key: deque(maxlen=MOST) for key in _KEYS}
            of_device = self._known.get(device["uuid"], empty)
            for key in _KEYS:
                of_device[key].append(device[key])
            known[device["uuid"]] = of_device
        self._known = known

    def of(self, uuid: str, key: str) -> list[float | None]:
        """Return the readings of one GPU, the newest last. Unknown ones are None."""
        return list(self._known.get(uuid, {}).get(key, ()))

    def most(self, key: str) -> float:
        """Return the largest of the readings of all GPUs; 0 if none is known."""
        known = (each for of in self._known.values() for each in of[key] if each is not None)
        return max(known, default=0.0)


def bars(values: Sequence[float | None], most: float, width: int) -> str:
    """Return one character for each of the last `width` values, from 0 to `most`.

    A space where a value is unknown or not there yet.
    """
    shown = list(values)[-width:] if width > 0 else []
    line = "".join(
        " " if value is None else _BARS[_step(value / most if most > 0 else 0.0)] for value in shown
    )
    return line.rjust(width)


def _step(part: float) -> int:
    return min(len(_BARS) - 1, max(0, int(part * len(_BARS))))


_WIDE, _NARROW = 100, 70
_LEAST_W = 250.0
"""A full bar is the largest power seen, but not less: an idle GPU has a low bar."""


def gpu_lines(devices: Sequence[Document], history: History, width: int) -> list[Styled]:
    """The header and a line for each GPU, with bars of its recent memory, SM activity, power."""
    most_w = max(_LEAST_W, history.most("power_w"))
    room = 16 if width >= _WIDE else 8 if width >= _NARROW else 5
    table = Rows(
        (
            Column("GPU", right=True),
            Column("NAME", least=9, rank=2, most=18),
            Column("MEMORY"),
            Column("USED", right=True),
            Column("TOTAL", right=True, rank=4),
            Column("SM ACT"),
            Column("", right=True),
            Column("POWER"),
            Column("", right=True, rank=3),
            Column("STATE", rank=1, least=6),
            Column("JOBS", least=4),
        )
    )
    for device in devices:
        uuid, total = device["uuid"], device["total_mib"] or 0
        table.add(
            str(device["index"]),
            device_name(device),
            Styled(bars(history.of(uuid, "used_mib"), total, room), "cyan"),
            show_mib(device["used_mib"]),
            show_mib(total),
            Styled(bars(history.of(uuid, "smact"), 1.0, room), "green"),
            show_smact(device["smact"]),
            Styled(bars(history.of(uuid, "power_w"), most_w, room), "magenta"),
            show_watts(device["power_w"]),
            device_state(device["state"]),
            device_jobs(device),
        )
    return table.lines(width)


def job_lines(
    jobs: Sequence[Document], index: Mapping[str, int], now: float, width: int
) -> list[Styled]:
    """The header and a line for each job, as `radrm status` has them."""
    return job_rows(jobs, index, now).lines(width)


def card_text(explained: Document, page: Document, width: int) -> Text:
    """All facts about a job: of a waiting one why it waits, of all others its card."""
    if explained["job"]["state"] in WAITING:
        parts: Sequence[Part] = [*explanation(explained), *given_fields(explained["job"])]
    else:
        job, attempts = explained["job"], explained["attempts"]
        parts = card(job, page["now"], page["devices"], attempts)
    return _drawn(parts, width)


def processes_text(devices: Sequence[Document], user: str, width: int) -> Text:
    """The processes on the GPUs, all or those of one user; dots until they are asked for."""
    if not any("processes" in device for device in devices):
        return Text("...")
    return _drawn(processes_page(devices, user and f"of {user}"), width)


def lines_text(lines: Sequence[Styled], selected: int | None = None) -> Text:
    """Lines below each other; the selected one is reversed."""
    texts = [line.__rich__() for line in lines]
    if selected is not None and 0 <= selected < len(texts):
        texts[selected].stylize("reverse")
    return Text("\n", no_wrap=True, end="").join(texts)


def _drawn(parts: Sequence[Part], width: int) -> Text:
    """What rich draws on a terminal of this width, as text."""
    drawing = Console(
        file=StringIO(), width=width, force_terminal=True, highlight=False, legacy_windows=False
    )
    text = Text(no_wrap=True, end="")
    for part in parts:
        for segment in drawing.render(part):  # type: ignore[arg-type]
            if not segment.control:
                text.append(segment.text, segment.style)
    text.rstrip()
    return text
