"""Count function calls per event, by queue length: no clock, so no noise.

    make bench

The count for a queue of ten thousand must be nearly that for a queue of ten: only a binary search
may grow. `tests/contract/lives/test_properties.py` checks it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.rules import Order
from radrm.core.settings import CoreSettings
from radrm.policies.exclusive import Exclusive
from tests.world import World, gpus

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


def measure(length: int, order: Order | None = None) -> dict[str, int]:
    """Calls per event with `length` jobs waiting behind two that run."""
    _measure(LENGTHS[0], order)  # the first use of a record's class compiles how it is copied
    return _measure(length, order)


def _measure(length: int, order: Order | None) -> dict[str, int]:
    settings = CoreSettings(stale_after_s=1e9, smact_warm_s=0, smact_after_exit_s=0)
    world = CountingWorld(gpus(2), policy=Exclusive(), order=order, settings=settings)
    for _ in range(length + 2):
        world.submit(1000)
    last = max(world.jobs)

    def cancel() -> object:
        return world.step(ev.CancelRequested(at=world.now, job_id=last, by="bench"))

    return {
        "a submission": world.cost_of(lambda: world.submit(1000)),
        "a round of readings": world.cost_of(world.read),
        "a cancel": world.cost_of(cancel),
        "an end and the next start": world.cost_of(lambda: world.end(1)),
        "a wake-up": world.cost_of(lambda: world.step(ev.Tick(at=world.now))),
        "an explanation": calls_during(lambda: world.scheduler.why_waiting(last - 1, world.now)),
    }


def main() -> None:
    found = {length: measure(length) for length in LENGTHS}
    print("Function calls per event, by the number of jobs waiting")
    print(f"{'event':<28}" + "".join(f"{length:>10}" for length in LENGTHS))
    for name in found[LENGTHS[0]]:
        print(f"{name:<28}" + "".join(f"{found[length][name]:>10}" for length in LENGTHS))


if __name__ == "__main__":
    main()
