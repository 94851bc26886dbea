"""The energy of a device: who gets which part, and that the parts add up to the meter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.decision import Decision
from radrm.core.records import AttemptMemory, DeviceStatus, EnergyPart, Instant, Reading
from radrm.core.state.energy import ASSUMED_IDLE_W
from radrm.core.state.ledger import DeviceLedger
from tests.core.ledgers import admit, ledger, reading
from tests.examples import some
from tests.world import GIB, World, gpus

IDLE_W = 60.0


def shown(
    boot_s: float, acts: dict[int, float | None], watts: float | None, joules: float | None = None
) -> Reading:
    attempts = tuple(AttemptMemory(job, job, 1, smact) for job, smact in acts.items())
    at = Instant(boot_s, 1e9 + boot_s)
    return Reading("GPU-0", at, 0, attempts, power_w=watts, energy_j=joules)


def drained(led: DeviceLedger) -> dict[int | None, float]:
    found = led.energy.drain(reading(0.0, used=0))
    return {} if found is None else {part.job_id: part.joules for part in found.parts}


def seen_idle(*jobs: int, watts: float = IDLE_W) -> DeviceLedger:
    """A ledger that has read its device idle, and these jobs, 10 s later."""
    led = ledger()
    led.take(reading(1010.0, used=0, power_w=watts))
    led.energy.drain(reading(0.0, used=0))
    for job in jobs:
        admit(led, job, 1000, since_s=1010.0)
    return led


SPLITS: list[tuple[dict[int, float | None], float, list[float]]] = [
    ({1: 0.6, 2: 0.2}, 260.0, [30 + 150, 30 + 50]),  # above idle by activity, idle equally
    ({1: 0.6}, 260.0, [30 + 200, 30]),  # no process there: no activity
    ({1: 0.0, 2: 0.0}, 80.0, [40, 40]),
    ({1: None, 2: None}, 260.0, [130, 130]),
    ({1: 0.6, 2: None}, 260.0, [130, 130]),  # unknown is not zero
    ({}, 260.0, [130, 130]),
    ({1: 0.6, 2: 0.2}, 40.0, [20, 20]),  # less than idle
]


@pytest.mark.parametrize(("acts", "watts", "parts_w"), SPLITS)
def test_the_split(acts: dict[int, float | None], watts: float, parts_w: list[float]) -> None:
    led = seen_idle(1, 2)
    led.take(shown(1020.0, acts, watts))
    assert [h.energy_j for h in led.occupants.values()] == pytest.approx([10 * w for w in parts_w])
    found = led.energy.drain(reading(0.0, used=0))
    assert found.seconds == 10.0
    unknown = set(acts.values()) in ({None}, {0.6, None}) or not acts
    assert sum(part.equally_j for part in found.parts) == (2000.0 if unknown else 0.0)


def test_one_job_alone_has_it_all_and_nothing_is_divided() -> None:
    led = seen_idle(1)
    led.take(shown(1020.0, {1: None}, 260.0))
    assert led.energy.drain(reading(0.0, used=0)).parts == (EnergyPart(1, 2600.0, 0.0),)


def test_idle_power_is_the_least_while_nobody_is_there() -> None:
    led = ledger()
    admit(led, 1, 1000)
    admit(led, 2, 1000)
    assert led.energy.idle_w is None
    led.take(shown(1010.0, {1: 1.0, 2: 0.0}, 250.0))
    assert led.occupants[2].energy_j == pytest.approx(10 * ASSUMED_IDLE_W / 2), "not read yet"
    led.release(1, 1010.0)
    led.release(2, 1010.0)
    for second, watts in ((1011.0, 200.0), (1012.0, 61.0), (1013.0, 64.0), (1014.0, 0.5)):
        led.take(reading(second, used=0, power_w=watts))
    assert led.energy.idle_w == 61.0, "0.5 W is an error of the sensor"
    led.take(reading(1015.0, used=9000, power_w=55.0))
    assert led.energy.idle_w == 61.0, "an unmanaged process is there"


def test_the_counter_counts_and_not_the_power() -> None:
    """The power before a change is booked ahead, and the next reading corrects it."""
    led = ledger()
    led.take(shown(1010.0, {}, IDLE_W, 5000.0))
    drained(led)
    admit(led, 1, 1000, since_s=1014.0)
    assert drained(led) == {None: 4 * IDLE_W}
    led.take(shown(1020.0, {1: 0.5}, 250.0, 7500.0))
    assert drained(led) == {1: 2500.0 - 4 * IDLE_W}
    led.release(1, 1021.0)
    led.take(shown(1022.0, {}, 70.0, 7600.0))
    led.take(shown(1024.0, {}, 60.0, 7800.0))
    assert drained(led) == {1: 250.0, None: 50.0}, "150 J too much until 1021 are taken back"
    led.take(shown(1025.0, {}, 60.0, 10.0))
    assert drained(led) == {None: 60.0}, "a counter that is set back"


def test_a_failed_reading_loses_nothing_that_the_counter_shows() -> None:
    led = ledger()
    admit(led, 1, 1000)
    led.take(shown(1010.0, {1: 0.5}, 100.0, 1000.0))
    drained(led)
    led.take(reading(1011.0, used=None, error="busy"))
    led.take(shown(1020.0, {1: 0.5}, 100.0, 2000.0))
    assert drained(led) == {1: 1000.0}
    led.take(reading(1021.0, used=None, error="busy"))
    admit(led, 2, 1000, since_s=1025.0)
    led.take(shown(1030.0, {1: 0.5, 2: 0.5}, 100.0, 3000.0))
    assert led.energy.drain(reading(0.0, used=0)) is None, "unknown is not zero"


# ------------------------------------------------------------------ the parts add up

lives = st.lists(
    st.tuples(
        st.sampled_from(["come", "go", "read", "read", "read", "fail"]),
        st.floats(0.0, 40.0),  # seconds until it happens
        st.floats(20.0, 700.0),  # W until then
        st.lists(st.one_of(st.none(), st.floats(0.0, 1.0)), min_size=4, max_size=4),
    ),
    max_size=50,
)


@settings(max_examples=some(200))
@given(lives)
def test_the_parts_add_up_to_the_meter(
    life: list[tuple[str, float, float, list[float | None]]],
) -> None:
    """The counter's joules, but of the time until somebody comes or goes after a failed reading."""
    led, now_s, until_s, counter_j = ledger(), 1000.0, 1000.0, 0.0
    read_j, metered_j, booked_j = 0.0, 0.0, 0.0
    since_read_j, known, unread = 0.0, False, False
    for number, (kind, passes_s, watts, acts) in enumerate(life, 1):
        now_s += passes_s
        counter_j += passes_s * watts
        here = sorted(led.occupants)
        changes = (kind == "come" and len(here) < 4) or (kind == "go" and here)
        if changes and unread and now_s > until_s:
            known = False
        until_s = now_s if changes or kind == "read" else until_s
        if kind == "come" and changes:
            admit(led, number, 1000, since_s=now_s)
        elif kind == "go" and changes:
            led.release(here[0], now_s)
            led.unreserve(f"job:{here[0]}")
        elif kind == "fail":
            led.take(reading(now_s, used=None, error="busy"))
            unread = True
        elif kind == "read":
            led.take(shown(now_s, dict(zip(here, acts, strict=False)), watts, counter_j))
        since_read_j += sum(drained(led).values())
        if kind == "read":
            booked_j += since_read_j
            metered_j += counter_j - read_j if known else since_read_j
            read_j, since_read_j, known, unread = counter_j, 0.0, True, False
            over_j = booked_j - metered_j
            assert -1e-3 <= over_j <= 700.0 * 40.0 * number, "never less than metered"
    if known and not unread:
        led.take(shown(now_s + 1000.0, {}, 9e4, counter_j + 9e7))
        booked_j += since_read_j + sum(drained(led).values())
        assert booked_j == pytest.approx(metered_j + counter_j - read_j + 9e7)


def test_jobs_and_idle_are_all_that_a_device_used() -> None:
    """Each decision tells the energy since the one before; a restart tells none of it again."""
    world = World(gpus(2))

    def told_j(decisions: list[Decision]) -> float:
        return sum(p.joules for d in decisions for each in d.energy for p in each.parts)

    world.pass_time(10.0)
    job = world.submit(8 * GIB, smact=0.3)
    for _ in range(20):
        world.pass_time(1.0)
    world.end(job)
    world.pass_time(5.0)
    assert told_j(world.decisions) == pytest.approx(2 * 35.0 * 100.0, rel=0.01)
    idle = [d for d in world.decisions for r in d.volatile if isinstance(r, DeviceStatus)]
    assert len(idle) == 2, "the idle power of each is stored once"
    mark = len(world.decisions)
    world.restart()
    world.pass_time(10.0)
    assert told_j(world.decisions[mark:]) == pytest.approx(2 * 10.0 * 100.0)


def test_a_restart_knows_the_idle_power() -> None:
    world = World(gpus(1))
    world.pass_time(10.0)
    job = world.submit(8 * GIB, smact=0.3)
    world.pass_time(1.0)
    world.step(ev.DrainRequested(at=world.now, device="GPU-0", reason="fan"))
    assert world.statuses["GPU-0"] == DeviceStatus("GPU-0", "fan", 100.0)
    world.restart()
    assert world.scheduler.state.ledgers["GPU-0"].energy.idle_w == 100.0
    assert world.live(job) is not None
