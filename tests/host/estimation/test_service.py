"""The service: it answers each submission once, and one question delays no other."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from radrm.config import Config, EstimationConfig
from radrm.core.records import Estimate
from radrm.core.words import Quantity
from radrm.host.estimation import service as service_module
from radrm.host.estimation.asking import Answer
from radrm.host.estimation.service import Estimated, EstimationService, Wanted
from radrm.host.estimation.tracing import TraceRequest, Unwanted
from radrm.host.estimation.worker import NoAnswer, Question, Thinker
from radrm.jobfile.radfile import Program
from radrm.structs import replace
from tests.host.estimation.asking import HASTY, SAY, description, request
from tests.waiting import wait_until


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


def test_a_trace_and_the_reason_of_a_failed_one_are_handed_on(
    service: EstimationService, inbox: Inbox, thinker: Answers, python3: Path
) -> None:
    thinker.may.set()
    service.ask("T1", 1, Wanted(description(), request(python3, SAY + "say({'said': 7})")))
    assert inbox.next().answer.notes == ("a note",)
    assert json.loads(thinker.asked[-1].events or b"")["said"] == 7
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


def test_a_long_line_of_traces_is_cut_short(
    inbox: Inbox, thinker: Answers, python3: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "WAITS_TIMES", 1.0)
    hasty = Config(estimation=EstimationConfig(trace_limit_s=1.0))
    service = EstimationService(hasty, inbox.posted.put, thinker)
    thinker.may.set()
    hangs = request(python3, "time.sleep(600)")
    for number in range(20):
        service.ask(f"T{number}", number, Wanted(description(), hangs))
    notes = [note for _ in range(20) for note in inbox.next().answer.notes]
    service.close()
    late = [note for note in notes if "for other traces and the limit is" in note]
    assert len(late) >= 16, "one at a time, one second each, and no further than that"


class Traces(Answers):
    """Has what a worker has: the text of a trace."""

    def __init__(self) -> None:
        super().__init__()
        self.may.set()

    def ask(self, question: Question) -> Answer:
        text = "a trace" if question.events is not None else question.job.trace
        return replace(super().ask(question), trace=text)


class Tracer:
    """Instead of traces: counts them. They end when they may; those of the user bob at once."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.traced: list[TraceRequest] = []

    def __call__(self, request: TraceRequest, *_: object, **__: object) -> bytes:
        self.traced.append(request)
        assert request.user == "bob" or self.may.wait(60)
        return b"{}"


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Tracer:
    found = Tracer()
    monkeypatch.setattr(service_module, "trace", found)
    return found


ASKED = TraceRequest(cwd="/", environment={}, program=Program(("train",)))


def test_jobs_with_one_command_share_a_trace_while_it_runs_and_after_it(
    inbox: Inbox, tracer: Tracer
) -> None:
    thinker = Traces()
    service = EstimationService(HASTY, inbox.posted.put, thinker)
    for number in (1, 2, 3):
        service.ask(f"T{number}", number, Wanted(description(), ASKED, "0 same"))
    tracer.may.set()
    assert {inbox.next().job_ids for _ in range(3)} == {(1,), (2,), (3,)}
    assert len(tracer.traced) == 1
    service.ask("T4", 4, Wanted(description(), ASKED, "0 another"))
    assert inbox.next().job_ids == (4,)
    service.ask("T5", 5, Wanted(description(), ASKED))
    assert inbox.next().job_ids == (5,)
    service.close()
    assert len(tracer.traced) == 3


@pytest.mark.parametrize(("times", "traces"), [(1e9, 1), (0.0, 2)])
def test_a_trace_is_kept_for_a_while(
    inbox: Inbox, tracer: Tracer, monkeypatch: pytest.MonkeyPatch, times: float, traces: int
) -> None:
    monkeypatch.setattr(service_module, "KEPT_TIMES", times)
    tracer.may.set()
    thinker = Traces()
    service = EstimationService(HASTY, inbox.posted.put, thinker)
    for number in (1, 2):
        service.ask(f"T{number}", number, Wanted(description(), ASKED, "0 same"))
        inbox.next()
    service.close()
    assert len(tracer.traced) == traces
    assert traces == 2 or thinker.asked[-1].job.trace == "a trace"


def test_a_users_many_traces_delay_no_other_user(inbox: Inbox, tracer: Tracer) -> None:
    service = EstimationService(HASTY, inbox.posted.put, Traces())
    for number in range(5):
        service.ask(f"T{number}", number, Wanted(description(), ASKED, f"0 {number}"))
    bobs = replace(description(), spec=replace(description().spec, user="bob"))
    service.ask("T9", 9, Wanted(bobs, replace(ASKED, user="bob"), "1 x"))
    assert inbox.next().job_ids == (9,), "the others still hang"
    tracer.may.set()
    service.close()


class Endless(Tracer):
    """Instead of traces: each goes on until nobody waits for it any more."""

    def __call__(
        self, request: TraceRequest, _: object, ended: Callable[[], bool], **__: object
    ) -> bytes:
        self.traced.append(request)
        self.may.set()
        wait_until(ended)
        raise Unwanted("nobody waits")


@pytest.mark.parametrize("mark", ["0 same", None])
def test_a_trace_ends_with_its_last_job(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch, mark: str | None
) -> None:
    tracer = Endless()
    monkeypatch.setattr(service_module, "trace", tracer)
    service = EstimationService(HASTY, inbox.posted.put, Traces())
    service.ask("T1", 1, Wanted(description(), ASKED, mark))
    service.join("T1", 2)
    service.ask("T2", 3, Wanted(description(), ASKED, mark))
    assert tracer.may.wait(60)
    monkeypatch.setattr(service_module, "trace", lambda *_, **__: b"{}")
    for job_id in (1, 2, *([3] if mark else [])):
        service.drop(job_id)
    wait_until(lambda: "T1" not in service._open)
    if mark:
        service.ask("T4", 4, Wanted(description(), ASKED, mark))
    assert inbox.next().job_ids == ((4,) if mark else (3,)), "the user's next trace begins"
    service.close()
    assert inbox.posted.empty() and len(tracer.traced) == 1
