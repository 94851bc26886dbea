"""`radrm top`: what it shows and asks, its keys, and that users' text is only text."""

from __future__ import annotations

import asyncio
import builtins
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from radrm.client.words.jobs import names_of, refused_here, words_of
from radrm.errors import RadrmError, Refused, Unreachable, UsageError
from radrm.top import command
from radrm.top.picture import History, bars, card_text, gpu_lines
from radrm.top.source import Question, Source
from tests.cli.fakes import ESC, NOW, Script, gpu, job, page

pytest.importorskip("textual")

from textual.pilot import Pilot
from textual.widgets import Input, Static

from radrm.top.app import Top

EVIL = f"[bold red]x{ESC}[2J[/]"


def jobs(count: int = 3) -> list[dict[str, Any]]:
    states = ["RUNNING", "PENDING", "COMPLETED"]
    return [job(n + 1, states[n % 3], name=f"job{n + 1}", priority=20) for n in range(count)]


def explained(of: dict[str, Any]) -> dict[str, Any]:
    return {
        "job": of,
        "attempts": [],
        "reasons": [],
        "ahead": 0,
        "devices": [],
        "summary": "because",
        "now": NOW,
    }


class Daemon(Script):
    """A client whose daemon answers pages of some jobs, and keeps what it was told."""

    def __init__(self, found: list[dict[str, Any]], **answers: Any) -> None:
        super().__init__(gpus=[[gpu(0, used_mib=1024)]], **answers)
        self.found = found
        self.told: list[tuple[str, dict[str, Any]]] = []

    def ask(self, op: str, **words: Any) -> Any:
        if op == "page":
            first = words["offset"]
            return page(self.found[first : first + words["limit"]], len(self.found), RUNNING=1)
        if op == "explain":
            return explained(next(j for j in self.found if j["label"] == words["jobs"][0]))
        if op in ("cancel", "hold", "release", "requeue", "edit"):
            self.told.append((op, words))
            return [{"error": None} for _ in words["jobs"]]
        return super().ask(op, **words)


def run(
    daemon: Script, act: Callable[[Top, Pilot[None]], Awaitable[None]], size: tuple[int, int]
) -> None:
    async def main() -> None:
        app = Top(Source(daemon))
        async with app.run_test(size=size) as pilot:
            await app.workers.wait_for_complete()
            await pilot.pause()
            await act(app, pilot)

    asyncio.run(main())


def text(app: Top, name: str) -> str:
    return str(app.query_one(f"#{name}", Static).render())


async def press(app: Top, pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await app.workers.wait_for_complete()
    app._ask()
    await app.workers.wait_for_complete()
    await pilot.pause()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_everything_fits_and_names_are_only_text(width: int) -> None:
    found = jobs(200)
    found[0]["name"] = EVIL

    async def act(app: Top, pilot: Pilot[None]) -> None:
        rows = text(app, "jobs").splitlines()
        assert len(rows) > 10 and all(len(row) <= width for row in rows)
        assert "[bold red]x" in rows[1] or "[bold red" in rows[1]
        assert "\x1b" not in text(app, "jobs")
        assert text(app, "counts").startswith("1 running")
        assert text(app, "gpus").splitlines()[1].strip().startswith("0")
        assert len(text(app, "keys")) <= width
        screen = app.export_screenshot()
        assert "q" in screen

    run(Daemon(found), act, (width, 24))


def test_the_cursor_moves_over_all_jobs_and_stays_on_its_job() -> None:
    daemon = Daemon(jobs(250))

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await press(app, pilot, "G")
        assert "250/250" in text(app, "keys") and "job250" in text(app, "jobs")
        await press(app, pilot, "k", "k")
        assert "248/250" in text(app, "keys")
        daemon.found.pop(0)
        await press(app, pilot)
        assert "247/249" in text(app, "keys"), "the job before it has gone"
        await press(app, pilot, "g")
        assert "1/249" in text(app, "keys") and "job2" in text(app, "jobs")

    run(daemon, act, (80, 24))


def test_each_process_is_shown_and_those_of_one_user() -> None:
    daemon = Daemon(jobs())
    shown = {"kind": "job", "job": "1", "used_mib": 900, "smact": None, "command": EVIL}
    listed = [{"pid": n, "user": user, **shown} for n, user in ((41, "ann"), (42, "bob"))]

    def ask(op: str, **words: Any) -> Any:
        if op != "gpus" or not words["processes"]:
            return Daemon.ask(daemon, op, **words)
        mine = [each for each in listed if words["user"] in (None, each["user"])]
        return [gpu(0, processes=mine)]

    async def act(app: Top, pilot: Pilot[None]) -> None:
        app._source._client = Mocked(ask)
        await press(app, pilot, "p")
        rows = text(app, "inside").splitlines()
        assert [row.split()[1] for row in rows[1:]] == ["41", "42"]
        assert all(row.isprintable() and len(row) <= 78 for row in rows)
        app._set_filter("user=bob")
        await press(app, pilot)
        assert [row.split()[1] for row in text(app, "inside").splitlines()[1:]] == ["42"]
        await press(app, pilot, "p")
        assert not app.query_one("#pane").display

    run(daemon, act, (80, 24))


class Mocked:
    def __init__(self, ask: Callable[..., Any]) -> None:
        self.ask = ask


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (("c", "y"), [("cancel", {"jobs": ["1"]})]),
        (("c", "n"), []),
        (("c", "x", "escape"), []),
        (("h",), []),
        (("j", "h", "y"), [("hold", {"jobs": ["2"]})]),
        (("j", "+", "y"), [("edit", {"jobs": ["2"], "options": {"priority": "30"}})]),
        (("j", "-", "y"), [("edit", {"jobs": ["2"], "options": {"priority": "10"}})]),
        (("j", "j", "R", "y"), [("requeue", {"jobs": ["3"]})]),
    ],
)
def test_a_command_is_given_after_a_yes_alone(keys: tuple[str, ...], told: list[Any]) -> None:
    daemon = Daemon(jobs())

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await press(app, pilot, *keys)

    run(daemon, act, (80, 24))
    assert daemon.told == told


def test_the_card_the_log_the_help_and_the_filter(tmp_path: Any) -> None:
    log = tmp_path / "out"
    log.write_text(f"epoch 1\n[red]epoch 2{ESC}\n")
    running = job(1, "RUNNING", name="job1", attempts=1)
    daemon = Daemon([running], logs=[{"stdout": str(log), "stderr": str(log), "live": True}])
    asked = []

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await press(app, pilot, "enter")
        assert "Job 1" in text(app, "inside") and "RUNNING" in text(app, "inside")
        await press(app, pilot, "l")
        assert "[red]epoch 2" in text(app, "inside") and "\x1b" not in text(app, "inside")
        await press(app, pilot, "escape")
        assert not app.query_one("#pane").display
        await pilot.press("?")
        await pilot.pause()
        assert "priority up" in str(app.screen.query_one(Static).render())
        await pilot.press("x")
        await pilot.press("/")
        app.query_one(Input).value = "user=ann resnet"
        await press(app, pilot, "enter")
        asked.append(app._question.words)

    run(daemon, act, (80, 24))
    assert asked == [{"all": False, "user": "ann", "state": None, "jobs": ["*resnet*"]}]


def test_a_daemon_that_restarts_leaves_the_last_picture() -> None:
    daemon = Daemon(jobs())

    async def act(app: Top, pilot: Pilot[None]) -> None:
        daemon.answers["gpus"] = [Unreachable("gone"), [gpu(0)]]
        await press(app, pilot)
        assert text(app, "keys").startswith("The daemon does not answer; trying again.")
        assert "job2" in text(app, "jobs")
        await press(app, pilot)
        assert "? help" in text(app, "keys")

    run(daemon, act, (80, 24))


def test_an_answer_that_comes_while_it_closes_is_not_drawn() -> None:
    async def act(app: Top, pilot: Pilot[None]) -> None:
        await app.screen.remove_children()
        app._say("late")

    run(Daemon(jobs()), act, (80, 24))


def test_one_question_at_a_time() -> None:
    daemon = Daemon(jobs())

    async def act(app: Top, pilot: Pilot[None]) -> None:
        app._asking = True
        before = app._answer
        app._ask()
        await app.workers.wait_for_complete()
        assert app._answer is before

    run(daemon, act, (80, 24))


# ------------------------------------------------------------------ without a screen


def test_bars_show_parts_and_leave_unknown_values_out() -> None:
    assert bars([0.0, 0.5, 1.0, 2.0, None], 1.0, 7) == "  ▁▅██ "
    assert bars([1.0, 2.0, 3.0], 4.0, 2) == "▅▇"
    assert bars([], 1.0, 3) == "   "
    assert bars([0.0, 5.0], 0.0, 2) == "▁▁"


def test_readings_are_kept_for_present_gpus() -> None:
    history = History()
    history.add([gpu(0, uuid="a", smact=0.5, power_w=200.0), gpu(1, uuid="b", power_w=300.0)])
    history.add([gpu(0, uuid="a", smact=None, power_w=None)])
    assert history.of("a", "smact") == [0.5, None]
    assert history.of("b", "smact") == []
    assert history.most("power_w") == 200.0
    lines = [line.plain for line in gpu_lines([gpu(0, uuid="a")], history, 60)]
    assert all(len(line) <= 60 for line in lines)


def test_a_row_of_many_elements_names_each() -> None:
    alike = {"array_id": 12, "array_index": 3, "count": 3}
    assert names_of(job(9, label="9")) == ["9"]
    assert names_of(job(9, label="12_[3-5]", **alike)) == ["12_3", "12_4", "12_5"]
    assert names_of(job(9, label="12_[3-7:2]", **alike)) == ["12_3", "12_5", "12_7"]


@pytest.mark.parametrize(
    ("told", "state", "held", "refused"),
    [
        ("cancel", "RUNNING", False, False),
        ("cancel", "FAILED", False, True),
        ("hold", "PENDING", True, True),
        ("release", "PENDING", True, False),
        ("release", "PENDING", False, True),
        ("requeue", "RUNNING", False, True),
        ("raise", "RUNNING", False, True),
    ],
)
def test_what_makes_no_sense_is_not_asked(told: str, state: str, held: bool, refused: bool) -> None:
    assert bool(refused_here(told, job(1, state, held=held))) is refused


def test_a_refusal_is_told_with_the_daemons_words() -> None:
    source = Source(Script(cancel=[Refused("not yours")], gpus=[Refused("no")]))
    assert source.give("cancel", job(1)) == "not yours"
    assert source.ask(Question()).trouble == "no"


def test_a_filter_has_users_states_and_parts_of_names() -> None:
    assert words_of("state=running a* b", True) == {
        "all": True,
        "user": None,
        "state": "running",
        "jobs": ["a*", "*b*"],
    }


def test_a_waiting_job_shows_why_it_waits() -> None:
    shown = card_text(explained(job(4, "PENDING", name=EVIL)), page([]), 60).plain
    assert "because" in shown and "\x1b" not in shown
    assert all(len(line) <= 60 for line in shown.splitlines())


def test_without_textual_or_a_terminal_one_line_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UsageError, match="needs a terminal"):
        command.top([], False, "")
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "radrm.top.app":
            raise ModuleNotFoundError("no", name="textual.app")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    with pytest.raises(RadrmError, match=r"pip install 'radrm\[top\]'"):
        command.top([], False, "")
