"""The optimizer of ANDREAS: tables by hand, properties, and all plans of tiny problems."""

from __future__ import annotations

from itertools import permutations, product
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.published.capacity.problem import (
    Allocation,
    Configuration,
    Price,
    Problem,
    Server,
    Work,
    construct,
    in_order,
    objective,
    without_chance,
)
from radrm.published.capacity.randomized import Chance, Constructions, construct_many

MANY = 300
WATTS = ((0.0, 500.0, 700.0, 900.0, 1000.0), (0.0, 400.0, 470.0))
HOUR = Price((0.0, 3600.0), (0.0, 0.36))
"""A watt costs 0.0001 a second."""


def work(number: int, due_s: float, rate: float = 1.0, **runs: float) -> Work:
    """A job; `runs` are its times, by kind and number of GPUs: `a2=100`."""
    found = []
    for name, time_s in runs.items():
        kind, gpus = "ab".index(name[0]), int(name[1:])
        found.append(Configuration(kind, gpus, time_s, WATTS[kind][gpus] * HOUR.of_watt(time_s)))
    return Work(number, due_s, rate, tuple(found))


def problem(*works: Work, servers: tuple[Server, ...]) -> Problem:
    return Problem(in_order(works), servers, WATTS, HOUR)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    kinds = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=5))
    servers = tuple(
        Server(kind, gpus, used, 500.0 if used else inf)
        for (kind, gpus), used in zip(kinds, draw(_USED), strict=False)
    )
    works = []
    for number in range(draw(st.integers(1, 7))):
        pairs = draw(
            st.lists(
                st.tuples(st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=4, unique=True
            )
        )
        configurations = []
        for kind, gpus in pairs:
            time_s = draw(st.integers(1, 5000))
            configurations.append(
                Configuration(
                    kind, gpus, time_s, draw(st.integers(1, 100)), draw(st.integers(0, 1))
                )
            )
        works.append(
            Work(
                number,
                draw(st.integers(-5000, 5000) | st.just(inf)),
                draw(st.integers(1, 9)) / 3600,
                tuple(configurations),
                priority=draw(st.integers(0, 1)),
            )
        )
    return Problem(in_order(works), servers, WATTS, HOUR)


_USED = st.lists(st.integers(0, 1), min_size=5, max_size=5)
seeds = st.integers(0, 1000)


def run(found: Problem, seed: int = 1, code: bool = False, count: int = MANY) -> Constructions:
    return construct_many(found, count, Chance(seed, 0), code)


# ------------------------------------------------------------------ by hand


def test_the_cheapest_in_time_comes_first_and_then_the_fastest() -> None:
    job = work(1, 200.0, a1=150.0, a2=100.0, b1=199.0, b2=201.0)
    pairs = [(each.kind, each.gpus) for each in job.ranked]
    assert pairs == [(0, 2), (0, 1), (1, 1), (1, 2)]
    assert [round(each.cost, 2) for each in job.ranked] == [7.0, 7.5, 7.96, 9.45]
    late = work(1, 100.0, a1=150.0, a2=100.0, b1=199.0)
    assert [(each.kind, each.gpus) for each in late.ranked] == [(0, 2), (0, 1), (1, 1)]


def test_pressure_orders_jobs_behind_priority() -> None:
    relaxed, pressed = work(1, 1000.0, a1=100.0), work(2, 300.0, a1=200.0, a2=50.0)
    assert (relaxed.pressure_s, pressed.pressure_s) == (-900.0, -250.0)
    first = Work(3, inf, 1.0, relaxed.configurations, priority=1)
    assert [each.job_id for each in in_order([relaxed, pressed, first])] == [3, 2, 1]


# Two servers run one job each (100 s, 400 s); one that is late at worst by 50 s waits.
@pytest.mark.parametrize(
    ("code", "late", "energy"),
    [
        (False, 2 * 20 + 3 * 100, (500 * 100 + 400 * 400) * 1e-4),  # each at its own end
        (True, 2 * 20 + 0, (500 + 400) * 100 * 1e-4),  # all at the first end, after 100 s
    ],
)
def test_the_objective_by_hand(code: bool, late: float, energy: float) -> None:
    works = (
        work(1, 80.0, 2.0, a1=100.0),
        work(2, 300.0, 3.0, b1=400.0),
        work(3, 50.0, 1.0, a1=60.0, b1=100.0),
    )
    found = Problem(works, (Server(0, 1), Server(1, 1)), WATTS, HOUR)
    plan = {0: (0, works[0].configurations[0]), 1: (1, works[1].configurations[0])}
    assert objective(found, plan, code) == pytest.approx(late + energy + 100 * 50)


def test_jobs_that_stay_count_in_a_servers_power() -> None:
    works = (work(1, inf, a1=100.0),)
    found = Problem(works, (Server(0, 1, used=1, first_s=30.0),), WATTS, HOUR)
    plan = {0: (0, works[0].configurations[0])}
    assert objective(found, plan) == pytest.approx(700 * 30 * 1e-4)
    assert objective(found, {}) == pytest.approx(500 * 30 * 1e-4)


def test_the_best_fit_leaves_the_large_server() -> None:
    one, three = work(1, 10.0, a1=100.0), work(2, 500.0, a3=100.0)
    found = problem(one, three, servers=(Server(0, 4), Server(0, 1)))
    assert {n: place for n, (place, _) in without_chance(found).items()} == {0: 1, 1: 0}
    assert len(without_chance(found, whole=True)) == 2
    alone = problem(one, work(3, 500.0, a1=100.0), servers=(Server(0, 4),))
    assert (len(without_chance(alone)), len(without_chance(alone, whole=True))) == (2, 1)


def test_a_changing_price_counts_by_its_hours() -> None:
    price = Price((0.0, 100.0, 300.0), (0.0, 10.0, 50.0))
    assert [price.of_watt(s) for s in (0, 50, 100, 200, 400)] == [0.0, 5.0, 10.0, 30.0, 70.0]
    found = Problem((work(1, inf, a1=400.0),), (Server(0, 1),), WATTS, price)
    assert float(run(found).costs[0]) == pytest.approx(500 * 70.0)


# ------------------------------------------------------------------ chance


@pytest.mark.parametrize(
    ("code", "heavy", "expected"),
    [
        (False, 1.0, 0.5),  # equal weights
        (False, 5.0, 0.1),  # 1/2 x least weight / its weight
        (True, 5.0, 0.55),  # likelier if the heavier stands first
        (True, 0.5, 0.45),
    ],
)
def test_how_often_the_first_lets_the_next_pass(code: bool, heavy: float, expected: float) -> None:
    first, second = work(1, 10.0, heavy, a1=100.0), work(2, 90.0, 1.0, a1=100.0)
    found = run(problem(first, second, servers=(Server(0, 2),)), code=code, count=4000)
    swapped = sum(found.order(number)[0] == 1 for number in range(4000)) / 4000
    assert swapped == pytest.approx(expected, abs=0.04)


def test_no_chance_puts_a_job_before_one_of_higher_priority() -> None:
    second = work(2, 9.0, a1=100.0)
    first = Work(1, 900.0, 1.0, second.configurations, priority=1)
    found = run(problem(first, second, servers=(Server(0, 2),)))
    assert all(found.order(number) == [0, 1] for number in range(MANY))


def test_a_configuration_is_as_likely_as_it_is_cheap() -> None:
    configurations = (Configuration(0, 1, 10.0, 1.0), Configuration(1, 1, 10.0, 4.0))
    found = Problem(
        (Work(1, 100.0, 1.0, configurations),), (Server(0, 1), Server(1, 1)), WATTS, HOUR
    )
    drawn = run(found, count=4000)
    cheap = sum(drawn.plan(number)[0][1].kind == 0 for number in range(4000)) / 4000
    assert cheap == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize(("many", "drawn"), [(9, {1}), (29, {1}), (40, {1, 2})])
def test_the_authors_program_draws_from_a_twentieth(many: int, drawn: set[int]) -> None:
    configurations = tuple(Configuration(0, g, 10.0, float(g)) for g in range(1, many + 1))
    watts = (tuple(float(g) for g in range(many + 1)),)
    found = Problem((Work(1, 100.0, 1.0, configurations),), (Server(0, many),), watts, HOUR)
    plans = run(found, code=True)
    assert {plans.plan(number)[0][1].gpus for number in range(MANY)} == drawn


def test_of_equal_plans_the_one_that_moves_least_counts() -> None:
    configurations = (Configuration(0, 1, 100.0, 5.0), Configuration(1, 1, 100.0, 5.0))
    watts = ((0.0, 500.0), (0.0, 500.0))
    for kind in (0, 1):
        job = Work(1, 900.0, 1.0, configurations, here=(kind, 1))
        found = Problem((job,), (Server(0, 1), Server(1, 1)), watts, HOUR)
        assert run(found).plan()[0][1].kind == kind


# ------------------------------------------------------------------ properties


@given(problems(), seeds, st.booleans())
def test_every_construction_is_a_plan_and_the_least_is_chosen(
    found: Problem, seed: int, code: bool
) -> None:
    plans = run(found, seed, code, 20)
    for number in range(20):
        plan = plans.plan(number)
        _is_sound(found, plan)
        assert plans.costs[number] == pytest.approx(objective(found, plan, code), abs=1e-6)
        # Each job took the first that fitted, so none waits that would still fit.
        free = _free(found, plan)
        for place, work_ in enumerate(found.works):
            fits = any(free.get(c.kind, 0) >= c.gpus for c in work_.configurations)
            assert place in plan or not fits
    assert plans.costs[plans.best] <= plans.costs.min() * (1 + 1e-6) + 1e-9


@given(problems(), seeds, st.booleans())
def test_the_same_seed_gives_the_same_plan(found: Problem, seed: int, code: bool) -> None:
    one, other = run(found, seed, code, 30), run(found, seed, code, 30)
    assert one.plan() == other.plan() and one.costs.tolist() == other.costs.tolist()


@given(problems())
def test_the_first_construction_of_the_program_is_the_pure_greedy_one(found: Problem) -> None:
    plans = run(found, code=True, count=2)
    assert _choice(plans.plan(0)) == _choice(without_chance(found))


def test_the_bits_are_the_same_for_ever() -> None:
    """A plan that a daemon has made is made again by the next one, whatever its numpy."""
    found = Chance(3, 4).uniform(2, 2)
    assert found.round(6).tolist() == FIRST_BITS


FIRST_BITS = [[0.008856, 0.898387], [0.58429, 0.455775]]


@st.composite
def tiny(draw: st.DrawFn) -> Problem:
    works = []
    for number in range(3):
        times = draw(st.lists(st.integers(100, 300), min_size=3, max_size=3))
        due_s = draw(st.integers(0, 400))
        works.append(work(number, due_s, a1=times[0], a2=times[1], b1=times[2]))
    return Problem(in_order(works), (Server(0, 2), Server(1, 1)), WATTS, HOUR)


@given(tiny(), st.booleans())
def test_nothing_is_cheaper_among_all_that_chance_can_build(found: Problem, code: bool) -> None:
    if code:  # the configurations are fixed, the queue is not
        every = [construct(found, o, lambda n: found.works[n].ranked) for o in _orders()]
    else:
        ways = [list(_ways(each)) for each in found.works]
        every = [
            construct(found, order, chosen.__getitem__)
            for order in _orders()
            for chosen in product(*ways)
        ]
    least = min(objective(found, plan, code) for plan in every)
    plans = run(found, code=code, count=2000)
    assert plans.costs[plans.best] == pytest.approx(least)


def _orders() -> list[tuple[int, ...]]:
    """The orders of three jobs after one pass of swaps."""
    return [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0)]


def _ways(each: Work) -> list[tuple[Configuration, ...]]:
    good = [c for c in each.configurations if not each.is_late(c)]
    late = [c for c in each.configurations if each.is_late(c)]
    return [(*a, *b) for a in permutations(good) for b in permutations(late)]


def _choice(plan: Allocation) -> dict[int, tuple[int, int]]:
    return {number: (each.kind, each.gpus) for number, (_, each) in plan.items()}


def _is_sound(found: Problem, plan: Allocation) -> None:
    used = [0] * len(found.servers)
    for number, (place, configuration) in plan.items():
        assert configuration in found.works[number].configurations
        assert configuration.kind == found.servers[place].kind
        used[place] += configuration.gpus
    assert all(taken <= s.gpus for taken, s in zip(used, found.servers, strict=True))


def _free(found: Problem, plan: Allocation) -> dict[int, int]:
    """The most free GPUs of a server of each kind."""
    left = [server.gpus for server in found.servers]
    for place, configuration in plan.values():
        left[place] -= configuration.gpus
    most: dict[int, int] = {}
    for server, gpus in zip(found.servers, left, strict=True):
        most[server.kind] = max(most.get(server.kind, 0), gpus)
    return most
