"""The planner `elastic`: who grows, who goes back, and who gives back."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.planning.requests import with_cpus
from radrm.core.proposals import SetShares
from radrm.core.words import JobState, Resizing
from radrm.elastic.elasticity.notes import Scaling
from radrm.elastic.planner import Elastic
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import Magm
from tests.elastic.planner.trainings import STOP_S, Trainings
from tests.world import GIB

PERFECT = Scaling(0.0, 1.0, 0.0)
POOR = Scaling(0.0, 1.0, 0.4)
MIDDLING = Scaling(0.0, 1.0, 0.08)


def resizes(world: Trainings) -> int:
    return sum(isinstance(action, act.Resize) for action in world.world.actions)


@pytest.mark.parametrize(
    ("scaling", "options", "seconds", "size", "changes", "why"),
    [
        pytest.param(PERFECT, {}, 200, 4, 1, ["size"], id="scales: all idle GPUs in one change"),
        pytest.param(POOR, {}, 600, 1, 2, ["gain"], id="does not scale: back, and stays there"),
        pytest.param(PERFECT, {"total": 200.0}, 100, 1, 0, ["cost"], id="is about to end"),
        pytest.param(None, {}, 200, 1, 0, ["progress"], id="reports nothing"),
        pytest.param(PERFECT, {"resizing": Resizing.NONE}, 200, 1, 0, None, id="is not resized"),
    ],
)
def test_a_job_alone(
    scaling: Scaling | None,
    options: dict[str, Any],
    seconds: int,
    size: int,
    changes: int,
    why: list[str] | None,
) -> None:
    here = Trainings()
    job = here.submit(scaling or PERFECT, **options)
    if scaling is None:
        here.models.clear()
    here.run(seconds)
    assert (here.size(job), resizes(here)) == (size, changes)
    assert why is None or here.why(job) == why


def test_a_job_that_scales_for_a_while_goes_back_to_what_is_worth_it() -> None:
    here = Trainings()
    job = here.submit(MIDDLING)
    here.run(600)
    assert here.size(job) == 2 or here.size(job) == 3
    workers = here.size(job)
    assert MIDDLING.gain(1, workers - 1) >= 0.5 > MIDDLING.gain(1, workers)


def test_the_job_that_gains_most_gets_the_idle_gpus() -> None:
    here = Trainings(4)
    long = here.submit(PERFECT, total=100_000.0)
    short = here.submit(PERFECT, total=20_000.0)
    here.run(100)
    assert (here.size(long), here.size(short)) == (3, 1)


def test_growth_is_given_back_at_once_to_a_job_that_comes() -> None:
    here = Trainings()
    job = here.submit(PERFECT)
    here.run(200)
    other = here.world.submit(30 * GIB, smact=0.9)
    assert here.world.state(other) is JobState.RUNNING
    assert here.size(job) == 3
    here.world.end(other)
    here.run(300)
    assert here.size(job) == 4


def test_the_youngest_growth_goes_first() -> None:
    here = Trainings(4)
    first = here.submit(PERFECT, most=2)
    here.run(100)
    second = here.submit(PERFECT, most=2)
    here.run(100)
    assert (here.size(first), here.size(second)) == (2, 2)
    here.world.submit(30 * GIB, smact=0.9)
    assert (here.size(first), here.size(second)) == (2, 1)


def test_nothing_is_given_back_that_would_not_let_the_waiting_job_start() -> None:
    here = Trainings(4)
    job = here.submit(PERFECT, most=3)
    here.run(100)
    fixed = here.world.submit(30 * GIB, smact=0.9)
    assert (here.size(job), len(here.world.where(fixed))) == (3, 1)
    wide = here.world.submit(30 * GIB, gpus=4, smact=0.9)
    here.run(100)
    assert here.size(job) == 3 and here.world.state(wide) is JobState.PENDING
    narrow = here.world.submit(30 * GIB, gpus=3, smact=0.9)
    assert here.world.state(narrow) is JobState.PENDING


def test_nothing_grows_while_a_job_waits() -> None:
    here = Trainings(3)
    job = here.submit(PERFECT)
    wide = here.world.submit(30 * GIB, gpus=3, smact=0.9)
    here.run(200)
    assert here.size(job) == 1 and here.world.state(wide) is JobState.PENDING
    assert here.why(job) == ["order"]


def test_a_job_that_waits_for_data_gets_cpus_before_gpus() -> None:
    here = Trainings(2, cpus=32)
    job = here.submit(Scaling(1.0, 1.0, 0.0), cpus=4, cpus_max=16, cpus_needed=4)
    here.run(100)
    assert here.cpus(job) == 8 and here.size(job) == 1
    here.run(100)
    assert here.cpus(job) == 16
    here.run(200)
    assert here.size(job) == 2


def test_cpus_that_do_not_help_are_given_back() -> None:
    here = Trainings(1, cpus=32)
    job = here.submit(Scaling(1.0, 1.0, 0.0), most=1, cpus=4, cpus_max=16)
    here.run(300)
    assert here.cpus(job) == 4


def test_cpus_are_given_back_to_a_job_that_waits_for_them() -> None:
    here = Trainings(2, cpus=16)
    job = here.submit(Scaling(1.0, 1.0, 0.0), most=1, cpus=4, cpus_max=16, cpus_needed=4)
    here.run(200)
    assert here.cpus(job) == 16
    other = here.world.submit(30 * GIB, smact=0.5, cpus=8)
    assert here.cpus(job) == 4
    here.world.read()
    assert here.world.state(other) is JobState.RUNNING


def test_the_cost_of_a_change_is_measured() -> None:
    here = Trainings(2)
    here.submit(PERFECT, most=2)
    here.run(130)
    kept = here.world.rule_states["planner", "elastic"].state["jobs"]["1"]
    assert kept["cost_s"] == pytest.approx(STOP_S, abs=1.0)


def test_a_restart_goes_on_with_what_was_measured() -> None:
    here = Trainings(2)
    job = here.submit(POOR, most=2)
    here.run(300)
    before = resizes(here)
    assert here.size(job) == 1 and before == 2
    attempt = here.world.live(job)
    here.world.restart(ev.AttemptStarted(at=here.world.now, job_id=job.id, serial=attempt.serial))
    here.run(300)
    assert resizes(here) == before, "what was not worth it is not tried again"


def test_a_resize_that_fails_is_not_asked_for_without_end() -> None:
    here = Trainings(2)
    job = here.submit(PERFECT, most=2)
    here.world.obey = False
    for _ in range(400):
        seen = len(here.world.actions)
        here.run(1)
        for action in here.world.actions[seen:]:
            if isinstance(action, act.Resize):
                failed = ev.ActionFailed(at=here.world.now, action=action, reason="no memory")
                here.world.step(failed)
    assert here.size(job) == 1
    assert 1 <= resizes(here) <= 7


@pytest.mark.parametrize(
    ("setting", "value"),
    [("interval_s", 0.5), ("interval_s", 3601.0), ("least_gain", 1.1)],
)
def test_settings_have_limits(setting: str, value: float) -> None:
    alone: Any = Exclusive()
    with pytest.raises(ValueError, match=setting):
        Elastic(Magm(), alone, **{setting: value})


def test_what_was_measured_with_other_cpus_does_not_count() -> None:
    here = Trainings(2, cpus=32)
    job = here.submit(PERFECT, most=2, cpus=4, cpus_max=8)
    here.run(200)
    kept = here.world.rule_states["planner", "elastic"].state["jobs"]["1"]
    assert sorted(kept["sizes"]) == ["1", "2"]
    shares = with_cpus(here.attempt(job).placement, {("main", 0): 8.0, ("main", 1): 8.0}).shares
    here.world.step(
        ev.PlanReady(
            at=here.world.now,
            planner="tester",
            version=here.world.scheduler.state.version,
            proposals=(SetShares(job_id=job.id, shares=shares),),
        )
    )
    here.run(70)
    kept = here.world.rule_states["planner", "elastic"].state["jobs"]["1"]
    assert (here.cpus(job), sorted(kept["sizes"])) == (8, ["2"])
