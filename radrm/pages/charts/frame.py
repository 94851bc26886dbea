"""The figure around a chart: caption, axes, legend, description for screen readers, notes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from radrm.pages.charts.scales import Axis
from radrm.pages.charts.text import at, safe, width_of

SIZE = 12.0
"""The font size of the text in charts, in units of the drawing; `style` says the same."""
LEFT, RIGHT, TOP, BOTTOM = 60.0, 16.0, 28.0, 26.0
_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(slots=True)
class Frame:
    """A chart that is being drawn. `name` is unique in its page: letters, digits and dashes.

    Sizes are in units of the drawing: about pixels on a wide screen.
    """

    name: str
    title: str
    width: float
    height: float
    left: float = LEFT
    body: list[str] = field(default_factory=list)
    defs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} names no figure; write letters, digits and dashes")

    @property
    def right(self) -> float:
        return self.width - RIGHT

    @property
    def bottom(self) -> float:
        return self.height - BOTTOM

    def rows(self, axis: Axis, largest: float) -> float:
        """Draw the upright axis; return its upper end."""
        ticks = axis.ticks(largest)
        top = ticks[-1]
        self.body.append(f'<text class="tick" x="0" y="12">{safe(axis.title)}</text>')
        lines = []
        for tick in ticks:
            y = at(self.up(tick, top))
            lines.append(f"M{at(self.left)} {y}H{at(self.right)}")
            self.body.append(
                f'<text class="tick end" x="{at(self.left - 6)}" y="{y}" dy=".35em">'
                f"{safe(axis.show(tick))}</text>"
            )
        self.body.append(f'<path class="grid" d="{"".join(lines)}"/>')
        return top

    def up(self, value: float, top: float) -> float:
        """Return the height of a value on an axis that ends at `top`; within the chart."""
        part = min(1.0, max(0.0, value / top))
        return self.bottom - part * (self.bottom - TOP)

    def columns(self, ticks: Sequence[tuple[float, str]]) -> None:
        """Draw the texts of the level axis: places and texts. Those that would touch are left
        out."""
        free = 0.0
        for x, text in ticks:
            half = width_of(text, SIZE * 1.35) / 2  # on narrow screens the text is larger
            middle = min(max(x, half), self.width - half)
            if middle - half < free:
                continue
            free = middle + half + SIZE / 2
            self.body.append(
                f'<path class="mark" d="M{at(x)} {at(self.bottom)}v4"/>'
                f'<text class="tick middle" x="{at(middle)}" y="{at(self.bottom + 18)}">'
                f"{safe(text)}</text>"
            )

    def nothing(self, text: str = "nothing on record") -> None:
        """Say that there is nothing to draw."""
        middle = (self.left + self.right) / 2
        self.body.append(
            f'<text class="nothing middle" x="{at(middle)}" y="{at(self.height / 2)}">'
            f"{safe(text)}</text>"
        )

    def figure(self, said: str, legend: str = "", more: str = "") -> str:
        """Return the figure. `said` is its content in words, for people who cannot see it."""
        defs = f"<defs>{''.join(self.defs)}</defs>" if self.defs else ""
        notes = "".join(f'<p class="note">{safe(note)}</p>' for note in self.notes)
        return (
            f'<figure class="chart{more}"><figcaption>{safe(self.title)}</figcaption>'
            f'{legend}<div class="drawing"><svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'viewBox="0 0 {at(self.width)} {at(self.height)}" '
            f'aria-labelledby="{self.name}-title {self.name}-desc">'
            f'<title id="{self.name}-title">{safe(self.title)}</title>'
            f'<desc id="{self.name}-desc">{safe(said)}</desc>'
            f"{defs}{''.join(self.body)}</svg></div>{notes}</figure>"
        )
