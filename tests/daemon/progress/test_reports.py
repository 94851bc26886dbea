"""What the daemon makes of reports: which events, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import TakeCheckpointNow
from radrm.core.records import Checkpoint, Instant, Job
from radrm.core.rules import Plan
from radrm.core.view import View
from radrm.core.words import CheckpointKind, JobState
from radrm.daemon.progress import MOST_AT_END, MOST_AT_ONCE, MOST_KEPT, MOST_MORE, Dropped, Reports
from radrm.host.progress import MOST_TASKS
from tests.world import GIB, World, default_planner, gpus


class Sockets:
    """Datagrams that wait, by attempt; in place of the receiver."""

    def __init__(self) -> None:
        self.waiting: dict[int, list[bytes]] = {}
        self.left_removed = False

    def open(self, serial: int, uid: int) -> str:
        self.waiting[serial] = []
        return f"/run/{serial}"

    def ready(self) -> list[int]:
        return [serial for serial, datagrams in self.waiting.items() if datagrams]

    def read(self, serial: int, most: int) -> list[bytes]:
        found = self.waiting.get(serial, [])
        taken, found[:most] = found[:most], []
        return taken

    def end(self, serial: int) -> None:
        self.waiting.pop(serial, None)

    close = end

    def remove_left(self) -> None:
        self.left_removed = True


class Asks:
    """A planner that asks a job to save its state when `wanted` names it."""

    name, version, listens, starts_jobs = "asks", 1, frozenset({ev.Tick}), False
    wanted: int | None = None

    def plan(self, view: View, event: ev.Event, state: object) -> Plan:
        return Plan((TakeCheckpointNow(job_id=self.wanted),) if self.wanted is not None else ())


class Place:
    """Reports on a world, read once a second, with the interval of 10 s."""

    scale = 1.0

    def __init__(self) -> None:
        self.asks = Asks()
        self.world = World(gpus(4), planners=(default_planner(), self.asks))
        self.sockets = Sockets()
        self.reports = Reports(self, self.world.scheduler, self.sockets, 10.0, 1.0)

    def now(self) -> Instant:
        return self.world.now

    def run(self, **spec: object) -> Job:
        job = self.world.submit(GIB, **spec)
        assert self.reports.open(job, self.world.live(job).serial)
        return self.world.jobs[job.id]

    def send(self, job: Job, *datagrams: bytes) -> None:
        attempt = self.world.live(job)
        assert attempt is not None
        self.sockets.waiting[attempt.serial] += datagrams

    def look(self, after_s: float = 1.0) -> list[ev.Event]:
        """The events of the round in so many seconds, which the core has handled."""
        self.world.boot_s += after_s
        found = self.reports.events()
        for event in found:
            self.world.step(event)
        return found


@pytest.fixture
def place() -> Iterator[Place]:
    yield Place()


def kinds(found: Sequence[ev.Event]) -> list[str]:
    return [type(event).__name__ for event in found]


def test_a_report_is_an_event_at_once_and_the_next_only_after_the_interval(place: Place) -> None:
    job = place.run()
    place.send(job, b"step=1\ntotal=10")
    assert kinds(place.look()) == ["ProgressReported"]
    place.send(job, b"step=2")
    assert place.look() == []
    sent = place.now()
    place.send(job, b"loss=0.5")
    assert place.look(8.0) == []
    found = place.look()
    assert kinds(found) == ["ProgressReported"] and place.look(20.0) == []
    progress = place.world.jobs[job.id].progress
    assert progress.at.boot_s == sent.boot_s + 8.0, "when it was read"
    assert (progress.step, progress.work_done, progress.loss) == (2, 0.2, 0.5), "combined"


def test_sockets_are_read_once_a_second_and_only_while_attempts_live(place: Place) -> None:
    assert place.reports.due_s is None and place.look() == []
    job = place.run()
    assert place.look() == [] and place.reports.due_s == place.now().boot_s + 1.0
    place.send(job, b"step=1")
    assert place.look(0.5) == []
    assert kinds(place.look(0.5)) == ["ProgressReported"]


def test_a_flood_is_read_slowly_and_delays_nobody(place: Place) -> None:
    flood, other = place.run(), place.run()
    place.send(flood, *[b"step=1"] * 1000)
    place.send(other, b"step=7")
    found = place.look()
    assert sorted(e.job_id for e in found if isinstance(e, ev.ProgressReported)) == [1, 2]
    assert len(place.sockets.waiting[1]) == 1000 - MOST_AT_ONCE
    assert place.look() == [], "one event in ten seconds"


def test_what_is_saved_is_an_event_under_the_same_limit(place: Place) -> None:
    job = place.run()
    place.send(job, b"step=60\ntotal=100\nsaved=60", b"step=95")
    assert kinds(place.look()) == ["ProgressReported", "CheckpointTaken"]
    now = place.world.jobs[job.id]
    assert (now.saved.step, now.saved.work_done) == (60, 0.6)
    assert now.progress.work_done == 0.95
    place.send(job, b"saved=97")
    assert place.look() == []
    assert kinds(place.look(9.0)) == ["ProgressReported", "CheckpointTaken"]


def test_an_answer_to_a_request_to_save_counts_at_once(place: Place) -> None:
    job = place.run(checkpoint=Checkpoint(CheckpointKind.SIGNAL))
    place.world.obey = False
    place.send(job, b"step=1")
    assert kinds(place.look()) == ["ProgressReported"]
    place.asks.wanted = job.id
    place.world.step(ev.Tick(at=place.now()))
    place.asks.wanted = None
    assert any(isinstance(a, act.TakeCheckpoint) for a in place.world.decisions[-1].actions)
    place.send(job, *[b"step=2"] * 100, b"saved=2")
    assert kinds(place.look()) == ["CheckpointTaken"], "read to the end, outside the limits"
    attempt, now = place.world.live(job), place.world.jobs[job.id]
    assert not attempt.pending
    assert now.saved.step == 2
    place.send(job, b"saved=3")
    assert place.look() == [], "answered, so the limit holds again"


def test_what_was_saved_before_the_request_is_no_answer(place: Place) -> None:
    job = place.run(checkpoint=Checkpoint(CheckpointKind.SIGNAL))
    place.world.obey = False
    place.send(job, b"step=1")
    place.look()
    place.send(job, b"saved=1")
    assert place.look() == [], "it waits for its turn"
    place.world.boot_s += 1.0
    place.asks.wanted = job.id
    place.world.step(ev.Tick(at=place.now()))
    place.asks.wanted = None
    assert kinds(place.look()) == ["CheckpointTaken"]
    assert place.world.live(job).pending, "the job is still asked"


def test_the_last_report_comes_before_the_end(place: Place) -> None:
    job = place.run()
    place.send(job, b"step=1")
    place.look()
    place.send(job, *[b"step=9\ntotal=10"] * 50, b"saved=10\nstep=10")
    end = ev.AttemptEnded(at=place.now(), job_id=job.id, serial=1, failure="test")
    found = place.reports.last_of([end])
    assert kinds(found) == ["ProgressReported", "CheckpointTaken"]
    for event in (*found, end):
        place.world.step(event)
    now = place.world.jobs[job.id]
    assert now.state is JobState.FAILED and now.progress == now.saved
    assert now.saved.step == 10
    assert place.reports.last_of([end]) == [], "nothing is said twice"
    place.reports.close(1)
    assert place.reports.last_of([end]) == [] and place.reports.due_s is None


def test_a_flood_does_not_delay_an_end_for_ever(place: Place) -> None:
    job = place.run()
    place.send(job, *[b"step=1"] * (MOST_AT_END + 5))
    place.reports.last_of([ev.AttemptEnded(at=place.now(), job_id=job.id, serial=1)])
    assert len(place.sockets.waiting[1]) == 5


def test_floods_of_many_asked_jobs_are_read_slowly_together(place: Place) -> None:
    jobs = [place.run(checkpoint=Checkpoint(CheckpointKind.SIGNAL), gpus=0) for _ in range(12)]
    place.world.obey = False
    for job in jobs:
        place.asks.wanted = job.id
        place.world.step(ev.Tick(at=place.now()))
        place.send(job, *[b"step=1"] * 2 * MOST_AT_END)
    place.look()
    left = [len(place.sockets.waiting[serial]) for serial in sorted(place.sockets.waiting)]
    read = [2 * MOST_AT_END - each for each in left]
    assert sum(read) == MOST_MORE + MOST_AT_ONCE * len(jobs)
    assert max(read) == MOST_AT_END and min(read) == MOST_AT_ONCE


def test_what_is_dropped_is_counted_with_the_last_reason(place: Place) -> None:
    job = place.run()
    place.send(job, b"loss=nan", b"x" * 513, b"step=1", b"step=-1")
    assert kinds(place.look()) == ["ProgressReported"]
    assert place.reports.dropped(1) == Dropped(3, "step=-1 is negative")
    place.reports.close(1)
    assert place.reports.dropped(1) == Dropped(3, "step=-1 is negative"), "also after the end"
    assert place.reports.dropped(2) is None


def test_counts_of_old_attempts_are_forgotten(place: Place) -> None:
    for serial in range(MOST_KEPT + 1):
        place.reports._drop(serial, "test")
    assert place.reports.dropped(0) is None and place.reports.dropped(MOST_KEPT) is not None


def test_adopted_attempts_get_their_sockets(place: Place) -> None:
    job = place.world.submit(GIB)
    place.reports.adopt(place.world.scheduler.snapshot.running)
    assert place.sockets.left_removed
    place.send(job, b"step=3")
    assert kinds(place.look()) == ["ProgressReported"]


def test_a_datagram_without_a_known_key_is_no_report(place: Place) -> None:
    place.send(place.run(), b"", b"color=1")
    assert place.look() == [] and place.reports.dropped(1) is None


def test_the_use_of_tasks_is_remembered_and_causes_no_event(place: Place) -> None:
    job = place.run()
    place.send(job, b"use.main.0=1,10\nuse.main.1=2,20", b"use.main.0=3,30")
    assert place.look() == []
    uses = place.reports.uses(1)
    assert [(use.number, use.cpu_s, use.memory_mib) for use in uses] == [(0, 3.0, 30), (1, 2.0, 20)]
    place.send(job, b"resized=2", b"use.main.0=0,5")
    assert place.look() == []
    assert place.reports.resized() == {1} and place.reports.resized() == set()
    assert place.reports.used_at(1) == place.now()
    assert [use.memory_mib for use in place.reports.uses(1)] == [5], "other tasks run now"
    place.reports.close(1)
    assert place.reports.uses(1) == ()


def test_only_so_many_tasks_are_remembered(place: Place) -> None:
    job = place.run()
    for role in ("a", "b"):
        for first in range(0, 256, 16):
            lines = [f"use.{role}.{first + n}=1,1" for n in range(16)]
            place.send(job, "\n".join(lines).encode())
    for _ in range(3):
        place.look()
    assert len(place.reports.uses(1)) == MOST_TASKS
    place.send(job, b"use.a.0=7,7", b"use.main.999=1,1")
    place.look()
    assert place.reports.uses(1)[0].memory_mib == 7
    assert place.reports.dropped(1) == Dropped(1, "'use.main.999' names no task")


def silences(place: Place, job: Job, *seconds: float) -> list[str]:
    """What is said in the seconds after the logs of a job stand still, each told at once."""
    found = []
    for silent_s in seconds:
        place.send(job, b"silent=%.1f" % silent_s)
        found += [f"{silent_s:g} {kind}" for kind in kinds(place.look())]
    return found


def test_a_silent_job_is_warned_and_stopped_at_its_limit_and_not_at_the_next_interval(
    place: Place,
) -> None:
    job = place.run(silent_limit_s=10.0)
    place.world.pass_time(60.0)
    said = silences(place, job, *range(5, 11))
    assert said == [f"{s} SilenceReported" for s in (5, 8, 9, 10)], "not while nothing is due"
    assert place.world.state(job) is JobState.TIMEOUT
    assert place.world.jobs[job.id].reason == "silent for 10s (limit 10s)"


def test_a_job_that_reports_is_not_silent_and_causes_no_more_events(place: Place) -> None:
    job = place.run(silent_limit_s=10.0)
    place.world.pass_time(60.0)
    found = []
    for second in range(20):
        place.send(job, b"step=%d" % second, b"silent=%d" % (50 + second))
        found += kinds(place.look())
    assert found.count("SilenceReported") <= 2
    attempt = place.world.live(job)
    assert attempt.stop is None and not attempt.warnings
