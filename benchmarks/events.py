"""Count function calls per event, by queue length: no clock, so no noise.

    make bench

The count for a queue of ten thousand must be nearly that for a queue of ten: only a binary search
may grow. `tests/contract/lives/test_properties.py` checks it.

`shipped` measures the rules that a new installation has (`goal = "sharing"`), on MPS servers whose
users have had their turns while others wait. There a planner tries its first `depth` jobs, and each
device is read: the count grows with the queue up to that depth, and with the devices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from radrm.config.shapes import Config
from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.records import Checkpoint
from radrm.core.rules import Order, Planner
from radrm.core.settings import CoreSettings
from radrm.core.words import CheckpointKind
from radrm.planners.deadline import Deadline
from radrm.planners.order_policy import OrderPolicy
from radrm.policies.exclusive import Exclusive
from radrm.wiring import make_rules, make_settings
from tests.world import GIB, World, gpus

LENGTHS = (10, 100, 1_000, 10_000)


def calls_during(act: Callable[[], object]) -> int:
    """The number of functions, in Python and built in, that `act` calls."""
    count = 0

    def tally(frame: object, kind: str, arg: object) -> None:
        nonlocal count
        count += kind in ("call", "c_call")

    sys.setprofile(tally)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


class CountingWorld(World):
    """Counts the calls inside `step` only, not those of the world around it."""

    calls = 0

    def decide(self, event: ev.Event) -> Decision:
        found: list[Decision] = []
        self.calls += calls_during(lambda: found.append(self.scheduler.step(event)))
        return found[0]

    def cost_of(self, act: Callable[[], object]) -> int:
        before = self.calls
        act()
        return self.calls - before


def measure(
    length: int, order: Order | None = None, planner: Planner | None = None, due: bool = False
) -> dict[str, int]:
    """Calls per event with `length` jobs waiting behind two that run.

    `due`: each job has a due time, a weight and a duration, and can save.
    """
    # The first use of a record's class compiles how it is copied.
    _measure(LENGTHS[0], order, planner, due)
    return _measure(length, order, planner, due)


def shipped(waiting: int, users: int = 8, devices: int = 4) -> dict[str, int]:
    """Calls per event under the shipped rules, with so many jobs of so many users waiting."""
    _shipped(LENGTHS[0], 2, 2)
    return _shipped(waiting, users, devices)


def _shipped(waiting: int, users: int, devices: int) -> dict[str, int]:
    config = Config()
    core = {"stale_after_s": 1e9, "smact_warm_s": 0.0, "smact_after_exit_s": 0.0}
    settings, rules = replace(make_settings(config), **core), make_rules(config)
    servers = gpus(devices, mps=True)
    world = CountingWorld(servers, planners=rules.planners, order=rules.order, settings=settings)

    def submit() -> object:
        at, uid = len(world.jobs), 1000 + len(world.jobs) % users
        need = (20 + at * 7 % 12) * GIB  # two do not fit
        return world.submit(need, smact=0.3, duration_s=3600.0 + at, uid=uid, user=f"u{uid}")

    for _ in range(devices + waiting):
        submit()
    world.pass_time(settings.mps_cohort_s + 1)
    world.read()
    last = max(world.jobs)
    running = next(a.job_id for a in world.attempts.values() if a.ended is None)

    acts = {"a round of readings": world.read, "a submission": submit}
    return _costs(world, acts, last, running)


def _measure(
    length: int, order: Order | None, planner: Planner | None, due: bool
) -> dict[str, int]:
    settings = CoreSettings(stale_after_s=1e9, smact_warm_s=0, smact_after_exit_s=0)
    planner = planner or OrderPolicy(Exclusive(), Exclusive())
    world = CountingWorld(gpus(2), planners=(planner,), order=order, settings=settings)

    def submit() -> object:
        at, spec = len(world.jobs), dict[str, Any]()
        if due:
            due_s, run_s = 5000.0 + 37.0 * (at * 7919 % length), 60.0 + at * 31 % 600
            spec = {"due_s": world.now.wall_s + due_s, "weight": 1.0 + at % 5, "duration_s": run_s}
            spec["checkpoint"] = Checkpoint(CheckpointKind.SIGNAL)
        return world.submit(1000, **spec)

    for _ in range(length + 2):
        submit()
    acts = {"a submission": submit, "a round of readings": world.read}
    return _costs(world, acts, max(world.jobs), 1)


def _costs(
    world: CountingWorld, acts: Mapping[str, Callable[[], object]], last: int, running: int
) -> dict[str, int]:
    """Calls of these acts; then of a cancel of the last job, an end, a wake-up, an explanation."""

    def cancel() -> object:
        return world.step(ev.CancelRequested(at=world.now, job_id=last, by="bench"))

    return {
        **{name: world.cost_of(act) for name, act in acts.items()},
        "a cancel": world.cost_of(cancel),
        "an end and the next start": world.cost_of(lambda: world.end(running)),
        "a wake-up": world.cost_of(lambda: world.step(ev.Tick(at=world.now))),
        "an explanation": calls_during(lambda: world.scheduler.why_waiting(last - 1, world.now)),
    }


def main() -> None:
    _show("", {length: measure(length) for length in LENGTHS})
    due = Deadline(Exclusive(), Exclusive())
    print()
    _show(", under `deadline`", {length: measure(length, None, due, True) for length in LENGTHS})
    print()
    of_users = "the shipped rules, 4 MPS servers, "
    _show(f": {of_users}8 users", {length: shipped(length) for length in LENGTHS})
    print()
    _show(f": {of_users}200 waiting", {n: shipped(200, n) for n in (2, 8, 32)}, "users")
    print()
    what = ": the shipped rules, 8 users, 200 waiting"
    _show(what, {n: shipped(200, 8, n) for n in (4, 16, 64)}, "MPS servers")


def _show(what: str, found: dict[int, dict[str, int]], by: str = "jobs waiting") -> None:
    print(f"Function calls per event, by the number of {by}{what}")
    print(f"{'event':<28}" + "".join(f"{number:>10}" for number in found))
    for name in next(iter(found.values())):
        print(f"{name:<28}" + "".join(f"{each[name]:>10}" for each in found.values()))


if __name__ == "__main__":
    main()
