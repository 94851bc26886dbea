"""`planner = "andreas"` in a real daemon: its process has numpy, and due jobs displace others."""

from __future__ import annotations

import pytest

from radrm.simulated.spec import parse
from tests.daemon.harness import DaemonHome
from tests.daemon.trainers import at_work, begun_from, saved_step, trainer
from tests.waiting import wait_until


@pytest.fixture
def home(home: DaemonHome) -> DaemonHome:
    home.settings = ["planner=andreas", "planners.andreas.max_iterations=50"]
    return home


def test_a_due_job_displaces_one_that_saves_which_then_goes_on(home: DaemonHome) -> None:
    home.gpus, home.scale = "sim:1xA100-40GB", 50.0
    home.start()
    work = trainer("--saves", seconds=100_000)
    patient = home.submit("--checkpoint=signal", "--duration=30h", *work)
    wait_until(lambda: at_work(home, patient), "it to be at work")
    urgent = home.submit("--duration=10h", "--due=+11h", *trainer())
    wait_until(lambda: home.job(urgent)["state"] == "RUNNING", f"the urgent one: {home.said()}")
    (first,) = home.json("explain", str(patient))["attempts"]
    assert (first["planner"], first["outcome"]) == ("andreas", "preempted")
    assert "Postponed" in home.radrm("explain", str(patient)).stdout
    step = saved_step(home, patient)
    home.radrm("cancel", str(urgent))
    wait_until(lambda: at_work(home, patient, 2), f"it to go on: {home.said()}")
    assert begun_from(home, patient, 2) >= step - 0.1
    assert "failed (" not in home.said()


UNEQUAL = "sim:2xV100-32GB,1xT4-16GB"
ONE_S, TWO_S, T4_S = 12_000, 1000, 15_600
"""What the job takes on a V100, on two, and on a T4."""


def test_number_and_kind_of_gpus_follow_from_profiles_and_the_due_time(
    home: DaemonHome,
) -> None:
    """Section IV: the cheapest (n*, g*) that ends in time."""
    home.gpus = UNEQUAL
    home.settings += ["energy.price=0.17", "energy.node_watts={ V100 = [300, 600], T4 = [200] }"]
    *fast, slow = (each.device.uuid for each in parse(UNEQUAL))
    home.start()
    job = "radrm-simjob --gpu-memory 4G --ramp 1 --gpus all --loss-k 3 --saves"
    home.file(
        "train.rad",
        f"#!/bin/bash\n#RAD --gpus=1-2 --checkpoint=signal\n"
        f"case $CUDA_VISIBLE_DEVICES in\n*,*) s={TWO_S} ;;\n*{slow}*) s={T4_S} ;;\n"
        f"*) s={ONE_S} ;;\nesac\n"
        f"exec {job} --seconds $s\n",
    )
    probed = home.json("profile", "train.rad", "--limit=1d")
    found = {(each["kind"], each["gpus"]): each for each in probed}
    assert {pair: each["why"] for pair, each in found.items()} == {
        ("V100-32GB", 1): None,
        ("V100-32GB", 2): None,
        ("T4-16GB", 1): None,
    }
    patient = home.submit("train.rad", "--due=+9h")
    urgent = home.submit("train.rad", f"--due=+{ONE_S - 200}s")
    wait_until(lambda: home.job(urgent)["state"] == "RUNNING", f"its start: {home.said()}")
    assert sorted(home.job(urgent)["devices"]) == sorted(fast)
    assert home.job(patient)["devices"] == [slow]
    ended = home.wait_end(urgent)
    assert ended["state"] == "COMPLETED" and not ended["late_s"], ended
    assert "failed (" not in home.said()
