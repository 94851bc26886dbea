"""The parts of the screen as text: GPUs with bars, the rows of jobs, a card, a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO

from rich.console import Console
from rich.text import Text

from radrm.cli.show.card import card
from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.devices import device_jobs, device_name, device_state
from radrm.cli.show.explanation import explanation
from radrm.cli.show.jobs import job_rows
from radrm.cli.show.styled import Styled
from radrm.cli.top.history import History, bars
from radrm.client.amounts import show_smact, show_watts
from radrm.client.states import WAITING
from radrm.client.text import Document
from radrm.core.units import show_mib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.cli.show.styled import Part

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
        parts: Sequence[Part] = explanation(explained)
    else:
        job, attempts = explained["job"], explained["attempts"]
        parts = card(job, page["now"], page["devices"], attempts)
    return _drawn(parts, width)


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
