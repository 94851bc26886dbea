"""Several sources as one: which feed serves a device, and what is said when none does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import Reading
from radrm.core.words import DeviceKind
from radrm.host.gpus import readings as module
from radrm.host.gpus.readings import BUSY, ZEROS, Readings, SmActivity
from radrm.interference.chips import smact_from_utilization
from radrm.structs import replace
from tests.host.gpus.sources import AT, GPUS, NAMES, Base, Feed


class World:
    def __init__(self, required: bool = False, feeds: tuple[str, ...] = ("one", "two")) -> None:
        self.base = Base()
        self.feeds = [Feed(name) for name in feeds]
        self.readings = Readings(self.base, SmActivity(self.feeds, required=required))
        self.readings.devices()

    def read(self) -> Reading:
        first, _ = self.readings.read(NAMES, AT, lambda pid: None)
        return first


def test_the_first_feed_that_delivers_serves_and_no_other_is_asked() -> None:
    world = World()
    one, two = world.feeds
    one.gives(0.5)
    reading = world.read()
    assert (reading.smact, reading.smact_source, reading.smact_coarse) == (0.5, "one", False)
    assert reading.used_mib == 5 and two.asked == []


def test_the_next_one_is_asked_where_the_first_does_not_serve() -> None:
    world = World()
    one, two = world.feeds
    one.gives(0.5)
    one.errors["GPU-1"] = "not this one"
    two.gives(0.25)
    found = world.readings.read(NAMES, AT, lambda pid: None)
    assert [r.smact_source for r in found] == ["one", "two"]
    assert two.asked == [("GPU-1",)]


def test_without_any_it_is_coarse_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.feeds[0].fails("one is not installed")
    world.feeds[1].fails("two is not there")
    for _ in range(3):
        reading = world.read()
        assert (reading.smact_coarse, reading.smact_error) == (True, None)
        assert reading.smact == smact_from_utilization(0.2)
    (said,) = [r.getMessage() for r in caplog.records]
    assert said.startswith("GPU 0, 1: SM activity is only estimated from utilization"), (
        "one line for both"
    )
    assert "one is not installed; two is not there" in said


def test_devices_that_differ_have_a_line_each(caplog: pytest.LogCaptureFixture) -> None:
    world = World(feeds=("one",))
    caplog.set_level("INFO", "radrm")
    world.feeds[0].gives(0.5)
    world.feeds[0].errors["GPU-1"] = "not this one"
    world.read()
    world.read()
    assert [r.getMessage().partition(":")[0] for r in caplog.records] == [
        "GPU 0",
        "GPU 1",
    ]


@pytest.mark.parametrize(("interval_s", "next_one"), [(1000.0, False), (1e-9, True)])
def test_a_feed_gets_three_rounds_for_its_first_sample(
    monkeypatch: pytest.MonkeyPatch, interval_s: float, next_one: bool
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", {"one": 1e-9})
    base, feeds = Base(), [Feed("one"), Feed("two")]
    readings = Readings(base, SmActivity(feeds, required=False, interval_s=interval_s))
    readings.devices()
    readings.read(NAMES, AT, lambda pid: None)
    assert bool(feeds[1].asked) == next_one


@pytest.mark.parametrize("required", [True, False])
def test_one_that_served_and_fails_takes_the_sharing_with_it(required: bool) -> None:
    world = World(required=required)
    one, two = world.feeds
    two.fails("two is not there")
    one.gives(0.5)
    world.read()
    one.fails("dcgmi has ended")
    reading = world.read()
    assert (reading.smact, reading.smact_coarse, reading.smact_source) == (None, False, None)
    assert reading.smact_error == "dcgmi has ended"
    assert (reading.error, reading.used_mib) == (None, 5), "all else is read as before"
    two.gives(0.25)
    assert world.read().smact_source == "two"
    one.gives(0.5)
    assert world.read().smact_source == "one"


def test_silence_is_no_activity_but_trouble() -> None:
    world = World(feeds=("one",))
    (one,) = world.feeds
    one.gives(0.5, age_s=5.0)
    assert world.read().smact == 0.5
    one.gives(0.5, age_s=7.3)
    assert world.read().smact_error == "one has given nothing for 7 s"


def test_a_source_that_was_chosen_is_the_only_one() -> None:
    world = World(required=True, feeds=("one",))
    assert world.read().smact_error == "one does not measure it"
    world.feeds[0].fails("dcgmi is not installed")
    assert world.read().smact_error == "dcgmi is not installed"
    assert (
        World(required=True, feeds=()).read().smact_error == "its SM activity is not measured yet"
    )


def test_zero_activity_while_kernels_run_is_not_believed() -> None:
    world = World(feeds=("dcgm",))
    (feed,) = world.feeds
    feed.gives(0.0)
    world.base.utilization = BUSY
    found = [world.read() for _ in range(ZEROS)]
    assert [r.smact for r in found] == [0.0] * (ZEROS - 1) + [None]
    assert "restart nv-hostengine" in str(found[-1].smact_error)
    feed.gives(0.003)
    assert world.read().smact == 0.003
    feed.gives(0.0)
    for utilization in (0.0, None):
        world.base.utilization = utilization
        assert [world.read().smact for _ in range(2 * ZEROS)] == [0.0] * 2 * ZEROS


def test_a_device_that_cannot_be_read_is_left_alone() -> None:
    world = World()
    world.feeds[0].gives(0.5)
    world.base.error = "the GPU is lost"
    reading = world.read()
    assert (reading.error, reading.smact, reading.smact_error) == ("the GPU is lost", None, None)


def test_devices_that_change_are_told_to_the_feeds() -> None:
    world = World()
    one, two = world.feeds
    one.fails("no")
    world.read()
    assert (one.asked, two.asked[-1]) == ([("GPU-0", "GPU-1")], ("GPU-0", "GPU-1"))
    world.base.listed = GPUS[1:]
    world.readings.devices()
    assert (one.asked[-1], two.asked[-1]) == (("GPU-1",), ("GPU-1",))
    asked = len(one.asked)
    world.readings.devices()
    assert len(one.asked) == asked, "nothing has changed"


def test_the_rest_is_the_bases() -> None:
    world = World()
    world.base.changed = True
    assert world.readings.changed
    assert world.readings.name == "base"
    world.readings.acknowledge("GPU-0")
    assert world.base.acknowledged == ["GPU-0"]
    world.readings.close()
    assert world.base.closed
    assert all(feed.closed for feed in world.feeds)


STATES = st.sampled_from(["gives", "fails", "silent", "nothing"])


@given(st.lists(st.tuples(STATES, STATES), max_size=12), st.booleans())
def test_what_is_not_measured_now_is_never_a_number_that_counts(
    steps: list[tuple[str, str]], required: bool
) -> None:
    """A precise number is a fresh one; after it, there is a fresh one or trouble."""
    world = World(required=required)
    served = False
    for states in steps:
        for feed, state in zip(world.feeds, states, strict=True):
            feed.samples, feed.errors = {}, {}
            if state == "fails":
                feed.fails("broken")
            elif state != "nothing":
                feed.gives(0.5, age_s=0.0 if state == "gives" else 60.0)
        reading = world.read()
        measured = reading.smact is not None and not reading.smact_coarse
        assert measured == ("gives" in states)
        served = served or measured
        if not measured:
            assert (reading.smact_error is not None) == (served or required)
            assert reading.smact is None or not (served or required)


# ------------------------------------------------------------------ in another one's place


def test_one_in_anothers_place_knows_what_was_served_and_what_the_base_had_heard() -> None:
    heard: list[object] = []
    old, new = World(), World()
    old.feeds[0].gives(0.5)
    assert old.read().smact == 0.5
    new.base.take_over = heard.append  # type: ignore[method-assign, assignment]
    new.readings.take_over(old.readings)
    assert heard == [old.base]
    assert new.read().smact_error is not None, "not coarsely: it was measured before"
    new.feeds[0].gives(0.4)
    assert new.read().smact == 0.4


def test_what_was_known_goes_to_its_own_kind_only() -> None:
    old, new = World(), World()
    old.feeds[0].gives(0.5)
    assert old.read().smact == 0.5
    new.readings.take_over(old.base)
    assert new.read().smact_error is None, "it has not heard that it was measured"


# ------------------------------------------------------------------ MIG instances


@pytest.mark.parametrize("required", [True, False])
def test_of_an_instance_whose_load_nobody_knows_nothing_is_said(
    required: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It has one job at a time: there is nobody who could not be put beside it."""
    world = World(required=required)
    world.base.listed = tuple(replace(device, kind=DeviceKind.MIG) for device in GPUS)
    world.readings.devices()
    for feed in world.feeds:
        feed.fails("no counters under MIG")
    caplog.clear()
    world.read()
    assert caplog.text == ""
    world.base.listed = GPUS
    world.readings.devices()
    world.read()
    assert caplog.text.count("GPU 0, 1: ") == 1
