"""Decisions and their effects, in process: what is not on disk is not done."""

from __future__ import annotations

import json
from contextlib import nullcontext
from math import inf
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock, call

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.proposals import Preempt
from radrm.core.records import Attempt, Job, Placement, Share
from radrm.core.words import Collocation, JobState, Resizing
from radrm.daemon.decisions import (
    CLEARED_AT_ONCE,
    MOST_REFUSED,
    MOST_UNCLEARED,
    Decisions,
    Unsaved,
)
from radrm.daemon.effects import Effects
from radrm.daemon.launches import cpus_of, memory_of, weight_of
from radrm.daemon.launching import client_environment
from radrm.daemon.loop import Loop
from radrm.daemon.mps import Stops
from radrm.errors import Refused, StoreError
from radrm.host.mps.interface import Access
from radrm.structs import replace
from tests.world import GIB, World, gpus


def effects_of(world: World) -> Any:
    """The effects of a world's scheduler, with a launcher and a store that only note calls."""
    launcher = Mock(**{"is_live.return_value": False})
    clock = SimpleNamespace(now=lambda: world.now)
    site = SimpleNamespace(mps=None, elastic=Mock(), caps=None, reports=Mock())
    parts: Any = SimpleNamespace(
        scheduler=world.scheduler,
        devices=SimpleNamespace(clock=clock, caps=None),
        records=Mock(),
        attempts=SimpleNamespace(launcher=launcher, site=site, steps=Mock()),
        estimates=Mock(),
    )
    post = Mock()
    return Effects(parts, Mock(), Stops(launcher, None, post), Mock(), post)


def decisions_of(world: World, effects: Any, *actions: act.Action) -> Any:
    """Decisions of which one, with these actions, waits for the store."""
    decisions = Decisions(world.scheduler, Mock(), effects, None)
    decision = Decision(actions, (), (), None, ())
    decisions._unsaved = Unsaved([ev.Tick(at=world.now)], [decision], [], [], [])
    return decisions


def launched() -> tuple[World, Job, act.Launch]:
    world = World(gpus(1))
    world.obey = False
    job = world.submit(GIB)
    (launch,) = [a for a in world.actions if isinstance(a, act.Launch)]
    return world, job, launch


def test_what_an_ended_attempt_was_to_do_is_forgiven() -> None:
    world, job, launch = launched()
    world.end(job)
    effects = effects_of(world)
    for action in (launch, act.Terminate(job_id=1, serial=1), act.Kill(job_id=1, serial=1)):
        assert effects.carry_out(action) == []
    assert effects.carry_out(act.EstimateJob(job_id=1)) == []
    assert effects._launcher.mock_calls == []


@pytest.mark.parametrize("error", [KeyError("GPU-0"), TypeError("none"), AssertionError()])
def test_a_defect_in_an_action_is_the_end_of_its_job_only_and_never_silent(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """A KeyError of whatever origin was taken for an attempt that has ended."""
    world, job, launch = launched()
    effects = effects_of(world)
    effects._handlers[act.Launch] = Mock(side_effect=error)
    (failed,) = effects.carry_out(launch)
    assert isinstance(failed, ev.ActionFailed) and type(error).__name__ in failed.reason
    assert not failed.transient
    assert "defect" in caplog.text
    world.step(failed)
    assert type(error).__name__ in (world.jobs[job.id].reason or "")


def test_a_job_that_keeps_coming_to_nothing_is_seldom_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """3,000 jobs whose home is away would write a line each at every try."""
    caplog.set_level("INFO")
    world, job, launch = launched()
    effects = effects_of(world)
    effects._handlers[act.Launch] = Mock(return_value=None)
    for tries in range(1, 65):
        effects.carry_out(launch)
        why = "cannot enter the folder"
        decision = world.step(
            ev.AttemptEnded(
                at=world.now,
                job_id=job.id,
                serial=launch.serial,
                exits=(),
                never_started=why,
                excuse=why,
            )
        )
        list(effects.ended_by(decision))
        if tries == 1:
            assert len(caplog.messages) == 1
        while world.live(job) is None:
            world.pass_time(700.0)
        launch = [a for a in world.actions if isinstance(a, act.Launch)][-1]
    assert 4 <= len(caplog.messages) <= 9


def running(resizing: Resizing = Resizing.NONE) -> tuple[World, Job, tuple[Share, ...]]:
    world = World(gpus(1))
    job = world.submit(GIB, resizing=resizing)
    return world, job, world.scheduler.state.attempts[job.id].placement.shares


def shares_of(job: Job, shares: tuple[Share, ...]) -> act.ApplyShares:
    return act.ApplyShares(job_id=job.id, serial=1, due_boot_s=1e9, shares=shares)


def test_cpus_of_a_running_job_change_and_the_core_is_told() -> None:
    world, job, before = running()
    effects = effects_of(world)
    shares = tuple(replace(share, cpus=2.5) for share in before)
    (applied,) = effects.carry_out(shares_of(job, shares))
    effects._launcher.set_shares.assert_called_once_with(1, 2.5, None)
    now = world.now
    assert applied == ev.SharesApplied(at=now, job_id=job.id, serial=1, shares=shares)


def test_an_sm_fraction_of_a_running_job_is_the_cores_to_keep() -> None:
    world, job, before = running()
    effects = effects_of(world)
    shares = tuple(replace(share, sm_fraction=0.5) for share in before)
    (applied,) = effects.carry_out(shares_of(job, shares))
    assert isinstance(applied, ev.SharesApplied) and applied.shares == shares
    assert effects._launcher.mock_calls == []


def test_cpus_that_cannot_be_limited_are_an_action_that_failed() -> None:
    world, job, before = running()
    effects = effects_of(world)
    effects._launcher.set_shares.side_effect = Refused(
        "CPUs are booked, not enforced: no cgroup v2"
    )
    shares = tuple(replace(share, cpus=2.5) for share in before)
    (failed,) = effects.carry_out(shares_of(job, shares))
    assert isinstance(failed, ev.ActionFailed) and failed.reason.startswith("CPUs are booked")
    world.step(failed)
    assert world.scheduler.snapshot.attempt(job.id).placement.shares == before


def test_the_launcher_of_tasks_divides_their_cpus_also_where_nothing_limits_them() -> None:
    world, job, before = running(Resizing.LIVE)
    effects = effects_of(world)
    effects._launcher.set_shares.side_effect = Refused("no cgroup v2")
    shares = tuple(replace(share, cpus=2.5) for share in before)
    (applied,) = effects.carry_out(shares_of(job, shares))
    assert isinstance(applied, ev.SharesApplied)
    (told,) = effects._site.elastic.act.call_args_list
    serial, ((kind, name, text),), _ = told.args
    assert (serial, kind, name) == (1, "put", "shares.json")
    assert json.loads(text) == {"version": 1, "tasks": [{"role": "main", "task": 0, "cpus": 2.5}]}


@pytest.mark.parametrize(("grows", "calls"), [(True, 1), (False, 0)])
def test_host_memory_grows_in_place_and_never_shrinks(grows: bool, calls: int) -> None:
    world, job, before = running()
    spec = replace(job.spec, memory_range_mib=(1024, 4096))
    world.scheduler.state.put_job(replace(job, spec=spec))
    attempt = world.scheduler.state.attempts[job.id]
    present = tuple(replace(s, memory_mib=1024) for s in before)
    placement = replace(attempt.placement, shares=present)
    world.scheduler.state.put_attempt(replace(attempt, placement=placement))
    effects = effects_of(world)
    effects._launcher.set_memory.return_value = True
    wanted = tuple(replace(s, memory_mib=2048 if grows else 512) for s in before)
    (applied,) = effects.carry_out(shares_of(job, wanted))
    assert isinstance(applied, ev.SharesApplied)
    assert effects._launcher.set_memory.mock_calls == [call(1, 2048, 4096)] * calls


CAPS = [
    ((), None, None),
    (((0, 2.0, 64),), 2.0, 64),
    (((0, 2.0, 64), (0, 2.0, 64)), 2.0, 64),  # one task on two devices
    (((0, 2.0, 64), (1, 0.5, 32)), 2.5, 96),
    (((0, 2.0, 64), (1, None, None)), None, None),  # one task without a cap
]


@pytest.mark.parametrize(("tasks", "cpus", "memory_mib"), CAPS)
def test_the_caps_of_all_tasks_together(
    tasks: tuple[tuple[int, float | None, int | None], ...],
    cpus: float | None,
    memory_mib: int | None,
) -> None:
    shares = [Share(None, task=t, cpus=c, memory_mib=m) for t, c, m in tasks]
    _, job, _ = launched()
    assert (cpus_of(shares), memory_of(job, shares)) == (cpus, memory_mib)


def test_the_first_task_books_the_memory_of_a_job_that_has_a_range() -> None:
    _, job, _ = launched()
    shares = [Share(None, memory_mib=64), Share(None, task=1)]
    assert memory_of(job, shares) is None
    ranged = replace(job, spec=replace(job.spec, memory_range_mib=(64, 256)))
    assert memory_of(ranged, shares) == 64


def test_a_defect_after_the_runner_has_started_is_left_to_the_next_daemon() -> None:
    world, _, launch = launched()
    effects = effects_of(world)
    effects._handlers[act.Launch] = Mock(side_effect=KeyError())
    effects._launcher.is_live.return_value = True
    decisions = decisions_of(world, effects, launch)
    decisions.commit()
    with pytest.raises(KeyError):
        decisions.launch()
    assert decisions.broken


def begun(world: World, *actions: act.Action) -> tuple[Any, list[str]]:
    """Decisions whose actions are noted by their kinds."""
    effects, done = effects_of(world), list[str]()

    def note(action: act.Action) -> list[ev.Event]:
        done.append(type(action).__name__)
        return []

    effects.carry_out = note
    decisions = decisions_of(world, effects, *actions)
    decisions.commit()
    return decisions, done


def test_what_is_saved_is_launched_after_the_answers() -> None:
    world, _, launch = launched()
    decisions, done = begun(world, launch, act.EstimateJob(job_id=1))
    assert done == ["EstimateJob"]
    decisions.launch()
    decisions.launch()
    assert done == ["EstimateJob", "Launch"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_launch_that_follows_an_end_is_prepared_while_the_disk_syncs_it(fails: bool) -> None:
    """And nothing else that follows comes before that."""
    world, job, launch = launched()
    decisions, done = begun(world)
    store = decisions._store
    store.save.side_effect = lambda *_, synced, **__: done.append(f"saved {synced}")
    store.sync.side_effect = StoreError("broken disk") if fails else lambda: done.append("synced")
    ended = ev.AttemptEnded(at=world.now, job_id=job.id, serial=launch.serial, lost="killed")
    actions = act.EstimateJob(job_id=1), launch
    decision = Decision(actions, (), (), None, ())
    decisions._unsaved = Unsaved([ended], [decision], [], [], [])
    with pytest.raises(StoreError) if fails else nullcontext():
        decisions.commit()
    assert decisions.broken == fails
    then = [] if fails else ["synced", "EstimateJob"]
    assert done == ["saved False", "Launch", *then]


def test_a_start_is_saved_with_what_follows() -> None:
    world, job, launch = launched()
    decisions = decisions_of(world, effects_of(world))
    decisions.commit()
    save = decisions._store.save
    start = ev.AttemptStarted(at=world.now, job_id=job.id, serial=launch.serial, happened=world.now)
    save.reset_mock()
    decisions.process([start])
    assert world.scheduler.state.jobs[job.id].state is JobState.RUNNING
    assert not save.called and not decisions.unsaved and 0 < decisions.due_in_s < 1
    decisions.save_waiting()
    assert not save.called, "it is not due"
    end = ev.AttemptEnded(at=world.now, job_id=job.id, serial=launch.serial, lost="killed")
    decisions.process([end])
    decisions.save_ends()
    (saved,) = [each.args[0] for each in save.call_args_list]
    states = [record.state for each in saved for record in each.changed if isinstance(record, Job)]
    assert states == [JobState.RUNNING, JobState.FAILED], "in one transaction, in order"
    assert decisions.due_in_s == inf


@pytest.mark.parametrize("by", ["time", "the daemon's end"])
def test_a_start_that_nothing_follows_is_saved(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world, job, launch = launched()
    decisions = decisions_of(world, effects_of(world))
    decisions.commit()
    save = decisions._store.save
    save.reset_mock()
    start = ev.AttemptStarted(at=world.now, job_id=job.id, serial=launch.serial, happened=world.now)
    decisions.process([start])
    if by == "time":
        monkeypatch.setattr("radrm.daemon.decisions.monotonic", lambda: inf)
        decisions.save_waiting()
    else:
        decisions.save_volatile()
    save.assert_called_once()
    assert save.call_args.kwargs == {"synced": False}


def test_what_has_ended_is_cleared_a_few_at_a_time() -> None:
    world, _, _ = launched()
    decisions = decisions_of(world, Mock())
    decisions._ended = list(range(MOST_UNCLEARED + 3))
    left = []
    decisions._busy_s = inf
    for at_once in (False, False, True, True):
        decisions.clear(at_once)
        left.append(len(decisions._ended))
    few = CLEARED_AT_ONCE
    assert left == [MOST_UNCLEARED, MOST_UNCLEARED, MOST_UNCLEARED - few, MOST_UNCLEARED - 2 * few]


@pytest.mark.parametrize("by", ["readings", "a question", "time", "another end"])
def test_an_end_is_saved_with_what_follows_from_the_readings(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, job, launch = launched()
    effects = effects_of(world)
    decisions = decisions_of(world, effects)
    decisions.commit()
    save = decisions._store.save
    save.reset_mock()
    ended = ev.AttemptEnded(at=world.now, job_id=job.id, serial=launch.serial, lost="killed")
    decisions.process([ended])
    effects._read_soon.assert_called_once()
    assert not save.called and not decisions.unsaved and 0 < decisions.due_in_s < 1
    if by == "readings":
        decisions.process([ev.ReadingsTaken(at=world.now, readings=())])
    elif by == "another end":  # of a job without devices: nothing is read
        decisions.process([ended])
    elif by == "a question":
        decisions.save_ends()
    else:
        monkeypatch.setattr("radrm.daemon.decisions.monotonic", lambda: inf)
        decisions.save_waiting()
    (saved,) = [each.args[0] for each in save.call_args_list]
    assert any(isinstance(each, Attempt) for each in saved[0].changed)
    decisions.save_ends()
    save.assert_called_once()


def test_the_client_of_a_new_envelope_is_answered_before_its_job_is_launched() -> None:
    loop = MagicMock(unsaved=False, _rescan_at=inf, _count_at=inf, intake=MagicMock(empty=True))
    loop.clock.now.return_value = SimpleNamespace(boot_s=0.0)
    loop._decisions.wake_at = None
    loop._notice_arrivals.return_value = True
    Loop._gather(loop)
    calls = [name for name, *_ in loop.mock_calls]
    calls = [name for name in calls if name in ("scan", "_turns.run", "_decisions.launch")]
    assert calls[calls.index("scan") :][:3] == ["scan", "_turns.run", "_decisions.launch"]


@pytest.mark.parametrize(
    ("serial", "then"), [(1, ["Launch", "Terminate"]), (2, ["Terminate", "Launch"])]
)
def test_a_launch_comes_before_its_stop(serial: int, then: list[str]) -> None:
    world, _, launch = launched()
    decisions, done = begun(world, launch, act.Terminate(job_id=1, serial=serial))
    decisions.launch()
    assert done == then


def test_what_is_saved_is_launched_while_the_store_is_full() -> None:
    world, _, launch = launched()
    decisions, done = begun(world, launch)
    decisions._store.save.side_effect = StoreError("full")
    decisions.process([ev.Tick(at=world.now)])
    assert decisions.unsaved
    decisions.launch()
    assert done == ["Launch"]


def test_what_can_be_told_is_told_as_before() -> None:
    world, _, launch = launched()
    effects = effects_of(world)
    effects._handlers[act.Launch] = Mock(side_effect=Refused("no such user"))
    (failed,) = effects.carry_out(launch)
    assert failed.reason == "no such user"


def test_what_can_never_be_saved_is_never_done(caplog: pytest.LogCaptureFixture) -> None:
    world, _, launch = launched()
    effects = effects_of(world)
    decisions = decisions_of(world, effects, launch)
    decisions._store.save.side_effect = TypeError("a set is no JSON")
    with pytest.raises(TypeError):
        decisions.commit()
    assert decisions.broken, "so that a request does not swallow it"
    assert effects._launcher.mock_calls == []
    assert "cannot be saved (TypeError: a set is no JSON)" in caplog.text


def test_what_cannot_be_saved_now_is_done_later() -> None:
    world, _, _ = launched()
    effects = effects_of(world)
    decisions = decisions_of(world, effects, act.Terminate(job_id=1, serial=1))
    decisions._store.save.side_effect = StoreError("full")
    decisions.commit()
    decisions.commit()
    assert effects._launcher.mock_calls == [] and not decisions.broken
    decisions._store.save.side_effect = None
    decisions.commit()
    effects._launcher.terminate.assert_called_once()


def test_volatile_records_are_written_now_and_then_but_never_before_decisions() -> None:
    world = World(gpus(1))
    decisions = decisions_of(world, effects_of(world), act.TakeReadings(devices=(), after_s=0.0))
    save_volatile = decisions._store.save_volatile
    decisions.save_volatile(100.0)
    assert save_volatile.call_count == 0, "a decision waits for the store"
    decisions.commit()
    for now_s, calls in ((101.0, 0), (130.0, 1), (159.9, 1), (160.0, 2)):
        decisions.save_volatile(now_s)
        assert save_volatile.call_count == calls
    decisions.save_volatile()
    assert save_volatile.call_count == 3


def test_a_full_disk_harms_nobody_while_figures_wait() -> None:
    world = World(gpus(1))
    decisions = decisions_of(world, effects_of(world), act.TakeReadings(devices=(), after_s=0.0))
    decisions.commit()
    decisions._store.save_volatile.side_effect = StoreError("full")
    decisions.save_volatile()
    assert not decisions.unsaved and not decisions.broken


def test_the_core_hears_that_its_actions_have_waited_for_the_store() -> None:
    world, _, launch = launched()
    effects = effects_of(world)
    effects._handlers[act.Launch] = Mock(return_value=None)
    decisions = decisions_of(world, effects, launch)
    decisions._store.save.side_effect = [StoreError("full"), None, None, None]
    assert not decisions.commit()
    world.boot_s += 10 * world.settings.action_limit_s
    assert decisions.commit()
    decisions.process([ev.Tick(at=world.now)])
    assert world.scheduler.state.jobs[1].state is JobState.LAUNCHING, "not lost: it begins now"


def test_the_sm_fraction_of_a_start_is_the_clients_percentage() -> None:
    access = Access("/pipes", None)
    name = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
    assert name not in client_environment(access, 1, None)
    fractions = {"GPU-0": 0.25, "GPU-1": 0.5, "GPU-2": None}
    shares = tuple(Share(uuid, sm_fraction=each) for uuid, each in fractions.items())
    fraction = Placement(shares, Collocation.MPS).sm_fraction
    assert client_environment(access, 1, None, fraction)[name] == "25"
    assert client_environment(access, 1, None, 0.001)[name] == "1"
    assert Placement(shares[2:], Collocation.MPS).sm_fraction is None
    limited = Access("/pipes", None, 20)
    assert client_environment(limited, 1, None, fraction)[name] == "20"


def test_a_weight_reaches_the_launcher_and_is_the_sum_over_tasks() -> None:
    shares = [Share(None, task=t, cpu_weight=w) for t, w in ((0, 0.5), (0, 0.5), (1, None))]
    assert weight_of(shares) == 1.5
    assert weight_of(shares[2:]) is None
    world, job, before = running()
    effects = effects_of(world)
    weighed = tuple(replace(share, cpu_weight=2.0) for share in before)
    (applied,) = effects.carry_out(shares_of(job, weighed))
    effects._launcher.set_shares.assert_called_once_with(1, None, 2.0)
    assert isinstance(applied, ev.SharesApplied)


def test_the_log_names_each_kind_of_refused_proposal_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(gpus(3))
    jobs = [world.submit(GIB) for _ in range(3)]
    decisions = Decisions(world.scheduler, Mock(), effects_of(world), None)
    version = world.scheduler.snapshot.version
    for job in (*jobs, jobs[0]):
        wish = Preempt(job_id=job.id)
        event = ev.PlanReady(at=world.now, planner="toy", version=version, proposals=(wish,))
        decisions.process([event])
    (line,) = [each.getMessage() for each in caplog.records if "toy" in each.getMessage()]
    assert "toy" in line and "preemption" in line and "checkpoint" in line
    for number in range(300):
        planner = f"toy{number}"
        wishes = (Preempt(job_id=jobs[0].id),)
        event = ev.PlanReady(at=world.now, planner=planner, version=version, proposals=wishes)
        decisions.process([event])
    assert sum("toy" in each.getMessage() for each in caplog.records) <= MOST_REFUSED
