"""The scaled clock."""

from __future__ import annotations

import time

import pytest

from radrm.host.clock import Clock, boot_id


def test_unscaled_it_is_real_time():
    before = time.time()
    now = Clock().now()
    assert before <= now.wall_s <= time.time()
    assert 0 < now.boot_s <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_both_clocks_run_faster_about_their_anchors():
    boot_s, wall_s = time.clock_gettime(time.CLOCK_BOOTTIME), time.time()
    now = Clock(60.0, boot_s - 10, wall_s - 10).now()
    later_s = time.time() - wall_s
    assert 590 <= now.boot_s - boot_s <= 590 + 60 * later_s + 1
    assert 590 <= now.wall_s - wall_s <= 590 + 60 * later_s + 1


def test_the_same_anchors_give_the_same_time():
    first = Clock(1000.0)
    second = Clock(first.scale, first.anchor_boot_s, first.anchor_wall_s)
    times = [first.now().boot_s, second.now().boot_s, first.now().boot_s]
    assert times == sorted(times)


def test_a_delay_takes_less_real_time():
    assert Clock(60.0).real_s(120.0) == 2.0
    assert Clock().real_s(5.0) == 5.0


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_a_clock_that_cannot_run_is_refused(scale):
    with pytest.raises(ValueError, match="cannot run"):
        Clock(scale)


def test_the_boot_has_one_name():
    assert boot_id() == boot_id() != ""
