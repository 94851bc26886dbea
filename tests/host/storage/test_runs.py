"""Past runs in the store: the figures come from the attempts' own records."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from radrm.core.records import Placement, Progress, Share, Usage
from radrm.core.words import Collocation, Outcome
from radrm.estimators.interface import PastRun
from radrm.estimators.learning.contention import Alone
from radrm.host.storage.runs import Run, Said, brief_mark, past_run, program_of
from radrm.host.storage.store import Store
from radrm.structs import replace
from tests.host.storage.pasts import at, attempt
from tests.host.storage.stores import ended_attempt, saved_world, submission_of
from tests.world import World, gpus

SAID = Said({"horus": 1.5}, shown=Alone(0.5, seconds=60.0))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "radrm.sqlite")


def past(peak_mib: int, kind: str) -> PastRun:
    return PastRun(peak_mib, kind, smact=0.5, alone=True, duration_s=60.0, told={"horus": 1.5})


def test_past_runs_are_found_by_what_ran_and_on_what(path: str) -> None:
    store = Store(path)
    runs = [
        Run(1, 1000, "same", "A100", SAID), Run(2, 1000, "same", "H100", SAID),
        Run(3, 7, "same", "A100", SAID), Run(4, 1000, None, "A100", SAID),
    ]  # fmt: skip
    world = World(gpus(1))
    submission = submission_of(world.submit(1000))
    attempts = tuple(ended_attempt(n, 1000 * n) for n in (1, 2, 3, 4))
    store.save(world.decisions, [submission])
    store.save([replace(world.decisions[-2], changed=attempts)], runs=runs)
    again = replace(runs[0], fingerprint="other")
    store.save([replace(world.decisions[-2], changed=attempts[:1])], runs=[again])
    a, b, c, d = past(1000, "A100"), past(2000, "H100"), past(3000, "A100"), past(4000, "A100")
    assert store.runs.same("same", 1000, 10) == (b, a), "of this user only, and written once"
    assert store.runs.same("other", 1000, 10) == ()
    assert store.runs.recent("A100", 2) == (d, c)
    assert store.runs.recent(None, 10) == (d, c, b, a)


def test_a_run_that_shows_its_pace_is_found_only_as_one(path: str) -> None:
    store, world = Store(path), World(gpus(1))
    job = world.submit(1000)
    store.save(world.decisions, [submission_of(job)])
    ended = ended_attempt(1, 1000)
    reports = (
        Progress(ended.launched.at(ended.launched.boot_s + s), work_done=s / 1000) for s in (10, 50)
    )
    ended = replace(ended, outcome=Outcome.CANCELLED, reported=tuple(reports))
    run = Run(1, 1000, brief_mark("f"), "A100", SAID)
    store.save([replace(world.decisions[-2], changed=(ended,))], runs=[run])
    (found,) = store.runs.brief("f", 1000, 5)
    assert found.duration_s == pytest.approx(1000) and program_of(run.fingerprint) == "f"
    assert store.runs.same("f", 1000, 5) == store.runs.recent(None, 5) == ()
    assert store.runs.named(job.spec.name, 1000, 5) == store.runs.brief("f", 7, 5) == ()


def test_a_damaged_run_is_left_out(path: str) -> None:
    store = Store(path)
    world = saved_world(store)
    attempts = tuple(ended_attempt(serial, 1000, min(world.jobs)) for serial in range(50, 54))
    store.save([replace(world.decisions[-2], changed=attempts)])
    raw = sqlite3.connect(path)
    for serial, record in enumerate(["{", "", "[]", "{}"], 50):
        raw.execute("INSERT INTO runs VALUES (?, 1, 'f', 'A100', ?)", (serial, record))
    raw.execute("UPDATE attempts SET record = '{' WHERE serial = 53")
    raw.commit()
    raw.close()
    assert store.runs.same("f", 1, 10) == store.runs.recent(None, 10) == ()


def test_runs_of_a_name_are_the_users_own_of_its_latest_jobs(path: str) -> None:
    store = Store(path)
    world = World(gpus(1))
    mine, other = world.submit(1000, name="train"), world.submit(1000, name="else")
    world_of = [submission_of(job) for job in (mine, other)]
    attempts = tuple(
        ended_attempt(n, 1000 * n, job.id) for n, job in ((1, mine), (2, mine), (3, other))
    )
    shown = Said(shown=Alone(0.4, 0.5, False, 30.0, 40.0), told_smact={"history": 0.3}, length="x")
    runs = [Run(1, 1000, "a", "A100", shown), Run(2, 7, "b", "A100", SAID)]
    store.save(world.decisions, world_of)
    store.save([replace(world.decisions[-2], changed=attempts)], runs=runs)
    (run,) = store.runs.named("train", 1000, 10)
    assert (run.smact, run.smact_most, run.duration_s, run.duration_most_s) == (0.4, 0.5, 30, 40)
    assert (run.told_smact, run.length, run.least_s) == ({"history": 0.3}, "x", None)
    assert store.runs.named("else", 1000, 10) == store.runs.named("train", 1000, 0) == ()
    assert len(store.runs.named("train", 7, 10)) == 1


def test_a_run_that_was_resized_shows_its_memory_and_no_duration() -> None:
    shares = tuple(Share(f"GPU-{n}", task=n) for n in range(3))
    usage = tuple(Usage(f"GPU-{n}", peak_mib=5000 - n) for n in range(4))
    made = replace(
        attempt(1, 1, Outcome.COMPLETED),
        placement=Placement(shares, Collocation.TIMESLICE),
        usage=usage,
        started=at(1),
    )
    said = Said(shown=Alone(0.5, seconds=8.0))
    plain, resized = (past_run("A100", said, each) for each in (made, replace(made, generation=2)))
    assert plain.duration_s == 8.0
    assert (resized.peak_mib, resized.gpus, resized.duration_s) == (5000, 3, None)
    stopped = past_run("A100", said, replace(made, generation=2, outcome=Outcome.TIMEOUT))
    assert stopped.least_s is None
