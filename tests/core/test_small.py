"""The core's small parts, by tables: transitions, units, the window, the queue, the ledger."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.core.records import (
    Attempt,
    AttemptMemory,
    Device,
    Estimate,
    Instant,
    Job,
    JobSpec,
    Placement,
    Reading,
    Reservation,
    Share,
)
from radrm.core.settings import CoreSettings
from radrm.core.state.ledger import DeviceLedger
from radrm.core.state.waiting import WaitingQueue
from radrm.core.state.window import SmactWindow
from radrm.core.transitions import TABLE, ImpossibleTransition, Trigger, after
from radrm.core.units import parse_mib, parse_seconds, show_mib, show_seconds
from radrm.core.words import Collocation, JobState, Quantity, Queue, ReservationKind

# ------------------------------------------------------------------ transitions


@pytest.mark.parametrize("state, trigger", list(product(JobState, Trigger)))
def test_only_what_the_table_says_can_happen(state: JobState, trigger: Trigger) -> None:
    if (state, trigger) in TABLE:
        assert after(state, trigger) is TABLE[state, trigger]
    else:
        with pytest.raises(ImpossibleTransition):
            after(state, trigger)


def test_every_state_is_reached_and_only_a_requeue_leaves_an_end() -> None:
    assert {JobState.PENDING, *TABLE.values()} == set(JobState)
    left = {state for state, trigger in TABLE if trigger is not Trigger.AGAIN}
    assert {s for s in JobState if s.final} == set(JobState) - left
    assert {s for s, trigger in TABLE if trigger is Trigger.AGAIN} == set(JobState) - left


# ------------------------------------------------------------------ units


@pytest.mark.parametrize(
    "text, mib",
    [
        *[(t, 4096) for t in ("4G", "4GiB", "4g", "4096M", "4096", " 4096 MiB ", "4194304K")],
        ("0.5G", 512),
        ("1T", 1024 * 1024),
        ("1K", 1),
        ("1.5", 2),
    ],
)
def test_sizes(text: str, mib: int) -> None:
    assert parse_mib(text) == mib


@pytest.mark.parametrize("text", ["", "G", "-1G", "0", "4X", "4 G B", "1e3", "4,5G", "٤G" + "x"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError):
        parse_mib(text)


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("90", 90),
        ("90s", 90),
        ("1:30", 90),
        ("0:01:30", 90),
        ("1-00:00:00", 86400),
        ("2h 30m", 9000),
        ("1d", 86400),
        ("0.5h", 1800),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "soon", "1:2:3:4", "5x", "1s " * 50_000 + "x"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError):
        parse_seconds(text)


@pytest.mark.parametrize(
    "shown, text",
    [
        (show_mib(None), "-"),
        (show_mib(512), "512M"),
        (show_mib(5262), "5.1G"),
        (show_seconds(None), "-"),
        (show_seconds(-3), "0s"),
        (show_seconds(59.4), "59s"),
        (show_seconds(192), "3m12s"),
        (show_seconds(7500), "2h05m"),
        (show_seconds(4 * 86400), "4d00h"),
    ],
)
def test_what_people_see(shown: str, text: str) -> None:
    assert shown == text


# ------------------------------------------------------------------ window


@given(st.lists(st.floats(0, 1), max_size=300))
def test_the_window_is_the_mean_of_its_last_seconds(values: list[float]) -> None:
    window = SmactWindow(90.0)
    for second, value in enumerate(values):
        window.add(float(second), value)
    last = values[-91:]
    assert len(window) == len(last)
    if last:
        assert window.mean == pytest.approx(sum(last) / len(last), abs=1e-9)
    window.restart()
    assert window.mean is None


# ------------------------------------------------------------------ queue

NOW = Instant(1000.0, 1e9)
JOB = Job(id=1, ticket="T", spec=JobSpec("a", "ann", 1000), submitted=NOW)


@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.booleans(), st.integers(-2, 2), st.booleans()), max_size=60
    )
)
def test_the_queue_is_always_in_order(moves: list[tuple[int, bool, int, bool]]) -> None:
    queue = WaitingQueue(lambda job: (job.id,))
    model: dict[int, tuple[bool, int, int]] = {}
    for job_id, recovering, priority, leave in moves:
        if leave:
            queue.discard(job_id)
            model.pop(job_id, None)
        else:
            where = Queue.RECOVERY if recovering else Queue.MAIN
            spec = replace(JOB.spec, priority=priority)
            queue.put(replace(JOB, id=job_id, queue=where, spec=spec))
            model[job_id] = (not recovering, -priority, job_id)
        expected = sorted(model, key=lambda i: model[i])
        assert list(queue) == expected
        assert queue.head() == (expected[0] if expected else None)
        assert all(queue.position(i) == place for place, i in enumerate(expected))


# ------------------------------------------------------------------ ledger

DEVICE = Device(uuid="GPU-0", index=0, name="A100", total_mib=40_960, overhead_mib=424)


def ledger(**settings: float) -> DeviceLedger:
    found = DeviceLedger(DEVICE, CoreSettings(smact_warm_s=2.0, smact_after_exit_s=1.0, **settings))  # type: ignore[arg-type]
    found.take(reading(1000.0, used=0))
    return found


def reading(
    boot_s: float, used: int | None, held: dict[int, int | None] | None = None, **more: object
) -> Reading:
    attempts = tuple(AttemptMemory(job, 1, mib) for job, mib in (held or {}).items())
    at = Instant(boot_s, 1e9 + boot_s)
    return Reading("GPU-0", at, used, attempts, **more)  # type: ignore[arg-type]


def admit(
    led: DeviceLedger,
    job_id: int,
    mib: int | None,
    smact: float | None = None,
    since_s: float = 1000.0,
) -> None:
    estimates = () if smact is None else (Estimate(Quantity.SMACT, smact, smact, "t"),)
    job = replace(JOB, id=job_id, estimates=estimates)
    placement = Placement((Share("GPU-0", mib or 0),), Collocation.TIMESLICE)
    led.reserve(
        Reservation(f"job:{job_id}", ReservationKind.RUNNING, "GPU-0", mib, NOW, job_id=job_id)
    )
    led.admit(job, Attempt(job_id, 1, job_id, placement, NOW), since_s, since_s)


def test_promises_count_before_anything_is_used() -> None:
    led = ledger()
    admit(led, 1, 10_000)
    assert led.free_mib() == 40_536 - 10_000
    assert led.free_mib("job:1") == 40_536, "its own promise is no obstacle to itself"
    led.take(reading(1001.0, used=15_000, held={1: 12_000}))
    assert led.unmanaged_mib == 3_000
    assert led.free_mib() == 40_536 - 12_000 - 3_000, "what it uses counts where it is more"


def test_a_whole_device_leaves_nothing() -> None:
    led = ledger()
    admit(led, 1, None)
    assert led.free_mib() == 0 and not led.idle_for() and led.idle_for("job:1")


def test_a_driver_that_attributes_nothing() -> None:
    led = ledger()
    admit(led, 1, 10_000)
    led.take(reading(1001.0, used=9_000, held={1: None}))
    assert (led.unmanaged_mib, led.holdings[1].peak_mib) == (0, 9_000), "alone: it is its own"
    admit(led, 2, 5_000)
    led.take(reading(1002.0, used=18_000, held={1: None, 2: None}))
    assert led.unmanaged_mib == 18_000 - 15_000, "two: what is beyond their promises is strangers'"


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
    assert led.smact is None and "known in 1s" in (led.smact_doubt or "")
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
    led.holdings[1].since_s = 1019.5
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


def test_coarse_activity_counts_only_if_asked_for() -> None:
    for coarse_is_fine in (False, True):
        led = ledger(use_coarse_smact=coarse_is_fine)
        admit(led, 1, 1000)
        for second in (1001.0, 1002.0):
            led.take(reading(second, used=0, smact=0.5, smact_coarse=True))
        assert led.smact == (0.5 if coarse_is_fine else None)
        assert coarse_is_fine or "use_coarse_smact" in (led.smact_doubt or "")


def test_energy_is_shared_by_those_on_the_device() -> None:
    led = ledger()
    led.take(reading(1000.0, used=0, power_w=100.0))
    admit(led, 1, 1000)
    admit(led, 2, 1000)
    led.take(reading(1010.0, used=0, power_w=100.0))
    assert [h.energy_j for h in led.holdings.values()] == [500.0, 500.0]


@pytest.mark.parametrize("smact", [float("nan"), float("inf"), -0.1])
def test_a_number_that_is_none_is_not_a_quiet_device(smact: float) -> None:
    led = ledger()
    admit(led, 1, 10_000, smact=0.3)
    for second in range(3):
        led.take(reading(1001.0 + second, used=9_000, held={1: 9_000}, smact=0.4))
    assert led.smact == pytest.approx(0.4)
    led.take(reading(1004.0, used=9_000, held={1: 9_000}, smact=smact, power_w=float("nan")))
    assert led.smact is None and "reads" in (led.smact_doubt or "")
    assert led.holdings[1].smact_count == 3 and led.reading is not None
    assert led.reading.power_w is None
    led.take(reading(1005.0, used=9_000, held={1: 9_000}, smact=0.5))
    assert led.smact == pytest.approx((3 * 0.4 + 0.5) / 4)


@pytest.mark.parametrize("used", [-1, float("nan")])
def test_memory_that_cannot_be_true_is_unknown(used: float) -> None:
    led = ledger()
    led.take(reading(1001.0, used=used))  # type: ignore[arg-type]
    assert led.free_mib() is None and led.unreadable(1001.0) is not None
    led.take(reading(1002.0, used=5_000, held={1: used}))  # type: ignore[dict-item]
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
