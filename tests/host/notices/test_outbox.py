"""Notices that wait are sent, again after failures, a few at a time, and marked in the store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from radrm.errors import StoreError
from radrm.host.notices.outbox import AT_ONCE, PAUSES_S, Outbox, Result
from radrm.host.storage.notices import Notice
from radrm.host.storage.store import Store
from tests.host.notices.notes import decided, ended, pending, submitted, waiting
from tests.waiting import wait_until


class Bench:
    """A store, and an outbox whose sending and clock the test decides."""

    def __init__(self, path: str) -> None:
        self.store = Store(path)
        self.now_s = 0.0
        self.sent: list[int] = []
        self.answer: Callable[[Notice], Result] = lambda _: Result()
        self.woken = threading.Semaphore(0)
        self.outbox = self.restart()

    def restart(self) -> Outbox:
        self.outbox = Outbox(self.store.notices, self._send, self.woken.release, lambda: self.now_s)
        self.store.notices.new = True
        return self.outbox

    def _send(self, notice: Notice) -> Result:
        self.sent.append(notice.job_id)
        return self.answer(notice)

    def end_job(self, number: int, uid: int = 1000, *targets: str) -> None:
        submitted(self.store, pending(number, uid), *(targets or ("a@x.org",)))
        self.store.save([decided(ended(pending(number, uid)))])

    def rounds(self, count: int = 1) -> None:
        """Work, wait for so many results, work again after each."""
        self.outbox.work()
        for _ in range(count):
            assert self.woken.acquire(timeout=60)
            self.outbox.work()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(str(tmp_path / "radrm.sqlite"))


def test_what_waits_is_sent_in_order_and_forgotten(bench: Bench) -> None:
    for number in (1, 2, 3):
        bench.end_job(number)
    bench.rounds(3)
    assert bench.sent == [1, 2, 3] and waiting(bench.store) == []
    assert bench.outbox.due_in_s == float("inf")
    bench.outbox.work()
    assert bench.sent == [1, 2, 3]


def test_a_failure_is_tried_again_with_growing_pauses_and_given_up(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.answer = lambda _: Result("busy")
    bench.end_job(1, 1000, "https://x.org/secret")
    bench.rounds(1)
    for number, pause_s in enumerate(PAUSES_S, 1):
        assert bench.outbox.due_in_s == pause_s
        bench.now_s += pause_s - 0.5
        bench.outbox.work()
        assert len(bench.sent) == number
        bench.now_s += 0.5
        bench.rounds(1)
    assert len(bench.sent) == 4 and bench.outbox.due_in_s == float("inf")
    (problem,) = bench.store.notices.problems(1, None)
    assert (problem["tries"], problem["error"], problem["given_up"]) == (4, "busy", True)
    (line,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert line == ("notice to webhook at x.org of job 1 (end): given up after 4 tries: busy")


def test_what_can_never_be_sent_is_given_up_at_once(bench: Bench) -> None:
    bench.answer = lambda _: Result("no such program", final=True)
    bench.end_job(1)
    bench.rounds(1)
    assert bench.store.notices.problems(1, None)[0]["tries"] == 1
    assert waiting(bench.store) == []


def test_a_pause_holds_nothing_else_up(bench: Bench) -> None:
    bench.answer = lambda notice: Result("busy" if notice.job_id == 1 else None)
    bench.end_job(1)
    bench.end_job(2)
    bench.rounds(2)
    assert bench.sent == [1, 2] and [n.job_id for n in waiting(bench.store)] == [1]


def test_a_target_that_hangs_delays_only_its_user(bench: Bench) -> None:
    go = threading.Event()

    def answer(notice: Notice) -> Result:
        if notice.uid == 10:
            go.wait(30.0)
        return Result()

    bench.answer = answer
    for number, uid in ((1, 10), (2, 10), (3, 20), (4, 20)):
        bench.end_job(number, uid)
    bench.rounds(2)
    assert sorted(bench.sent) == [1, 3, 4]
    go.set()
    bench.rounds(2)
    assert sorted(bench.sent) == [1, 2, 3, 4] and waiting(bench.store) == []


def test_few_are_on_their_way_at_a_time(bench: Bench) -> None:
    go, least = threading.Event(), []

    def answer(_: Notice) -> Result:
        least.append(len(threading.enumerate()))
        go.wait(30.0)
        return Result()

    bench.answer = answer
    for number in range(1, AT_ONCE + 4):
        bench.end_job(number, number)
    bench.outbox.work()
    wait_until(lambda: len(least) == AT_ONCE, "as many as may")
    bench.outbox.work()
    assert len(bench.sent) == AT_ONCE
    go.set()
    bench.rounds(AT_ONCE + 3)
    assert sorted(bench.sent) == list(range(1, AT_ONCE + 4))


def test_the_next_daemon_sends_what_was_on_its_way(bench: Bench) -> None:
    go = threading.Event()
    bench.answer = lambda _: Result(None if go.wait(30.0) else "late")
    bench.end_job(1)
    bench.outbox.work()
    bench.restart().work()
    wait_until(lambda: bench.sent == [1, 1], "a second sending")
    go.set()
    bench.rounds(2)  # the first outbox also ends its sending
    assert waiting(bench.store) == []


def test_a_store_that_cannot_be_written_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.end_job(1)
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise StoreError("full")

        patch.setattr(bench.store.notices, "tried", full)
        bench.rounds(1)
        assert bench.outbox.due_in_s == 5.0
    bench.outbox.work()
    assert len(waiting(bench.store)) == 1
    bench.now_s = 5.0
    bench.outbox.work()
    assert waiting(bench.store) == [] and bench.sent == [1], "it is not sent twice"


def test_a_defect_gives_one_notice_up(bench: Bench) -> None:
    def answer(notice: Notice) -> Result:
        if notice.job_id == 1:
            raise KeyError("x")
        return Result()

    bench.answer = answer
    bench.end_job(1)
    bench.end_job(2)
    bench.rounds(2)
    assert bench.sent == [1, 2]
    assert bench.store.notices.problems(1, None)[0]["error"] == "radrm failed: KeyError"
