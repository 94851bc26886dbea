"""Asking estimators: their process, the tracer's, and the threads that wait for both.

Every process here is a real one; those that misbehave are small scripts.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from radrm.config import Config, EstimationConfig
from radrm.core.records import Estimate, JobSpec
from radrm.core.rules import Description, PastRun
from radrm.core.words import Quantity
from radrm.host.estimation.asking import Answer, Asking
from radrm.host.estimation.service import Estimated, EstimationService, Wanted
from radrm.host.estimation.thinker import NoAnswer, Thinker
from radrm.host.estimation.tracing import NotTraced, TraceRequest, trace, tracer_arguments
from radrm.host.estimation.worker import Question
from radrm.host.procfs import read_stat
from radrm.options import typed

HASTY = Config(estimation=EstimationConfig(time_limit_s=0.3, trace_limit_s=20.0))
TABLE = (
    "Layer (type)  Output Shape  Param #\n====\n"
    "Linear-1  [-1, 1024]  1024\n====\nTotal params: 1,024\n"
)


def description(**told: object) -> Description:
    return Description(spec=JobSpec(name="a", user="ann", uid=1000), **told)  # type: ignore[arg-type]


def sources(answer: Answer) -> list[str]:
    return [e.source for e in answer.estimates if e.quantity is Quantity.MEMORY]


# ------------------------------------------------------------------ asking


def test_every_answer_says_how_long_it_took() -> None:
    answer = Asking(Config()).ask(description(summary=TABLE, batch_size=8))
    assert sources(answer)[-1] == "horus"
    assert all(e.seconds is not None and e.seconds >= 0 for e in answer.estimates)


def test_a_trace_that_cannot_be_used_is_a_note_and_the_next_route_takes_over() -> None:
    for events in (b"", b"[" * 100_000, b"{}", b'{"error": "the factory raised\\u001b[31m"}'):
        answer = Asking(Config()).ask(description(summary=TABLE, batch_size=8), events)
        assert sources(answer)[-1] == "horus"
        (note,) = answer.notes
        assert note.startswith("trace: ") and note.isprintable() and len(note) <= 300


# ------------------------------------------------------------------ the worker


def test_the_worker_answers_as_the_estimators_themselves_do() -> None:
    past = (PastRun(4000, "A100", told={"horus": 3000.0}),)
    job = description(summary=TABLE, batch_size=8, recent_runs=past, input_shape=(3, 4))
    thinker = Thinker(Config())
    try:
        found = thinker.ask(Question(job))
        again = thinker.ask(Question(job, b"{}"))
    finally:
        thinker.close()
    expected = Asking(Config()).ask(job)
    assert [untimed(e) for e in found.estimates] == [untimed(e) for e in expected.estimates]
    assert [note[:6] for note in again.notes] == ["trace:"]


def untimed(estimate: Estimate) -> Estimate:
    return replace(estimate, seconds=None)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ("import time; time.sleep(600)", "took longer than 0.3 s"),
        ("sys.stdin.buffer.read(10); sys.exit(3)", "broke"),
        ("sys.stdin.buffer.read(10); os.write(1, b'\\xff' * 100)", "broke"),
    ],
)
def test_a_worker_that_hangs_dies_or_babbles_costs_one_answer(
    tmp_path: Path, after: str, why: str
) -> None:
    ready = b"\x82\xa9estimates\x90\xa5notes\x90"
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, sys\n"
        f"ready = {ready!r}\n"
        "os.write(1, len(ready).to_bytes(4, 'big') + ready)\n"
        f"{after}\n"
    )
    thinker = Thinker(HASTY, [sys.executable, str(script)])
    for _ in range(2):
        with pytest.raises(NoAnswer, match=why):
            thinker.ask(Question(description()))
    thinker.close()


# ------------------------------------------------------------------ the tracer


@pytest.fixture
def python3(tmp_path: Path) -> Iterator[Path]:
    """A file to write a program into that is the user's `python3`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "python3"
    yield program


def request(program: Path, text: str, cwd: Path | None = None) -> TraceRequest:
    program.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{text}\n")
    program.chmod(0o755)
    options = typed({"model-factory": "nets:make", "batch-size": "8", "input-shape": "3x4"})
    return TraceRequest(
        arguments=tracer_arguments(options),
        cwd=str(cwd or program.parent),
        environment={"PATH": str(program.parent), "THEIRS": "1"},
        umask=0o022,
    )


SAY = "out = int(sys.argv[2].removeprefix('--output='))\n"


def test_the_tracer_runs_in_the_users_python_with_their_environment_and_no_gpu(
    python3: Path,
) -> None:
    text = SAY + (
        "seen = {k: os.environ.get(k) for k in ('THEIRS', 'CUDA_VISIBLE_DEVICES')}\n"
        "print('chatter'); sys.stderr.write('more')\n"
        "os.write(out, json.dumps([os.getcwd(), sys.argv[1][-7:], sys.argv[3:], seen]).encode())"
    )
    cwd, program, arguments, seen = json.loads(trace(request(python3, text), EstimationConfig()))
    assert (cwd, program) == (str(python3.parent), "/tracer")
    assert arguments == ["--batch-size=8", "--input-shape=3x4", "--", "nets:make"]
    assert seen == {"THEIRS": "1", "CUDA_VISIBLE_DEVICES": ""}


def test_the_command_reaches_the_tracer_and_nobody_else(python3: Path) -> None:
    text = SAY + (
        "arguments = open('/proc/self/cmdline').read()\n"
        "os.write(out, json.dumps([os.environ['RADRM_TRACED_COMMAND'], arguments]).encode())"
    )
    secret = "TOKEN=abc torchrun train.py é" + "x" * 200_000
    wanted = replace(request(python3, text), command=secret)
    command, arguments = json.loads(trace(wanted, EstimationConfig()))
    assert secret.startswith(command[:1000]) and len(command.encode()) == 1 << 16
    assert "TOKEN" not in arguments and "--gpus" not in arguments
    two = typed({"model-factory": "nets:make", "gpus": "2"})
    assert tracer_arguments(two) == ("--gpus=2", "--parallel=auto", "--", "nets:make")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("os.abort()", "signal 6"),
        ("time.sleep(600)", "longer than 0.2 s"),
        (SAY + "for _ in range(70): os.write(out, b'x' * 2**20)", "longer than 64 MiB"),
        ("bytearray(2**30)", "exit code 1"),
    ],
)
def test_a_tracer_that_goes_wrong_is_one_line(python3: Path, text: str, why: str) -> None:
    hangs = "sleep" in text
    limits = EstimationConfig(trace_limit_s=0.2 if hangs else 60.0, trace_memory_mib=512)
    with pytest.raises(NotTraced, match=why) as caught:
        trace(request(python3, text), limits)
    assert "\n" not in str(caught.value)


def test_nothing_that_a_tracer_started_outlives_it(python3: Path, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    text = SAY + (
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.setsid(); os.close(out)\n"
        f"    open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)\n"
        f"while not os.path.exists({str(pid_file)!r}) or not open({str(pid_file)!r}).read(): pass\n"
        "os.write(out, b'done')"
    )
    assert trace(request(python3, text), EstimationConfig()) == b"done"
    stat = read_stat(int(pid_file.read_text()))
    assert stat is None or stat.dead, "killed, if not yet reaped"


def test_a_missing_python_and_a_missing_folder_are_told(python3: Path, tmp_path: Path) -> None:
    nowhere = replace(request(python3, ""), environment={"PATH": str(tmp_path)})
    assert "no such program" in json.loads(trace(nowhere, EstimationConfig()))["error"]
    gone = replace(request(python3, ""), cwd=str(tmp_path / "gone"))
    assert "cannot enter the folder" in json.loads(trace(gone, EstimationConfig()))["error"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_root_daemon_traces_as_the_user(python3: Path, tmp_path: Path) -> None:
    for folder in (python3.parent, tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o055 != 0o055:
            folder.chmod(folder.stat().st_mode | 0o055)
    asked = replace(request(python3, "", Path("/")), user="nobody", uid=65534, gid=65534)
    # No Python of ours: nobody may be allowed to read it.
    python3.write_text(
        '#!/bin/bash\neval "exec 3>&${2#--output=}"\nprintf "[%s, %s]" $(id -u) $(id -g) >&3\n'
    )
    asked = replace(asked, environment={"PATH": f"{python3.parent}:/usr/bin:/bin"})
    assert json.loads(trace(asked, EstimationConfig())) == [65534, 65534]


# ------------------------------------------------------------------ the service


class Inbox:
    """What the service posts."""

    def __init__(self) -> None:
        self.posted: queue.Queue[Estimated] = queue.Queue()

    def next(self) -> Estimated:
        return self.posted.get(timeout=60)


class Answers(Thinker):
    """Instead of a worker: answers when it may, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(Config())
        self.may = threading.Event()
        self.asked: list[Question] = []

    def ask(self, question: Question) -> Answer:
        assert self.may.wait(60)
        self.asked.append(question)
        if question.job.batch_size == 13:
            raise NoAnswer("the estimators broke: 13")
        return Answer((Estimate(Quantity.MEMORY, 1.0, 2.0, "theirs"),), ("a note",))


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def thinker() -> Answers:
    return Answers()


@pytest.fixture
def service(inbox: Inbox, thinker: Answers) -> Iterator[EstimationService]:
    service = EstimationService(HASTY, inbox.posted.put, thinker)
    yield service
    thinker.may.set()
    service.close()


def test_all_jobs_of_a_submission_share_one_answer(
    service: EstimationService, inbox: Inbox, thinker: Answers
) -> None:
    assert not service.join("T1", 1)
    service.ask("T1", 1, Wanted(description()))
    assert service.join("T1", 2) and service.join("T1", 3)
    thinker.may.set()
    found = inbox.next()
    assert found.job_ids == (1, 2, 3) and found.answer.notes == ("a note",)
    assert service.join("T1", 4), "an array's later elements find it remembered"
    assert inbox.next().job_ids == (4,)
    assert len(thinker.asked) == 1


def test_a_question_without_an_answer_is_answered_by_its_reason(
    service: EstimationService, inbox: Inbox, thinker: Answers
) -> None:
    thinker.may.set()
    service.ask("T1", 1, Wanted(description(batch_size=13)))
    assert inbox.next().answer == Answer((), ("the estimators broke: 13",))


def test_a_trace_is_handed_on_and_a_failed_one_is_a_note_beside_the_answer(
    service: EstimationService, inbox: Inbox, thinker: Answers, python3: Path
) -> None:
    thinker.may.set()
    service.ask("T1", 1, Wanted(description(), request(python3, SAY + "os.write(out, b'events')")))
    assert inbox.next().answer.notes == ("a note",)
    assert thinker.asked[-1].events == b"events"
    service.ask("T2", 2, Wanted(description(), request(python3, "sys.exit(4)")))
    notes = inbox.next().answer.notes
    assert notes[0].startswith("trace: the tracer ended with exit code 4") and len(notes) == 2
    assert thinker.asked[-1].events is None


def test_a_trace_that_hangs_keeps_no_other_job_waiting(
    service: EstimationService, inbox: Inbox, thinker: Answers, python3: Path
) -> None:
    thinker.may.set()
    service.ask("T1", 1, Wanted(description(), request(python3, "time.sleep(600)")))
    service.ask("T2", 2, Wanted(description()))
    assert inbox.next().job_ids == (2,)


def test_a_long_line_of_traces_is_cut_short(inbox: Inbox, thinker: Answers, python3: Path) -> None:
    hasty = Config(estimation=EstimationConfig(trace_limit_s=1.0))
    service = EstimationService(hasty, inbox.posted.put, thinker)
    thinker.may.set()
    hangs = request(python3, "time.sleep(600)")
    for number in range(20):
        service.ask(f"T{number}", number, Wanted(description(), hangs))
    notes = [note for _ in range(20) for note in inbox.next().answer.notes]
    service.close()
    late = [note for note in notes if "went by before it could begin" in note]
    assert len(late) >= 14, "two at once, one second each, and no further than that"
