"""The loop's own rules, in process: what is not on disk is not done, and who is forgiven what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Job
from radrm.core.state.state import Decision
from radrm.daemon.loop import Loop, Unsaved
from radrm.errors import Refused, StoreError
from tests.world import GIB, World, gpus


def loop_of(world: World, **parts: Any) -> Any:
    """A loop around a world's scheduler, without threads or descriptors."""
    loop = object.__new__(Loop)
    loop.parts = SimpleNamespace(launcher=Mock(**{"is_live.return_value": False}), **parts)  # type: ignore[assignment]
    loop.clock = SimpleNamespace(now=lambda: world.now)  # type: ignore[assignment]
    loop.scheduler = world.scheduler
    loop.store = Mock()
    loop.broken = False
    loop._unsaved = None
    loop._pending, loop._pending_submissions, loop._pending_edits = [], [], []
    return loop


def launched() -> tuple[World, Job, act.Launch]:
    world = World(gpus(1))
    world.obey = False
    job = world.submit(GIB)
    (launch,) = [a for a in world.actions if isinstance(a, act.Launch)]
    return world, job, launch


def test_what_an_ended_attempt_was_to_do_is_forgiven() -> None:
    world, job, launch = launched()
    world.end(job)
    loop = loop_of(world)
    for action in (launch, act.Terminate(job_id=1, attempt=1), act.Kill(job_id=1, attempt=1)):
        assert loop._act(action) == []
    assert loop._act(act.EstimateJob(job_id=1)) == []
    assert loop.parts.launcher.mock_calls == []


@pytest.mark.parametrize("error", [KeyError("GPU-0"), TypeError("none"), AssertionError()])
def test_a_defect_in_an_action_is_the_end_of_its_job_only_and_never_silent(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """A KeyError of whatever origin was taken for an attempt that has ended."""
    world, job, launch = launched()
    loop = loop_of(world)
    loop._launch = Mock(side_effect=error)
    (failed,) = loop._act(launch)
    assert isinstance(failed, ev.ActionFailed) and type(error).__name__ in failed.reason
    assert not failed.passing
    assert "defect" in caplog.text
    world.step(failed)
    assert type(error).__name__ in (world.jobs[job.id].reason or "")


def test_a_defect_after_the_runner_has_started_is_left_to_the_next_daemon() -> None:
    world, _, launch = launched()
    loop = loop_of(world)
    loop._launch = Mock(side_effect=KeyError())
    loop.parts.launcher.is_live.return_value = True
    with pytest.raises(KeyError):
        loop._act(launch)
    assert loop.broken


def test_what_can_be_told_is_told_as_before() -> None:
    world, _, launch = launched()
    loop = loop_of(world)
    loop._launch = Mock(side_effect=Refused("no such user"))
    (failed,) = loop._act(launch)
    assert failed.reason == "no such user"


def decided(action: act.Action) -> Unsaved:
    decision = Decision((action,), (), (), None, ())
    return Unsaved([decision], [], [], [])


def test_what_can_never_be_saved_is_never_done(caplog: pytest.LogCaptureFixture) -> None:
    world, _, launch = launched()
    loop = loop_of(world)
    loop._unsaved = decided(launch)
    loop.store.save.side_effect = TypeError("a set is no JSON")
    with pytest.raises(TypeError):
        loop._commit()
    assert loop.broken, "so that a request does not swallow it"
    assert loop.parts.launcher.mock_calls == []
    assert "cannot be saved (TypeError: a set is no JSON)" in caplog.text


def test_what_cannot_be_saved_now_is_done_later() -> None:
    world, _, _ = launched()
    loop = loop_of(world)
    loop._unsaved = decided(act.Terminate(job_id=1, attempt=1))
    loop.store.save.side_effect = StoreError("full")
    loop._commit()
    loop._commit()
    assert loop.parts.launcher.mock_calls == [] and not loop.broken
    loop.store.save.side_effect = None
    loop._commit()
    loop.parts.launcher.terminate.assert_called_once()
