"""Whose growth an out-of-memory death shows: the bounds of the job's own need."""

from __future__ import annotations

import pytest

from radrm.core.lifecycle.recovery import blame
from radrm.core.records import OutOfMemory
from radrm.core.state.ledger import SETTLE_GROWTH_MIB
from radrm.core.units import show_mib
from radrm.core.words import Cause
from tests.world import GIB, World, gpus

LITTLE = SETTLE_GROWTH_MIB


@pytest.mark.parametrize(
    ("peak_over", "wanted_over", "own"),
    [
        # Against what is reserved: the peak, the failed request; None: unknown.
        (None, None, False),
        (None, LITTLE, False),
        (None, LITTLE + 1, True),
        (LITTLE, None, False),
        (LITTLE + 1, None, True),
    ],
)
def test_a_need_above_the_reservation_is_its_own(
    peak_over: int | None, wanted_over: int | None, own: bool
) -> None:
    world = World(gpus(1))
    job, other = (world.submit(8 * GIB, smact=0.1) for _ in range(2))
    world.read()
    attempt, state = world.live(job), world.scheduler.state
    ledger = state.ledgers["GPU-0"]
    assert attempt is not None and world.live(other) is not None
    mine = ledger.reserved.running(job.id)
    assert mine.mib is not None
    ledger.occupants[job.id].peak_mib = None if peak_over is None else mine.mib + peak_over
    wanted = None if wanted_over is None else mine.mib + wanted_over
    found = blame(state, world.jobs[job.id], attempt, OutOfMemory("test", wanted))
    assert (found.cause is Cause.OWN) is own
    if own:
        needed = mine.mib + LITTLE + 1
        assert (found.device, found.reserved_mib) == ("GPU-0", mine.mib)
        assert found.why == f"it needed {show_mib(needed)}, {show_mib(mine.mib)} was reserved"


def test_the_peak_and_the_failed_request_add_up() -> None:
    world = World(gpus(1))
    job, _ = (world.submit(8 * GIB, smact=0.1) for _ in range(2))
    world.used[job.id] = 6 * GIB
    world.read()
    attempt, state = world.live(job), world.scheduler.state
    assert attempt is not None
    for wanted, cause in ((GIB, Cause.UNKNOWN), (4 * GIB, Cause.OWN)):
        found = blame(state, world.jobs[job.id], attempt, OutOfMemory("test", wanted))
        assert found.cause is cause
