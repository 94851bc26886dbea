"""Several jobs that write to one log: whose out-of-memory it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from radrm.core.records import Exit, Job
from radrm.core.words import JobState
from radrm.daemon.attempts import Attempts
from radrm.daemon.mps import Stops
from radrm.host.attempts.evidence import Ended
from tests.last_words.logs import OOM
from tests.world import GIB, World, gpus

BAD = "error: no data\n"


class Server:
    """A daemon that reads the ends of two jobs' attempts, in the order in which they come."""

    def __init__(self, *logs: set[str]) -> None:
        self.world = World(gpus(2))
        self.jobs: list[Job] = []
        self.logs: dict[int, set[str]] = {}
        for log in logs:
            self.submit(log)
        self.ends: dict[int, list[Ended]] = {}
        self.launcher = Mock(live=set())
        self.launcher.logs.side_effect = lambda serial: self.logs.get(serial, set())
        self.launcher.poll.side_effect = lambda serial: (
            self.ends[serial].pop() if self.ends.get(serial) else None
        )
        parts: Any = SimpleNamespace(
            scheduler=self.world.scheduler,
            devices=SimpleNamespace(clock=SimpleNamespace(now=lambda: self.world.now), mps=None),
            records=Mock(),
            attempts=Mock(launcher=self.launcher),
        )
        self.attempts = Attempts(parts, Stops(self.launcher, None, Mock()), Mock())

    def submit(self, logs: set[str]) -> None:
        self.jobs.append(self.world.submit(GIB))
        self.logs[self.serial(self.jobs[-1])] = logs

    def serial(self, job: Job) -> int:
        return self.world.live(job).serial

    def end(self, number: int, tail: str, after: int = 0) -> JobState:
        job = self.jobs[number]
        self.world.pass_time(5.0)
        end = Ended(self.world.now, Exit(code=1), None, None, (tail,), after=(after,))
        self.ends[self.serial(job)] = [end]
        for event in self.attempts.events():
            self.world.step(event)
        return self.world.state(job)

    def reason(self, number: int) -> str:
        return self.world.jobs[self.jobs[number].id].reason or ""


def test_each_to_a_log_of_its_own() -> None:
    server = Server({"/a"}, {"/b"})
    assert server.end(0, OOM) is not JobState.FAILED
    assert server.end(1, OOM + BAD) is not JobState.FAILED


@pytest.mark.parametrize("first", [0, 1])
def test_one_log_the_last_line_must_be_the_jobs_own(first: int) -> None:
    """Whether the other one is still there, or has ended before."""
    server = Server({"/log"}, {"/log"})
    for number in (first, 1 - first):
        if number == 0:
            assert server.end(0, OOM) is not JobState.FAILED
        else:
            assert server.end(1, OOM + BAD) is JobState.FAILED
            assert "other jobs write to the same log" in server.reason(1)


def test_what_others_wrote_after_it_says_nothing() -> None:
    server = Server({"/log"}, {"/log"})
    assert server.end(0, BAD + OOM, after=len(OOM)) is JobState.FAILED


def test_a_log_that_was_left_by_a_job_before_is_its_own() -> None:
    server = Server({"/log"})
    assert server.end(0, BAD) is JobState.FAILED
    server.world.pass_time(5.0)
    server.submit({"/log"})
    assert server.end(1, OOM + "cannot go on\n") is not JobState.FAILED
