"""Algorithm 3 of SpeCon: whether a job still improves."""

from __future__ import annotations

from typing import Any

import pytest

from radrm.core.records import Attempt, Instant, Job, JobSpec, Placement, Progress
from radrm.core.words import Collocation
from radrm.published.convergence import (
    CONVERGED,
    PROGRESSING,
    WATCHING,
    Note,
    category_after,
    judge,
    judge_as_published,
)

ALPHA = 0.01
LAUNCHED = Instant(1000.0, 5000.0, "boot")
ATTEMPT = Attempt(1, 1, 1, Placement((), Collocation.MPS), LAUNCHED)


def job(at_s: float, boot: str = "boot", saved: float | None = None, **said: Any) -> Job:
    at = Instant(1000.0 + at_s, 5000.0 + at_s, boot)
    before = None if saved is None else Progress(at=at, work_done=saved)
    spec = JobSpec(name="job", user="ann", uid=1000)
    return Job(1, "T1", spec, LAUNCHED, progress=Progress(at=at, **said), saved=before)


@pytest.mark.parametrize(
    ("category", "gain", "before", "then", "asks"),
    [
        (PROGRESSING, 0.005, 0.006, WATCHING, False),  # lines 7 to 9
        (WATCHING, 0.005, 0.006, CONVERGED, False),  # lines 10 to 12, by the text
        (CONVERGED, 0.005, 0.006, CONVERGED, True),  # lines 13 to 16
        (PROGRESSING, 0.005, 0.005, PROGRESSING, False),  # lines 17 and 18
        (WATCHING, 0.005, 0.004, WATCHING, False),
        (CONVERGED, 0.005, 0.004, CONVERGED, False),
        (WATCHING, 0.02, 0.03, PROGRESSING, False),  # lines 19 to 22
        (CONVERGED, 0.02, 0.01, PROGRESSING, False),
        (WATCHING, 0.01, 0.02, WATCHING, False),  # neither below nor above the threshold
        (PROGRESSING, 0.001, None, PROGRESSING, False),  # there is no gain before the first
    ],
)
def test_line_by_line(
    category: str, gain: float, before: float | None, then: str, asks: bool
) -> None:
    assert category_after(category, gain, before, ALPHA) == (then, asks)


def test_as_published_the_last_loss_counts_again_while_no_report_comes() -> None:
    note = Note(1)
    for loss in (2.0, 1.0):
        assert not judge_as_published(note, job(0, loss=loss), ALPHA)
    assert not judge_as_published(note, job(0, loss=1.0), ALPHA)
    assert (note.gain, note.category) == (0.0, WATCHING)


def test_a_job_that_reports_once_per_epoch_is_not_judged_between_two_reports() -> None:
    note = Note(1)
    for epoch in range(5):
        report = job(120.0 * epoch, loss=2.0 * 0.7**epoch)
        assert not judge(note, report, ATTEMPT, ALPHA, 30.0)
        before = note.plain()
        for _ in range(3):  # 30 s each
            assert not judge(note, report, ATTEMPT, ALPHA, 30.0)
        assert note.plain() == before
        assert note.category == PROGRESSING
    assert note.gain > ALPHA


def test_the_gain_is_per_interval_whatever_time_lies_between_two_reports() -> None:
    often, seldom = Note(1), Note(1)
    for step in range(9):
        report = job(30.0 * step, loss=10.0 - step)
        judge(often, report, ATTEMPT, ALPHA, 30.0)
        if step % 4 == 0:
            judge(seldom, report, ATTEMPT, ALPHA, 30.0)
    assert often.gain == pytest.approx(seldom.gain, rel=0.3)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e6])
def test_the_unit_of_a_loss_does_not_matter(unit: float) -> None:
    note, plain = Note(1), Note(1)
    for step in range(20):
        judge(plain, job(30.0 * step, loss=0.5**step), ATTEMPT, ALPHA, 30.0)
        judge(note, job(30.0 * step, loss=unit * 0.5**step), ATTEMPT, ALPHA, 30.0)
        assert note.category == plain.category
        assert note.gain == pytest.approx(plain.gain)
    assert note.category == CONVERGED


def test_a_loss_that_never_fell_says_nothing() -> None:
    note = Note(1)
    for step, loss in enumerate((1.0, 1.0, 1.5, 1.5, 1.5)):
        judge(note, job(30.0 * step, loss=loss), ATTEMPT, ALPHA, 30.0)
    assert (note.gain, note.category) == (None, PROGRESSING)


def test_after_a_reboot_a_report_only_begins_anew() -> None:
    note = Note(1)
    for step in range(3):
        judge(note, job(30.0 * step, loss=1.0 / (step + 1)), ATTEMPT, ALPHA, 30.0)
    gain = note.gain
    judge(note, job(-900.0, boot="next", loss=0.3), ATTEMPT, ALPHA, 30.0)
    assert note.gain == gain
    judge(note, job(-870.0, boot="next", loss=0.29), ATTEMPT, ALPHA, 30.0)
    assert note.gain is not None and note.gain != gain


def test_a_new_attempt_begins_anew_and_a_moved_job_is_still_converged() -> None:
    lost, moved = Note(1, category=CONVERGED, loss=1.0), Note(1, category=CONVERGED, moved=True)
    lost.begin(2)
    moved.begin(2)
    assert (lost.category, lost.loss, lost.serial) == (PROGRESSING, None, 2)
    assert (moved.category, moved.moved) == (CONVERGED, True)


def test_the_rate_tells_when_the_work_began() -> None:
    note = Note(1)
    for at_s, done in ((50.0, 0.04), (80.0, 0.10)):  # 0.2 % a second, 30 s after the launch
        judge(note, job(at_s, work_done=done), ATTEMPT, ALPHA, 30.0)
    assert note.rate == pytest.approx(0.002)
    assert note.begin_s == pytest.approx(30.0)
    again = Note(2)
    for at_s, done in ((50.0, 0.54), (80.0, 0.60)):
        judge(again, job(at_s, saved=0.5, work_done=done), ATTEMPT, ALPHA, 30.0)
    assert again.begin_s == pytest.approx(30.0), "the saved work came before"


def test_without_work_done_the_first_report_tells_it() -> None:
    note = Note(1)
    judge(note, job(12.0, loss=1.0), ATTEMPT, ALPHA, 30.0)
    judge(note, job(42.0, loss=0.9), ATTEMPT, ALPHA, 30.0)
    assert note.begin_s == 12.0


def test_a_note_is_plain() -> None:
    note = Note(7)
    judge(note, job(12.0, loss=1.0), ATTEMPT, ALPHA, 30.0)
    assert Note(**note.plain()) == note


def test_a_report_of_the_loss_alone_is_no_news_of_the_work_done() -> None:
    plain, often = Note(1), Note(1)
    for step in range(1, 5):
        at_s, done = 100.0 * step, 0.1 * step
        judge(plain, job(at_s, work_done=done, loss=1.0), ATTEMPT, ALPHA, 30.0)
        judge(often, job(at_s, work_done=done, loss=1.0), ATTEMPT, ALPHA, 30.0)
        told = job(at_s, boot="boot").progress
        judge(
            often, job(at_s + 50.0, work_done=done, loss=0.9, step_at=told.at), ATTEMPT, ALPHA, 30.0
        )
    assert plain.rate == often.rate == pytest.approx(0.001)
