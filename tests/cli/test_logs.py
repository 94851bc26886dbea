"""A log is shown whole and live, through every attempt, and nothing but a log is opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import radrm.cli.commands.logs
from radrm.cli.app import make_app
from radrm.client.follow import ASK_S, LogFollower, Patient
from radrm.client.tail import Tail, harmless
from radrm.errors import Refused, Unreachable
from tests.cli.fakes import Pauses, Script, job

PER_TEST = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


class Reader:
    """A tail, all it has written, and all it has remarked."""

    def __init__(self, path: Path) -> None:
        self.written: list[bytes] = []
        self.said: list[str] = []
        self.tail = Tail(str(path), self.said.append)

    def read(self) -> bytes | None:
        self.written.clear()
        return b"".join(self.written) if self.tail.copy_new(self.written.append) else None


# ------------------------------------------------------------------ one file


def test_what_is_new_is_copied_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    reader = Reader(log)
    assert reader.read() is None, "it is not there yet"
    log.write_bytes(b"one\n\xff\0")
    assert reader.read() == b"one\n\xff\0"
    assert reader.read() == b""
    with log.open("ab") as file:
        file.write(b"two" * 100_000)
    assert reader.read() == b"two" * 100_000
    assert max(map(len, reader.written)) <= 64 * 1024, "in pieces"


def test_a_file_that_is_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a long beginning\n")
    reader = Reader(log)
    reader.read()
    log.write_bytes(b"new\n")
    assert reader.read() == b"new\n"
    assert "cut short" in reader.said[0]


def test_a_file_that_is_replaced_is_finished_first(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\n")
    reader = Reader(log)
    reader.read()
    with log.open("ab") as file:
        file.write(b"two\n")
    log.rename(tmp_path / "log.1")
    log.write_bytes(b"three\n")
    assert reader.read() == b"two\nthree\n"
    assert "replaced" in reader.said[0]


def test_a_file_that_is_removed_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\n")
    reader = Reader(log)
    reader.read()
    log.unlink()
    assert reader.read() == b""


@PER_TEST
@given(st.lists(st.binary(max_size=9).map(lambda b: b + b"\n"), max_size=30), st.integers(0, 40))
@pytest.mark.parametrize("unfinished", [b"", b"unfinished"])
def test_the_last_lines(tmp_path: Path, unfinished: bytes, lines: list[bytes], wanted: int) -> None:
    log = tmp_path / "log"
    whole = b"".join(lines) + unfinished
    log.write_bytes(whole)
    reader = Reader(log)
    reader.tail.skip_to_last(wanted)
    there = whole.splitlines(keepends=True) if b"\r" not in whole else _lines(whole)
    assert reader.read() == b"".join(there[len(there) - min(wanted, len(there)) :])
    reader.tail.close()


def _lines(data: bytes) -> list[bytes]:
    """Split at newlines only, as `tail` does."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def test_the_last_lines_of_a_large_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % i for i in range(100_000)))
    reader = Reader(log)
    reader.tail.skip_to_last(20_000)
    data = reader.read()
    assert data is not None and data.startswith(b"line 80000\n") and data.endswith(b"line 99999\n")


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_socket_link(path: Path) -> None:
    path.symlink_to("/dev/null")


@pytest.mark.parametrize("make", [make_fifo, make_folder, make_link_to_device, make_socket_link])
def test_what_is_no_regular_file_is_never_opened(
    tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    make(log)
    opened: list[int] = []
    real = os.open

    def watched(path: Any, flags: int, *more: Any) -> int:
        handle = real(path, flags, *more)
        if not flags & os.O_PATH:
            opened.append(os.fstat(handle).st_mode)
        return handle

    monkeypatch.setattr(os, "open", watched)
    with pytest.raises(Refused, match="not a regular file"):
        Reader(log).read()
    assert all(stat.S_ISREG(mode) for mode in opened)


def test_links_are_followed_with_the_readers_own_rights(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"text\n")
    (tmp_path / "log").symlink_to("real")
    assert Reader(tmp_path / "log").read() == b"text\n"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Refused, match="cannot read the log"):
        Reader(tmp_path / "loop").read()


@given(st.lists(st.binary(max_size=30), max_size=6))
def test_anothers_log_cannot_command_a_terminal(pieces: list[bytes]) -> None:
    written: list[bytes] = []
    write = harmless(written.append)
    for piece in pieces:
        write(piece)
    text = b"".join(written).decode()
    assert all(c in "\n\r\t" or c.isprintable() for c in text)


def test_harmless_text_stays_as_it_is_however_it_is_cut() -> None:
    written: list[bytes] = []
    write = harmless(written.append)
    for byte in "épôque 1\t50%\r\n".encode():
        write(bytes([byte]))
    assert b"".join(written).decode() == "épôque 1\t50%\r\n"


# ------------------------------------------------------------------ one job


class World:
    """A job's logs in a folder, and a daemon's answers about it that a test changes."""

    def __init__(self, folder: Path, **first: Any) -> None:
        self.folder = folder
        self.document = job(5, **first)
        self.written: list[bytes] = []
        self.said: list[str] = []
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
            "stdout",
            self.written.append,
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
    world = World(tmp_path, reason="behind job 4\x1b[2J")
    end = world.follow(
        lambda: None,
        lambda: world.becomes("RUNNING"),
        lambda: world.prints(1, b"one\n"),
        lambda: (world.prints(1, b"two\n"), world.becomes("COMPLETED")),
    )
    assert world.text == b"one\ntwo\n"
    assert end["state"] == "COMPLETED"
    assert world.said == ["job 5 is PENDING: behind job 4�[2J; waiting for its start"]


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
        world.client.ask, "5", "stdout", world.written.append, world.said.append, pauses
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
    patient = Patient(Script(ping=[1, away, away, away, 2, 3]), said.append, pauses)  # type: ignore[arg-type]
    assert [patient.ask("ping") for _ in range(3)] == [1, 2, 3]
    assert len(said) == 2 and "does not answer" in said[0] and "back" in said[1]
    assert len(pauses.seconds) == 2


def test_a_connection_that_was_idle_too_long_is_no_news() -> None:
    said: list[str] = []
    patient = Patient(Script(ping=[1, Unreachable("x"), 2]), said.append, Pauses())  # type: ignore[arg-type]
    assert [patient.ask("ping") for _ in range(2)] == [1, 2]
    assert said == []


def test_a_daemon_that_never_answered_is_not_waited_for() -> None:
    with pytest.raises(Unreachable):
        Patient(Script(ping=[Unreachable("x")]), print, Pauses()).ask("ping")  # type: ignore[arg-type]


# ------------------------------------------------------------------ the command


def run(monkeypatch: pytest.MonkeyPatch, client: Script, *words: str) -> Any:
    monkeypatch.setattr(radrm.cli.commands.logs, "Client", lambda: client)
    return CliRunner().invoke(make_app(), ["logs", *words])


def test_the_command_prints_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "err").write_bytes(b"1\n2\n\xff\xfe\n")
    where = {"stdout": "/nowhere", "stderr": str(tmp_path / "err"), "live": False, "attempt": 1}
    client = Script(logs=[where])
    assert run(monkeypatch, client, "5", "--stderr").stdout_bytes == b"1\n2\n\xff\xfe\n"
    done = run(monkeypatch, client, "5", "--stderr", "--lines", "1", "--attempt", "1")
    assert done.stdout_bytes == b"\xff\xfe\n"
    assert client.asked[-1] == ("logs", {"jobs": ["5"], "attempt": 1})
    missing = run(monkeypatch, client, "5")
    assert isinstance(missing.exception, Refused) and "/nowhere" in str(missing.exception)


@pytest.mark.parametrize("words", [["5", "--attempt", "0"], ["5", "--lines", "-1"], []])
def test_usage(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    assert run(monkeypatch, Script(), *words).exit_code == 2
