"""Packing by predicted SM activity: what it refuses, what it prefers, and what always holds."""

from __future__ import annotations

from dataclasses import replace
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
from radrm.core.view import Holder, Offer
from radrm.core.words import Collocation, Quantity
from radrm.interference.model import Demand, activity, speeds
from radrm.policies.packing import Packing
from tests.world import GIB

NOW = Instant(0.0, 0.0)


def job(number: int, smact: float | None = 0.5, gpus: int = 1, **wishes: Any) -> Job:
    spec = JobSpec(name="a", user="ann", uid=1, roles=(Role(needs=Needs(gpus=gpus)),), **wishes)
    known = () if smact is None else (Estimate(Quantity.SMACT, smact, smact, "here"),)
    return Job(id=number, ticket="T", spec=spec, submitted=NOW, estimates=known)


def holder(of: Job, alone_smact: float | None = None) -> Holder:
    placement = Placement(shares=(Share(device="GPU-0"),), collocation=Collocation.MPS)
    attempt = Attempt(of.id, 1, 1, placement, NOW)
    return Holder(of, attempt, 0.0, True, alone_smact)


def offer(
    *there: Job | Holder,
    index: int = 0,
    free_gib: int | None = 30,
    smact: float | None = None,
    mode: Collocation = Collocation.MPS,
) -> Offer:
    holders = tuple(each if isinstance(each, Holder) else holder(each) for each in there)
    return Offer(
        device=Device(uuid=f"GPU-{index}", index=index, name="x", total_mib=40 * GIB),
        mode=mode,
        idle=not there,
        free_mib=None if free_gib is None else free_gib * GIB,
        smact=smact,
        smact_refusal=None,
        occupants=tuple(each.job.id for each in holders),
        refusal=None,
        holders=holders,
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
        ((None,), 0.9, None),  # assumed_smact is 0.7
        ((None,), 0.91, "demand"),
        ((0.9,), None, None),
        ((0.91,), None, "demand"),
    ],
)
def test_the_sum_of_sm_activity_is_limited(
    there: tuple[float | None, ...], own: float | None, why: str | None
) -> None:
    shown = 0.7 if None in there else None  # as is assumed
    found = offer(*(job(number, smact) for number, smact in enumerate(there, 2)), smact=shown)
    assert refused(ask(job(1, own)), found) == why
    assert refused(ask(job(1, own)), found, max_demand=2.5) is None


def test_the_numbers_of_a_refusal_are_those_of_its_text() -> None:
    found = Packing().refuse(ask(job(1, 0.9)), offer(job(2, 0.8), job(3, 0.3), smact=None))
    assert found is not None and found.rule == "demand"
    assert found.message == "needs SM activity of 0.90, 0.50 of the allowed 1.60 are left"
    assert (found.needed, found.available) == (0.9, pytest.approx(0.5))


def test_a_device_whose_activity_is_neither_predicted_nor_measured_takes_no_other_job() -> None:
    starting = replace(offer(job(2, None), job(3, 0.1)), smact_refusal="its jobs changed")
    found = Packing().refuse(ask(job(1, 0.1)), starting)
    assert found is not None and (found.rule, found.message) == ("smact", "its jobs changed")
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
    assert refused(ask(job(1, 0.8)), offer(holder(wrong, alone_smact=0.4))) is None
    assert refused(ask(job(1, 0.8)), offer(wrong, smact=0.4)) is None, "the device shows it"
    assert refused(ask(job(1, 0.8)), offer(wrong, smact=0.85)) == "demand", "it may be saturated"
    low = job(2, 0.2), job(3, 0.2)
    assert refused(ask(job(1, 0.9)), offer(*low, smact=0.79)) == "demand"


def test_a_time_sliced_device_does_not_show_its_demand() -> None:
    there = offer(job(2, 0.3), smact=0.1, mode=Collocation.TIMESLICE)
    as_predicted = Packing().refuse(ask(job(1, 0.5)), there)
    assert as_predicted == Packing().refuse(ask(job(1, 0.5)), replace(there, smact=None))


@pytest.mark.parametrize(
    ("smact", "limit", "why"),
    [(0.5, 1.0, None), (0.51, 1.0, "demand"), (0.6, 2.0, None), (0.9, 2.0, "gain")],
)
def test_large_jobs_are_not_time_sliced(smact: float, limit: float, why: str | None) -> None:
    """Two jobs that fill a GPU do less work by turns than one after the other."""
    there = offer(job(2, smact), mode=Collocation.TIMESLICE)
    rule = Packing(max_demand=2.0, timeslice_max_demand=limit)
    found = rule.refuse(ask(job(1, smact)), there)
    assert (None if found is None else found.rule) == why
    assert refused(ask(job(1, smact)), replace(there, mode=Collocation.MPS), max_demand=2.0) is None


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
    wanted, holding = job(1, 0.75, max_slowdown=new), job(2, 0.75, max_slowdown=there)
    assert refused(ask(wanted), offer(holding), max_slowdown=admin) == why


def test_a_job_on_several_gpus_is_slowed_by_more_than_each_of_them() -> None:
    wide, narrow = (job(1, 0.6, gpus=n, max_slowdown=1.6) for n in (2, 1))
    assert refused(ask(narrow), offer(job(3, 0.6))) is None
    assert refused(ask(wide), offer(job(3, 0.6))) == "slowdown"


def test_settings_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="assumed_smact = 70"):
        Packing(assumed_smact=70.0)
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
    assert refused(ask(job(1, 0.7)), there, timeslice_max_demand=1.6) == "demand"
    there = offer(job(2, 0.0), smact=0.95, mode=mode)
    assert refused(ask(job(1, 0.7)), there, timeslice_max_demand=1.6) == "demand"


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
    smacts = [rule.assumed_smact if each is None else each for each in there]
    total = sum(smacts)
    if shown is not None and shown > total:
        smacts = [each + (shown - total) / len(smacts) for each in smacts]
    elif mode is Collocation.MPS and shown is not None and shown < 0.8 and total:
        smacts = [each * shown / total for each in smacts]
    mine = rule.assumed_smact if own is None else own
    assert sum(smacts) + mine <= (1.6 if mode is Collocation.MPS else 1.0)

    def work(of: list[float]) -> float:
        found = [Demand(smact) for smact in of]
        return activity(found, speeds(found, mps=mode is Collocation.MPS))

    assert work([*smacts, mine]) >= work(smacts) - 1e-9


def test_a_harsher_server_has_less_work_done_and_slower_jobs() -> None:
    there, wanted = offer(job(2, 0.6)), ask(job(1, 0.6))
    slow = replace(wanted, job=job(1, 0.6, max_slowdown=1.4))
    assert refused(slow, replace(there, loss=0.0)) is None
    assert refused(slow, replace(there, loss=0.8)) == "slowdown"
    # Of two large jobs alone, one fills what the other would leave.
    large = offer(job(2, 0.8))
    assert refused(ask(job(1, 0.7)), replace(large, loss=0.0)) is None
    assert refused(ask(job(1, 0.7)), replace(large, loss=0.8)) == "gain"
