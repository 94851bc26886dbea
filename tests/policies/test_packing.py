"""Packing by predicted SM activity: what it refuses, what it prefers, and what always holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import (
    DECLARED,
    Attempt,
    Device,
    Estimate,
    Instant,
    Job,
    JobSpec,
    Needs,
    Placement,
    Role,
    Share,
)
from radrm.core.rules import Ask
from radrm.core.view import Occupant, Offer
from radrm.core.words import Collocation, Quantity
from radrm.interference.model import Demand, activity, speeds, total_activity
from radrm.policies.packing import Packing
from radrm.structs import replace
from tests.world import GIB

NOW = Instant(0.0, 0.0)


def job(number: int, smact: float | None = 0.5, gpus: int = 1, **wishes: Any) -> Job:
    spec = JobSpec(name="a", user="ann", uid=1, roles=(Role(needs=Needs(gpus=gpus)),), **wishes)
    known = () if smact is None else (Estimate(Quantity.SMACT, smact, smact, "here"),)
    return Job(id=number, ticket="T", spec=spec, submitted=NOW, estimates=known)


def occupant(
    of: Job, alone_smact: float | None = None, mode: Collocation = Collocation.MPS
) -> Occupant:
    placement = Placement(shares=(Share(device="GPU-0"),), collocation=mode)
    attempt = Attempt(of.id, 1, 1, placement, NOW)
    return Occupant(of, attempt, 0.0, True, alone_smact)


def offer(
    *there: Job | Occupant,
    index: int = 0,
    free_gib: int | None = 30,
    smact: float | None = None,
    mode: Collocation = Collocation.MPS,
) -> Offer:
    occupants = tuple(
        each if isinstance(each, Occupant) else occupant(each, mode=mode) for each in there
    )
    return Offer(
        device=Device(uuid=f"GPU-{index}", index=index, name="x", total_mib=40 * GIB),
        mode=mode,
        idle=not there,
        free_mib=None if free_gib is None else free_gib * GIB,
        smact=smact,
        smact_refusal=None,
        job_ids=tuple(each.job.id for each in occupants),
        refusal=None,
        occupants=occupants,
    )


def ask(of: Job, need_mib: int | None = 4 * GIB) -> Ask:
    return Ask(job=of, gpus=of.spec.gpus, need_mib=need_mib)


def refused(wanted: Ask, offered: Offer, **settings: Any) -> str | None:
    """The name of the condition that refuses the device; None if none does."""
    found = Packing(**settings).refuse(wanted, offered)
    return None if found is None else found.rule


def chosen(wanted: Ask, *offered: Offer) -> list[int]:
    return [each.device.index for each in Packing().choose(wanted, offered, None)[0]]


# ------------------------------------------------------------------ one device


@pytest.mark.parametrize(
    ("there", "own", "why"),
    [
        ((0.6,), 0.6, None),
        ((0.9,), 0.7, None),
        ((0.9,), 0.71, "demand"),
        ((0.9, 0.7), 0.07, "demand"),
        ((0.7,), 0.9, None),
        ((0.7,), 0.91, "demand"),
        ((0.9,), None, None),  # assumed_smact is 0.6
        ((0.9, 0.11), None, "demand"),
    ],
)
def test_the_sum_of_sm_activity_is_limited(
    there: tuple[float | None, ...], own: float | None, why: str | None
) -> None:
    found = offer(*(job(number, smact) for number, smact in enumerate(there, 2)))
    assert refused(ask(job(1, own)), found) == why
    assert refused(ask(job(1, own)), found, max_demand=2.5) is None


def test_the_numbers_of_a_refusal_are_those_of_its_text() -> None:
    found = Packing().refuse(ask(job(1, 0.9)), offer(job(2, 0.8), job(3, 0.3), smact=None))
    assert found.rule == "demand"
    assert found.message == "needs SM activity of 0.90, 0.50 of the allowed 1.60 are left"
    assert (found.needed, found.available) == (0.9, pytest.approx(0.5))


def test_a_device_whose_activity_is_neither_predicted_nor_measured_takes_no_other_job() -> None:
    starting = replace(offer(job(2, None), job(3, 0.1)), smact_refusal="its jobs changed")
    found = Packing().refuse(ask(job(1, 0.1)), starting)
    assert (found.rule, found.message) == ("smact", "its jobs changed")
    assert refused(ask(job(1, 0.1)), replace(starting, smact=0.5)) is None


def test_a_job_that_has_not_run_here_needs_a_larger_margin() -> None:
    there = offer(job(2, 0.1), free_gib=8)
    assert refused(ask(job(1, 0.1), 6 * GIB), there) is None
    new, declared = job(1, None), Estimate(Quantity.MEMORY, 6 * GIB, 6 * GIB, DECLARED)
    assert refused(ask(new, 3 * GIB), there) is None
    assert refused(ask(new, 3 * GIB + 1), there) == "memory"
    assert refused(ask(replace(new, estimates=(declared,)), 6 * GIB), there) is None


@pytest.mark.parametrize(
    ("need", "free_gib", "why"),
    [
        (4 * GIB, 6, None),
        (4 * GIB + 1, 6, "memory"),
        (None, 7, None),  # floor_mib and margin_mib
        (None, 6, "memory"),
        (100, None, "memory"),
    ],
)
def test_the_need_and_a_margin_must_be_free(
    need: int | None, free_gib: int | None, why: str | None
) -> None:
    assert refused(ask(job(1), need), offer(job(2), free_gib=free_gib)) == why
    assert refused(ask(job(1), need), offer(free_gib=free_gib)) is None, "an idle one is enough"


def test_what_was_measured_beats_what_was_predicted() -> None:
    wrong = job(2, 0.9)
    assert refused(ask(job(1, 0.8)), offer(wrong)) == "demand"
    assert refused(ask(job(1, 0.8)), offer(occupant(wrong, alone_smact=0.4))) is None
    assert refused(ask(job(1, 0.8)), offer(wrong, smact=0.4)) is None, "the device shows it"
    assert refused(ask(job(1, 0.8)), offer(wrong, smact=0.85)) == "demand", "it may be saturated"
    low = job(2, 0.2), job(3, 0.2)
    assert refused(ask(job(1, 0.9)), offer(*low, smact=0.79)) == "demand"


def test_a_time_sliced_device_does_not_show_its_demand() -> None:
    there = offer(job(2, 0.3), smact=0.1, mode=Collocation.TIMESLICE)
    as_predicted = Packing().refuse(ask(job(1, 0.5)), there)
    assert as_predicted == Packing().refuse(ask(job(1, 0.5)), replace(there, smact=None))


@pytest.mark.parametrize(
    ("there", "own", "loss", "why"),
    [
        ((0.4,), 0.4, None, None),
        ((0.4, 0.4), 0.4, None, None),
        ((0.4, 0.4, 0.4), 0.4, None, "gain"),
        ((0.5,), 0.5, None, None),
        ((0.8,), 0.8, None, "gain"),
        ((0.6,), 0.6, None, None),
        ((0.6,), 0.6, 1.0, "gain"),
        ((0.9,), 0.6, None, "gain"),
        ((0.4, 0.4), 0.4, 1.0, "gain"),
        ((0.2,) * 3, 0.2, 1.0, None),
    ],
)
def test_a_job_is_time_sliced_only_where_it_adds_enough_work(
    there: tuple[float, ...], own: float, loss: float | None, why: str | None
) -> None:
    """Two jobs that fill a GPU do less work by turns than one after the other."""
    jobs = [job(number, smact) for number, smact in enumerate(there, 2)]
    sliced = replace(offer(*jobs, mode=Collocation.TIMESLICE), loss=loss)
    assert refused(ask(job(1, own)), sliced) == why


def test_a_refusal_for_too_little_work_names_what_was_assumed() -> None:
    there = offer(job(2, 0.9), mode=Collocation.TIMESLICE)
    found = Packing().refuse(ask(job(1, None)), there)
    assert found.message == (
        "with SM activity of 0.40 (assumed; see --smact) beside 0.90, sharing adds -0.09 of work, "
        "at least 0.06 is needed"
    )


def usual(number: int, smact: float) -> Job:
    return replace(
        job(number, None), estimates=(Estimate(Quantity.USUAL_SMACT, smact, smact, "here"),)
    )


def test_what_is_usual_here_is_assumed_of_an_unknown_job() -> None:
    there = offer(job(2, 0.9), mode=Collocation.TIMESLICE)
    assert refused(ask(usual(1, 0.1)), offer(job(2, 0.5), mode=Collocation.TIMESLICE)) is None
    found = Packing().refuse(ask(usual(1, 0.8)), there)
    assert "0.80 (assumed, usual here; see --smact)" in found.message


# ------------------------------------------------------------------ what a device shows


@pytest.mark.parametrize("mode", [Collocation.MPS, Collocation.TIMESLICE])
def test_readings_replace_what_was_assumed_of_a_job(mode: Collocation) -> None:
    """The demand that shows what the device shows, less what is known of the other job."""
    known, unknown = job(2, 0.3), job(3, None)
    for real in (0.35, 0.5):
        shown = total_activity(0.3 + real, 2, mps=mode is Collocation.MPS)
        there = offer(known, unknown, smact=shown, mode=mode)
        assert Packing()._demands(there) == pytest.approx([0.3, real], abs=0.03)


def test_a_full_time_sliced_device_shows_that_more_was_hidden() -> None:
    there = offer(job(2, None), job(3, None), smact=0.9, mode=Collocation.TIMESLICE)
    assert Packing()._demands(there) == pytest.approx([1.0, 1.0], abs=0.01)


@pytest.mark.parametrize("mode", [Collocation.MPS, Collocation.TIMESLICE])
def test_a_device_that_shows_nothing_takes_few_jobs(mode: Collocation) -> None:
    one = replace(offer(job(2, None), mode=mode), smact_refusal="it is not measured")
    assert refused(ask(job(1, None)), one) == "smact", "its job is still starting"
    warm = replace(one, warm=True)
    assert refused(ask(job(1, None)), warm) is None
    two = replace(offer(job(2, None), job(3, 0.1), mode=mode), warm=True, smact_refusal="mute")
    found = Packing().refuse(ask(job(1, 0.1)), two)
    assert (found.rule, found.message) == ("jobs", "it has 2 of at most 2 jobs: mute")
    assert refused(ask(job(1, 0.1)), two, max_blind_jobs=3) is None
    assert refused(ask(job(1, 0.1)), replace(two, loss=0.1)) is None, "sharing paid here"
    known = replace(offer(job(2, 0.1), job(3, 0.1), mode=mode), warm=True)
    assert refused(ask(job(1, 0.1)), known) is None, "all that is there is known"


def test_a_device_with_estimated_activity_takes_few_jobs() -> None:
    one = replace(offer(job(2, None), smact=0.3), coarse=True)
    assert refused(ask(job(1, None)), one) is None
    two = replace(offer(job(2, 0.2), job(3, 0.1), smact=0.3), coarse=True)
    found = Packing().refuse(ask(job(1, 0.1)), two)
    assert "at most 2 jobs: its SM activity is only est" in found.message
    low = replace(offer(job(2, None), job(3, None), smact=0.1), coarse=True)
    assert Packing()._demands(low) == [0.6, 0.6], "jobs that overlap show no sum"


@pytest.mark.parametrize(
    ("new", "there", "admin", "why"),
    [
        (None, None, 0.0, None),
        (2.0, None, 0.0, None),
        (1.3, None, 0.0, "slowdown"),
        (None, 1.3, 0.0, "slowdown"),
        (None, 2.0, 0.0, None),
        (None, None, 1.3, "slowdown"),
        (2.0, 2.0, 1.3, "slowdown"),
        (1.3, 2.0, 3.0, "slowdown"),
    ],
)
def test_no_job_is_slowed_beyond_its_limit(
    new: float | None, there: float | None, admin: float, why: str | None
) -> None:
    """Two jobs of 0.75 together run 1.6 times as slow."""
    wanted, occupant = job(1, 0.75, max_slowdown=new), job(2, 0.75, max_slowdown=there)
    assert refused(ask(wanted), offer(occupant), max_slowdown=admin) == why


def test_a_job_on_several_gpus_is_slowed_by_more_than_each_of_them() -> None:
    wide, narrow = (job(1, 0.6, gpus=n, max_slowdown=1.6) for n in (2, 1))
    assert refused(ask(narrow), offer(job(3, 0.6))) is None
    assert refused(ask(wide), offer(job(3, 0.6))) == "slowdown"


def test_settings_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="timeslice_min_gain = 70"):
        Packing(timeslice_min_gain=70.0)
    with pytest.raises(ValueError, match="max_slowdown must be 0 or at least 1"):
        Packing(max_slowdown=0.5)


# ------------------------------------------------------------------ among devices


def test_the_least_demand_is_best_then_the_most_memory() -> None:
    light, heavy = offer(job(2, 0.3), index=1), offer(job(3, 0.8), index=0)
    assert chosen(ask(job(1)), heavy, light) == [1]
    assert chosen(ask(job(1)), heavy, light, offer(index=2)) == [2], "an idle one has none"
    more = replace(light, free_mib=35 * GIB, device=replace(light.device, uuid="x", index=3))
    assert chosen(ask(job(1)), light, more) == [3]


def test_wide_jobs_keep_apart_while_they_can() -> None:
    wide, narrow = job(2, 0.2, gpus=2), job(3, 0.8)
    four = [offer(wide, index=0), offer(wide, index=1), offer(narrow, index=2), offer(index=3)]
    assert chosen(ask(job(1, gpus=2)), *four) == [3, 2]
    assert chosen(ask(job(1, gpus=1)), *four[:3]) == [0]
    assert chosen(ask(job(1, gpus=2)), *four[:3]) == [2, 0]


@pytest.mark.parametrize(("smact", "why"), [(0.3, None), (0.6, "gain"), (0.8, "gain")])
def test_wide_jobs_that_would_hold_each_other_up_wait(smact: float, why: str | None) -> None:
    wide = offer(job(2, smact, gpus=2))
    assert refused(ask(job(1, smact, gpus=2)), wide) == why
    assert refused(ask(job(1, smact)), wide) is None
    assert refused(ask(job(1, smact, gpus=2)), offer(job(2, smact))) is None


@pytest.mark.parametrize("mode", [Collocation.MPS, Collocation.TIMESLICE])
def test_readings_prove_that_a_prediction_is_too_low(mode: Collocation) -> None:
    there = offer(job(2, 0.1), smact=0.95, mode=mode)
    assert refused(ask(job(1, 0.7)), there) == "demand"
    there = offer(job(2, 0.0), smact=0.95, mode=mode)
    assert refused(ask(job(1, 0.7)), there) == "demand"


def test_unmanaged_processes_take_part_of_a_device() -> None:
    busy = replace(offer(smact=0.9), idle=False)
    assert refused(ask(job(1, 0.5)), busy) is None
    assert refused(ask(job(1, 0.75)), busy) == "demand"
    assert refused(ask(job(1, 0.5, max_slowdown=1.1)), busy) == "slowdown"
    unread = replace(busy, smact=None)
    assert refused(ask(job(1, 0.1)), unread) == "smact"
    least = [replace(offer(index=1), idle=False, smact=0.2), replace(busy, smact=0.1)]
    assert chosen(ask(job(1, 0.5)), *least) == [0]


activities = st.one_of(st.none(), st.floats(0.0, 1.0))
modes = st.sampled_from([Collocation.MPS, Collocation.TIMESLICE])


@given(
    there=st.lists(activities, min_size=1, max_size=6),
    own=activities,
    shown=activities,
    mode=modes,
)
def test_a_job_that_joins_fits_below_the_limit_and_adds_work(
    there: list[float | None], own: float | None, shown: float | None, mode: Collocation
) -> None:
    rule = Packing()
    jobs = [job(number, smact) for number, smact in enumerate(there, 2)]
    offered = offer(*jobs, smact=shown, mode=mode)
    if rule.refuse(ask(job(1, own)), offered) is not None:
        return
    smacts, mine = rule._demands(offered), rule._smact(job(1, own), offered)
    assert sum(smacts) + mine <= 1.6
    assert shown is None or sum(smacts) >= shown - 1e-9
    if shown is None or shown >= 0.8 or mode is Collocation.TIMESLICE:
        known = zip(there, smacts, strict=True)
        assert all(found >= each - 1e-9 for each, found in known if each is not None)

    def work(of: list[float]) -> float:
        found = [Demand(smact) for smact in of]
        return activity(found, speeds(found, mps=mode is Collocation.MPS))

    least = 0.0 if mode is Collocation.MPS else 0.15 * mine
    assert work([*smacts, mine]) >= work(smacts) + least - 1e-9


def test_a_harsher_server_has_less_work_done_and_slower_jobs() -> None:
    there, wanted = offer(job(2, 0.6)), ask(job(1, 0.6))
    slow = replace(wanted, job=job(1, 0.6, max_slowdown=1.4))
    assert refused(slow, replace(there, loss=0.0)) is None
    assert refused(slow, replace(there, loss=0.8)) == "slowdown"
    # Of two large jobs alone, one fills what the other would leave.
    large = offer(job(2, 0.8))
    assert refused(ask(job(1, 0.7)), replace(large, loss=0.0)) is None
    assert refused(ask(job(1, 0.7)), replace(large, loss=0.8)) == "gain"
