"""SpeCon through `step`: Algorithms 4 and 5, and what the default adds to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.proposals import Migrate
from radrm.core.records import Checkpoint, Job
from radrm.core.words import Collocation, ReservationKind
from tests.planners.farm import CC, PC, POLICY, WC, Farm, specon
from tests.world import GIB


def test_the_example_of_the_thesis_goes_to_worker_2() -> None:
    """Section 6.2.3: the scores 6, 3.5, 4 and 11; Job-1 goes from Worker-4 to Worker-2."""
    farm = Farm(specon(), (PC,) * 3, (PC, WC), (PC, PC), (CC, *(PC,) * 5))
    slow = farm.on[3][0]
    farm.interval({slow.id: 1.001})
    assert farm.where(slow) == ("GPU-1",)
    assert farm.note(slow)["moved"] and farm.note(slow)["category"] == CC
    farm.interval({slow.id: 1.0012})
    assert farm.moves == [slow.id], "at most once"


def test_a_job_whose_device_is_among_the_lowest_stays_and_counts_as_moved() -> None:
    farm = Farm(specon(), (CC, PC, PC), (PC, PC, CC))
    slow = farm.on[0][0]
    farm.interval({slow.id: 1.001})
    assert farm.moves == [] and farm.note(slow)["moved"]


def test_beside_fewer_than_two_that_improve_no_job_asks() -> None:
    farm = Farm(specon(), (CC, CC, PC), ())
    farm.interval({farm.on[0][0].id: 1.001})
    assert farm.moves == []
    assert not farm.note(farm.on[0][0])["moved"]


def test_the_lowest_sm_activity_decides_between_equal_scores() -> None:
    farm = Farm(specon(), (CC, PC, PC), (PC,), (PC,), (PC,))
    slow = farm.on[0][0]
    farm.smact = {"GPU-1": 0.5, "GPU-2": 0.2, "GPU-3": 0.4}
    farm.read()
    farm.interval({slow.id: 1.001})
    assert farm.where(slow) == ("GPU-2",)


def test_jobs_of_one_interval_see_each_other() -> None:
    farm = Farm(specon(), (CC, CC, CC, PC, PC), (), (WC,))
    slow = farm.on[0][:3]
    farm.interval({job.id: 1.001 for job in slow})
    assert [farm.where(job) for job in slow] == [("GPU-1",), ("GPU-1",), ("GPU-2",)]
    assert farm.moves == [job.id for job in slow]


def test_a_device_that_the_core_refuses_is_no_target() -> None:
    farm = Farm(specon(), (CC, PC, PC), (), (PC,))
    slow = farm.on[0][0]
    farm.step(ev.DrainRequested(at=farm.now, device="GPU-1", reason="ECC"))
    farm.interval({slow.id: 1.001})
    assert farm.where(slow) == ("GPU-2",)
    assert not [r for d in farm.decisions for p, r in d.rejections if isinstance(p, Migrate)]


def test_a_device_that_the_policy_refuses_is_no_target() -> None:
    strict = dataclasses.replace(POLICY, max_smact=0.3, timeslice_max_smact=0.3)
    farm = Farm(specon(policy=strict), (CC, PC, PC), (PC,), (PC,))
    slow = farm.on[0][0]
    farm.smact = {"GPU-1": 0.5, "GPU-2": 0.6}
    farm.read()
    farm.interval({slow.id: 1.001})
    assert farm.moves == []


def test_what_cannot_save_its_work_is_never_asked() -> None:
    farm = Farm(specon(), (PC, PC), ())
    job = farm.put(0, checkpoint=Checkpoint())
    farm.converge({job.id: CC})
    farm.interval({job.id: 1.001})
    assert farm.moves == []
    assert not [r for d in farm.decisions for p, r in d.rejections if isinstance(p, Migrate)]


def test_a_failed_save_leaves_the_job_alone() -> None:
    farm = Farm(specon(), (CC, PC, PC), ())
    slow = farm.on[0][0]
    farm.obey = False
    farm.interval({slow.id: 1.001})
    asked = next(a for a in farm.actions if isinstance(a, act.TakeCheckpoint))
    assert farm.reservations[f"job:{slow.id}", "GPU-1"].kind is ReservationKind.MIGRATION
    farm.step(ev.ActionFailed(at=farm.now, action=asked, reason="no answer"))
    farm.interval({slow.id: 1.0011})
    farm.interval({slow.id: 1.0012})
    assert farm.moves == [slow.id]
    assert farm.where(slow) == ("GPU-0",)
    assert (f"job:{slow.id}", "GPU-1") not in farm.reservations


# ------------------------------------------------------------------ Algorithm 5


def test_idle_devices_get_the_job_that_converged_last() -> None:
    farm = Farm(specon(), (CC, CC), (CC, CC), ())
    farm.interval()
    assert farm.where(farm.on[1][1]) == ("GPU-2",)
    assert farm.note(farm.on[1][1])["rebalanced"]


def test_without_idle_devices_those_with_the_fewest_get_one() -> None:
    """Line 27 means the target: 1 job is fewer than floor(10 / 2) - 1."""
    farm = Farm(specon(), (CC,), (CC,) * 9)
    farm.interval()
    assert farm.moves == [farm.on[1][-1].id]
    for _ in range(9):
        farm.interval()
    assert [farm.count(index) for index in (0, 1)] == [4, 6]
    assert len(set(farm.moves)) == len(farm.moves), "each at most once"


def test_a_job_is_rebalanced_once() -> None:
    farm = Farm(specon(), (CC, CC), (CC, CC, CC), ())
    farm.interval()
    for job in farm.on[0]:
        farm.end(job)
    farm.interval()
    assert farm.moves == [farm.on[1][2].id, farm.on[1][1].id]
    farm.interval()
    assert len(farm.moves) == 2


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param(((CC, CC), (CC, PC), ()), id="one job improves"),
        pytest.param(((CC, CC), (), ()), id="fewer jobs than devices"),
    ],
)
def test_when_nothing_is_rebalanced(devices: Sequence[Sequence[str]]) -> None:
    farm = Farm(specon(), *devices)
    farm.interval()
    assert farm.moves == []


# ------------------------------------------------------------------ the default


def slow_among_three(
    min_gain: float = 2.0, kinds: Sequence[str] = (), **spec: Any
) -> tuple[Farm, Job]:
    """Return a farm with a converged job on GPU-0; GPU-1 is idle."""
    farm = Farm(specon("relative", min_gain=min_gain), (PC, PC), (), kinds=kinds)
    slow = farm.put(0, **spec)
    farm.converge({slow.id: CC})
    farm.interval({slow.id: 1.0}, done=0.4)
    return farm, slow


@pytest.mark.parametrize(
    ("spec", "kinds", "done", "moves"),
    [
        pytest.param({}, (), 0.42, True, id="it wins enough"),
        pytest.param({}, (), 0.999, False, id="the job ends soon"),
        pytest.param({}, ("A100", "T4"), 0.42, False, id="a GPU of another type"),
        pytest.param({"avoid_gpus": ("GPU-1",)}, (), 0.42, False, id="a GPU that suits it less"),
    ],
)
def test_when_a_move_is_made(
    spec: dict[str, Any], kinds: Sequence[str], done: float, moves: bool
) -> None:
    farm, slow = slow_among_three(kinds=kinds, **spec)
    farm.interval({slow.id: 1.001}, done=done)
    assert farm.where(slow) == (("GPU-1",) if moves else ("GPU-0",))
    assert farm.moves == [slow.id] * moves


def test_a_moved_job_is_not_moved_again() -> None:
    farm, slow = slow_among_three()
    farm.interval({slow.id: 1.001}, done=0.42)
    assert farm.moves == [slow.id]
    for job in farm.on[0]:
        farm.end(job)
    beside = [farm.put(1), farm.put(1)]
    for at in range(5):
        falling = {job.id: 9.0 - at for job in beside}
        farm.interval({slow.id: 1.001 + 0.01 / 3**at, **falling}, done=0.42 + 0.01 * at)
    assert farm.note(slow)["gain"] < 0.01
    assert farm.moves == [slow.id], "though the first device is idle now"


def test_a_move_that_wins_too_little_for_its_cost_is_not_made() -> None:
    farm, slow = slow_among_three(min_gain=10_000.0)
    for at in range(4):
        farm.interval({slow.id: 1.001 - at * 1e-5}, done=0.42 + at * 0.01)
    assert farm.moves == []
    assert not farm.note(slow)["moved"], "it may be moved later"


def test_no_job_moves_to_an_idle_device_while_another_waits_for_one() -> None:
    farm, slow = slow_among_three()
    waits = farm.submit(8 * GIB, gpus=2, collocation=Collocation.EXCLUSIVE)
    farm.pass_time(0.01)
    assert farm.where(waits) == ()
    farm.interval({slow.id: 1.001}, done=0.42)
    assert farm.moves == []


def test_jobs_that_report_nothing_do_not_keep_others_from_being_spread() -> None:
    farm = Farm(specon("relative"), (CC, CC), (CC,), ())
    farm.put(1)
    latest = farm.on[0][1]
    for at in (1, 2, 3):
        farm.interval({j.id: 1.0 + 1e-6 / at for jobs in farm.on for j in jobs}, done=at / 100)
    assert farm.where(farm.on[1][0]) == ("GPU-2",) or farm.where(latest) == ("GPU-2",)
    assert len(farm.moves) == 1


# ------------------------------------------------------------------ its state


def test_it_remarks_what_it_knows_of_a_job() -> None:
    farm, slow = slow_among_three()
    farm.interval({slow.id: 1.001}, done=0.42)
    assert farm.scheduler.view.remarks(slow.id) == ("specon: converged",)
    assert farm.scheduler.view.remarks(farm.put(1).id) == ()


def test_notes_of_ended_jobs_go() -> None:
    farm = Farm(specon(), (PC, PC), ())
    farm.end(farm.on[0][0])
    farm.interval()
    assert list(farm.rule_states["planner", "specon"].state["jobs"]) == [str(farm.on[0][1].id)]
    farm.end(farm.on[0][1])
    farm.interval()
    kept = farm.rule_states["planner", "specon"]
    assert kept.state["jobs"] == {} and kept.wake_boot_s is None


def test_a_restart_keeps_who_was_moved() -> None:
    farm = Farm(specon(), (CC, PC, PC), (), (CC,))
    slow = farm.on[0][0]
    farm.interval({slow.id: 1.001})
    assert farm.moves == [slow.id]
    farm.restart()
    for _ in range(3):
        farm.interval({slow.id: 1.001})
    assert farm.moves == [slow.id]


def test_after_a_reboot_a_new_interval_begins() -> None:
    farm = Farm(specon(), (CC, PC, PC), ())
    farm.interval()
    farm.boot_s = 5.0  # and the wall clock goes on
    farm.restart()
    farm.interval()
    kept = farm.rule_states["planner", "specon"]
    assert kept.state["last"][0] == pytest.approx(farm.boot_s, abs=1.0)
    assert kept.wake_boot_s == pytest.approx(farm.boot_s + 30.0, abs=1.0)


# ------------------------------------------------------------------ its settings


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"alpha": 0.0}, "alpha = 0 is not above 0"),
        ({"alpha": 1e308}, "alpha = 1e.308 is not above 0 and at most 1000"),
        ({"min_gain": 0.0}, "min_gain = 0 is not above 0 and at most 1e.09"),
        ({"interval_s": 0.5}, "interval_s = 0.5 is not from 1 to 3600"),
    ],
)
def test_settings_out_of_range_are_refused_with_the_range(
    settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        specon(**settings)
