"""What fails at once is tried again later and later: nothing goes round for ever in one moment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import ArrayElement, Attempt, Instant, Job, OutOfMemory, Pause
from radrm.core.rules import Again
from radrm.core.settings import CoreSettings
from radrm.core.state.pauses import SHORTEST_S, Pauses, growing_s
from radrm.core.words import JobState
from radrm.structs import replace
from tests.world import GIB, World, gpus

MANY = 40


class Failing(World):
    """A host on which every attempt of job 1 ends at once, in the same instant."""

    how = "code 1"
    ends = 0

    def _do(self, action: act.Action) -> None:
        super()._do(action)
        if isinstance(action, act.Launch) and action.job_id == 1:
            self.ends += 1
            assert self.ends < 10 * MANY, "it goes round without end"
            self._end_at_once(action)

    def _end_at_once(self, action: act.Launch) -> None:
        if self.how == "void":
            attempt = self.live(1)
            assert attempt is not None
            never = replace(attempt, started=None)
            self.scheduler.state.attempts[1] = never
            event = ev.LaunchVoided(at=self.now, job_id=1, serial=action.serial)
            self.step(event)
        elif self.how == "oom":
            self.end(1, 1, oom=OutOfMemory("test"))
        else:
            self.end(1, 1, lost="killed" if self.how == "lost" else None)


class Forever:
    """A recovery without an end."""

    name = "for ever"

    def after_oom(
        self, job: Job, attempt: Attempt, evidence: OutOfMemory, largest_mib: int
    ) -> Again:
        return Again(memory_floor_mib=None, own_device=False)


def failing(how: str, **spec: object) -> Failing:
    world = Failing(gpus(1), recovery=Forever())
    world.how = how
    world.submit(40 * GIB, source="declared", **spec)
    return world


def starts(world: World) -> list[float]:
    return [a.launched.boot_s - 1000.0 for (job_id, _), a in world.attempts.items() if job_id == 1]


# ------------------------------------------------------------------ retries


def test_retries_wait_twice_as_long_each_time() -> None:
    world = failing("code 1", retries=3)
    for _ in range(100):
        world.pass_time(1.0)
    assert starts(world) == [0, 10, 30, 70]
    failed = world.jobs[1]
    assert (failed.state, failed.attempts, failed.reason) == (JobState.FAILED, 4, "exit code 1")


def test_three_hundred_retries_take_their_time() -> None:
    world = failing("code 1", retries=300)
    assert len(starts(world)) == 1, "none in the instant of the failure"
    for _ in range(400):
        world.pass_time(600.0)
    assert world.state(1) is JobState.FAILED
    gaps = [b - a for a, b in zip(starts(world), starts(world)[1:], strict=False)]
    assert len(gaps) == 300 and max(gaps) == 600.0


def test_the_first_pause_and_the_longest_are_settings() -> None:
    settings = CoreSettings(smact_warm_s=0, retry_s=2.0, retry_most_s=5.0)
    world = Failing(gpus(1), settings=settings)
    world.submit(GIB, retries=4)
    for _ in range(40):
        world.pass_time(1.0)
    assert starts(world) == [0, 2, 6, 11, 16]


def test_a_job_between_retries_says_what_it_waits_for() -> None:
    world = failing("code 1", retries=3)
    world.pass_time(10.0)
    (why,) = world.scheduler.why_waiting(1, world.now)
    assert why.rule == "pause"
    assert why.message == "it waits 20s before retry 2 of 3 (exit code 1)"
    world.pass_time(5.5)
    (why,) = world.scheduler.why_waiting(1, world.now)
    assert why.message.startswith("it waits 15s before retry 2 of 3")


def test_meanwhile_it_stands_aside_and_keeps_its_place() -> None:
    world = failing("code 1", retries=1)
    other = world.submit(40 * GIB, source="declared")
    assert world.state(other) is JobState.RUNNING, "a strict queue is not held up"
    third = world.submit(40 * GIB, source="declared")
    world.pass_time(10.0)
    assert list(world.scheduler.state.lines.gpu) == [1, third.id]


def test_an_element_that_stands_aside_gives_its_place_to_another() -> None:
    world = Failing(gpus(1))
    for index in range(3):
        world.submit(GIB, array=ArrayElement(1, index, 1), retries=1)
    assert [world.state(i) for i in (1, 2, 3)] == [
        JobState.PENDING,
        JobState.RUNNING,
        JobState.PENDING,
    ]
    world.end(2)
    world.pass_time(10.0)
    assert world.state(3) is JobState.RUNNING


def test_a_pause_outlasts_the_daemon() -> None:
    world = failing("code 1", retries=1)
    world.pass_time(4.0)
    world.restart()
    assert world.why(1) == ["pause"]
    world.pass_time(5.0)
    assert world.why(1) == ["pause"]
    world.restart()
    world.pass_time(1.0)
    assert world.jobs[1].attempts == 2


def test_a_pause_that_is_over_when_the_daemon_comes_back_keeps_nobody() -> None:
    world = failing("code 1", retries=1)
    world.boot_s += 100.0
    world.restart()
    assert world.jobs[1].attempts == 2


def test_boot_time_that_begins_anew_does_not_make_a_pause_longer() -> None:
    pause = Pause(since=Instant(5000.0, 0.0), until_boot_s=5010.0, reason="x")
    assert pause.left_s(Instant(60.0, 0.0)) == 0.0
    assert pause.left_s(Instant(5004.0, 0.0)) == 6.0


def test_many_timers_of_others_do_not_push_a_pause_out() -> None:
    world = failing("code 1", retries=1)
    for _ in range(600):
        world.submit(GIB, gpus=0, time_limit_s=1e6)
    for job in list(world.jobs.values()):
        if world.live(job):
            world.end(job)
    world.pass_time(10.0)
    assert world.jobs[1].attempts == 2


def test_release_ends_a_pause_and_a_hold_does_not() -> None:
    world = failing("code 1", retries=2)
    world.hold(1)
    assert world.jobs[1].pause is not None
    world.how = "works"
    world.hold(1, False)
    assert world.jobs[1].attempts == 2


@pytest.mark.parametrize("end", ["cancel", "edit"])
def test_what_ends_a_paused_job_leaves_no_pause(end: str) -> None:
    world = failing("code 1", retries=2)
    world.cancel(1)
    assert (world.state(1), world.jobs[1].pause) == (JobState.CANCELLED, None)
    if end == "edit":
        again = world.requeue(1)
        assert again.pause is not None and again.retries_used == 1, "it failed once more"


# ------------------------------------------------------------------ lost, void, preempted


@pytest.mark.parametrize("how", ["lost", "void", "oom"])
def test_what_comes_to_nothing_at_once_is_paced(how: str) -> None:
    world = failing(how, requeue=True)
    in_one_instant = world.ends
    for _ in range(MANY):
        world.pass_time(600.0)
    assert in_one_instant <= 5
    assert MANY <= world.ends <= MANY + 5, "it is never given up, and once a pause at most"


def test_one_that_is_lost_after_a_long_run_goes_back_at_once() -> None:
    world = World(gpus(1))
    job = world.submit(GIB, requeue=True)
    for _ in range(5):
        world.pass_time(3600.0)
        assert world.end(job, lost="killed").state is JobState.RUNNING
    assert world.end(job, lost="killed").state is JobState.RUNNING, "the first at once is free"
    assert world.end(job, lost="killed").state is JobState.PENDING
    world.pass_time(world.settings.retry_s)
    assert world.state(job) is JobState.RUNNING, "long runs have not made the pause longer"


def test_a_person_may_requeue_a_running_job_as_often_as_he_likes() -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    for _ in range(5):
        assert world.requeue(job).state is JobState.RUNNING


# ------------------------------------------------------------------ the mechanism


@given(st.floats(0, 1e9), st.integers(1, 10_000), st.floats(0, 1e9))
def test_a_pause_grows_within_its_limits(first_s: float, times: int, most_s: float) -> None:
    pause_s = growing_s(first_s, times, most_s)
    assert SHORTEST_S <= pause_s <= max(SHORTEST_S, most_s)
    assert growing_s(first_s, times + 1, most_s) >= pause_s


def test_pauses_grow_are_forgotten_and_do_not_pile_up() -> None:
    pauses: Pauses[int] = Pauses(10.0, 60.0)
    now_s, lengths = 0.0, []
    for _ in range(5):
        failed = pauses.fail(1, now_s, "no")
        lengths.append(failed.until_s - now_s)
        assert pauses.pausing(1, failed.until_s - 0.1) is failed
        assert pauses.pausing(1, failed.until_s) is None
        now_s = failed.until_s
    assert lengths == [10, 20, 40, 60, 60]
    assert pauses.fail(1, now_s + 121.0, "no").times == 1, "it had long been quiet"
    pauses.forget(1)
    assert pauses.fail(1, now_s, "no").times == 1
    for number in range(10_000):
        pauses.fail(number, now_s + 100.0 * number, "no")
    assert len(list(pauses.all())) < 1000


def test_a_server_that_cannot_start_anything_is_tried_less_and_less_often() -> None:
    """Both jobs of an instant count as one try; one that starts ends the count."""
    world = World(gpus(1))
    world.obey = False
    jobs = [world.submit(GIB, smact=0.1) for _ in range(2)]

    def refuse_launches() -> None:
        for job in jobs:
            attempt = world.live(job)
            if attempt is not None:
                launch = next(a for a in world.actions[::-1] if isinstance(a, act.Launch))
                failed = replace(launch, job_id=job.id, serial=attempt.serial)
                world.step(
                    ev.ActionFailed(at=world.now, action=failed, reason="full", transient=True)
                )

    waits = []
    for _ in range(6):
        refuse_launches()
        before = world.boot_s
        while not world.live(jobs[0]):
            assert world.boot_s < before + 1000.0
            world.pass_time(1.0)
        waits.append(world.boot_s - before)
    assert waits == [5, 10, 20, 40, 60, 60]
    attempt = world.live(jobs[0])
    world.step(ev.AttemptStarted(at=world.now, job_id=1, serial=attempt.serial))
    assert world.scheduler.state.launches.last("launch") is None
