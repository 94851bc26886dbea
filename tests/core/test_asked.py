"""What the daemon asks the core between events, and what hosts and planners tell it of attempts."""

from __future__ import annotations

import pytest

from radrm.core import events as ev
from radrm.core.proposals import Warn
from radrm.core.records import Chip, JobWarning, Needs, Role
from radrm.core.rules import Order, missing_members, wrong_calls
from radrm.core.state.load import KnownWindow
from radrm.core.state.users import UserCounts
from radrm.structs import replace
from tests.core.placements import CORE, propose
from tests.world import GIB, World, gpus

A100, A10 = gpus(2, sms=108, sm_mhz=1410)
A10 = replace(A10, name="A10", sms=72, sm_mhz=1695)


def test_the_devices_that_are_here() -> None:
    for devices, kind, chips in (
        ((), None, ()),
        ((A100, replace(A100, uuid="GPU-2")), "A100-40GB", (Chip("A100-40GB", 152280.0),)),
        ((A100, A10), None, (Chip("A100-40GB", 152280.0), Chip("A10", 122040.0))),
        (gpus(1), "A100-40GB", ()),
    ):
        scheduler = World(devices).scheduler
        assert (scheduler.device_kind(), scheduler.chips()) == (kind, chips)


def test_what_a_user_has_and_what_can_never_run() -> None:
    world = World(gpus(2))
    running = world.submit(GIB, gpus=2)
    world.submit(GIB, gpus=2)
    assert world.scheduler.use_of(1000) == UserCounts(queued=1, running=1, gpus=2)
    assert world.scheduler.use_of(7) == UserCounts()
    assert world.scheduler.hopeless(running) is None
    large = replace(running, spec=replace(running.spec, roles=(Role(needs=Needs(gpus=3)),)))
    assert world.scheduler.hopeless(large) is not None


def test_a_planners_warning_replaces_the_last_of_its_kind_and_can_be_taken_back() -> None:
    world = World(settings=CORE)
    job = world.submit(GIB)

    def warnings() -> tuple[JobWarning, ...]:
        return world.live(job).warnings

    def told() -> list[tuple[str, str]]:
        return [(each.kind, each.text) for each in world.decisions[-1].warned]

    warning = Warn(job_id=job.id, kind="idle", text="it is idle", does="it ends", in_s=60.0)
    assert propose(world, warning) is None
    assert warnings() == (
        JobWarning("idle", "it is idle", world.now, "it ends", 60.0, "it is idle"),
    )
    assert told() == [("idle", "it is idle; it ends in 1m00s")]
    assert world.attempts[job.id, 1].warnings == warnings()
    propose(world, replace(warning, kind="other", text="so", in_s=None))
    assert told() == [("other", "so")]
    propose(world, replace(warning, text="still idle", does=""))
    assert told() == [("idle", "still idle")]
    assert [each.text for each in warnings()] == ["so", "still idle"]
    propose(world, replace(warning, text=""))
    assert [each.kind for each in warnings()] == ["other"] and told() == []


def test_a_driver_that_refuses_caps_enforces_none() -> None:
    world = World(gpus(1, caps=True), settings=CORE)
    job = world.submit(GIB, source="declared")
    attempt = world.live(job)
    world.step(ev.CapsRefused(at=world.now, job_id=job.id, serial=attempt.serial, reason="too old"))
    attempt = world.live(job)
    assert (attempt.caps, attempt.caps_refused) == ((), "too old")


class Bare:
    name = "bare"

    def key(self, job: object) -> tuple[int]:
        return (0,)

    rank = len  # written in C
    turn = "no method"


def test_what_a_rule_lacks_of_its_interface() -> None:
    assert missing_members(Bare(), Order) == ["changes_s", "bound"]
    assert wrong_calls(Bare(), Order) == ["key(job), not key(job, now)"]
    missing = missing_members(object(), Order)
    assert missing[0] == "name" and {"key", "rank", "turn"} < set(missing)


def test_a_window_that_is_only_read_takes_nothing_in() -> None:
    window = KnownWindow(1.0, 0.5)
    with pytest.raises(RuntimeError, match="read-only"):
        window.add(2.0, 1.0)
    with pytest.raises(RuntimeError, match="read-only"):
        window.forget(2.0)
    with pytest.raises(RuntimeError, match="read-only"):
        window.restart()
