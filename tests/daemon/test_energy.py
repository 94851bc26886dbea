"""The energy of jobs on simulated GPUs: its parts, its sum, and what a kill leaves of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.harness import DaemonHome, simjob
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon


def metered_j(home: DaemonHome) -> float:
    """What the simulated GPU has used since its driver was started."""
    driver = home.driver()
    (device,) = driver.ask("devices")["devices"]
    (reading,) = driver.ask("read", uuids=[device["uuid"]])["readings"]
    driver.close()
    return float(reading["energy_j"])


def energy_of_jobs_j(home: DaemonHome) -> dict[int, float]:
    rows = home.ask("energy", by="job", since=0)["rows"]
    return {row["job"]: row["kwh"] * 3.6e6 for row in rows}


def test_the_parts_are_the_meter_also_after_a_kill(home: DaemonHome) -> None:
    home.gpus = "sim:1xA100-40GB"
    home.settings = ["policy=magm", 'energy.price={"00:00"=1.0, "12:00"=1.0}', "energy.pue=2"]
    home.start()
    before_j, earlier_j = metered_j(home), home.ask("energy", by="user", since=0)["total"]["kwh"]
    began_s = home.ask("ping")["now"]
    light, heavy = (
        home.submit("--gpu-memory=8G", f"--smact={smact}", "--", *simjob(6, smact, 200))
        for smact in (0.1, 0.5)
    )
    ended = [home.wait_end(job) for job in (light, heavy)]
    booked_j = {job["id"]: pytest.approx(job["energy_j"], rel=0.01) for job in ended}
    wait_until(lambda: energy_of_jobs_j(home) == booked_j, "the reading that stores the last part")
    least_j = metered_j(home) - before_j

    def booked() -> Any:
        """The answer once a reading has booked all that the meter had then."""
        found = home.ask("energy", by="job", since=0)
        return found if (found["total"]["kwh"] - earlier_j) * 3.6e6 >= 0.95 * least_j else None

    answer = wait_until(booked, "the next reading")
    most_j = metered_j(home) - before_j
    assert (answer["total"]["kwh"] - earlier_j) * 3.6e6 <= 1.05 * most_j
    of_job = energy_of_jobs_j(home)
    assert of_job[heavy] > 1.5 * of_job[light], "by their SM activity"
    assert answer["total"]["cost"] == pytest.approx(2 * answer["total"]["kwh"])
    report = home.ask("report", by="job", since=0)
    held = {row["job"]: row for row in report["rows"]}
    assert {job_id: row["completed"] for job_id, row in held.items()} == {light: 1, heavy: 1}
    first_s, last_s = min(j["started_at"] for j in ended), max(j["ended_at"] for j in ended)
    assert report["total"]["gpu_s"] >= last_s - first_s - 1
    assert report["total"]["gpu_s"] <= home.ask("ping")["now"] - began_s, "one GPU, shared"
    home.kill()
    home.start()
    after = home.ask("report", by="job", since=0)
    assert {row["job"]: row["gpu_s"] for row in after["rows"]} == {
        job_id: row["gpu_s"] for job_id, row in held.items()
    }
    looked = home.ask("overview", since=0)
    assert looked["total"]["gpu_s"] == pytest.approx(after["total"]["gpu_s"])
    assert sorted(bar["job"] for bar in looked["bars"]) == [str(light), str(heavy)]
    (declared,) = looked["estimators"]
    assert (declared["estimator"], declared["runs"]) == ("declared", 2)
    page = home.radrm("report", "--html", "-", "--since", "1d").stdout
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")
    assert "<script" not in page and "2 jobs of 1 user ended" in page
    listed = home.ask("history", since=0)
    assert sorted(job["id"] for job in listed["jobs"]) == [light, heavy]
    assert listed["sums"]["gpu_s"] == pytest.approx(after["total"]["gpu_s"])
    again = home.ask("energy", by="job", since=0)
    assert energy_of_jobs_j(home) == pytest.approx(of_job)
    wait_until(
        lambda: home.ask("energy", by="job", since=0)["idle"]["kwh"] > again["idle"]["kwh"],
        "idle energy to be booked again",
    )
    total_j = home.ask("energy", by="user", since=0)["total"]["kwh"] * 3.6e6
    assert total_j <= metered_j(home) * 1.001, "nothing counts twice"
    shown = home.radrm("report", "--energy", "--by", "gpu").stdout.splitlines()
    assert shown[0].split() == ["GPU", "NAME", "KWH", "EUR", "SHARE", "IDLE", "KWH"]
    assert shown[1].split()[:2] == ["0", "A100-40GB"]
    assert [line.split()[0] for line in shown[2:4]] == ["(idle)", "total"]
