"""`radrm submit`: what it hands in without a daemon, and how little it imports for that."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from radrm.cli.commands.submit import submit as run
from radrm.errors import UsageError
from radrm.host.sockets import listen
from radrm.host.storage.paths import paths_for, prepare
from radrm.host.storage.spool import Envelope, Spool
from radrm.host.storage.submitted import parse_envelope
from radrm.jobfile.radfile import MAX_BYTES
from tests.cli.heavy import HEAVY
from tests.host.storage.envelopes import all_of
from tests.imports import imported_by

SCRIPT = """#!/bin/sh
#RAD --name='a b' --gpus=1 --gpu-memory=8G --time=4:00:00 --env=A=1
# a comment on radar, and a file like most
python train.py
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RADRM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.rad").write_text(SCRIPT)
    return tmp_path / "home"


def handed_in(home: Path) -> list[Envelope]:
    arrivals = all_of(Spool(str(home / "spool")))
    return [arrival.envelope for arrival in arrivals if arrival.envelope is not None]


def test_without_a_daemon_it_is_on_disk(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--priority=3", "job.rad"]) == 0
    (envelope,) = handed_in(home)
    assert envelope.script == SCRIPT and envelope.command is None
    assert envelope.options == {"priority": "3"}
    assert (envelope.cwd, envelope.file) == (os.getcwd(), os.path.abspath("job.rad"))
    assert envelope.environment == dict(os.environ)
    said = capsys.readouterr()
    assert said.out == f"Submitted a b as {envelope.ticket}, GPU memory 8.0G, time limit 4h00m\n"
    assert "no radrm daemon answers" in said.err and "the job waits" in said.err


# ------------------------------------------------------------------ the model summary


def submit_with_summary(*words: str) -> int:
    return run([*words, "--", "true"])


def test_the_model_summary_travels_along(home: Path) -> None:
    Path("net.model").write_bytes(b"Total params: 25\0\xff\n")
    Path("models").mkdir()
    Path("models/net.model").write_text("Total params: 50\n")
    assert submit_with_summary("--model-summary=net.model") == 0
    assert submit_with_summary("--model-summary=net.model", "--chdir=models") == 0
    assert submit_with_summary(f"--model-summary={os.path.abspath('net.model')}") == 0
    assert submit_with_summary() == 0
    found = [envelope.summary for envelope in handed_in(home)]
    assert found == ["Total params: 25\ufffd\n", "Total params: 50\n", found[0], None]


def no_file(path: Path) -> None:
    pass


def fifo(path: Path) -> None:
    os.mkfifo(path)
    with open(os.open(path, os.O_RDWR), "wb"):  # one that has been written to before
        pass


def too_large(path: Path) -> None:
    path.write_bytes(b"x" * (MAX_BYTES + 1))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (no_file, "cannot be read: No such file or directory"),
        (Path.mkdir, "cannot be read: Is a directory"),
        (too_large, "is larger than 1 MiB"),
    ],
)
def test_a_summary_that_cannot_be_read_is_left_out_and_said(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    make: object,
    words: str,
) -> None:
    make(Path("net.model"))
    assert submit_with_summary("--model-summary=net.model") == 0
    assert f"the model summary net.model {words}; it is left out" in capsys.readouterr().err
    assert [envelope.summary for envelope in handed_in(home)] == [None]


def test_a_summary_that_is_a_pipe_is_not_waited_for(home: Path) -> None:
    fifo(Path("net.model"))
    assert submit_with_summary("--model-summary=net.model") == 0
    assert [envelope.summary for envelope in handed_in(home)] == [""]


# ------------------------------------------------------------------ due times

DUE = """#!/bin/sh
#RAD --due='tomorrow 9:00' --weight=3 --duration=2h
true
"""


@pytest.fixture
def berlin(zone: Callable[[str], None]) -> None:
    zone("Europe/Berlin")


@pytest.mark.usefixtures("berlin")
def test_a_due_time_of_a_file_leaves_as_an_absolute_one(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("due.rad").write_text(DUE)
    assert run(["due.rad"]) == run(["--due=+90m", "due.rad"]) == run(["--due=none", "due.rad"]) == 0
    assert run(["--due=2030-07-31 18:00", "--", "true"]) == 0
    sent = [envelope.options for envelope in handed_in(home)]
    day = datetime.now(ZoneInfo("Europe/Berlin")) + timedelta(days=1)
    assert sent[0] == {"due": day.replace(hour=9, minute=0, second=0, microsecond=0).isoformat()}
    soon = datetime.fromisoformat(sent[1]["due"]) - datetime.now(timezone.utc)
    assert timedelta(minutes=89) < soon <= timedelta(minutes=90, seconds=1)
    assert sent[2:] == [{"due": "none"}, {"due": "2030-07-31T18:00:00+02:00"}]
    parsed = [parse_envelope(envelope) for envelope in handed_in(home)]
    assert [each.options.due_s is None for each in parsed] == [False, False, True, False]
    assert parsed[0].spec("ada", 1).weight == 3.0
    said = capsys.readouterr()
    assert f", due {sent[1]['due']}\n" in said.out
    assert (
        "warning: due.rad: it is due in 1h30m and needs about 2h00m, so it will be late" in said.err
    )
    assert said.err.count("warning") == 1
    assert run(["--parsable", "--due=+90m", "due.rad"]) == 0
    said = capsys.readouterr()
    assert said.out.count("\n") == 1 and "warning: due.rad: it is due in 1h30m" in said.err


def test_a_due_time_that_is_over_is_no_submission(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("due.rad").write_text(DUE.replace("tomorrow", "2020-01-31"))
    Path("fine.rad").write_text(DUE)
    assert run(["due.rad", "fine.rad"]) == 2
    said = capsys.readouterr().err
    assert "radrm: due.rad: --due: '2020-01-31 9:00' is over: " in said and "+90m" in said
    assert [Path(str(envelope.file)).name for envelope in handed_in(home)] == ["fine.rad"]
    with pytest.raises(UsageError, match="command line: --due: 'tomorrow 25:00' is not a time of"):
        run(["--due=tomorrow 25:00", "fine.rad"])


def test_what_a_client_left_relative_is_read_as_at_its_submission(home: Path) -> None:
    assert run(["job.rad"]) == 0
    (sent,) = handed_in(home)
    by_hand = {**sent.as_dict(), "options": {"due": "+90m"}, "submitted_s": 1_900_000_000.0}
    first, again = (parse_envelope(Envelope(**by_hand)) for _ in range(2))
    assert first.options.due_s == again.options.due_s == 1_900_000_000.0 + 5400.0
    assert str(first.raw["due"]).startswith("2030-03-17T")
    over = Envelope(**{**by_hand, "options": {"due": "2020-01-31T09:00+01:00"}})
    assert parse_envelope(over).options.due_s == 1_580_457_600.0, "it was not, when it was checked"
    with pytest.raises(UsageError, match=r"--due: .* is not in the years 1970 to 9999"):
        parse_envelope(Envelope(**{**by_hand, "submitted_s": 1e15}))


# ------------------------------------------------------------------ what it imports


SUBMIT = """
import sys
from radrm.cli import main
from radrm.cli.commands.submit import submit as run
assert run(sys.argv[1:]) == 0
"""


@pytest.mark.parametrize(
    "words", [["job.rad"], ["--gpus=2", "--smact=.5", "--", "true"], ["--due=fri 9:00", "job.rad"]]
)
def test_a_submission_imports_little(home: Path, words: list[str]) -> None:
    found = imported_by(SUBMIT, *words)
    assert "radrm.jobfile.radfile" in found
    assert found.isdisjoint(HEAVY)


USUAL = """#!/usr/bin/env bash
#RAD --name=resnet50 --gpus=1 --gpu-memory=8G --time=4:00:00 --cpus=2 --memory=8G
#RAD --after=12:any --output=%j.out --smact=.5 --batch-size=32 --hold
# a gradient
source ~/.bashrc && python train.py > log 2>&1
"""


@pytest.mark.parametrize("words", [["usual.rad"], ["-g2", "--", "python", "train.py"]])
def test_a_usual_submission_needs_no_regular_expressions(
    home: Path, answering: None, words: list[str]
) -> None:
    Path("usual.rad").write_text(USUAL)
    Path("train.py").write_text("import os\nfrom radar import (wave,\n\n    echo)\n")
    found = imported_by(SUBMIT, *words)
    assert "radrm.host.sockets" in found
    assert found.isdisjoint({"re", "json", "shlex", "contextlib", "enum", "collections"})


@contextmanager
def server_of(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> Iterator[None]:
    """Something that answers one connection like a daemon."""
    paths = paths_for(os.environ, os.getuid())
    prepare(paths, system=False)
    server = listen(paths.socket)

    def serve() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rwb") as lines:
            for line in lines:
                lines.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
                lines.flush()

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    thread.join(60)
    server.close()


@pytest.fixture
def answering(home: Path) -> Iterator[None]:
    """Something that answers like a daemon that has nothing against it."""

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        fine: list[Any] = [[None, []] for _ in asked.get("needs", ())]
        return {"ok": True, "result": fine or [None for _ in asked.get("jobs", ())]}

    with server_of(answer):
        yield


def test_a_daemon_that_is_too_busy_to_answer_gets_the_job_nevertheless(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    busy = {"ok": False, "code": 3, "error": "the daemon is too busy to answer"}
    with server_of(lambda asked: busy):
        assert run(["--", "true"]) == 0
    (envelope,) = handed_in(home)
    said = capsys.readouterr()
    assert said.out == f"Submitted true as {envelope.ticket}\n"
    assert "too busy to answer" in said.err and "no daemon is running" not in said.err


def test_with_a_daemon_it_imports_no_more(home: Path, answering: None) -> None:
    assert imported_by(SUBMIT, "job.rad").isdisjoint(HEAVY)
    assert len(handed_in(home)) == 1


@pytest.mark.parametrize("more", [["0.1"], ["job.rad", "0.1"], ["c.yaml"]])
def test_arguments_without_dashes_submit_nothing(home: Path, more: list[str]) -> None:
    Path("c.yaml").write_text("lr: 1\n")
    with pytest.raises(UsageError, match=r"radrm submit job\.rad -- "):
        run(["job.rad", *more])
    assert not home.exists()
    assert run(["job.rad", "--", *more]) == 0
    assert [envelope.arguments for envelope in handed_in(home)] == [tuple(more)]


@pytest.mark.parametrize("options", [[], ["--gpus=2"]])
def test_a_command_without_dashes_is_named_whole(home: Path, options: list[str]) -> None:
    line = " ".join(["radrm submit", *options, "-- sh x.sh --lr=3"])
    with pytest.raises(UsageError, match=line):
        run([*options, "sh", "x.sh", "--lr=3"])
    assert not home.exists()
