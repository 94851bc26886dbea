"""`planner = "andreas"` in a real daemon: its process has numpy, and due jobs displace others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.harness import DaemonHome
from tests.daemon.survival.test_saving import at_work, log_of, saved_step, trainer
from tests.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[DaemonHome]:
    found = DaemonHome(tmp_path, gpus="sim:1xA100-40GB", scale=50.0)
    found.settings += ["planner=andreas", "planners.andreas.max_iterations=50"]
    found.start()
    yield found
    found.close()


def test_a_due_job_displaces_one_that_saves_which_then_goes_on(home: DaemonHome) -> None:
    patient = home.submit("--checkpoint=signal", "--duration=3h", *trainer("--saves"))
    wait_until(lambda: at_work(home, patient), "it to be at work")
    urgent = home.submit("--duration=1h", "--due=+70m", *trainer())
    wait_until(lambda: home.job(urgent)["state"] == "RUNNING", f"the urgent one: {home.said()}")
    (first,) = home.json("explain", str(patient))["attempts"]
    assert (first["planner"], first["outcome"]) == ("andreas", "preempted")
    assert "Postponed" in home.radrm("explain", str(patient)).stdout
    step = saved_step(home, patient)
    home.radrm("cancel", str(urgent))
    wait_until(lambda: at_work(home, patient, 2), f"it to go on: {home.said()}")
    line = log_of(home, patient, 2).read_text().split("s  speed")[0]
    assert float(line.split()[3].split("/")[0]) >= step - 0.1
    assert "failed (" not in home.said()
