"""How attempts that are MPS clients are stopped, and what their failures are put down to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Checkpoint, Exit, Job
from radrm.core.words import CheckpointKind, JobState
from radrm.daemon.attempts import Attempts
from radrm.daemon.effects import Effects, ServerReady
from radrm.daemon.mps import ClientsEnded, Stops
from radrm.host.attempts.evidence import Ended, Lost, Running
from radrm.host.mps.interface import NoClientNow
from radrm.host.mps.removal import Which
from tests.world import GIB, World, gpus

NOT_READY = "RuntimeError: CUDA error: MPS server is not ready to accept new MPS client requests\n"


def on_mps(**wishes: Any) -> tuple[World, Job]:
    world = World(gpus(1, mps=True))
    return world, world.submit(GIB, smact=0.1, **wishes)


class Host:
    """A launcher, an MPS service and the loop's inbox, which only note calls."""

    def __init__(self, world: World, mps: Any = None) -> None:
        self.world = world
        self.launcher = Mock(
            **{
                "serials.return_value": [],
                "is_live.return_value": False,
                "logs.return_value": set(),
            }
        )
        self.launcher.read_saved.return_value = {}
        self.launcher.live = set()
        self.mps = Mock() if mps is None else mps
        self.mps.faulted.return_value = False
        self.mps.suspected.return_value = False
        self.posted: list[Any] = []
        self.clock: Any = SimpleNamespace(now=lambda: world.now, real_s=lambda s: s)
        self.stops = Stops(self.launcher, self.mps, self.posted.append)
        self.attempts = Attempts(self.parts(), self.stops, Mock())

    def parts(self) -> Any:
        """What the daemon is made of, as far as these use it."""
        return SimpleNamespace(
            scheduler=self.world.scheduler,
            devices=SimpleNamespace(clock=self.clock, mps=self.mps, caps=None),
            records=Mock(),
            attempts=Mock(launcher=self.launcher, site=Mock(mps=self.mps, caps=None)),
            estimates=Mock(),
        )

    def ends(self, code: int, *tails: str) -> Ended:
        found = Ended(self.world.now, Exit(code), None, None, tails)
        self.launcher.poll.side_effect = [found, None]
        return found


# ------------------------------------------------------------------ stops


@pytest.mark.parametrize(
    ("checkpoint", "which"),
    [
        (Checkpoint(), Which.END_BY_TERM),
        (Checkpoint(CheckpointKind.EXIT, signal=10), Which.END_BY_TERM),
        (Checkpoint(CheckpointKind.EXIT, signal=15), Which.END_BY_TERM_ALONE),
    ],
)
def test_a_client_gets_term_after_its_work_is_removed(checkpoint: Checkpoint, which: Which) -> None:
    world, job = on_mps(checkpoint=checkpoint)
    host, attempt = Host(world), world.live(job)
    assert attempt is not None
    host.stops.terminate(job, attempt)
    uuids, owner, meant, then = host.mps.end_clients.call_args.args
    assert (uuids, owner, meant) == (("GPU-0",), (job.id, attempt.serial), which)
    assert host.launcher.terminate.mock_calls == []
    then()
    host.stops.send(*host.posted)
    assert host.launcher.terminate.mock_calls == [call(attempt.serial)]
    host.stops.kill(attempt)
    assert host.mps.end_clients.call_args.args[2] is Which.ALL
    host.stops.send(ClientsEnded(attempt.serial, kill=True))
    assert host.launcher.kill.mock_calls == [call(attempt.serial)]


def test_others_get_their_signals_at_once() -> None:
    world = World(gpus(1))
    job = world.submit(GIB)
    host, attempt = Host(world), world.live(job)
    assert attempt is not None
    host.stops.terminate(job, attempt)
    host.stops.kill(attempt)
    assert host.launcher.mock_calls == [call.terminate(1), call.kill(1)]


def test_a_stop_that_a_kill_of_the_daemon_interrupted_is_begun_anew() -> None:
    """The work may be removed or not, and TERM sent or not: both come again, in this order."""
    world, job = on_mps()
    world.obey = False
    world.cancel(job)
    host = Host(world)
    host.launcher.adopt.return_value = Running(None)
    host.attempts.adopt(lambda: None)
    assert host.launcher.terminate.mock_calls == []
    host.mps.end_clients.call_args.args[3]()
    host.stops.send(*host.posted)
    assert host.launcher.terminate.mock_calls == [call(1)]


# ------------------------------------------------------------------ launches that wait


def effects_of(host: Host) -> Any:
    return Effects(host.parts(), Mock(), host.stops, Mock(), host.posted.append)


def test_a_launch_that_waits_for_its_server_goes_on_later_unless_it_was_stopped() -> None:
    world = World(gpus(1, mps=True))
    world.obey = False
    job = world.submit(GIB, smact=0.1)
    (launch,) = (a for a in world.actions if isinstance(a, act.Launch))
    host = Host(world)
    host.mps.wait_for_server.return_value = True
    host.mps.access.side_effect = ValueError("it is asked for access")
    effects = effects_of(host)
    assert effects.carry_out(launch) == [] and host.posted == []
    assert host.mps.wait_for_server.call_args.args[:2] == (("GPU-0",), job.spec.uid)
    host.mps.wait_for_server.call_args.args[2]()
    (ready,) = host.posted
    (failed,) = effects.go_on(ready)
    assert isinstance(failed, ev.ActionFailed), "it did not wait again"
    world.cancel(job)
    (void,) = effects.go_on(ServerReady(launch))
    assert void == ev.LaunchVoided(at=world.now, job_id=job.id, serial=launch.serial)
    world.step(void)
    assert world.state(job) is JobState.CANCELLED
    assert effects.go_on(ServerReady(launch)) == []


def test_a_control_daemon_that_takes_no_client_stops_no_other_launch() -> None:
    """All launches of the server were paused, and each further failure made the pause longer."""
    world = World(gpus(2, mps=True))
    world.obey = False
    job = world.submit(GIB, smact=0.1)
    host = Host(world)
    effects: Any = effects_of(host)
    effects._handlers[act.Launch] = Mock(side_effect=NoClientNow("its MPS server is starting"))
    for times in (1, 2):
        (launch,) = (a for a in world.actions if isinstance(a, act.Launch))
        (void,) = effects.carry_out(launch)
        world.actions.clear()
        world.step(void)
        assert world.scheduler.state.launch_error is None, times
    assert "its MPS server is starting" in world.jobs[job.id].pause.reason
    other = world.submit(GIB, smact=0.1)
    assert world.live(other) is not None and world.live(job) is None


# ------------------------------------------------------------------ failures


def test_the_last_words_show_that_a_failure_may_pass() -> None:
    world, _ = on_mps()
    host = Host(world)
    host.ends(1, NOT_READY)
    (ended,) = host.attempts.events()
    assert (ended.excuse, ended.fault) == (
        "its MPS server took no new client (CUDA error 807)",
        False,
    )
    assert host.mps.suspect.mock_calls == [call(("GPU-0",))]


def test_the_end_of_a_failed_client_waits_until_its_server_was_asked() -> None:
    """Only the answer shows the fault that has ended it."""
    world, job = on_mps()
    world.pass_time(100.0)
    host = Host(world)
    host.mps.suspected.return_value = True
    host.ends(1)
    assert host.attempts.events() == []
    host.launcher.poll.side_effect = None
    host.launcher.poll.return_value = None
    assert host.attempts.events() == []
    host.mps.suspected.return_value = False
    host.mps.faulted.return_value = True
    (ended,) = host.attempts.events()
    assert ended.fault and "cannot be told" in (ended.excuse or "")
    assert host.mps.faulted.call_args == call(("GPU-0",), pytest.approx(100.0, abs=5))
    assert host.attempts.events() == []
    world.step(ended)
    assert world.jobs[job.id].passing_used == 1


def test_it_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = on_mps()
    host = Host(world)
    host.mps.suspected.return_value = True
    monkeypatch.setattr("radrm.daemon.mps._PATIENCE_S", -1.0)
    host.ends(1)
    assert host.attempts.events() == []
    host.launcher.poll.side_effect = None
    host.launcher.poll.return_value = None
    (ended,) = host.attempts.events()
    assert ended.excuse is None


def test_a_lost_client_makes_radrm_look_too() -> None:
    world, _ = on_mps()
    host = Host(world)
    host.launcher.poll.side_effect = [Lost("its runner was killed", True, None), None]
    (ended,) = host.attempts.events()
    assert ended.lost and host.mps.suspect.called


def test_a_good_end_is_not_asked_about() -> None:
    world, _ = on_mps()
    host = Host(world)
    host.mps.suspected.return_value = host.mps.faulted.return_value = True
    host.ends(0, NOT_READY)
    (ended,) = host.attempts.events()
    assert ended.excuse is None and not host.mps.suspect.called


def test_who_is_no_client_is_judged_by_its_words_alone() -> None:
    world = World(gpus(1))
    world.submit(GIB)
    host = Host(world)
    host.mps.faulted.return_value = True
    host.ends(1, "RuntimeError: ... Error 802: system not yet initialized\n")
    (ended,) = host.attempts.events()
    assert (ended.excuse, ended.fault) == (
        "the GPU's driver was not ready (CUDA error 802)",
        False,
    )
