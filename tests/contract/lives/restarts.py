"""What a daemon knows that is started now, beside the one that is alive."""

from __future__ import annotations

from dataclasses import dataclass

from radrm.core import events as ev
from radrm.core.records import Attempt, Job, Kept
from radrm.core.rules import Planner
from radrm.core.scheduler import Scheduler
from radrm.core.state.state import State
from radrm.structs import replace
from tests.contract.lives.slow_host import Host


@dataclass(frozen=True, slots=True)
class Silent(Planner):
    """A planner that is never called."""

    name: str
    version: int = 1
    starts_jobs: bool = False
    listens: frozenset[type[ev.Event]] = frozenset()


def a_restart_would_change_nothing(world: Host) -> None:
    """A daemon killed now is followed by one that knows the same."""
    living = world.scheduler.state
    state = _restored(world, world.kept())
    assert state.jobs == living.jobs
    assert state.attempts == living.attempts
    _it_knows_the_same(world, state)


def lost_figures_change_nothing_else(world: Host) -> None:
    """Nor does it matter that the kill has cost the volatile records."""
    living = world.scheduler.state
    state = _restored(world, world.kept(lost=True))
    assert _without_progress(state) == _without_progress(living)
    assert _without_usage(state) == _without_usage(living)
    _it_knows_the_same(world, state)


def _restored(world: Host, kept: Kept) -> State:
    silent = tuple(Silent(planner.name) for planner in world.rules.planners)
    other = Scheduler(replace(world.rules, planners=silent), world.settings)
    other.step(ev.Restored(at=world.now, kept=kept))
    other.step(ev.DevicesSeen(at=world.now, devices=world.devices))
    other.step(ev.AttemptsAdopted(at=world.now))
    return other.state


def _it_knows_the_same(world: Host, state: State) -> None:
    living = world.scheduler.state
    assert state.next_serial == living.next_serial
    assert state.drained == living.drained
    assert list(state.lines.gpu) == list(living.lines.gpu)
    assert list(state.lines.gpuless) == list(living.lines.gpuless)
    assert {i: a.unfinished for i, a in state.queue.arrays.items()} == {
        i: a.unfinished for i, a in living.queue.arrays.items()
    }
    for device in world.devices:
        one, two = state.ledgers[device.uuid], living.ledgers[device.uuid]
        assert one.reservations == two.reservations
        assert one.occupants.keys() == two.occupants.keys()


def _without_progress(state: State) -> dict[int, Job]:
    return {i: replace(job, progress=None) for i, job in state.jobs.items()}


def _without_usage(state: State) -> dict[int, Attempt]:
    """Nor with the first report: the next one is the first then."""
    return {i: replace(attempt, usage=(), reported=()) for i, attempt in state.attempts.items()}
