"""Time slots: who is asked to give way, when, and for whom."""

from __future__ import annotations

import dataclasses

import pytest

from radrm.core import events as ev
from radrm.core.records import Exit, Node, OutOfMemory
from radrm.core.words import CheckpointKind, JobState, Outcome
from radrm.deadlines import UTC, Zone
from radrm.orders import Fair, Shortest
from radrm.planners.slots import Slots
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from radrm.structs import replace
from tests.planners.slots.server import EXIT, LENGTH_S, NONE, SIGNAL, SLOTS, WARN_S, Server
from tests.world import GIB, gpus

ASK_S = LENGTH_S - WARN_S
PACKED = Magm(margin_mib=0, min_free_mib=0)


def two_jobs(kind: CheckpointKind = SIGNAL) -> Server:
    """Job 1 runs on the only GPU, and job 2 waits."""
    world = Server()
    world.come(kind)
    world.come()
    return world


# ------------------------------------------------------------------ when


def test_it_is_asked_before_the_end_and_waits_behind_all() -> None:
    world = two_jobs()
    world.come()
    world.later(ASK_S - 1.0)
    assert not world.asked
    world.later(1.0)
    assert world.asked == [1] and world.state(1) is JobState.RUNNING
    world.later(30.0)
    world.give_way(1)
    assert world.running == [2] and list(world.scheduler.state.lines.gpu) == [3, 1]
    assert world.attempts[1, 1].outcome is Outcome.PREEMPTED
    assert world.attempts[1, 1].requested.planner == "slots"


def test_one_that_nobody_waits_for_runs_on_until_somebody_comes() -> None:
    world = Server()
    world.come()
    world.later(10 * LENGTH_S)
    assert not world.asked
    held = world.come()
    assert world.asked == [1]
    world.give_way(1)
    assert world.running == [held.id]


def test_nothing_wakes_the_daemon_for_a_slot_that_nobody_waits_for() -> None:
    world = Server()
    world.come()
    world.later(2 * LENGTH_S)
    kept = world.rule_states["planner", "slots"]
    assert kept.wake_boot_s is None


@pytest.mark.parametrize("kind", [SIGNAL, EXIT])
def test_each_has_its_slot_in_turn(kind: CheckpointKind) -> None:
    world = two_jobs(kind)
    order = []
    for _ in range(4):
        world.later(ASK_S)
        (job,) = world.asked
        order.append(job)
        if world.jobs[job].spec.checkpoint.kind is EXIT:
            world.save(job)
            world.leave(job, Exit(0))
        else:
            world.give_way(job)
    assert order == [1, 2, 1, 2]


def test_one_that_does_not_save_is_asked_again_later() -> None:
    world = two_jobs()
    world.later(ASK_S)
    asked_s = world.boot_s
    world.later(50.0)
    assert world.state(1) is JobState.RUNNING and not world.asked
    while not world.asked:
        world.later(1.0)
    assert WARN_S <= world.boot_s - asked_s <= WARN_S + 60.0


# ------------------------------------------------------------------ how a slot counts


def test_a_move_begins_no_new_slot() -> None:
    world = Server(gpus(2))
    world.come()
    world.later(ASK_S / 2)
    world.step(ev.MigrateRequested(at=world.now, job_id=1, by="ann"))
    world.give_way(1)
    assert world.where(1) == ("GPU-1",) and world.live(1) is not None
    world.come()
    world.come()
    world.later(ASK_S / 2)
    assert world.asked == [1]


def test_one_that_saves_and_leaves_for_its_user_begins_no_new_slot() -> None:
    world = two_jobs(EXIT)
    world.later(ASK_S - 10.0)
    world.step(ev.CheckpointRequested(at=world.now, job_id=1, by="ann"))
    world.save(1)
    world.leave(1, Exit(0))
    assert world.running == [1], "it keeps its place"
    world.later(10.0)
    assert world.asked == [1]


def test_after_the_tail_it_has_a_whole_slot_again() -> None:
    world = two_jobs()
    world.later(ASK_S)
    world.give_way(1)
    world.end(2)
    world.read()
    world.come()
    world.later(ASK_S - 1.0)
    assert not world.asked
    world.later(1.0)
    assert world.asked == [1]


def test_a_restart_knows_the_slots() -> None:
    world = two_jobs()
    world.later(ASK_S / 2)
    world.restart()
    world.later(ASK_S / 2 - 1.0)
    assert not world.asked
    world.later(1.0)
    assert world.asked == [1]


def test_a_restart_with_a_shorter_slot_uses_it() -> None:
    world = two_jobs()
    world.later(ASK_S / 2)
    planners = (world.rules.planners[0], Slots(Exclusive(), LENGTH_S / 4, 10.0))
    world.rules = replace(world.rules, planners=planners)
    world.restart()
    world.later(1.0)
    assert world.asked == [1]


def test_a_request_of_a_user_is_waited_for() -> None:
    world = two_jobs()
    world.later(ASK_S - 10.0)
    world.step(ev.CheckpointRequested(at=world.now, job_id=1, by="ann"))
    world.later(20.0)
    assert not world.asked
    world.save(1)
    assert world.asked == [1] and world.state(1) is JobState.RUNNING


# ------------------------------------------------------------------ for whom


def test_no_more_are_asked_than_wait() -> None:
    world = Server(gpus(3))
    for _ in range(3):
        world.come()
        world.later(1.0)
    world.come()
    world.later(ASK_S)
    assert world.asked == [1], "the oldest slot"
    world.come()
    assert world.asked == [1, 2]


@pytest.mark.parametrize("kind", [SIGNAL, EXIT])
def test_one_that_waits_stops_one_job_in_a_slot(kind: CheckpointKind) -> None:
    """Those that give way wait, too: they must not stop the next one at once."""
    world = Server(gpus(4), prompt=True)
    for _ in range(5):
        world.come(kind)
        world.later(1.0)
    for slot in range(1, 4):
        world.later(ASK_S)
        gave = [a.job_id for a in world.attempts.values() if a.outcome is Outcome.PREEMPTED]
        assert gave == [1, 2, 3][:slot]


def test_one_that_has_given_way_says_when_it_is_in_turn() -> None:
    world = Server(
        gpus(2), slots=dataclasses.replace(SLOTS, length_s=3600.0, zone=UTC), prompt=True
    )
    for _ in range(3):
        world.come(name="train")
        world.later(1.0)
    world.later(3600.0 - WARN_S)
    assert world.running == [2, 3]
    (why,) = world.says(1)
    assert why == "it has given way itself; job 2 (train) gives way at 15 Nov 00:26"


def test_if_one_does_not_save_another_is_asked() -> None:
    world = Server(gpus(2))
    world.come()
    world.come()
    world.come()
    world.later(ASK_S)
    assert world.asked == [1]
    world.later(100.0)
    assert world.asked == [2] and world.state(1) is JobState.RUNNING


def test_a_job_on_several_gpus_waits_until_all_can_be_free() -> None:
    world = Server(gpus(2))
    world.come()
    world.later(300.0)
    world.come()
    world.come(gpus=2)
    world.later(ASK_S - 300.0)
    assert not world.asked, "the other GPU would only idle"
    world.later(300.0)
    assert world.asked == [1, 2]


def test_an_idle_gpu_needs_nobody_to_give_way() -> None:
    world = Server(gpus(2))
    world.come()
    world.come(NONE)
    world.come()
    world.later(ASK_S - 1.0)
    world.end(2)  # its GPU is not read yet
    world.boot_s += 1.0
    world.step(ev.Tick(at=world.now))
    assert not world.asked
    world.read()
    assert world.running == [1, 3]


def test_gpus_that_would_not_do_stay_as_they_are() -> None:
    small, large = gpus(1, total_mib=20 * GIB), replace(gpus(2)[1], name="H100")
    world = Server((*small, large))
    world.come()
    world.come(NONE, gpu_types=("H100",))
    world.come(mib=30 * GIB, source="declared")
    world.later(2 * LENGTH_S)
    assert not world.asked, "job 3 needs the other GPU"


def test_a_drained_gpu_stays_as_it_is() -> None:
    world = two_jobs()
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="repair"))
    world.later(2 * LENGTH_S)
    assert not world.asked


def test_those_who_wait_for_cpus_get_them() -> None:
    world = Server(gpus(2), node=Node(cpus=8.0))
    world.come(cpus=6.0)
    waits = world.come(cpus=6.0)
    world.later(ASK_S)
    assert world.asked == [1]
    world.give_way(1)
    assert world.running == [waits.id]


def test_held_jobs_do_not_count_until_they_are_released() -> None:
    world = Server()
    world.come()
    world.come()
    world.hold(2)
    world.later(LENGTH_S)
    assert not world.asked
    world.hold(2, False)
    assert world.asked == [1]


def test_a_job_with_a_higher_priority_does_not_give_way() -> None:
    world = Server()
    world.come(priority=1)
    world.come()
    world.later(LENGTH_S)
    assert not world.asked, "it would be the first again"
    world.come(priority=1)
    assert world.asked == [1]


def test_a_short_job_does_not_give_way_to_a_longer_one() -> None:
    world = Server(order=Shortest(max_wait_s=1e9))
    world.come(duration_s=2 * LENGTH_S)
    world.come(duration_s=5 * LENGTH_S)
    world.later(LENGTH_S)
    assert not world.asked
    world.come(duration_s=1.0)
    assert world.asked == [1]


def test_a_user_who_has_used_less_does_not_give_way() -> None:
    world = Server(gpus(2), order=Fair(ahead_s=LENGTH_S))
    world.come(NONE, uid=1001)
    world.later(3 * LENGTH_S)
    world.come(uid=1000)
    world.come(uid=1001)
    world.later(LENGTH_S)
    assert not world.asked, "the other user would only be the next one after it again"
    world.come(uid=1002)
    assert world.asked == [2]


def test_a_recovered_job_gives_way_too() -> None:
    world = two_jobs()
    world.end(1, 1, oom=OutOfMemory("test", 512))
    world.read()
    assert world.running == [1] and world.jobs[1].recovers
    world.later(ASK_S)
    assert world.asked == [1]
    world.give_way(1)
    assert world.running == [2]


# ------------------------------------------------------------------ shared GPUs


def test_on_a_shared_gpu_only_as_many_as_needed_give_way() -> None:
    world = Server(policy=PACKED)
    world.come(mib=20 * GIB)
    world.later(1.0)
    world.come(NONE, mib=15 * GIB)
    world.come(mib=20 * GIB)
    world.later(ASK_S)
    assert world.asked == [1]
    world.give_way(1)
    assert world.running == [2, 3]


def test_a_shared_gpu_that_would_not_have_the_room_stays_as_it_is() -> None:
    world = Server(policy=PACKED)
    world.come(mib=20 * GIB)
    world.later(1.0)
    world.come(NONE, mib=15 * GIB)
    world.come(mib=30 * GIB)
    world.later(2 * LENGTH_S)
    assert not world.asked


# ------------------------------------------------------------------ what is said


def test_users_are_told_when_the_slot_ends() -> None:
    world = Server(
        slots=dataclasses.replace(SLOTS, length_s=3 * 3600.0, zone=Zone(offsets=(3600.0,)))
    )
    world.come(name="train")
    world.come()
    assert world.remarks(1) == ("slots: its time slot ends at 15 Nov 02:30",)
    assert world.says(2) == ["job 1 (train) gives way when its time slot ends at 15 Nov 02:30"]
    world.later(3 * 3600.0 - WARN_S)
    assert world.says(2) == ["job 1 (train) saves its work and gives way: its time slot is over"]
    world.later(WARN_S)
    assert world.remarks(1) == ("slots: its time slot is over",)


def test_the_day_is_told_of_a_later_end() -> None:
    world = Server(slots=dataclasses.replace(SLOTS, length_s=7 * 86_400.0))
    world.come()
    assert world.remarks(1) == ("slots: its time slot ends at 21 Nov 22:30",)


def test_nothing_is_said_of_jobs_that_cannot_save() -> None:
    world = two_jobs(NONE)
    assert not world.remarks(1) and not world.says(2)
