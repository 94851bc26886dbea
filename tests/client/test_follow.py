"""A job's log is followed through every attempt, and through a restart of the daemon."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from radrm.client import follow
from radrm.client.follow import ASK_S, ArrayLogs, LogFollower, Patient, changes, stream
from radrm.errors import Refused, Unreachable
from tests.cli.fakes import Pauses, Script, job

# ------------------------------------------------------------------ one job


class World:
    """A job's logs in a folder, and a daemon's answers about it that a test changes."""

    def __init__(self, folder: Path, **first: Any) -> None:
        self.folder = folder
        self.document = job(5, **first)
        self.written: list[bytes] = []
        self.said: list[str] = []
        self.end: dict[str, Any] = {}
        """What `stream` returned."""
        self.client = Script(status=[self._status], logs=[self._logs])

    def _status(self, words: dict[str, Any]) -> list[dict[str, Any]]:
        return [self.document]

    def _logs(self, words: dict[str, Any]) -> dict[str, Any]:
        number = words["attempt"]
        assert 1 <= number <= self.document["attempts"], "the daemon would refuse this"
        live = self.document["state"] == "RUNNING" and number == self.document["attempts"]
        return {"stdout": str(self.log(number)), "stderr": "/nowhere", "live": live}

    def log(self, number: int) -> Path:
        return self.folder / f"{number}.out"

    def prints(self, number: int, text: bytes) -> None:
        with self.log(number).open("ab") as file:
            file.write(text)

    def becomes(self, state: str, attempts: int = 1, **changed: Any) -> None:
        self.document = job(5, state, attempts=attempts, **changed)

    def follow(
        self,
        *happenings: Callable[[], object],
        attempt: int | None = None,
        lines: int | None = None,
    ) -> dict[str, Any]:
        follower = LogFollower(
            self.client.ask,
            "5",
            {"stdout": self.written.append},
            self.said.append,
            Pauses(*happenings),
        )
        return follower.follow(attempt, lines)

    @property
    def text(self) -> bytes:
        return b"".join(self.written)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pause counts as half a second: the daemon is asked after each."""
    now = iter(range(10_000))
    monkeypatch.setattr("radrm.client.follow.time.monotonic", lambda: next(now) * ASK_S)


@pytest.mark.usefixtures("at_once")
def test_a_job_that_waits_is_waited_for(tmp_path: Path) -> None:
    world = World(tmp_path, reason="behind job 4")
    end = world.follow(
        lambda: None,
        lambda: world.becomes("RUNNING"),
        lambda: world.prints(1, b"one\n"),
        lambda: (world.prints(1, b"two\n"), world.becomes("COMPLETED")),
    )
    assert world.text == b"one\ntwo\n"
    assert end["state"] == "COMPLETED"
    assert world.said == ["job 5 is PENDING: behind job 4; waiting for its start"]


@pytest.mark.usefixtures("at_once")
def test_the_last_bytes_are_never_lost(tmp_path: Path) -> None:
    """What is printed while the daemon says that the job has ended is still there to read."""
    world = World(tmp_path, state="RUNNING")
    real = world._logs

    def answers_and_then_the_job_prints(words: dict[str, Any]) -> dict[str, Any]:
        answer = real(words)
        if not answer["live"]:
            world.prints(1, b"last words")
        return answer

    world.client.answers["logs"] = [answers_and_then_the_job_prints]
    world.follow(lambda: world.becomes("FAILED"))
    assert world.text == b"last words"


@pytest.mark.usefixtures("at_once")
def test_later_attempts_are_followed_and_none_is_skipped(tmp_path: Path) -> None:
    world = World(tmp_path, state="RUNNING")
    world.prints(1, b"first\n")
    end = world.follow(
        lambda: world.becomes("RECOVERING", reason="waits for a GPU of its own"),
        lambda: (world.prints(2, b"second\n"), world.prints(3, b"third\n")),
        lambda: world.becomes("RUNNING", attempts=3),
        lambda: world.becomes("COMPLETED", attempts=3),
    )
    assert world.text == b"first\nsecond\nthird\n"
    assert world.said == [
        "attempt 1 has ended, the job is RECOVERING: waits for a GPU of its own",
        "attempt 2:",
        "attempt 3:",
    ]
    assert end["attempts"] == 3


@pytest.mark.usefixtures("at_once")
def test_one_attempt_alone(tmp_path: Path) -> None:
    world = World(tmp_path, state="RUNNING", attempts=2)
    world.prints(1, b"first\n")
    world.prints(2, b"second\n")
    world.follow(attempt=1)
    assert (world.text, world.said) == (b"first\n", [])


@pytest.mark.usefixtures("at_once")
def test_only_the_last_lines_of_what_was_there(tmp_path: Path) -> None:
    world = World(tmp_path, state="RUNNING")
    world.prints(1, b"1\n2\n3\n")
    world.follow(lambda: world.prints(1, b"4\n"), lambda: world.becomes("COMPLETED"), lines=1)
    assert world.text == b"3\n4\n"


@pytest.mark.parametrize(
    ("first", "attempt", "said"),
    [
        ({"state": "CANCELLED", "reason": "cancelled by ada"}, None, "CANCELLED: cancelled by ada"),
        ({"state": "FAILED", "attempts": 0, "reason": "no such user"}, None, "before it started"),
        ({"state": "COMPLETED"}, 2, "before it had an attempt 2"),
    ],
)
def test_what_will_never_start_is_not_waited_for(
    tmp_path: Path, first: dict[str, Any], attempt: int | None, said: str
) -> None:
    with pytest.raises(Refused, match=said):
        World(tmp_path, **first).follow(attempt=attempt)


@pytest.mark.usefixtures("at_once")
def test_a_log_that_never_was_is_said(tmp_path: Path) -> None:
    world = World(tmp_path, state="COMPLETED")
    world.follow()
    assert "left no log" in world.said[0]


def test_the_daemon_is_asked_seldom_and_the_file_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pause` is what makes the time pass: five seconds of it."""
    pauses = Pauses(*[lambda: None] * 50, lambda: world.becomes("COMPLETED"))
    monkeypatch.setattr("radrm.client.follow.time.monotonic", lambda: sum(pauses.seconds))
    world = World(tmp_path, state="RUNNING")
    follower = LogFollower(
        world.client.ask, "5", {"stdout": world.written.append}, world.said.append, pauses
    )
    follower.follow(None, None)
    assert len(pauses.seconds) > 50, "the file is looked at at every pause"
    most = sum(pauses.seconds) / ASK_S + 1
    assert most / 2 < world.client.ops().count("logs") <= most


# ------------------------------------------------------------------ a daemon that restarts


def test_a_daemon_that_is_away_is_waited_for_and_told_of_once() -> None:
    said: list[str] = []
    pauses = Pauses()
    away = Unreachable("nobody")
    patient = Patient(Script(ping=[1, away, away, away, 2, 3]), said.append, pauses)
    assert [patient.ask("ping") for _ in range(3)] == [1, 2, 3]
    assert len(said) == 2 and "does not answer" in said[0] and "back" in said[1]
    assert len(pauses.seconds) == 2


def test_a_connection_that_was_idle_too_long_is_no_news() -> None:
    said: list[str] = []
    patient = Patient(Script(ping=[1, Unreachable("x"), 2]), said.append, Pauses())
    assert [patient.ask("ping") for _ in range(2)] == [1, 2]
    assert said == []


def test_a_daemon_that_never_answered_is_not_waited_for() -> None:
    with pytest.raises(Unreachable):
        Patient(Script(ping=[Unreachable("x")]), print, Pauses()).ask("ping")


def test_an_outage_of_the_daemon_is_no_costly_question(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0

    def a_minute(seconds: float) -> None:
        nonlocal now_s
        now_s += 60.0

    monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=lambda: now_s))
    away = Unreachable("nobody")
    looks = [[job(1)], away, away, away, [job(1)], [job(1, "COMPLETED")]]
    patient = Patient(Script(status=looks), lambda text: None, a_minute)
    pauses = Pauses()
    assert len(list(changes(patient, {"jobs": []}, pauses))) == 2
    assert now_s > 0 and set(pauses.seconds) == {ASK_S}


# ------------------------------------------------------------------ both logs


def both(world: World, errors: Path, *happenings: Callable[[], object]) -> dict[str, list[bytes]]:
    """What `stream` writes of a job whose standard error is this file."""
    real = world._logs
    world.client.answers["logs"] = [lambda words: {**real(words), "stderr": str(errors)}]
    written: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    outputs = {which: parts.append for which, parts in written.items()}
    world.end = stream(world.client.ask, "5", outputs, world.said.append, None, Pauses(*happenings))
    return written


@pytest.mark.usefixtures("at_once")
def test_both_logs_are_streamed_apart(tmp_path: Path) -> None:
    world, errors = World(tmp_path, state="RUNNING"), tmp_path / "err"
    world.prints(1, b"out")
    written = both(
        world, errors, lambda: errors.write_bytes(b"oops"), lambda: world.becomes("FAILED")
    )
    assert written == {"stdout": [b"out"], "stderr": [b"oops"]}
    assert world.end["state"] == "FAILED" and world.said == []


@pytest.mark.usefixtures("at_once")
def test_one_file_for_both_is_streamed_once(tmp_path: Path) -> None:
    world = World(tmp_path, state="RUNNING")
    world.prints(1, b"all")
    written = both(world, world.log(1), lambda: world.becomes("COMPLETED"))
    assert written == {"stdout": [b"all"], "stderr": []}


@pytest.mark.usefixtures("at_once")
def test_a_log_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    world = World(tmp_path, state="RUNNING")
    world.prints(1, b"out")
    written = both(world, tmp_path, lambda: world.becomes("COMPLETED"))
    assert written["stdout"] == [b"out"]
    assert len(world.said) == 1 and "not a regular file" in world.said[0]


@pytest.mark.usefixtures("at_once")
def test_of_a_job_that_keeps_no_log_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, state="RUNNING")
    monkeypatch.setattr(world, "log", lambda number: Path(os.devnull))
    written = both(world, Path(os.devnull), lambda: world.becomes("COMPLETED"))
    assert written == {"stdout": [], "stderr": []} and world.said == []
    assert world.end["state"] == "COMPLETED"


@pytest.mark.usefixtures("at_once")
def test_a_job_that_never_starts_ends_the_stream(tmp_path: Path) -> None:
    world = World(tmp_path)
    both(world, tmp_path / "err", lambda: world.becomes("CANCELLED", attempts=0))
    assert world.end["state"] == "CANCELLED"


# ------------------------------------------------------------------ several jobs


def element(index: int, state: str, attempts: int = 1) -> dict[str, Any]:
    return job(index, state, attempts=attempts, label=f"7_{index}", array_id=7)


@pytest.mark.usefixtures("at_once")
def test_the_lines_of_several_jobs_are_whole_and_name_their_job(tmp_path: Path) -> None:
    """An element that starts later, ends between two looks or runs again loses no line."""

    def prints(name: str, text: bytes) -> None:
        with (tmp_path / name).open("ab") as file:
            file.write(text)

    def logs(words: dict[str, Any]) -> dict[str, Any]:
        path = str(tmp_path / f"{words['jobs'][0]}.{words['attempt']}")
        return {"stdout": path, "stderr": path, "live": True}

    elements = [element(9, "RUNNING"), element(10, "PENDING", 0)]
    status = [lambda words: list(elements)]
    prints("7_9.1", b"old\nhalf")
    written, said = list[bytes](), list[str]()
    pauses = Pauses(
        lambda: prints("7_9.1", b" a line\n10%\r20%\r"),
        lambda: (
            prints("7_9.1", b"30%\r\nbye"),
            prints("7_10.1", b"one\n"),
            prints("7_10.2", b"two\n"),
            elements.__setitem__(slice(None), [element(9, "FAILED"), element(10, "RUNNING", 2)]),
        ),
        lambda: elements.__setitem__(1, element(10, "COMPLETED", 2)),
    )
    patient = Patient(Script(status=status, logs=[logs]), said.append, pauses)
    shown = ArrayLogs(patient, ["7"], lambda _: {"stdout": written.append}, said.append, pauses)
    assert [each["state"] for each in shown.follow(1)] == ["FAILED", "COMPLETED"]
    assert b"".join(written).decode().splitlines() == [
        *(" 7_9 | half a line", " 7_9 | 30%", " 7_9 | bye", "7_10 | one", "7_10 | two")
    ]
    assert said == []
