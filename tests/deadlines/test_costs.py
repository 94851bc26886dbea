"""Prices by the local hour, and what energy and lateness cost."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.deadlines import Costs, Zone, in_order

H = 3600.0
DAY = 24 * H
MIDNIGHT = 20_000 * DAY
"""Midnight, in UTC."""
KWH = 3.6e6
TARIFF = ((0, 0.18), (360, 0.31), (1320, 0.18))
FORWARD = MIDNIGHT + 1 * H
"""2:00 in Berlin becomes 3:00."""
BACK = MIDNIGHT + 200 * DAY + 1 * H
"""3:00 in Berlin becomes 2:00 again."""
BERLIN = Zone((0.0, FORWARD, BACK), (H, 2 * H, H))
INDIA = Zone((0.0,), (5.5 * H,))


def costs(zone: Zone = Zone(), prices: tuple[tuple[int, float], ...] = TARIFF) -> Costs:  # noqa: B008
    return Costs(prices=prices, pue=1.0, zone=zone)


PRICES = [
    (costs(), MIDNIGHT, 0.18),
    (costs(), MIDNIGHT + 6 * H - 1, 0.18),
    (costs(), MIDNIGHT + 6 * H, 0.31),
    (costs(), MIDNIGHT + 22 * H - 1, 0.31),
    (costs(), MIDNIGHT + 22 * H, 0.18),
    (costs(), MIDNIGHT - 1, 0.18),
    (costs(), -3 * H, 0.31),  # before 1970
    (costs(INDIA), MIDNIGHT + 0.5 * H, 0.31),  # 6:00 there
    (costs(INDIA), MIDNIGHT + 0.5 * H - 1, 0.18),
    (costs(BERLIN), MIDNIGHT + 5 * H - 1, 0.31),  # 6:59 in summer
    (costs(BERLIN), MIDNIGHT + 4 * H, 0.31),  # 6:00 in summer
    (costs(BERLIN), MIDNIGHT + 4 * H - 1, 0.18),
    (costs(BERLIN), BACK - H + 4 * H, 0.18),  # 5:00 in winter
    (costs(BERLIN), BACK + 4 * H, 0.31),  # 6:00 in winter
    (costs(prices=((0, 0.25),)), 1e15, 0.25),
]


@pytest.mark.parametrize(("site", "wall_s", "price"), PRICES)
def test_the_price_of_an_hour(site: Costs, wall_s: float, price: float) -> None:
    assert site.price_at(wall_s) == price


CHANGES = [
    (costs(), MIDNIGHT, MIDNIGHT + 6 * H),
    (costs(), MIDNIGHT + 6 * H, MIDNIGHT + 22 * H),
    (costs(), MIDNIGHT + 23 * H, MIDNIGHT + DAY),
    (costs(INDIA), MIDNIGHT, MIDNIGHT + 0.5 * H),
    (costs(BERLIN), MIDNIGHT, FORWARD),
    (costs(BERLIN), FORWARD, MIDNIGHT + 4 * H),
    (costs(prices=((0, 0.25),)), MIDNIGHT, inf),
]


@pytest.mark.parametrize(("site", "wall_s", "next_s"), CHANGES)
def test_when_the_price_changes(site: Costs, wall_s: float, next_s: float) -> None:
    assert site.price_changes_s(wall_s) == next_s


def test_energy_over_a_change_costs_both_prices() -> None:
    site = costs()
    assert site.energy_cost(2 * KWH, MIDNIGHT + 5 * H, MIDNIGHT + 7 * H) == pytest.approx(0.49)
    assert site.energy_cost(24 * KWH, MIDNIGHT, MIDNIGHT + DAY) == pytest.approx(
        8 * 0.18 + 16 * 0.31
    )
    assert site.cost_of_watts(1000.0, MIDNIGHT + 5 * H, 2 * H) == pytest.approx(0.49)
    assert site.energy_cost(KWH, MIDNIGHT + 7 * H, MIDNIGHT + 7 * H) == pytest.approx(0.31)
    assert site.energy_cost(KWH, MIDNIGHT + 7 * H, MIDNIGHT) == pytest.approx(0.31)


@pytest.mark.parametrize(("midnight_s", "cheap_h"), [(FORWARD - 2 * H, 5), (BACK - 3 * H, 7)])
def test_the_nights_of_the_changes_are_shorter_and_longer(midnight_s: float, cheap_h: int) -> None:
    """From 0:00 on the low price holds until 6:00: five hours in spring, seven in autumn."""
    site = costs(BERLIN)
    changes_s = midnight_s + cheap_h * H
    assert site.price_at(changes_s - 1) == 0.18 and site.price_at(changes_s) == 0.31
    cost = site.energy_cost(10 * KWH, midnight_s, midnight_s + 10 * H)
    assert cost == pytest.approx(cheap_h * 0.18 + (10 - cheap_h) * 0.31)


def test_pue_counts() -> None:
    assert Costs(prices=((0, 0.2),), pue=1.5).energy_cost(KWH, 0, H) == pytest.approx(0.3)


@pytest.mark.parametrize("wall_s", [1e17, -1e17, 8.64e18])
def test_times_far_away_end(wall_s: float) -> None:
    site = costs(BERLIN)
    assert 0.17 < site.energy_cost(KWH, wall_s, wall_s + 1e5) < 0.32


zones = st.sampled_from([Zone(), BERLIN, INDIA, Zone((0.0,), (-9.75 * H,))])
tariffs = st.lists(
    st.tuples(st.integers(1, 1439), st.floats(0, 2)), max_size=5, unique_by=lambda each: each[0]
).map(lambda more: in_order([(0, 0.2), *more]))
times = st.floats(MIDNIGHT - 3 * DAY, MIDNIGHT + 3 * DAY) | st.floats(BACK - DAY, BACK + DAY)


@given(zones, tariffs, times, st.floats(0, 2 * DAY), st.floats(0, 2 * DAY))
def test_adjacent_intervals_add_up(
    zone: Zone,
    prices: tuple[tuple[int, float], ...],
    begin_s: float,
    first_s: float,
    second_s: float,
) -> None:
    site = costs(zone, prices)
    parts = site.cost_of_watts(500.0, begin_s, first_s)
    parts += site.cost_of_watts(500.0, begin_s + first_s, second_s)
    assert parts == pytest.approx(site.cost_of_watts(500.0, begin_s, first_s + second_s), abs=1e-6)


@given(zones, tariffs, times)
def test_the_price_stays_until_it_changes(
    zone: Zone, prices: tuple[tuple[int, float], ...], wall_s: float
) -> None:
    site = costs(zone, prices)
    until_s = site.price_changes_s(wall_s)
    assert until_s > wall_s
    last_s = min(until_s, wall_s + DAY)
    for part in (0.3, 0.999):
        # A time is a float: just before the change, half of what is left may be rounded to it.
        at_s = min(wall_s + part * (last_s - wall_s), last_s - 1e-3)
        assert at_s < wall_s or site.price_at(at_s) == site.price_at(wall_s)


@given(zones, tariffs, times, st.floats(1, 3 * DAY))
def test_the_cost_is_between_the_least_and_the_highest_price(
    zone: Zone, prices: tuple[tuple[int, float], ...], begin_s: float, seconds: float
) -> None:
    cost = costs(zone, prices).energy_cost(KWH, begin_s, begin_s + seconds)
    each = [price for _, price in prices]
    assert min(each) - 1e-9 <= cost <= max(each) + 1e-9


def test_before_the_first_offset_the_first_holds() -> None:
    zone = Zone((100.0, 200.0), (H, 2 * H))
    assert [zone.local_s(t) - t for t in (0.0, 100.0, 199.0, 200.0, 1e12)] == [
        H,
        H,
        H,
        2 * H,
        2 * H,
    ]
    assert [zone.next_change_s(t) for t in (0.0, 100.0, 199.0, 200.0)] == [100.0, 200.0, 200.0, inf]


def test_a_table_of_prices_is_put_in_order() -> None:
    assert in_order([(360, 0.3), (0, 0.1)]) == ((0, 0.1), (360, 0.3))
    for gap in ((), [(360, 0.3)]):
        with pytest.raises(ValueError, match="00:00"):
            in_order(gap)


def test_the_power_of_a_server_by_its_gpus_in_use() -> None:
    site = Costs(node_watts=(("V100", (530.0, 700.0)), ("T4", (400.0,))))
    assert [site.node_w("Tesla V100-SXM2-16GB", n) for n in (0, 1, 2, 3)] == [0, 530, 700, 700]
    assert site.node_w("Tesla T4", 2) == 400
    assert site.node_w("A100", 1) is None


def test_lateness_costs_by_weight() -> None:
    site = Costs(cost_per_hour=2.0)
    assert site.tardiness_cost(1.5, 1800.0) == 1.5
    assert site.tardiness_cost(1.5, -1800.0) == 0.0


def test_a_moment_has_its_date_if_it_is_not_today() -> None:
    noon = 1_700_000_000.0 // (24 * H) * (24 * H) + 12 * H  # 14 November 2023
    assert Zone().clock(noon, noon - 11 * H) == "12:00"
    assert Zone().clock(noon, noon - 13 * H) == "14 Nov 12:00"
    assert INDIA.clock(noon, noon + 7 * H) == "14 Nov 17:30"
