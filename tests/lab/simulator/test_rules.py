"""Rules that fail or insist, in virtual time: a run ends, and never pretends to be another's."""

from __future__ import annotations

from collections import Counter

import pytest
from pytest_mock import MockerFixture

from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.rules import Planner
from radrm.core.scheduler import Scheduler
from radrm.errors import RadrmError
from radrm.lab.simulator.engine import simulate
from radrm.structs import replace
from radrm.wiring import make_rules
from tests.contract.broken import Broken, Stubborn, flip, raising
from tests.lab.simulator.traces import job, scenario


def with_planner(mocker: MockerFixture, planner: Planner) -> None:
    def rules(config: object) -> object:
        made = make_rules(config)
        return replace(made, planners=(*made.planners, planner))

    mocker.patch("radrm.lab.simulator.engine.make_rules", rules)


def test_a_planner_that_insists_does_not_hold_the_clock(mocker: MockerFixture) -> None:
    class Insistent(Stubborn):
        def plan(self, view, event, state):
            return replace(super().plan(view, event, state), wake_at=None)

    with_planner(mocker, Insistent(flip))
    steps: Counter[float] = Counter()
    real = Scheduler.step

    def counted(self: Scheduler, event: ev.Event) -> Decision:
        steps[event.at.boot_s] += 1
        assert steps[event.at.boot_s] < 100, "it goes round without end"
        return real(self, event)

    mocker.patch.object(Scheduler, "step", counted)
    run = simulate([job(0, 900, 20000), job(5, 900, 20000)], scenario())
    assert all(found.ended_s is not None for found in run.jobs)


def test_a_run_with_a_rule_that_fails_is_no_run_of_it(mocker: MockerFixture) -> None:
    with_planner(mocker, Broken(make=raising(KeyError("x"))))
    with pytest.raises(RadrmError, match=r"the planner broken failed \(KeyError"):
        simulate([job(0, 900, 20000)], scenario())
