"""What every registered rule must keep, whoever wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import (
    Attempt,
    Device,
    Instant,
    Job,
    JobSpec,
    OutOfMemory,
    Placement,
    Share,
    Usage,
)
from radrm.core.rules import Again, Ask, GiveUp
from radrm.core.view import Offer
from radrm.core.words import Collocation
from radrm.errors import RadrmError
from radrm.estimators.interface import Description
from radrm.structs import replace
from radrm.wiring import find_rule, registry, settings_of

NOW = Instant(100.0, 1_700_000_000.0)
SPEC = JobSpec(name="a", user="ann", uid=1000)
JOB = Job(id=1, ticket="T", spec=SPEC, submitted=NOW)


def rules(kind: str) -> Any:
    """Every rule of a kind that needs no parts, made with its own defaults."""
    made = [find_rule(kind, name)() for name in registry(kind)]
    return pytest.mark.parametrize("rule", made, ids=[rule.name for rule in made])


def policies() -> Any:
    """Every policy, and those that have conditions both with and without them."""
    made = []
    for name in registry("policies"):
        rule = find_rule("policies", name)
        both = "conditions" in settings_of(rule)
        made += [rule(conditions=on) for on in (True, False)] if both else [rule()]
    names = [f"{rule.name}{' unconditioned' * rule.overcommits}" for rule in made]
    return pytest.mark.parametrize("rule", made, ids=names)


@st.composite
def offers(draw: st.DrawFn) -> list[Offer]:
    """Devices as the core offers them: consistent, in any order of merit."""
    found = []
    for index in range(draw(st.integers(1, 6))):
        total = draw(st.sampled_from([16_000, 40_000, 80_000]))
        idle = draw(st.booleans())
        found.append(
            Offer(
                device=Device(uuid=f"GPU-{index}", index=index, name="x", total_mib=total),
                mode=Collocation.TIMESLICE,
                idle=idle,
                free_mib=total if idle else draw(st.one_of(st.none(), st.integers(0, total))),
                smact=draw(st.one_of(st.none(), st.floats(0, 1))),
                smact_refusal="not warm",
                job_ids=() if idle else (7,),
                refusal=None,
            )
        )
    return found


asks = st.builds(
    lambda gpus, need: Ask(job=JOB, gpus=gpus, need_mib=need),
    st.integers(1, 4),
    st.one_of(st.none(), st.integers(1, 80_000)),
)


@policies()
@given(ask=asks, offered=offers())
def test_a_policy_chooses_as_many_as_asked_and_only_what_it_would_take(
    rule: Any, ask: Ask, offered: list[Offer]
) -> None:
    eligible = []
    for offer in offered:
        refusal = rule.refuse(ask, offer)
        if refusal is None:
            eligible.append(offer)
        else:
            assert refusal.device == offer.device.uuid
            assert refusal.rule and refusal.message and "\n" not in refusal.message
    if len(eligible) < ask.gpus:
        return
    chosen, state = rule.choose(ask, eligible, None)
    uuids = [offer.device.uuid for offer in chosen]
    assert len(uuids) == ask.gpus == len(set(uuids))
    assert all(offer in eligible for offer in chosen)
    assert json.loads(json.dumps(state)) == state
    assert rule.choose(ask, eligible, None) == (chosen, state), "the same again"


@policies()
@given(asked=st.lists(asks, max_size=5), offered=offers())
def test_a_policys_state_survives_a_restart(
    rule: Any, asked: list[Ask], offered: list[Offer]
) -> None:
    """What is kept is JSON: a daemon that comes back goes on as if it had never ended."""
    state = kept = None
    for ask in asked:
        eligible = [offer for offer in offered if rule.refuse(ask, offer) is None]
        if len(eligible) < ask.gpus:
            continue
        chosen, state = rule.choose(ask, eligible, state)
        again, kept = rule.choose(ask, eligible, json.loads(json.dumps(kept)))
        assert (again, kept) == (chosen, state)


@policies()
@given(ask=asks, offered=offers())
def test_a_policy_never_takes_an_unknown_for_a_zero(
    rule: Any, ask: Ask, offered: list[Offer]
) -> None:
    """Those that look at nothing refuse nothing: then an unknown must not win either."""
    for offer in offered:
        busy = replace(offer, idle=False, job_ids=(7,))
        for unknown in (replace(busy, free_mib=None), replace(busy, smact=None)):
            assert (rule.refuse(ask, unknown) is None) is rule.overcommits


@policies()
@given(ask=asks, offered=offers())
def test_what_a_policy_takes_fits_unless_it_says_that_it_overcommits(
    rule: Any, ask: Ask, offered: list[Offer]
) -> None:
    """So the core, which checks a proposal's room, need not refuse what a policy has chosen."""
    if rule.overcommits:
        assert all(rule.refuse(ask, offer) is None for offer in offered)
        return
    reserved = rule.floor_mib if ask.need_mib is None else ask.need_mib
    for offer in offered:
        if not offer.idle and rule.refuse(ask, offer) is None:
            assert offer.free_mib >= reserved


@rules("orders")
@given(first=st.integers(1, 1000), second=st.integers(1, 1000))
def test_an_order_is_one(rule: Any, first: int, second: int) -> None:
    keys = [rule.key(replace(JOB, id=i), NOW) for i in (first, second)]
    assert (keys[0] == keys[1]) is (first == second)
    assert keys[0] <= keys[1] or keys[1] <= keys[0]


TABLE = """
        Layer (type)               Output Shape         Param #
================================================================
            Linear-1                  [-1, 128]           1,290
================================================================
Total params: 1,290
"""
VAST_TABLE = TABLE.replace("128", ", ".join(["999999999999999"] * 12)).replace("1,290", "9" * 15)

descriptions = st.builds(
    Description,
    spec=st.just(SPEC),
    declared_mib=st.one_of(st.none(), st.integers(1, 10**6)),
    declared_smact=st.one_of(st.none(), st.floats(0, 1)),
    declared_duration_s=st.one_of(st.none(), st.floats(1, 1e6)),
    published=st.dictionaries(
        st.sampled_from(["measured", "horus", "faketensor", "gpumemnet"]), st.floats(1, 2**30)
    ),
    summary=st.one_of(st.none(), st.text(max_size=200), st.just(TABLE), st.just(VAST_TABLE)),
    batch_size=st.one_of(st.none(), st.integers(1, 4096)),
)


@rules("estimators")
@given(description=descriptions)
def test_an_estimator_tells_finite_figures_below_their_bounds(
    rule: Any, description: Description
) -> None:
    try:
        told = rule.estimate(description)
    except RadrmError as error:
        assert len(str(error).splitlines()) == 1
        return
    assert len({e.quantity for e in told}) == len(told)
    for estimate in told:
        assert 0 <= estimate.value <= estimate.upper < float("inf")
        assert estimate.source
    assert rule.estimate(description) == told


def died(peak: int | None) -> Attempt:
    usage = (Usage("GPU-0", peak_mib=peak),)
    placement = Placement((Share("GPU-0", 1000),), Collocation.TIMESLICE)
    return Attempt(1, 1, 1, placement, NOW, usage=usage)


@rules("recovery")
@given(
    peak=st.one_of(st.none(), st.integers(0, 50_000)),
    wanted=st.one_of(st.none(), st.integers(1, 50_000)),
    floor=st.one_of(st.none(), st.integers(1, 50_000)),
)
def test_recovery_learns_and_ends(
    rule: Any, peak: int | None, wanted: int | None, floor: int | None
) -> None:
    job = replace(JOB, memory_floor_mib=floor)
    evidence = OutOfMemory("test", requested_mib=wanted)
    for count in range(1, 100):
        job = replace(job, oom_count=count)
        verdict = rule.after_oom(job, died(peak), evidence, 40_000)
        if isinstance(verdict, GiveUp):
            assert verdict.reason and "\n" not in verdict.reason
            return
        assert isinstance(verdict, Again)
        assert (verdict.memory_floor_mib or 0) >= (job.memory_floor_mib or 0)
        assert (verdict.memory_floor_mib or 0) >= (peak or 0) + (wanted or 0)
        job = replace(job, memory_floor_mib=verdict.memory_floor_mib)
    raise AssertionError("it is recovered for ever")
