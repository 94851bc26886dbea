"""Moves of running jobs: those that users ask for, and the wait for the target to be read."""

from __future__ import annotations

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Migrate
from radrm.core.records import Checkpoint, Job, Node, Progress
from radrm.core.words import CheckpointKind, JobState, ReservationKind
from tests.core.placements import CORE, on
from tests.core.saving.server import BY_TERM, EXIT, OK, SIGNAL, ask, end, save, saving
from tests.world import GIB, World, gpus

# ------------------------------------------------------------------ what users ask for


def server_of_two(**spec: object) -> tuple[World, Job]:
    world = World(gpus(2), settings=CORE)
    job = world.submit(8 * GIB, smact=0.1, **spec)
    world.obey = False
    return world, job


def move(world: World, to: str | None = None) -> str | None:
    event = ev.MigrateRequested(at=world.now, job_id=1, by="ada", device=to)
    refusal = world.scheduler.refuse_request(event)
    world.step(event)
    return refusal.message if refusal is not None else None


@pytest.mark.parametrize("to", [None, "GPU-1"])
def test_a_user_moves_a_job(to: str | None) -> None:
    world, job = server_of_two(checkpoint=Checkpoint(SIGNAL))
    assert world.where(1) == ("GPU-0",)
    assert move(world, to) is None
    assert world.reservations["job:1", "GPU-1"].kind is ReservationKind.MIGRATION
    assert str(world.live(1).requested) == "ada asked for a migration"
    save(world, job, 0.5)
    end(world, job, BY_TERM)
    assert (world.where(1), world.jobs[1].moves) == (("GPU-1",), 1)
    assert world.attempts[1, 1].reason == "preempted: ada asked for a migration"


def test_a_gpu_that_is_read_soon_is_named_before_one_that_takes_no_job() -> None:
    world, _ = server_of_two(checkpoint=Checkpoint(SIGNAL))
    world.step(ev.DrainRequested(at=world.now, device="GPU-1", reason="repair"))
    world.step(ev.DevicesSeen(at=world.now, devices=gpus(3)))
    event = ev.MigrateRequested(at=world.now, job_id=1, by="ada")
    refusal = world.scheduler.refuse_request(event)
    assert (refusal.rule, refusal.device) == ("reading", "GPU-2")


def test_what_stands_in_the_way_of_a_move_is_told() -> None:
    world, _ = server_of_two(checkpoint=Checkpoint(SIGNAL))
    assert move(world, "GPU-0") == "it is on that GPU"
    world, _ = server_of_two(checkpoint=Checkpoint(SIGNAL), gpus=2)
    assert move(world) == "needs 2 GPUs, 0 can take it now"
    assert move(world, "GPU-7") == "it uses 2 GPUs; name none, and the policy chooses"
    world, _ = server_of_two(checkpoint=Checkpoint(SIGNAL), gpus=0)
    assert move(world) == "it uses no GPU"
    world, _ = server_of_two()
    assert move(world) == "it has no way to save its work"


@pytest.mark.parametrize("kind", [SIGNAL, EXIT])
def test_a_user_moves_a_job_as_often_as_he_likes(kind: CheckpointKind) -> None:
    """Short attempts that a user's moves end do not count as attempts that came to nothing."""
    world, job = server_of_two(checkpoint=Checkpoint(kind))
    for moves in (1, 2, 3):
        attempt = world.live(1)
        started = ev.AttemptStarted(at=world.now, job_id=1, serial=attempt.serial)
        world.step(started)
        world.boot_s += 1.0
        world.read()
        assert move(world) is None
        save(world, job, 0.1 * moves, attempt.serial)
        end(world, job, BY_TERM)
        now = world.jobs[1]
        assert (now.moves, now.pause, now.setbacks) == (moves, None, 0)
        assert world.where(1) == (f"GPU-{moves % 2}",)


def test_a_user_asks_a_job_to_save() -> None:
    world, job = server_of_two(checkpoint=Checkpoint(SIGNAL))
    event = ev.CheckpointRequested(at=world.now, job_id=1, by="ada")
    assert world.scheduler.refuse_request(event) is None
    world.step(event)
    assert isinstance(world.actions[-1], act.TakeCheckpoint)
    assert "under way" in str(world.scheduler.refuse_request(event))
    save(world, job, 0.5)
    attempt = world.live(1)
    assert str(attempt.requested) == "ada asked for a checkpoint"
    assert attempt.stop is None


def test_what_cannot_be_moved_is_refused_with_the_reason() -> None:
    world, _ = server_of_two()
    assert move(world) == "it has no way to save its work"
    world, _ = server_of_two(checkpoint=Checkpoint(SIGNAL))
    assert move(world, "GPU-0") == "it is on that GPU"
    assert move(world, "GPU-7") is not None
    big = world.submit(38 * GIB, smact=0.1)
    assert world.where(big) == ("GPU-1",)
    for to in (None, "GPU-1"):
        refusal = move(world, to)
        assert "free" in refusal, refusal
    assert not [r for r in world.stored.values() if r.kind is ReservationKind.MIGRATION]
    assert move(world) is not None and world.live(1) is not None
    world.cancel(1)
    assert "not running" in str(move(world))


def test_a_job_keeps_its_cpus_when_it_moves() -> None:
    world = World(gpus(2), settings=CORE, node=Node(cpus=8.0))
    world.submit(GIB, smact=0.1, cpus=6.0, checkpoint=Checkpoint(SIGNAL))
    world.obey = False
    assert move(world) is None


# ------------------------------------------------------------------ a target that must be read


def left_while_no_daemon_ran() -> World:
    """A migrating job that has left before a restart; no device has been read since."""
    world, _ = saving(EXIT)
    ask(world, Migrate(job_id=1, placement=on("GPU-1")))
    serial = world.attempts[1, 1].serial
    kept = world.kept()
    world.scheduler = type(world.scheduler)(world.rules, world.settings)
    world.step(ev.Restored(at=world.now, kept=kept))
    world.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    saved = Progress(world.now, work_done=0.5)
    world.step(ev.AttemptEnded(at=world.now, job_id=1, serial=serial, exits=(OK,), saved=saved))
    world.step(ev.AttemptsAdopted(at=world.now))
    assert world.state(1) is JobState.PENDING and world.jobs[1].pause is not None
    assert world.reservations["job:1", "GPU-1"].kind is ReservationKind.MIGRATION
    return world


@pytest.mark.parametrize("restart", [False, True])
def test_a_job_waits_until_its_target_is_read(restart: bool) -> None:
    world = left_while_no_daemon_ran()
    world.read(["GPU-0"])
    assert world.state(1) is JobState.PENDING
    if restart:
        world.restart()
    world.read(["GPU-1"])
    assert world.where(1) == ("GPU-1",) and world.jobs[1].moves == 1
    assert not [r for r in world.stored.values() if r.kind is ReservationKind.MIGRATION]


def test_a_target_that_is_never_read_is_free_again() -> None:
    world = left_while_no_daemon_ran()
    world.broken["GPU-1"] = "no answer"
    world.read(["GPU-1"])
    assert world.state(1) is JobState.PENDING
    world.pass_time(60.0)
    assert world.where(1) == ("GPU-0",) and world.jobs[1].moves == 0
    assert not [r for r in world.stored.values() if r.kind is ReservationKind.MIGRATION]


def test_a_held_job_does_not_go_on() -> None:
    world = left_while_no_daemon_ran()
    world.hold(1)
    world.read()
    assert world.state(1) is JobState.PENDING
    world.cancel(1)
    assert not world.stored
