"""Which devices a live attempt is about to leave, whatever asked it to."""

from __future__ import annotations

import pytest

from radrm.core.constraints.claims import leaving
from radrm.core.proposals import Migrate, Preempt, Proposal
from radrm.core.words import CheckpointKind
from tests.core.placements import on
from tests.core.saving.server import EXIT, SIGNAL, ask, saving

NOTHING, HERE = frozenset[str](), frozenset({"GPU-0"})


@pytest.mark.parametrize(
    ("kind", "proposal", "left"),
    [
        (SIGNAL, None, NOTHING),  # it saves and goes on
        (EXIT, None, HERE),  # it saves by leaving
        (SIGNAL, Preempt(job_id=1), HERE),
        (EXIT, Preempt(job_id=1), HERE),
        (SIGNAL, Migrate(job_id=1, placement=on("GPU-1")), HERE),
    ],
)
def test_a_job_that_saves_leaves_if_it_goes_then(
    kind: CheckpointKind, proposal: Proposal | None, left: frozenset[str]
) -> None:
    world, job = saving(kind)
    attempt = world.live(job)
    assert attempt is not None and leaving(job, attempt) == NOTHING
    ask(world, proposal)
    attempt = world.live(job)
    assert attempt is not None and leaving(world.jobs[1], attempt) == left


def test_a_job_that_is_stopped_leaves() -> None:
    world, job = saving(SIGNAL)
    world.cancel(job)
    attempt = world.live(job)
    assert attempt is not None and leaving(world.jobs[1], attempt) == HERE
