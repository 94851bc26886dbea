"""The scaled clock."""

from __future__ import annotations

import time

import pytest

from radrm.host.clock import Clock, boot_id
from radrm.host.wall import wall_s


def test_unscaled_it_is_real_time():
    before = time.time()
    now = Clock().now()
    assert before <= now.wall_s <= time.time()
    assert 0 < now.boot_s <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_both_clocks_run_faster_about_their_anchors():
    boot_s, date_s = time.clock_gettime(time.CLOCK_BOOTTIME), time.time()
    now = Clock(60.0, boot_s - 10, date_s - 10).now()
    later_s = time.time() - date_s
    assert 590 <= now.boot_s - boot_s <= 590 + 60 * later_s + 1
    assert 590 <= now.wall_s - date_s <= 590 + 60 * later_s + 1


def test_a_delay_takes_less_real_time():
    assert Clock(60.0).real_s(120.0) == 2.0
    assert Clock().real_s(5.0) == 5.0


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_a_clock_that_cannot_run_is_refused(scale):
    with pytest.raises(ValueError, match="cannot run"):
        Clock(scale)


def test_instants_of_one_clock_can_be_compared_and_others_cannot():
    now = Clock().now()
    assert now.boot == boot_id()[:8]
    fast = Clock(60.0)
    later = fast.at(fast.anchor_boot_s + 10)
    assert later.since(fast.at(fast.anchor_boot_s)) == pytest.approx(600)
    assert later.since(now) is None
    same = Clock(60.0, fast.anchor_boot_s, fast.anchor_wall_s)
    assert same.at(fast.anchor_boot_s + 10) == later, "as a new daemon of the same driver's"
    assert Clock(60.0, fast.anchor_boot_s + 100, fast.anchor_wall_s).now().since(later) is None


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_a_clock_that_is_set_changes_no_duration(scale, monkeypatch):
    clock = Clock(scale)
    before = clock.at(clock.anchor_boot_s + 1)
    monkeypatch.setattr("radrm.host.clock.wall_s", lambda: wall_s() - 3600)
    after = clock.at(clock.anchor_boot_s + 11)
    assert after.since(before) == pytest.approx(10 * scale)
    set_back = scale == 1.0  # the date of a scaled clock is its own
    assert (after.wall_s < before.wall_s) is set_back


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_a_record_of_another_boot_has_its_date(scale):
    clock = Clock(scale)
    here = clock.noted(boot_id(), 12.5, 1000.0)
    assert here.since(clock.at(12.5)) == 0.0
    start = clock.noted("0123456789-another-boot", 12.5, 1000.0)
    end = clock.noted("0123456789-another-boot", 20.0, 1007.6)
    assert (end.wall_s, end.since(start)) == (1007.6, 7.5)
    assert clock.now().since(end) is None and end.since(clock.now()) is None
