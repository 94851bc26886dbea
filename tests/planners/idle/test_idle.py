"""`[idle]`: who counts as idle, and what follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.decision import Warned
from radrm.core.records import AttemptMemory, Checkpoint, Job, Reading
from radrm.core.words import CheckpointKind, JobState, Outcome
from radrm.planners.idle import CANCEL, MOST_REQUEUES, NOTIFY, REQUEUE, Idle
from radrm.structs import replace
from tests.world import GIB, World, default_planner, gpus

FOR_S, WARMUP_S, WARN_S = 100.0, 50.0, 20.0
STEP_S = 2.0


class Site(World):
    """One GPU whose SM activity a test sets; it is read every two seconds."""

    def __init__(self, action: str = CANCEL, count: int = 1, **changes: Any) -> None:
        self.changed: dict[str, dict[str, Any]] = {}
        """What is different in the readings of a device."""
        only_sessions = changes.pop("only_sessions", False)
        rule = Idle(action, 0.05, FOR_S, WARMUP_S, WARN_S, FOR_S / 2, only_sessions)
        super().__init__(gpus(count), planners=(default_planner(), rule), **changes)

    def _reading(self, uuid: str) -> Reading:
        return replace(super()._reading(uuid), **self.changed.get(uuid, {}))

    def live_on(self, seconds: float, smact: float | None, uuid: str = "GPU-0") -> None:
        self.smact[uuid] = smact
        for _ in range(round(seconds / STEP_S)):
            self.pass_time(STEP_S)
        assert not self.scheduler.errors(self.now)

    @property
    def warned(self) -> list[Warned]:
        return [each for decision in self.decisions for each in decision.warned]


def warnings(site: Site, job: Job) -> list[str]:
    attempt = site.live(job)
    return [] if attempt is None else [each.text for each in attempt.warnings]


def test_an_idle_job_is_warned_and_then_cancelled_with_the_numbers() -> None:
    site = Site()
    job = site.submit(GIB)
    site.live_on(WARMUP_S + FOR_S - STEP_S, 0.01)
    assert not site.warned and not warnings(site, job)
    site.live_on(STEP_S, 0.01)
    (text,) = warnings(site, job)
    assert text == "GPU 0 shows SM activity below 0.05 for 1m40s (now 0.01)"
    assert [(w.job_id, w.kind, w.text) for w in site.warned] == [
        (job.id, "idle", f"{text}; it is cancelled in 20s")
    ]
    site.live_on(WARN_S - STEP_S, 0.01)
    assert site.state(job) is JobState.RUNNING
    site.live_on(STEP_S, 0.01)
    found = site.jobs[job.id]
    assert (found.state, found.outcome) == (JobState.CANCELLED, Outcome.CANCELLED)
    assert found.reason == "idle: GPU 0 shows SM activity 0.01, below 0.05 for 2m00s"
    assert len(site.warned) == 1


@pytest.mark.parametrize("blip", [0.05, 0.9])
def test_one_look_at_work_begins_the_idle_time_anew(blip: float) -> None:
    site = Site()
    job = site.submit(GIB)
    site.live_on(WARMUP_S + FOR_S, 0.0)
    assert warnings(site, job)
    site.live_on(STEP_S, blip)
    assert not warnings(site, job), "the warning is over"
    site.live_on(FOR_S, 0.0)
    assert site.state(job) is JobState.RUNNING and not warnings(site, job)
    site.live_on(STEP_S, 0.0)
    assert warnings(site, job) and len(site.warned) == 2


@pytest.mark.parametrize(
    "unknown",
    [
        {"smact": None},
        {"smact_error": "the feed has stopped"},
        {"error": "the driver does not answer"},
        {"fault": "Xid 79"},
        {"smact": float("nan")},
    ],
)
def test_what_is_unknown_is_not_zero(unknown: dict[str, Any]) -> None:
    site = Site()
    job = site.submit(GIB)
    site.changed["GPU-0"] = unknown
    site.live_on(1000.0, 0.0)
    assert site.state(job) is JobState.RUNNING and not site.warned
    site.changed.clear()
    site.live_on(FOR_S, 0.0)
    assert not site.warned, "the idle time begins with the first sound reading"
    site.live_on(STEP_S, 0.0)
    assert site.warned
    site.changed["GPU-0"] = unknown
    site.live_on(STEP_S, 0.0)
    assert not warnings(site, job), "nobody knows any more"
    site.live_on(WARN_S, 0.0)
    assert site.state(job) is JobState.RUNNING


def test_a_gap_in_the_readings_begins_the_idle_time_anew() -> None:
    site = Site()
    job = site.submit(GIB)
    site.live_on(WARMUP_S + FOR_S, 0.0)
    site.boot_s += 30.0
    site.live_on(WARN_S, 0.0)
    assert site.state(job) is JobState.RUNNING and not warnings(site, job)


def test_a_job_is_idle_only_on_all_its_gpus() -> None:
    site = Site(count=2)
    job = site.submit(GIB, gpus=2)
    site.smact["GPU-1"] = 0.06
    site.live_on(1000.0, 0.0)
    assert site.state(job) is JobState.RUNNING and not site.warned
    site.smact["GPU-1"] = 0.02
    site.live_on(FOR_S + STEP_S, 0.0)
    assert warnings(site, job) == ["GPUs 0, 1 show SM activity below 0.05 for 1m40s (now 0.02)"]


def own(site: Site, jobs: Sequence[Job], *smacts: float | None) -> None:
    """The SM activity of the processes of each job on the shared GPU."""
    memory = [
        AttemptMemory(job.id, attempt.serial, GIB, smact=smact)
        for job, smact in zip(jobs, smacts, strict=True)
        if (attempt := site.live(job)) is not None
    ]
    site.changed["GPU-0"] = {"attempts": tuple(memory)}


@pytest.mark.parametrize(
    ("smacts", "idle"),
    [
        ((None, None), False),  # the device's activity is of one of them: nobody knows whose
        ((0.0, None), False),
        ((0.0, 0.0), False),  # figures that do not make sense
        ((float("nan"), 0.6), False),
        ((0.01, 0.6), True),
        ((0.06, 0.6), False),
    ],
)
def test_beside_a_busy_job_only_figures_of_its_own_prove_that_it_is_idle(
    smacts: tuple[float | None, ...], idle: bool
) -> None:
    site = Site(NOTIFY)
    both = [site.submit(GIB, smact=0.1) for _ in range(2)]
    assert [site.where(job) for job in both] == [("GPU-0",)] * 2
    own(site, both, *smacts)
    site.live_on(WARMUP_S + FOR_S + STEP_S, 0.6)
    assert bool(warnings(site, both[0])) is idle
    assert not warnings(site, both[1])


def test_both_are_idle_on_a_device_that_is() -> None:
    site = Site()
    both = [site.submit(GIB, smact=0.1) for _ in range(2)]
    site.live_on(WARMUP_S + FOR_S + WARN_S + STEP_S, 0.0)
    assert [site.state(job) for job in both] == [JobState.CANCELLED] * 2


def test_a_job_that_expects_to_be_idle_from_now_on_is_spared() -> None:
    site = Site()
    job = site.submit(GIB)
    site.live_on(WARMUP_S + FOR_S, 0.0)
    assert site.edit(job, expect_idle=True) is None
    site.live_on(500.0, 0.0)
    assert site.state(job) is JobState.RUNNING and not warnings(site, job)


@pytest.mark.parametrize(
    ("action", "spec", "warned"),
    [
        pytest.param(NOTIFY, {}, True, id="only warned, and once"),
        pytest.param(REQUEUE, {}, True, id="it cannot run again"),
        pytest.param(CANCEL, {"gpus": 0}, False, id="no GPU"),
        pytest.param(CANCEL, {"expect_idle": True}, False, id="expects to be idle"),
    ],
)
def test_a_job_that_runs_on(action: str, spec: dict[str, Any], warned: bool) -> None:
    site = Site(action)
    job = site.submit(GIB, **spec)
    site.live_on(1000.0, 0.0)
    assert site.state(job) is JobState.RUNNING
    text = "GPU 0 shows SM activity below 0.05 for 1m40s (now 0.00)"
    assert [w.text for w in site.warned] == [text] * warned


def test_a_job_that_can_save_is_asked_before_it_is_cancelled() -> None:
    site = Site()
    job = site.submit(GIB, checkpoint=Checkpoint(CheckpointKind.SIGNAL))
    site.live_on(WARMUP_S + FOR_S + WARN_S, 0.0)
    asked = [a for a in site.actions if isinstance(a, act.TakeCheckpoint)]
    assert len(asked) == 1 and site.state(job) is JobState.RUNNING
    site.live_on(STEP_S, 0.0)
    assert site.state(job) is JobState.CANCELLED


@pytest.mark.parametrize(
    "spec", [{"requeue": True}, {"checkpoint": Checkpoint(CheckpointKind.SIGNAL)}]
)
def test_a_requeued_job_goes_behind_and_is_cancelled_in_the_end(spec: dict[str, Any]) -> None:
    site = Site(REQUEUE)
    job, others = site.submit(30 * GIB, **spec), []
    for _ in range(MOST_REQUEUES):
        others.append(site.submit(30 * GIB, requeue=True))
        site.live_on(WARMUP_S + FOR_S + WARN_S, 0.0)
        assert site.state(job) is JobState.PENDING, "it is behind the other one"
        last = site.attempts[job.id, site.jobs[job.id].attempts]
        assert last.outcome is Outcome.PREEMPTED
        assert "below 0.05 for 2m00s" in last.reason
        site.restart()
        site.end(others[-1])
        site.read()
    assert site.state(job) is JobState.RUNNING
    site.live_on(WARMUP_S + FOR_S + WARN_S + 2 * STEP_S, 0.0)
    assert site.state(job) is JobState.CANCELLED
    assert (site.jobs[job.id].reason or "").endswith(", once more after 2 requeues")
    site.live_on(STEP_S, 0.0)
    assert not site.rule_states["planner", "idle"].state


def test_a_restart_begins_the_idle_time_anew_and_warns_again() -> None:
    site = Site()
    job = site.submit(GIB)
    site.live_on(WARMUP_S + FOR_S, 0.0)
    assert warnings(site, job)
    site.restart()
    site.live_on(FOR_S - STEP_S, 0.0)
    assert site.state(job) is JobState.RUNNING and not warnings(site, job)
    site.live_on(2 * STEP_S + WARN_S, 0.0)
    assert site.state(job) is JobState.CANCELLED and len(site.warned) == 2


def test_readings_of_other_devices_say_nothing() -> None:
    site = Site(count=2)
    job = site.submit(GIB)
    other = "GPU-1" if site.where(job) == ("GPU-0",) else "GPU-0"
    site.live_on(WARMUP_S + FOR_S, 0.0)
    assert warnings(site, job)
    site.smact[other] = 0.9
    site.read([other])
    assert warnings(site, job)


def test_a_job_that_is_being_stopped_is_not_stopped_again() -> None:
    site = Site()
    job = site.submit(GIB)
    site.obey = False
    site.live_on(500.0, 0.0)
    site.step(ev.Tick(at=site.now))
    stops = [a for a in site.actions if isinstance(a, act.Terminate)]
    assert len(stops) <= 1 and site.state(job) is not JobState.COMPLETED


def test_where_no_action_is_set_sessions_alone_are_warned() -> None:
    site = Site(NOTIFY, only_sessions=True)
    session, job = site.submit(GIB, smact=0.1, interactive=True), site.submit(GIB, smact=0.1)
    site.live_on(WARMUP_S + 2 * FOR_S, 0.0)
    assert warnings(site, session) and not warnings(site, job)
    site.live_on(STEP_S, 0.9)
    assert not warnings(site, session)


def test_a_session_can_have_a_shorter_time() -> None:
    site = Site(NOTIFY)
    session, job = site.submit(GIB, smact=0.1, interactive=True), site.submit(GIB, smact=0.1)
    site.live_on(WARMUP_S + FOR_S / 2, 0.0)
    assert warnings(site, session) and not warnings(site, job)
