"""What is due to an unmanaged process on a GPU, and when: a table, and what holds in any case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.config import UnmanagedConfig
from radrm.host.gpus.unmanaged import LONGEST_GAP_S, Key, Sighting, Sightings, Step, due

WARN, TERM, KILL = Step.WARN, Step.TERM, Step.KILL
BOB: Key = (4711, 100)

TABLE = [
    # action, done, done_s, now_s (seen since 1000; grace 60, kill grace 20), due
    ("count", None, 0, 99_999, None),
    ("drain", None, 0, 99_999, None),
    ("warn", None, 0, 1004.9, None),
    ("warn", None, 0, 1005, WARN),
    ("warn", WARN, 1005, 99_999, None),
    ("signal", None, 0, 1004.9, None),
    ("signal", None, 0, 99_999, WARN),
    ("signal", WARN, 1005, 1059.9, None),
    ("signal", WARN, 1005, 1060, TERM),
    ("signal", TERM, 1060, 1079.9, None),
    ("signal", TERM, 1060, 1080, KILL),
    ("signal", TERM, 5000, 5019, None),
    ("signal", KILL, 1080, 99_999, None),
]


@pytest.mark.parametrize(("action", "done", "done_s", "now_s", "wanted"), TABLE)
def test_what_is_due(
    action: str, done: Step | None, done_s: float, now_s: float, wanted: Step | None
) -> None:
    config = UnmanagedConfig(action=action, grace_s=60, kill_grace_s=20)
    seen = Sighting(1000, now_s, frozenset({"GPU-a"}), done, done_s)
    assert due(config, seen, now_s) is wanted


def watch(action: str = "signal", **given: float) -> Sightings:
    return Sightings(UnmanagedConfig(action=action, **{"grace_s": 20, "kill_grace_s": 5, **given}))


def course(sightings: Sightings, *there: bool, step_s: float = 1.0) -> list[tuple[float, Step]]:
    """One look after another, the unmanaged process there or not; what was due, all of it done."""
    found = []
    for n, is_there in enumerate(there):
        now_s = n * step_s
        for key, step in sightings.look(now_s, {BOB: {"GPU-a"}} if is_there else {}):
            sightings.record(key, step, now_s)
            found.append((now_s, step))
    return found


def test_told_of_asked_ended() -> None:
    assert course(watch(), *[True] * 60) == [(5, WARN), (20, TERM), (25, KILL)]


def test_whoever_leaves_and_comes_back_begins_anew_and_is_told_of_once() -> None:
    away = [True] * 15 + [False] + [True] * 25
    assert course(watch(), *away) == [(5, WARN), (36, TERM)]


def test_what_was_not_done_stays_due() -> None:
    sightings = watch(grace_s=0)
    assert [sightings.look(n, {BOB: {"GPU-a"}}) for n in range(3)] == [[(BOB, WARN)]] * 3


def test_a_gap_between_readings_ends_what_is_continuous() -> None:
    assert course(watch(), *[True] * 3, step_s=LONGEST_GAP_S) == [(30, WARN), (60, TERM)]
    assert course(watch(), *[True] * 9, step_s=LONGEST_GAP_S + 1) == []


def test_a_device_that_cannot_be_read_for_a_moment_hides_nobody() -> None:
    sightings = watch()
    sightings.look(0, {BOB: {"GPU-a"}})
    assert sightings.look(5, {}, unread={"GPU-a"}) == [], "not seen: nothing is done"
    sightings.record(*sightings.look(8, {BOB: {"GPU-a"}})[0], 8)
    assert sightings.present[BOB].since_s == 0
    sightings.look(9, {}, unread={"GPU-b"})
    assert BOB not in sightings.present, "the other device was read, and he is not there"


def test_a_pid_that_was_given_out_again_is_somebody_else() -> None:
    sightings = watch(grace_s=0)
    sightings.look(0, {BOB: {"GPU-a"}})
    sightings.record(BOB, WARN, 0)
    assert sightings.look(1, {(4711, 101): {"GPU-a"}}) == [((4711, 101), WARN)]


@given(
    grace_s=st.floats(0, 30),
    gaps=st.lists(st.tuples(st.floats(0.01, 15), st.booleans()), max_size=40),
)
def test_nobody_is_asked_to_go_before_his_time(
    grace_s: float, gaps: list[tuple[float, bool]]
) -> None:
    """TERM only after `grace_s` of looks that all saw him, none long after the one before."""
    sightings, now_s = watch(grace_s=grace_s), 0.0
    since_s: float | None = None
    steps: list[Step] = []
    for gap_s, is_there in gaps:
        now_s += gap_s
        if not is_there or gap_s > LONGEST_GAP_S:
            since_s = None
        if is_there and since_s is None:
            since_s, steps = now_s, [s for s in steps if s is WARN]
        for key, step in sightings.look(now_s, {BOB: {"GPU-a"}} if is_there else {}):
            assert since_s is not None
            assert step is WARN or now_s - since_s >= grace_s
            sightings.record(key, step, now_s)
            steps.append(step)
    assert steps == [WARN, TERM, KILL][: len(steps)]
