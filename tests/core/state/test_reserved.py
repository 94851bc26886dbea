"""The reservations of a device over time, compared with looking at every moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Instant, Reservation
from radrm.core.settings import CoreSettings
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.reserved import FOREVER, Claim, earliest_s, peak_mib, taken_mib
from radrm.core.words import ReservationKind
from radrm.structs import replace
from tests.core import ledgers
from tests.core.ledgers import DEVICE, reading

NOW = Instant(1000.0, 5e8)
CAPACITY = DEVICE.capacity_mib
MOMENTS = [1000.0 + half / 2 for half in range(81)]
"""Each whole second, where things change, and a moment between two of them."""

seconds = st.integers(1000, 1020).map(float)
sizes = st.one_of(st.none(), st.integers(1, 20_000))
owners = st.sampled_from(["job:1", "job:2", "job:3", "job:4"])


@st.composite
def intervals(draw: st.DrawFn) -> tuple[float, float]:
    start_s, length_s = draw(seconds), draw(st.integers(1, 15))
    return start_s, start_s + length_s


@st.composite
def planned(draw: st.DrawFn) -> Reservation:
    owner, (start_s, end_s) = draw(owners), draw(intervals())
    kind = ReservationKind.BACKFILL
    return Reservation(owner, kind, "GPU-0", draw(sizes), NOW.at(start_s), NOW.at(end_s))


@st.composite
def running(draw: st.DrawFn) -> Reservation:
    kind = draw(st.sampled_from([ReservationKind.RUNNING, ReservationKind.MIGRATION]))
    until = draw(st.one_of(st.none(), seconds.map(NOW.at)))
    owner = draw(st.sampled_from(["job:1", "job:2"]))
    return Reservation(owner, kind, "GPU-0", draw(sizes), NOW.at(draw(seconds)), until)


def ledger(*reservations: Reservation) -> DeviceLedger:
    found = DeviceLedger(DEVICE, CoreSettings(), clock=lambda: NOW)
    found.take(reading(1000.0, used=500))
    for reservation in reservations:
        found.reserve(reservation)
    return found


def size(reservation: Reservation) -> int:
    return CAPACITY if reservation.mib is None else reservation.mib


@given(st.lists(st.one_of(planned(), running()), max_size=6), intervals(), st.none() | owners)
def test_free_memory_is_the_least_of_all_moments(
    reservations: list[Reservation], interval: tuple[float, float], owner: str | None
) -> None:
    led = ledger(*reservations)
    by_key = {r.key: r for r in reservations}

    def free_at(moment: float) -> int:
        held: dict[str, int] = {}
        later: dict[str, int] = {}
        for each in by_key.values():
            if each.owner == owner:
                continue
            if not each.kind.planned:
                held[each.owner] = max(held.get(each.owner, 0), size(each))
            elif each.until and each.since.boot_s <= moment < each.until.boot_s:
                later[each.owner] = max(later.get(each.owner, 0), size(each))
        return max(0, CAPACITY - 500 - sum(held.values()) - sum(later.values()))

    start_s, end_s = interval
    within = [moment for moment in MOMENTS if start_s <= moment < end_s]
    assert led.free_mib(owner, start_s, end_s) == min(map(free_at, within))
    assert led.free_mib(owner, start_s, start_s) == free_at(start_s)
    assert led.free_mib(owner) == min(map(free_at, [*MOMENTS, 1e9]))


@given(st.lists(running(), max_size=5), intervals(), st.none() | owners)
def test_without_plans_nothing_depends_on_the_time(
    reservations: list[Reservation], interval: tuple[float, float], owner: str | None
) -> None:
    led = ledger(*reservations)
    assert led.free_mib(owner, *interval) == led.free_mib(owner) == led.free_mib(owner, 0.0, 0.0)
    assert led.idle_for(owner, *interval) == led.idle_for(owner)


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    start_s, end_s = draw(intervals())
    start_s = draw(st.sampled_from([start_s, -FOREVER]))
    end_s = draw(st.sampled_from([end_s, FOREVER]))
    return Claim(draw(owners), draw(st.integers(1, 10)), start_s, end_s)


@given(st.lists(claims(), max_size=5), st.integers(0, 20), st.sampled_from([0.0, 1.0, 4.0, 1e9]))
def test_the_earliest_moment_is_the_first_that_is_free_long_enough(
    every: list[Claim], room: int, length_s: float
) -> None:
    def is_free_from(moment: float) -> bool:
        meanwhile = [m for m in [*MOMENTS, 1e6] if moment <= m < moment + length_s] or [moment]
        return all(taken_mib(every, m) <= room for m in meanwhile)

    moments = [m for m in MOMENTS if m == int(m)]
    expected = next((m for m in moments if is_free_from(m)), None)
    found = earliest_s(every, room, 1000.0, length_s)
    assert found == expected
    assert found is None or peak_mib(every, found, found + length_s) <= room


def test_what_changes_a_device_changes_its_free_memory_at_once() -> None:
    """Free memory is asked for between the changes, so a sum that was kept too long would show."""
    mine = ledgers.ledger()
    free = [mine.free_mib()]
    ledgers.admit(mine, 1, 10_000)
    free.append(mine.free_mib())
    mine.reserve(replace(next(iter(mine.reservations.values())), mib=11_000))
    free.append(mine.free_mib())
    mine.take(reading(1001.0, used=9_000, held={1: 9_000}))
    free.append(mine.free_mib())
    mine.take(reading(1002.0, used=12_000, held={1: 12_000}))
    free.append(mine.free_mib())
    mine.see(replace(mine.device, overhead_mib=mine.device.overhead_mib + 24))
    free.append(mine.free_mib())
    mine.release(1, 1003.0)
    free.append(mine.free_mib())
    mine.unreserve(("job:1", ReservationKind.RUNNING, "GPU-0"))
    free.append(mine.free_mib())
    taken = [CAPACITY - (mib or 0) for mib in free]
    assert taken == [0, 10_000, 11_000, 11_000, 12_000, 12_024, 11_024, 24]
    whole = ledgers.ledger()
    ledgers.admit(whole, 1, None)
    assert whole.free_mib() == 0
    whole.see(replace(whole.device, total_mib=80_000))
    assert (whole.free_mib(), whole.free_mib("job:1")) == (0, whole.device.capacity_mib)
