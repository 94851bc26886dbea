"""A device's ledger: what its jobs reserve and use, and its load."""

from __future__ import annotations

import pytest

from radrm.core.records import (
    Reading,
)
from radrm.structs import replace
from tests.core.ledgers import admit, ledger, reading


def test_reservations_count_before_anything_is_used() -> None:
    led = ledger()
    admit(led, 1, 10_000)
    assert led.free_mib() == 40_536 - 10_000
    assert led.free_mib("job:1") == 40_536, "its own reservation is no obstacle to itself"
    led.take(reading(1001.0, used=15_000, held={1: 12_000}))
    assert led.unmanaged_mib == 3_000
    assert led.free_mib() == 40_536 - 12_000 - 3_000, "what it uses counts where it is more"


def test_a_whole_device_leaves_nothing() -> None:
    led = ledger()
    admit(led, 1, None)
    assert led.free_mib() == 0 and not led.idle_for() and led.idle_for("job:1")


def test_a_driver_without_lists_of_processes() -> None:
    """Every job's memory is unknown, and not zero."""
    led = ledger()
    led.take(replace(reading(1000.5, used=3_000), attempts=None))
    assert led.unmanaged_mib == 3_000, "without a job it is of others"
    admit(led, 1, 10_000)
    led.take(replace(reading(1001.0, used=9_000), attempts=None))
    assert (led.unmanaged_mib, led.occupants[1].peak_mib) == (0, 9_000)
    assert led.free_mib() == 40_536 - 10_000, "it is not counted twice"
    admit(led, 2, 5_000)
    led.take(replace(reading(1002.0, used=18_000), attempts=None))
    assert (led.unmanaged_mib, led.occupants[2].peak_mib) == (3_000, None)


def test_a_driver_that_attributes_nothing() -> None:
    led = ledger()
    admit(led, 1, 10_000)
    led.take(reading(1001.0, used=9_000, held={1: None}))
    assert (led.unmanaged_mib, led.occupants[1].peak_mib) == (0, 9_000), "alone: it is its own"
    admit(led, 2, 5_000)
    led.take(reading(1002.0, used=18_000, held={1: None, 2: None}))
    assert led.unmanaged_mib == 18_000 - 15_000, (
        "two: what is beyond their reservations is unmanaged processes'"
    )


@pytest.mark.parametrize(
    "what, words",
    [
        (reading(1001.0, used=None, error="GPU is lost"), "GPU is lost"),
        (reading(1001.0, used=None), "cannot be read"),
        (reading(900.0, used=0), "old"),
    ],
)
def test_what_is_unknown_is_said(what: Reading, words: str) -> None:
    led = ledger()
    led.take(what)
    assert words in (led.unreadable(1001.0) or "")


def test_the_load_is_known_by_prediction_then_by_measurement() -> None:
    led = ledger()
    admit(led, 1, 1000, smact=0.3)
    assert led.smact == 0.3
    admit(led, 2, 1000, smact=0.4)
    assert led.smact == pytest.approx(0.7)
    for second in (1001.0, 1002.0):
        led.take(reading(second, used=0, smact=0.5))
    assert led.smact == 0.5
    admit(led, 3, 1000)
    assert led.smact is None and "known in 1s" in (led.smact_refusal or "")
    led.release(3, 1003.0)
    assert led.smact is None, "unknown minus something is unknown"


def test_who_comes_is_waited_for_longer_than_who_goes() -> None:
    led = ledger()  # 2 s after one has come, 1 s after one has gone
    admit(led, 1, 1000, smact=0.3)
    led.take(reading(1001.5, used=0, smact=0.1))
    assert led.smact == 0.3, "it starts up still"
    led.take(reading(1002.5, used=0, smact=0.5))
    assert led.smact == pytest.approx(0.3), "a mean of all since it came"
    admit(led, 2, 1000, smact=0.2)
    led.release(2, 1010.0)
    led.take(reading(1010.5, used=0, smact=0.4))
    assert led.smact == pytest.approx(0.5), "what both would have done, until it is measured"
    led.take(reading(1011.0, used=0, smact=0.4))
    assert led.smact == pytest.approx(0.4)
    # Who has just come is waited for, whoever else goes.
    led.occupants[1].since_s = 1019.5
    led.release(9, 1020.0)
    assert led.warm_from_s == 1011.0, "nobody went"


def test_what_leaves_lets_the_old_load_stand_as_a_bound() -> None:
    led = ledger()
    admit(led, 1, 1000, smact=0.3)
    admit(led, 2, 1000, smact=0.3)
    led.release(2, 1001.0)
    assert led.smact == pytest.approx(0.6)
    assert "not been read since" in (led.unreadable(1001.0) or "")
    led.take(reading(1001.5, used=0))
    assert led.unreadable(1001.5) is None


def test_coarse_activity_counts_but_never_together_with_measured_activity() -> None:
    led = ledger()
    admit(led, 1, 1000)
    for second in (1001.0, 1002.0):
        led.take(reading(second, used=0, smact=0.5, smact_coarse=True))
    assert (led.smact, led.load.coarse) == (0.5, True)
    led.take(reading(1003.0, used=0, smact=0.3))
    assert (led.smact, led.load.coarse) == (0.3, False)


def test_a_warm_device_without_readings_of_activity_says_that_none_will_come() -> None:
    led = ledger()
    admit(led, 1, 1000)
    led.take(reading(1001.0, used=0))
    assert (led.smact, led.warm) == (None, False)
    led.take(reading(1060.0, used=0))
    assert (led.smact, led.warm) == (None, True)
    version = led.version
    led.take(reading(1061.0, used=0))
    assert led.version == version, "a reading that says the same changes no offer"


@pytest.mark.parametrize("smact", [float("nan"), float("inf"), -0.1])
def test_a_number_that_is_none_is_not_a_quiet_device(smact: float) -> None:
    led = ledger()
    admit(led, 1, 10_000, smact=0.3)
    for second in range(3):
        led.take(reading(1001.0 + second, used=9_000, held={1: 9_000}, smact=0.4))
    assert led.smact == pytest.approx(0.4)
    led.take(reading(1004.0, used=9_000, held={1: 9_000}, smact=smact, power_w=float("nan")))
    assert led.smact is None and "reads" in (led.smact_refusal or "")
    assert led.occupants[1].smact_count == 3 and led.reading is not None
    assert led.reading.power_w is None
    led.take(reading(1005.0, used=9_000, held={1: 9_000}, smact=0.5))
    assert led.smact == pytest.approx((3 * 0.4 + 0.5) / 4)


@pytest.mark.parametrize("used", [-1, float("nan")])
def test_memory_that_cannot_be_true_is_unknown(used: float) -> None:
    led = ledger()
    led.take(reading(1001.0, used=used))
    assert led.free_mib() is None and led.unreadable(1001.0) is not None
    led.take(reading(1002.0, used=5_000, held={1: used}))
    assert led.free_mib() is None


def test_what_was_measured_long_ago_is_no_measure() -> None:
    led = ledger()
    admit(led, 1, 10_000)
    for second in range(3):
        led.take(reading(1001.0 + second, used=0, smact=0.4))
    led.take(reading(1050.0, used=0))
    assert led.smact == pytest.approx(0.4), "a gap in the readings"
    led.take(reading(1200.0, used=0))
    assert led.smact is None
