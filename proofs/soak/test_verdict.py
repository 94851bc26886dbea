"""The soak finds what it promises to find: each defect is made by hand and must be told."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from proofs.soak import verdict
from proofs.soak.jobs import KINDS, PROBE
from proofs.soak.ledger import Acknowledged, Ended, Line, witnessed
from proofs.soak.samples import Sample
from proofs.soak.verdict import Latency

ACKNOWLEDGED = {"T1": Acknowledged("T1", "quick", 1.0)}
ENDED = Ended(1, "T1", "COMPLETED", None, {1: "completed"})
LINES = [Line("begun", 1, 1, 2.0, "T1"), Line("ended", 1, 1, 3.0, "T1")]
SAMPLE = Sample(
    at_s=0.0,
    life=1,
    rss_kib=50_000,
    descriptors=20,
    threads=8,
    store_kib=200,
    home_kib=10,
    attempts=0,
    running=0,
    waiting=0,
    submitted=0,
    ended=0,
    load=0.0,
)


def test_a_job_that_was_run_once_is_no_finding() -> None:
    assert verdict.lost(ACKNOWLEDGED, [ENDED], LINES, ()) == []
    assert verdict.doubled([ENDED], LINES) == []


@pytest.mark.parametrize(
    ("ended", "lines", "why"),
    [
        ([], LINES, "0 of its 1 jobs"),
        ([replace(ENDED, state="FAILED", reason="it broke")], LINES, "it broke"),
        ([replace(ENDED, state="CANCELLED")], LINES, "is CANCELLED"),
        ([ENDED], LINES[:1], "never ended"),
    ],
)
def test_what_is_lost(ended: list[Ended], lines: list[Line], why: str) -> None:
    (finding,) = verdict.lost(ACKNOWLEDGED, ended, lines, ())
    assert finding.startswith("lost") and why in finding


def test_the_hostile_user_may_cancel_his_own_jobs_and_no_others() -> None:
    gone = replace(ENDED, state="CANCELLED", reason="cancelled by 61003")
    for owner, found in ((61003, 0), (61002, 1)):
        acknowledged = {"T1": Acknowledged("T1", "quick", 1.0, owner)}
        assert len(verdict.lost(acknowledged, [gone], LINES, (), 61003)) == found


def test_one_command_cancels_all_elements_of_an_array() -> None:
    array = {"T1": Acknowledged("T1", "array", 1.0)}
    five = [replace(ENDED, id=i, state="CANCELLED") for i in range(1, 6)]
    assert verdict.lost(array, five, [], {1}) == []
    assert len(verdict.lost(array, five, [], {9})) == 5


@pytest.mark.parametrize(
    ("ended", "lines", "why"),
    [
        (ENDED, [*LINES, Line("begun", 1, 1, 4.0, "T1")], "attempt 1 of job 1 began 2 times"),
        (
            replace(ENDED, outcomes={1: "lost", 2: "completed"}),
            [*LINES, Line("doubled", 1, 2, 2.5, "T1")],
            "beside another one",
        ),
        (replace(ENDED, outcomes={1: "completed", 2: "completed"}), LINES, "completed in attempts"),
        (ENDED, [*LINES, Line("begun", 1, 2, 4.0, "T1")], "that the store lacks"),
    ],
)
def test_what_is_doubled(ended: Ended, lines: list[Line], why: str) -> None:
    (finding,) = verdict.doubled([ended], lines)
    assert finding.startswith("doubled") and why in finding


def test_the_witness_sees_two_attempts_at_once(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    witness = (Path(verdict.__file__).parent / "witness.sh").read_text()
    environment = {**os.environ, "SOAK": str(tmp_path), "RADRM_JOB_ID": "7", "SOAK_TICKET": "T"}
    # The first one lives on in a process that it has left behind.
    for attempt, body in ((1, "sleep 60 & echo $!"), (2, ":")):
        done = subprocess.run(
            ["bash", "-c", f"{witness}{body}\nsay ended"],
            env={**environment, "RADRM_ATTEMPT": str(attempt)},
            stdout=(tmp_path / f"out-{attempt}").open("w"),
            check=True,
        )
        assert done.returncode == 0
    os.kill(int((tmp_path / "out-1").read_text()), signal.SIGKILL)
    lines = [(line.word, line.attempt) for line in witnessed(tmp_path / "lines")]
    assert lines == [("begun", 1), ("ended", 1), ("doubled", 2), ("ended", 2)]


def test_what_is_orphaned() -> None:
    found = verdict.orphaned(
        ["42 sleep"], ["/g"], ["/a/1"], ["{}"], {"GPU-0": (5, 9), "GPU-1": (5, 5)}
    )
    assert len(found) == 5 and found[-1] == "orphaned: 4 MiB of GPU-0"


def lives(*rss: int) -> list[Sample]:
    return [replace(SAMPLE, rss_kib=kib) for kib in rss]


def test_memory_that_grows_is_found_and_memory_that_settles_is_not() -> None:
    (finding,) = verdict.growth(lives(*range(50_000, 95_000, 5_000)), None)
    assert "daemon 1 holds" in finding
    assert verdict.growth(lives(40_000, 50_000, 60_000, *[62_000] * 6), None) == []
    filling = [replace(each, ended=at) for at, each in enumerate(lives(*range(30, 120, 5)))]
    settled = [replace(each, ended=18) for each in lives(*[120] * 9)]
    mib = [replace(each, rss_kib=each.rss_kib * 1000) for each in (*filling, *settled)]
    assert len(verdict.growth(mib, None)) == 1
    assert verdict.growth(mib, None, filled=18) == []


@pytest.mark.parametrize("more", [{"descriptors": 30}, {"threads": 20}])
def test_what_the_idle_daemon_keeps(more: dict[str, int]) -> None:
    assert verdict.growth([], (SAMPLE, SAMPLE)) == []
    assert len(verdict.growth([], (SAMPLE, replace(SAMPLE, **more)))) == 1


def test_a_store_that_grows_is_found_and_one_that_retention_bounds_is_not() -> None:
    def stores(*kib: int) -> list[Sample]:
        return [replace(SAMPLE, life=i, store_kib=each) for i, each in enumerate(kib)]

    (finding,) = verdict.growth(stores(*range(1000, 19_000, 2000)), None)
    assert "the store has" in finding
    assert verdict.growth(stores(200, 2000, 4000, 6000, 3000, 6000, 4000, 6500, 5000), None) == []
    samples = [*stores(*range(1000, 37_000, 2000)), *stores(*[37_000] * 9)]
    samples = [replace(each, ended=at) for at, each in enumerate(samples)]
    assert len(verdict.growth(samples, None)) == 1
    assert verdict.growth(samples, None, filled=18) == []


def test_latency_that_drifts() -> None:
    assert verdict.drift({"ping": ([0.01] * 9, [0.04] * 9)}) == []
    assert len(verdict.drift({"ping": ([0.01] * 9, [0.09] * 9)})) == 1
    assert len(verdict.drift({"ping": ([], [0.09])})) == 1
    busier = {"machine": ([0.002] * 9, [0.004] * 9)}
    assert verdict.drift({"ping": ([0.02] * 9, [0.12] * 9), **busier}) == []
    assert len(verdict.drift({"ping": ([0.02] * 9, [0.14] * 9), **busier})) == 1


def test_only_what_a_fault_touches_does_not_count() -> None:
    asked = [
        Latency(1.0, "ping", 0.1),
        Latency(5.0, "ping", 2.0),
        Latency(5.9, "ping", 0.2, answered=False),  # the daemon was killed meanwhile
        Latency(20.0, "ping", 0.3, answered=False),
    ]
    assert verdict.calm(asked, [(6.0, 9.0)]) == [asked[0], asked[3]]
    assert verdict.unanswered(asked[3:]) == ["unanswered: ping, asked at 20.0, for 0.3 s"]
    assert verdict.split(asked, 2.0, 5.0) == {"ping": ([0.1], [2.0])}


def test_what_was_never_tried_proves_nothing() -> None:
    kinds = [kind.name for kind in KINDS]
    assert verdict.untried([*kinds, PROBE], 5, {"a fault": 1}) == []
    found = verdict.untried(kinds, 0, {"a fault": 0})
    assert found == [
        "untried: a fault",
        "untried: no job has ended",
        f"untried: no job of kind {PROBE!r}",
    ]
