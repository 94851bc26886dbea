"""The question before a command, and the list of keys."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

HELP = """\
j k, arrows      choose a job          g G     first, last job
space b, pages   a page down, up       enter   card: why it waits
l                log                   e       standard error
c                cancel                R       requeue an ended job
h                hold                  r       release
+ -              priority up, down     y n     answer a question
/                filter: user=ann state=running resnet
a                also ended jobs       esc     close, clear the filter
J K              scroll the card
?                this help             q       quit"""


class Dialog(ModalScreen[bool]):
    """Shows a text in a box. Ends with True for `y`, with False for any other key.

    `asks`: only `y`, `n` and Escape end it.
    """

    DEFAULT_CSS = """
    Dialog { align: center middle; background: ansi_default; }
    Dialog > Vertical { width: auto; max-width: 95%; height: auto; border: round ansi_default;
        padding: 0 1; background: ansi_default; color: ansi_default; }
    Dialog Static { width: auto; height: auto; }
    """

    def __init__(self, text: str, asks: bool) -> None:
        super().__init__()
        self._text, self._asks = text, asks

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(self._text))

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.key == "y" or not self._asks or event.key in ("n", "q", "escape", "enter"):
            self.dismiss(event.key == "y")
