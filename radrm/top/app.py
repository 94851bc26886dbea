"""The live view: GPUs, jobs and a pane with one job, for keys and mouse.

Theory of operation
-------------------
A thread asks the daemon; the screen shows its last answer and never waits. There is one question
at a time, and a second between two, whatever is typed. Each answer has `WINDOW` jobs around the
cursor, so scrolling is drawn at once; beyond them the next answer is awaited. The cursor stays on
its job while jobs come and go.

All text of users is made plain by the modules of `cli/show`, and is drawn as rich `Text`, never as
markup.
"""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from radrm.cli.show.jobs import counts_line
from radrm.cli.show.styled import Styled
from radrm.client.text import Document, label
from radrm.client.words.jobs import names_of, refused_here, words_of
from radrm.errors import plain
from radrm.structs import replace
from radrm.top.picture import (
    History,
    card_text,
    gpu_lines,
    job_lines,
    lines_text,
    processes_text,
)
from radrm.top.source import WINDOW, Answer, Question, Source

HELP = """\
j k, arrows      choose a job          g G     first, last job
space b, pages   a page down, up       enter   card: why it waits
l                log                   e       standard error
p                processes on the GPUs
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


ASK_S = 1.0
_FEWEST_JOBS = 4
_COMMANDS = {
    "c": "cancel",
    "h": "hold",
    "r": "release",
    "R": "requeue",
    "plus": "raise",
    "minus": "lower",
}
_PANES = {"enter": "card", "l": "stdout", "e": "stderr", "p": "processes"}
_ASKS = {"raise": "Raise the priority of", "lower": "Lower the priority of"}
_KEYS = "enter card  l log  p processes  c cancel  h hold  / filter  ? help  q quit"
_FEW_KEYS = "enter card  l log  ? help  q quit"


class Top(App[None]):
    """GPUs, jobs, and a pane with the card or the log of one job. `every`: also ended jobs."""

    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    Static { height: auto; }
    #jobs { height: 1fr; }
    #pane { height: 50%; display: none; border-top: solid; scrollbar-size-vertical: 1; }
    #filter { display: none; height: 1; border: none; padding: 0; background: ansi_default; }
    """
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", priority=False),
        Binding("ctrl+c,ctrl+d", "quit", priority=True),
    ]

    def __init__(self, source: Source, words: str = "", every: bool = False) -> None:
        # The terminal's own colours: they fit its background, light or dark.
        super().__init__(ansi_color=True)
        self._source = source
        self._filter, self._every = words, every
        self._question = Question(words_of(words, every))
        self._answer = Answer()
        self._history = History()
        self._row = 0
        """The cursor, among all jobs that the filter selects."""
        self._top = 0
        """The first job on the screen."""
        self._message = ""
        self._asking = False

    def compose(self) -> ComposeResult:
        yield Static(id="counts")
        yield Static(id="gpus")
        yield Static(id="jobs")
        with VerticalScroll(id="pane", can_focus=False):
            yield Static(id="inside")
        yield Input(self._filter, id="filter", placeholder="user=ann state=running resnet")
        yield Static(id="keys")

    def on_mount(self) -> None:
        self.set_interval(ASK_S, self._ask)
        self._ask()

    # ------------------------------------------------------------- questions

    def _ask(self) -> None:
        """Ask the daemon, unless it has not answered yet."""
        if self._asking:
            return
        self._asking = True
        first = max(0, self._row - WINDOW // 2)
        words = words_of(self._filter, self._every)
        job = self._selected()
        name = names_of(job)[0] if job is not None else ""
        question = replace(self._question, words=words, first=first, job=name)
        self.run_worker(lambda: self._look(question), thread=True, exit_on_error=True)

    def _look(self, question: Question) -> None:
        answer = self._source.ask(question)
        self.call_from_thread(self._show, question, answer)

    def _give(self, command: str, job: Document) -> None:
        said = self._source.give(command, job)
        self.call_from_thread(self._say, said)

    def _show(self, question: Question, answer: Answer) -> None:
        self._asking = False
        selected = self._selected()
        before = self._question
        self._question = replace(question, pane=before.pane)
        if answer.devices:
            self._history.add(answer.devices)
        if answer.page is None:
            kept = [] if answer.devices else self._answer.devices
            nothing = {"jobs": [], "total": 0, "counts": {}, "devices": {}, "now": 0.0}
            page = nothing if answer.devices else self._answer.page
            answer = replace(answer, devices=answer.devices or kept, page=page)
        self._answer = answer
        self._follow(selected)
        self._draw()

    def _follow(self, selected: Document | None) -> None:
        """Keep the cursor on its job, if that is still there."""
        jobs, total = self._jobs(), (self._answer.page or {"total": 0})["total"]
        if selected is not None and self._row > 0:
            places = [i for i, job in enumerate(jobs) if job["id"] == selected["id"]]
            if places:
                self._row = self._question.first + places[0]
        self._row = min(self._row, max(0, total - 1))

    def _jobs(self) -> list[Document]:
        page = self._answer.page
        return [] if page is None else page["jobs"]

    def _selected(self) -> Document | None:
        at, jobs = self._row - self._question.first, self._jobs()
        return jobs[at] if 0 <= at < len(jobs) else None

    # ------------------------------------------------------------- the picture

    def _say(self, text: str) -> None:
        self._message = text
        self._draw()

    def on_resize(self, _: events.Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        """Draw the last answer, unless it comes while the application closes."""
        if not self.query("#keys"):
            return
        answer, page = self._answer, self._answer.page
        width, height = self.size
        if page is None or width < 1:
            self._put("counts", Text(answer.trouble or "Asking the daemon ..."))
            return
        devices = answer.devices
        shown = max(1, min(len(devices), (height - _FEWEST_JOBS - 4) // (2 if self._pane else 1)))
        lines = gpu_lines(devices[:shown], self._history, width)
        if len(devices) > shown:
            lines.append(Styled(f"... and {len(devices) - shown} more GPUs", "dim"))
        self._put(
            "counts",
            _cut(counts_line(page["counts"], len(devices), bool(page.get("simulated"))), width),
        )
        self._put("gpus", lines_text([*lines, Styled()]))
        room = max(1, height - len(lines) - 4)
        if self._pane:
            room = max(1, room - height // 2)
            self._draw_pane(width)
        self._put("jobs", self._job_text(page, width, room))
        trouble = answer.trouble or self._message
        style = "bold" if trouble else ""
        foot = Styled(trouble or self._foot(page), style)
        self._put("keys", _cut(foot, width))

    @property
    def _pane(self) -> str:
        return self._question.pane

    @property
    def _user(self) -> str:
        return str(self._question.words.get("user") or "")

    def _foot(self, page: Document) -> str:
        words = f"filter: {self._filter}  " if self._filter else ""
        at = f"{self._row + 1}/{page['total']}  " if page["total"] else ""
        found = f"{at}{words}{_KEYS}"
        return found if len(found) <= self.size.width else f"{at}{words}{_FEW_KEYS}"

    def _job_text(self, page: Document, width: int, room: int) -> Text:
        """The jobs that fit, with the cursor."""
        self._top = min(max(self._top, self._row - room + 1), self._row)
        first = max(0, self._top - self._question.first)
        jobs = page["jobs"][first : first + room]
        if not jobs:
            return Text("No such jobs." if self._filter else "No unfinished jobs (a: also ended).")
        lines = job_lines(jobs, page["devices"], page["now"], width)
        selected = self._row - self._question.first - first
        return lines_text(lines, selected + 1 if 0 <= selected < len(jobs) else None)

    def _draw_pane(self, width: int) -> None:
        answer, page = self._answer, self._answer.page
        if self._pane == "processes":
            text = processes_text(answer.devices, self._user, width - 2)
        elif self._pane == "card" and answer.explained is not None and page is not None:
            text = card_text(answer.explained, page, width - 2)
        else:
            text = Text("\n".join(answer.log) or "...", no_wrap=True)
        pane = self.query_one("#pane")
        of = plain(label(answer.explained["job"])) if answer.explained else ""
        pane.border_title = f"{self._pane} of job {of}" if of else self._pane
        self._put("inside", text)
        if self._pane in ("stdout", "stderr"):
            pane.scroll_end(animate=False)

    def _put(self, name: str, text: Text) -> None:
        self.query_one(f"#{name}", Static).update(text)

    # ------------------------------------------------------------- keys

    def on_key(self, event: events.Key) -> None:
        if isinstance(self.focused, Input):
            if event.key == "escape":
                self._set_filter("")
            return
        self._message = ""
        key = "plus" if event.character == "+" else "minus" if event.character == "-" else event.key
        key = event.character if event.character in ("R", "G", "J", "K") else key
        total = (self._answer.page or {"total": 0})["total"]
        moves = {
            "down": 1,
            "j": 1,
            "up": -1,
            "k": -1,
            "pagedown": 10,
            "space": 10,
            "pageup": -10,
            "b": -10,
            "g": -total,
            "home": -total,
            "G": total,
            "end": total,
        }
        if key in moves:
            self._row = min(max(0, self._row + moves[key]), max(0, total - 1))
            self.query_one("#pane").scroll_home(animate=False)
        elif key in ("J", "K"):
            self.query_one("#pane").scroll_relative(y=5 if key == "J" else -5, animate=False)
        elif key in _COMMANDS:
            self._confirm(_COMMANDS[key])
        elif key in _PANES:
            self._open(_PANES[key])
        elif key == "escape":
            if self._pane:
                self._open("")
            else:
                self._set_filter("")
        elif event.character == "/":
            self._edit_filter()
        elif event.character == "?":
            self.push_screen(Dialog(HELP, asks=False))
        elif key == "a":
            self._every = not self._every
            self._row = self._top = 0
        else:
            return
        event.stop()
        event.prevent_default()
        self._draw()

    def _open(self, pane: str) -> None:
        """Open a pane about the job under the cursor; close it if it is open."""
        pane = "" if pane == self._pane else pane
        self._question = replace(self._question, pane=pane)
        self._answer = replace(self._answer, explained=None, log=[])
        self.query_one("#pane").display = bool(pane)

    def _confirm(self, command: str) -> None:
        """Ask before a command about the job under the cursor."""
        job = self._selected()
        if job is None:
            return
        wrong = refused_here(command, job)
        if wrong:
            self._message = wrong
            return
        verb = _ASKS.get(command, command.capitalize())
        many = len(names_of(job))
        name = plain(f"{label(job)} ({job['name']})") + (f", {many} jobs" if many > 1 else "")

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(lambda: self._give(command, job), thread=True)

        self.push_screen(Dialog(f"{verb} job {name}? y/n", asks=True), answered)

    def _edit_filter(self) -> None:
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()

    def on_input_submitted(self, event: Any) -> None:
        self._set_filter(event.value)

    def _set_filter(self, text: str) -> None:
        box = self.query_one("#filter", Input)
        box.value, box.display = text, False
        self.set_focus(None)
        self._filter = text.strip()
        self._row = self._top = 0


def _cut(line: Styled, width: int) -> Text:
    text = line.__rich__()
    text.truncate(max(1, width), overflow="ellipsis")
    return text
