"""The policies of the literature, by the papers' words and by their own criteria."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Device, Instant, Job, JobSpec
from radrm.core.rules import Ask
from radrm.core.view import Offer
from radrm.core.words import Collocation
from radrm.policies.exclusive import Exclusive
from radrm.policies.sharing import BestFit, FirstFit, Lug, Magm, Mug, RoundRobin
from radrm.structs import replace
from tests.world import GIB, World, gpus

SPEC = JobSpec(name="a", user="ann", uid=1000)
JOB = Job(id=1, ticket="T", spec=SPEC, submitted=Instant(0.0, 0.0))
TOTAL = 40 * GIB

SHARING = [Magm(), Lug(), Mug(), FirstFit(), BestFit(), RoundRobin(conditions=True)]
BLIND = [
    RoundRobin(),
    *(rule(conditions=False) for rule in (Magm, Lug, Mug, FirstFit, BestFit)),
]


def each(made: list[Any]) -> Any:
    return pytest.mark.parametrize("rule", made, ids=[rule.name for rule in made])


def ask(need_mib: int | None = 4 * GIB, gpus: int = 1) -> Ask:
    return Ask(job=JOB, gpus=gpus, need_mib=need_mib)


def busy(index: int, free_mib: int | None, smact: float | None) -> Offer:
    return Offer(
        device=Device(uuid=f"GPU-{index}", index=index, name="x", total_mib=TOTAL),
        mode=Collocation.MPS,
        idle=False,
        free_mib=free_mib,
        smact=smact,
        smact_refusal=None if smact is not None else "not warm",
        job_ids=(7,),
        refusal=None,
    )


def idle(index: int, smact: float | None = None, free_mib: int = TOTAL) -> Offer:
    return replace(busy(index, free_mib, smact), idle=True, job_ids=())


def choose(rule: Any, wanted: Ask, *offered: Offer) -> list[int]:
    """The indices of the devices chosen among those that the policy does not refuse."""
    eligible = [offer for offer in offered if rule.refuse(wanted, offer) is None]
    if len(eligible) < wanted.gpus:
        return []
    return [offer.device.index for offer in rule.choose(wanted, eligible, None)[0]]


# ------------------------------------------------------------------ the papers' words

# Free memory and SM activity of four busy devices, none of them best in two ways.
FOUR = (
    busy(0, 12 * GIB, 0.50),
    busy(1, 30 * GIB, 0.60),
    busy(2, 20 * GIB, 0.10),
    busy(3, 8 * GIB, 0.70),
)


@pytest.mark.parametrize(
    "rule, need_gib, chosen",
    [
        (Magm(), 4, 1),  # "chooses the GPU with the highest free memory among them"
        (Lug(), 4, 2),  # "the GPU with the lowest SMACT value is picked instead"
        (Mug(), 4, 3),  # "consolidate as many tasks as possible onto a GPU"
        (FirstFit(), 4, 0),  # "picks the first GPU in the list"
        (BestFit(), 4, 3),  # "picks the GPU with the least available memory in that list"
        (FirstFit(), 15, 1),
        (BestFit(), 15, 2),
        (Mug(), 15, 1),
        (RoundRobin(), 39, 0),  # round-robin looks at nothing
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_what_each_policy_prefers(rule: Any, need_gib: int, chosen: int) -> None:
    assert choose(rule, ask(need_gib * GIB), *FOUR) == [chosen]


@each([*SHARING, RoundRobin()])
def test_ties_go_by_index(rule: Any) -> None:
    alike = [busy(index, 20 * GIB, 0.5) for index in (2, 0, 1)]
    assert choose(rule, ask(gpus=2), *alike) == [0, 1]
    assert choose(rule, ask(gpus=3), *(idle(index) for index in (2, 0, 1))) == [0, 1, 2]


@pytest.mark.parametrize("rule, chosen", [(Mug(), 0), (BestFit(), 0), (Magm(), 1), (Lug(), 1)])
def test_filling_the_active_gpus_first_or_spreading(rule: Any, chosen: int) -> None:
    """Figure 6.4: MUG leaves idle GPUs unassigned while there is room on an active one."""
    assert choose(rule, ask(), busy(0, 20 * GIB, 0.3), idle(1)) == [chosen]
    assert choose(rule, ask(), busy(0, 20 * GIB, 0.9), idle(1)) == [1], "an active one is full"


@pytest.mark.parametrize("rule", [Magm(), Lug(), Mug()], ids=lambda rule: rule.name)
@pytest.mark.parametrize(
    "need, free, smact, rule_said",
    [
        (None, 5120, 0.80, None),
        (None, 5119, 0.80, "memory"),
        (3072, 5120, 0.80, None),
        (3073, 5120, 0.80, "memory"),
        (100, 5119, 0.10, "memory"),
        (100, 5120, 0.81, "smact"),
        (8192, 10240, 0.00, None),
        (8192, 10239, 0.00, "memory"),
        (100, None, 0.10, "memory"),
        (100, 5120, None, "smact"),
    ],
)
def test_the_published_conditions(
    rule: Any, need: int | None, free: int | None, smact: float | None, rule_said: str | None
) -> None:
    """Free >= max(5 GiB, need + 2 GiB) and SMACT <= 80 %."""
    refusal = rule.refuse(ask(need), busy(0, free, smact))
    assert (refusal.rule if refusal else None) == rule_said
    assert rule.refuse(ask(need), idle(0)) is None, "an idle device takes what fits it"
    if refusal and free is not None and smact is not None:
        assert refusal.needed is not None
        assert refusal.available in (free, smact)


@pytest.mark.parametrize("rule", [FirstFit(), BestFit()], ids=lambda rule: rule.name)
@pytest.mark.parametrize(
    "need, free, smact, rule_said",
    [
        (100, 2148, 0.80, None),
        (100, 2147, 0.80, "memory"),
        (100, 2148, 0.81, "smact"),
        (None, 5120 + 2048, 0.80, None),
        (None, 5120 + 2047, 0.80, "memory"),
    ],
)
def test_the_oracles_conditions(
    rule: Any, need: int | None, free: int, smact: float, rule_said: str | None
) -> None:
    """Free >= need + 2 GiB and SMACT <= 80 %; the floor stands for an unknown need."""
    refusal = rule.refuse(ask(need), busy(0, free, smact))
    assert (refusal.rule if refusal else None) == rule_said


def test_thresholds_are_settings() -> None:
    """Table 6.3 varies them: SMACT <= 75 %, GMem >= 2 GB, none at all."""
    offer = busy(0, 3 * GIB, 0.78)
    assert Magm().refuse(ask(None), offer) is not None
    assert Magm(min_free_mib=2048, floor_mib=2048).refuse(ask(None), offer) is None
    strict = Magm(min_free_mib=2048, floor_mib=2048, max_smact=0.75)
    assert strict.refuse(ask(None), offer) is not None
    assert Magm(conditions=False).refuse(ask(None), offer) is None
    with pytest.raises(ValueError, match="max_smact = 80"):
        Magm(max_smact=80)


@each(SHARING)
@pytest.mark.parametrize(("smact", "taken"), [(0.5, True), (0.51, False)])
def test_where_jobs_take_turns_less_activity_is_too_much(
    rule: Any, smact: float, taken: bool
) -> None:
    turns = replace(busy(0, 30 * GIB, smact), mode=Collocation.TIMESLICE)
    refusal = rule.refuse(ask(), turns)
    assert (refusal is None) is taken
    assert rule.refuse(ask(), busy(0, 30 * GIB, smact)) is None, "MPS has another limit"
    like_mps = dataclasses.replace(rule, timeslice_max_smact=1.0)
    assert like_mps.refuse(ask(), turns) is None
    assert like_mps.refuse(ask(), replace(turns, smact=0.81)) is not None, "nor beyond max_smact"
    with pytest.raises(ValueError, match="timeslice_max_smact = 50"):
        dataclasses.replace(rule, timeslice_max_smact=50)


# ------------------------------------------------------------------ by their own criteria

everywhere = st.lists(
    st.tuples(
        st.booleans(),
        st.one_of(st.none(), st.integers(0, TOTAL)),
        st.one_of(st.none(), st.floats(0, 1)),
    ),
    min_size=1,
    max_size=8,
).map(
    lambda rows: [
        idle(i, smact) if is_idle else busy(i, free, smact)
        for i, (is_idle, free, smact) in enumerate(rows)
    ]
)
needs = st.one_of(st.none(), st.integers(1, TOTAL))


@each(SHARING)
@given(offered=everywhere, need=needs)
def test_with_conditions_no_threshold_is_crossed(
    rule: Any, offered: list[Offer], need: int | None
) -> None:
    for index in choose(rule, ask(need), *offered):
        offer = offered[index]
        if offer.idle:
            continue
        assert offer.free_mib is not None
        assert offer.smact <= 0.80
        assert offer.free_mib >= rule.min_free_mib
        assert need is None or offer.free_mib >= need + 2048


@pytest.mark.parametrize(
    "rule, merit",
    [
        (Magm(), lambda o: o.free_mib),
        (Lug(), lambda o: -(o.smact or 0.0)),
        (Mug(), lambda o: -1.0 if o.idle else o.smact),
        (FirstFit(), lambda o: -o.device.index),
        (BestFit(), lambda o: -o.free_mib),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@given(offered=everywhere, need=needs, wanted=st.integers(1, 4))
def test_nobody_left_out_is_better_than_anybody_chosen(
    rule: Any, merit: Any, offered: list[Offer], need: int | None, wanted: int
) -> None:
    chosen = choose(rule, ask(need, wanted), *offered)
    if not chosen:
        return
    eligible = [o for o in offered if rule.refuse(ask(need, wanted), o) is None]
    left_out = [merit(o) for o in eligible if o.device.index not in chosen]
    taken = [merit(offered[index]) for index in chosen]
    assert len(taken) == wanted
    assert max(left_out, default=min(taken)) <= min(taken)
    assert taken == sorted(taken, reverse=True), "best first"


@each(BLIND)
@given(offered=everywhere, need=needs)
def test_without_conditions_nothing_is_refused(
    rule: Any, offered: list[Offer], need: int | None
) -> None:
    assert rule.overcommits
    assert all(rule.refuse(ask(need), offer) is None for offer in offered)


@pytest.mark.parametrize("rule", [Magm, Lug, Mug, BestFit], ids=lambda rule: rule.name)
def test_without_conditions_an_unknown_never_wins(rule: Any) -> None:
    known, unknown = busy(1, 100, 0.99), busy(0, None, None)
    assert choose(rule(conditions=False), ask(), unknown, known) == [1]


def test_an_idle_device_that_nobody_measures_is_the_least_utilized() -> None:
    assert choose(Lug(), ask(), busy(0, 20 * GIB, 0.1), idle(1)) == [1]
    assert choose(Lug(), ask(), idle(0, smact=0.2), idle(1)) == [1]


# ------------------------------------------------------------------ round-robin


def taken(rule: RoundRobin, offered: list[Offer], state: Any, count: int) -> tuple[list[int], Any]:
    """The devices of `count` placements in a row, the state passed on as a store would."""
    found = []
    for _ in range(count):
        (chosen,), state = rule.choose(ask(), offered, json.loads(json.dumps(state)))
        found.append(chosen.device.index)
    return found, state


def test_the_fifth_task_goes_to_the_first_gpu() -> None:
    """Figure 6.3 with round-robin: T1 to T4 have GPU1 to GPU4, "T5 will be assigned to GPU1"."""
    world = World(gpus(4), policy=RoundRobin())
    jobs = [world.submit(None) for _ in range(5)]
    assert [world.where(job) for job in jobs[:4]] == [(f"GPU-{i}",) for i in range(4)]
    assert world.where(jobs[4]) == ("GPU-0",)


def test_the_fifth_task_waits_for_any_gpu_under_exclusive() -> None:
    """Figure 6.3: "any of the GPUs getting idle sooner, will be host of T5 task"."""
    world = World(gpus(4), policy=Exclusive())
    jobs = [world.submit(None) for _ in range(5)]
    assert world.where(jobs[4]) == ()
    world.end(jobs[2])
    assert world.where(jobs[4]) == ("GPU-2",)


@given(size=st.integers(1, 6), rounds=st.integers(1, 5), start=st.integers(0, 5))
def test_every_device_gets_its_turn(size: int, rounds: int, start: int) -> None:
    offered = [busy(i, 0, None) for i in range(size)]
    _, state = taken(RoundRobin(), offered, None, start)
    found, _ = taken(RoundRobin(), offered, state, rounds * size)
    assert Counter(found) == dict.fromkeys(range(size), rounds)


@given(offers=st.permutations([busy(i, 0, None) for i in range(5)]), wanted=st.integers(1, 5))
def test_several_gpus_are_the_next_in_the_cycle(offers: list[Offer], wanted: int) -> None:
    _, state = RoundRobin().choose(ask(), [offers[0]], None)
    chosen, state = RoundRobin().choose(ask(gpus=wanted), offers, state)
    first = offers[0].device.index + 1
    assert [o.device.index for o in chosen] == [(first + i) % 5 for i in range(wanted)]
    ((after,), _) = RoundRobin().choose(ask(), offers, state)
    assert after.device.index == (first + wanted) % 5


def test_a_device_that_vanishes_or_comes_moves_nobody_elses_turn() -> None:
    two, three = [busy(0, 0, None), busy(2, 0, None)], [busy(i, 0, None) for i in range(3)]
    found, state = taken(RoundRobin(), three, None, 2)
    assert found == [0, 1]
    found, state = taken(RoundRobin(), two, state, 3)  # GPU 1, the last one given, is gone
    assert found == [2, 0, 2]
    found, _ = taken(RoundRobin(), three, state, 3)
    assert found == [0, 1, 2]


def test_the_turn_survives_a_restart_of_the_daemon() -> None:
    world = World(gpus(3), policy=RoundRobin())
    first = world.submit(None)
    world.restart()
    second = world.submit(None)
    assert (world.where(first), world.where(second)) == (("GPU-0",), ("GPU-1",))


def test_with_conditions_a_crowded_device_loses_its_turn() -> None:
    rule = RoundRobin(conditions=True)
    assert choose(rule, ask(), busy(0, 1 * GIB, 0.1), busy(1, 20 * GIB, 0.9)) == []
    assert choose(rule, ask(), busy(0, 1 * GIB, 0.1), busy(1, 20 * GIB, 0.2)) == [1]
