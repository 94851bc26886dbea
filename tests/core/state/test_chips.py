"""Predicted SM activity is scaled to the GPU that a job gets, if it is about another kind."""

from __future__ import annotations

import pytest

from radrm.core.lifecycle.ending import _chip_of
from radrm.core.lifecycle.outcomes import with_measured
from radrm.core.records import Chip, Device, Job, Usage
from radrm.core.rules import Ask
from radrm.core.view import Occupant, Offer
from radrm.core.words import Collocation, Outcome, Quantity
from radrm.policies.packing import Packing
from radrm.structs import replace
from tests.world import GIB, World, gpus

SMALL = replace(gpus(1)[0], name="A100", sms=100, sm_mhz=1000)
LARGE = replace(SMALL, name="H200", sms=200, uuid="GPU-1", index=1)


def job_of(smact: float, chip: Chip | None) -> Job:
    """A job, here of nobody's queue; `chip`: the kind of GPU that its prediction is about."""
    job = World((SMALL,)).submit(GIB, smact=smact)
    of_chip = tuple(replace(e, chip=chip) for e in job.estimates if e.quantity is Quantity.SMACT)
    return replace(job, id=7, estimates=of_chip)


@pytest.mark.parametrize(
    ("device", "smact"),
    [
        (SMALL, 0.6),
        (LARGE, 0.3),
        (replace(LARGE, sms=40), 1.0),
        (replace(LARGE, sms=None), 0.6),
        (None, 0.6),
    ],
)
def test_it_is_scaled_to_the_device(device: Device | None, smact: float) -> None:
    job = job_of(0.6, SMALL.chip)
    assert job.smact_in(Collocation.TIMESLICE, device) == pytest.approx(smact)
    assert job_of(0.6, None).smact_in(Collocation.TIMESLICE, device) == 0.6


def test_the_ledger_and_the_policies_expect_the_scaled_activity() -> None:
    world = World((LARGE,))
    attempt = world.live(world.submit(GIB, smact=0.1))
    assert attempt is not None
    ledger, job = world.scheduler.state.ledgers[LARGE.uuid], job_of(0.6, SMALL.chip)
    ledger.admit(job, attempt, world.boot_s, world.boot_s)
    assert ledger.occupants[7].own_smact == pytest.approx(0.3)
    occupant = Occupant(job, attempt, world.boot_s, True, None, LARGE)
    assert occupant.smact == pytest.approx(0.3)
    assert replace(occupant, alone_smact=0.5).smact == 0.5, "measured there"


@pytest.mark.parametrize(
    ("device", "chip", "shown"),
    [
        (LARGE, SMALL.chip, "SM activity of 0.40 (scaled from A100), 0.25"),
        (SMALL, SMALL.chip, "SM activity of 0.80, 0.25"),
        (LARGE, None, "SM activity of 0.80, 0.25"),
    ],
)
def test_a_refusal_says_that_it_is_scaled(device: Device, chip: Chip | None, shown: str) -> None:
    there = replace(job_of(0.75, None), id=8)
    world = World((device,))
    attempt = world.live(world.submit(GIB, smact=0.75))
    assert attempt is not None
    offer = Offer(
        device=device,
        mode=Collocation.MPS,
        idle=False,
        free_mib=30 * GIB,
        smact=0.75,
        smact_refusal=None,
        job_ids=(8,),
        refusal=None,
        occupants=(Occupant(there, attempt, 0.0, True, None, device),),
    )
    refusal = Packing(max_demand=1.0).refuse(Ask(job_of(0.8, chip), 1, GIB), offer)
    assert shown in refusal.message


def test_what_an_attempt_has_shown_is_about_its_gpu() -> None:
    """A job that was preempted on an A100 is less active on a larger GPU."""
    world = World((LARGE, SMALL))
    job = world.submit(GIB, prefer_gpus=("A100",))
    attempt = world.live(job)
    assert attempt.devices == (SMALL.uuid,)
    usage = (Usage(SMALL.uuid, alone_smact=0.6, alone_count=9),)
    ended = replace(attempt, usage=usage, outcome=Outcome.PREEMPTED)
    taught = with_measured(
        world.jobs[job.id], ended, lambda: _chip_of(world.scheduler.state, ended)
    )
    shown = taught.estimates[0]
    assert (shown.value, shown.chip) == (0.6, SMALL.chip)
    assert shown.on(LARGE.chip).value == pytest.approx(0.3)
