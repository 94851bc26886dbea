"""Jobs that give way to others at the end of their time slots, on a real daemon.

The clock runs fast: a slot lasts 2 s, and a job that never answers is given up after 2 s.
"""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome, simjob
from tests.daemon.trainers import at_work, begin, begun_from, log_of, saved_file, trainer
from tests.waiting import wait_until


@pytest.fixture
def home(home: DaemonHome) -> DaemonHome:
    home.gpus, home.scale = "sim:1xA100-40GB", 50.0
    home.settings = ["checkpoint.patience_s=2", "policy=exclusive", "order=fifo"]
    home.settings += ["slots.length_s=100", "slots.warn_s=20"]
    home.start()
    return home


@pytest.mark.parametrize("kind", ["signal", "exit"])
def test_a_job_gives_way_and_goes_on_from_what_it_has_saved(home: DaemonHome, kind: str) -> None:
    first = begin(home, kind, "--saves")
    assert "slots: its time slot" in home.radrm("status", str(first)).stdout
    second = begin_after(home, first, kind)
    gives_way(home, first)
    wait_until(lambda: home.job(first)["attempts"] >= 2, "the end of the other's slot")
    gives_way(home, second)
    wait_until(lambda: at_work(home, first, 2), "it to be at work")
    saved = log_of(home, first).read_text().rpartition("saved at ")[2]
    assert begun_from(home, first, 2) >= float(saved.split("/")[0]) - 0.1 > 0


def begin_after(home: DaemonHome, first: int, kind: str) -> int:
    """Submit another job, which starts when the first has given way to it."""
    second = home.submit(f"--checkpoint={kind}", *trainer("--saves"))

    def waits_for_the_first() -> bool:
        why = home.radrm("explain", str(second)).stdout
        return f"job {first} (radrm-simjob)" in why and "time slot" in why

    wait_until(waits_for_the_first, f"the first to be in its way: {home.said()}")
    wait_until(lambda: home.job(second)["attempts"], f"the first to give way: {home.said()}")
    return second


def gives_way(home: DaemonHome, job: int) -> None:
    """Wait until a job has saved and waits. The jobs take turns, so this comes again: a machine
    that is slow for a whole slot misses nothing."""

    def waits() -> bool:
        found = home.job(job)
        return found["state"] == "PENDING" and (found["saved_work_done"] or 0) > 0

    wait_until(waits, f"job {job} to give way: {home.said()}")


def test_one_that_never_saves_runs_on(home: DaemonHome) -> None:
    first = begin(home, "signal", "--saves", "never")
    second = home.submit("--", "radrm-simjob")
    seen = {}

    def given_up() -> bool:
        seen.update(home.job(first))
        return seen["checkpoint_error"] is not None  # until it is asked again

    wait_until(given_up, "the request to be given up")
    document = seen
    assert (document["state"], document["attempts"]) == ("RUNNING", 1)
    assert "it has not saved its work" in document["checkpoint_error"]
    assert home.job(second)["state"] == "PENDING"


def test_a_daemon_killed_between_the_save_and_the_stop_goes_on(home: DaemonHome) -> None:
    first = begin(home, "signal", "--saves", "20")
    second = home.submit("--", *simjob(1, 0.3, 5000))
    wait_until(lambda: "saving at" in log_of(home, first).read_text(), "the request to reach it")
    home.kill()
    wait_until(saved_file(home, first).exists, "the save, which no daemon hears of")
    home.start()
    home.wait_state(second, "RUNNING")
    gives_way(home, first)
