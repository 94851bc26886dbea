"""Text with styles: printed without rich into a pipe, drawn by rich on a terminal.

Users wait for everyday commands, and importing rich takes longer than everything else in them.
Output into a pipe has no styles and no width, so it needs no rich.
"""

from __future__ import annotations

import io
import os
import sys

from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from rich.console import Console
    from rich.text import Text

    class Part(Protocol):
        """A part of an output: lines for a pipe; rich draws the part itself."""

        def plain_lines(self) -> Iterable[str]: ...


class Styled:
    """One line of text whose pieces have styles of rich. Text is never read as markup, and made
    plain: all that users are shown in lines and tables passes here. `cut`: on a terminal, shorten
    the line with an ellipsis instead of wrapping it."""

    __slots__ = ("cut", "pieces")

    def __init__(self, text: str = "", style: str = "", cut: bool = False) -> None:
        self.pieces = [(plain(text), style)] if text else []
        self.cut = cut

    def append(self, text: str, style: str = "") -> None:
        if text:
            self.pieces.append((plain(text), style))

    def extend(self, other: Styled) -> None:
        self.pieces += other.pieces

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self.pieces)

    def plain_lines(self) -> list[str]:
        return [self.plain]

    def shortened(self, width: int) -> Styled:
        """This text cut to this number of terminal columns, including an ellipsis."""
        from rich.cells import set_cell_size

        short, kept = Styled(), set_cell_size(self.plain, width - 1) + "…"
        at, last = 0, len(self.pieces) - 1
        for number, (text, style) in enumerate(self.pieces):
            end = len(kept) if number == last else at + len(text)
            short.append(kept[at:end], style)
            at = end
            if at >= len(kept):
                break
        return short

    def __rich__(self) -> Text:
        from rich.text import Text

        if not self.cut:
            return Text.assemble(*self.pieces)
        return Text.assemble(*self.pieces, no_wrap=True, overflow="ellipsis")


def cell_width(text: str) -> int:
    """The number of terminal columns that a text takes."""
    if text.isascii() or all(c.isascii() or "\u2500" <= c < "\u25a0" for c in text):
        return len(text)  # lines and bars are one column wide, too: no rich is needed
    from rich.cells import cell_len

    return cell_len(text)


# ------------------------------------------------------------------ output

_PIPE_WIDTH = 4096
"""The width in a pipe of what only rich can draw, so that nothing is cut."""


def show(*parts: Part) -> None:
    """Print the parts on standard output, in this order."""
    if is_drawn():
        drawing = console()
        for part in parts:
            draw(drawing, part)
        return
    _take_any_text()
    for part in parts:
        sys.stdout.write("".join(f"{line}\n" for line in part.plain_lines()))
    sys.stdout.flush()  # logs are written to the buffer below, past this text layer


def draw(drawing: Console, part: Part) -> None:
    """Print a part by rich. On a terminal a line of text is cut, or wrapped at words; all other
    parts know the width themselves."""
    if not isinstance(part, Styled) or drawing.width >= _PIPE_WIDTH:
        drawing.print(part, soft_wrap=True)
    elif part.cut:
        drawing.print(part, no_wrap=True, overflow="ellipsis")
    else:
        drawing.print(part)


def is_drawn() -> bool:
    """Whether standard output is a terminal, or the environment says to treat it as one."""
    if "FORCE_COLOR" in os.environ or "TTY_COMPATIBLE" in os.environ:
        return console().is_terminal
    return sys.stdout.isatty()


def console() -> Console:
    """Standard output for rich: colours on a terminal only, no line cut in a pipe."""
    from rich.console import Console

    _take_any_text()
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)


def _take_any_text() -> None:
    """Let an output that is not UTF-8 show `?` for other characters instead of an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
