"""The service: it answers each submission once, and one question delays no other."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.config import Config, EstimationConfig
from radrm.core.records import Estimate
from radrm.core.words import Quantity
from radrm.host.estimation import service as service_module
from radrm.host.estimation.asking import Answer
from radrm.host.estimation.service import Estimated, EstimationService, Wanted
from radrm.host.estimation.worker import NoAnswer, Question, Thinker
from tests.host.estimation.asking import HASTY, SAY, description, request


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
            raise NoAnswer("the estimators failed: 13")
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


def test_the_worker_starts_without_a_question_unless_the_daemon_ends_first(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = threading.Event()
    monkeypatch.setattr(Thinker, "prepare", lambda _: prepared.set())
    early = EstimationService(HASTY, inbox.posted.put, Thinker(Config()))
    early.begin()
    early.close()
    assert early._preparing.finished.is_set() and not prepared.is_set()
    monkeypatch.setattr(service_module, "PREPARED_AFTER_S", 0.0)
    late = EstimationService(HASTY, inbox.posted.put, Thinker(Config()))
    late.begin()
    assert prepared.wait(60)
    late.close()


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
    assert inbox.next().answer == Answer((), ("the estimators failed: 13",))


def test_a_trace_is_handed_on_and_a_failed_one_is_a_note_beside_the_answer(
    service: EstimationService, inbox: Inbox, thinker: Answers, python3: Path
) -> None:
    thinker.may.set()
    service.ask("T1", 1, Wanted(description(), request(python3, SAY + "say({'said': 1})")))
    assert inbox.next().answer.notes == ("a note",)
    assert json.loads(thinker.asked[-1].events or b"")["said"] == 1
    service.ask("T2", 2, Wanted(description(), request(python3, "sys.exit(4)")))
    inbox.next()
    assert "exit code 4" in json.loads(thinker.asked[-1].events or b"")["error"]


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
    late = [note for note in notes if "for other traces and the limit is" in note]
    assert len(late) >= 14, "two at once, one second each, and no further than that"
