"""Rules of third parties, found by their entry points: one that fails ends nobody's daemon."""

from __future__ import annotations

import json
import sys

from tests.daemon.harness import DaemonHome, simjob
from tests.paths import REPOSITORY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RULES = """
class Broken:
    name, version, floor_mib, whole_device, overcommits = "broken", 1, 1024, False, False

    def refuse(self, ask, offer):
        raise KeyError(offer.device.uuid)

    def choose(self, ask, eligible, state):
        return eligible[:1], {1, 2}
"""


def test_a_policy_that_raises_is_set_aside_and_said(home: DaemonHome) -> None:
    home.install({"radrm.policies": {"broken": "third_party:Broken"}}, third_party=RULES)
    home.settings = ["policy=broken"]
    home.fixed = ["core.retry_s=90000", "core.retry_most_s=90000"]
    home.start()
    first = home.submit("--gpu-memory=1G", "--", "true")
    second = home.submit("--gpu-memory=1G", "--", "true")
    for job in (first, second):
        assert home.wait_end(job)["state"] == "COMPLETED"
    said = [line for line in home.said().splitlines() if "the policy broken failed" in line]
    assert len(said) == 1 and "KeyError" in said[0] and "third_party.py:6" in said[0]
    assert "exclusive is used in its place" in said[0]
    findings = json.loads(home.radrm("doctor", "--json").stdout)
    (rules,) = [found for found in findings if found["check"] == "rules"]
    assert rules["level"] == "warn" and "the policy broken failed" in rules["finding"]


ESTIMATORS = """
from radrm.rules import Estimate, Quantity

class ByName:
    name = "by-name"

    def estimate(self, job):
        if job.spec.name == "fails":
            raise KeyError(job.spec.name)
        return (Estimate(Quantity.MEMORY, 5000.0, 5000.0, self.name),)
"""


def test_an_estimator_is_added_to_auto_and_one_that_fails_harms_nobody(home: DaemonHome) -> None:
    home.install({"radrm.estimators": {"by-name": "theirs:ByName"}}, theirs=ESTIMATORS)
    home.settings = ['estimators.auto.also=["by-name"]']
    home.start()
    jobs = [home.submit(f"--name={name}", "--", "true") for name in ("fails", "works")]
    for job in jobs:
        assert home.wait_end(job)["state"] == "COMPLETED"
    failed, works = (home.job(job) for job in jobs)
    assert works["estimate_source"] == "by-name" != failed["estimate_source"]
    assert any("KeyError" in note for note in failed["estimate_notes"])
    listed = {row["estimator"] for row in home.json("estimators")}
    assert {"by-name", "history"} <= listed


PACKAGE = REPOSITORY / "examples" / "rules_package"
TRACE = """submit_s,name,gpus,duration_s,memory_mib,smact
0,a,1,600,8000,0.5
1,b,1,600,8000,0.5
2,c,1,600,8000,0.5
3,d,1,600,8000,0.5
4,e,1,600,8000,0.5
"""


def test_the_example_package_decides_in_the_simulator_and_in_a_daemon(home: DaemonHome) -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    rules = (PACKAGE / "site_rules.py").read_text()
    home.install(project["entry-points"], site_rules=rules)
    trace = home.file("trace.csv", TRACE)
    words = ("--order=due-first", "--policy=pack-active", "--known=smact,duration")
    found = home.json("simulate", str(trace), "--gpus=sim:2xA100-40GB", *words)
    assert (found["order"], found["policy"], found["jobs"]) == ("due-first", "pack-active", 5)
    assert found["mean_wait_s"] > 0, "four jobs are all that two GPUs may have"

    home.settings = ["order=due-first", "policy=pack-active"]
    home.scale = 1.0  # what is measured of the jobs stays what they declare
    home.start()
    demand = ("--gpu-memory=1G", "--smact=0.5")
    jobs = [home.submit(*demand, "--", *simjob(1, 0.5, 9999)) for _ in range(4)]
    for job in jobs:
        home.wait_state(job, "RUNNING")
    devices = [home.job(job)["devices"] for job in jobs]
    assert devices[0] == devices[1] != devices[2] == devices[3], "the busiest GPU is filled first"
    last = home.submit(*demand, "--", *simjob(1, 0.5, 9999))
    explained = home.radrm("explain", str(last)).stdout
    assert "SM activity 1.00 + 0.50, most_smact is 1.20" in " ".join(explained.split())
    assert not [line for line in home.said().splitlines() if "failed" in line]


# ------------------------------------------------------------------ what orders see


def test_shares_show_users_and_whose_job_is_next(home: DaemonHome) -> None:
    home.settings = ["order=fair", "policy=exclusive"]
    home.start()
    jobs = [home.submit("--gpu-memory=1G", "--", *simjob(1, 0.1, 9999)) for _ in range(3)]
    for job in jobs[:2]:
        home.wait_state(job, "RUNNING")
    found = home.json("limits")["shares"]
    (user,) = found["users"]
    assert found["half_life_s"] == 604_800.0
    assert (user["running"], user["waiting"], user["rank"]) == (2, 1, 1)
    assert user["gpus"] == 2.0 and user["share"] == 1.0 and user["gpu_s"] > 0
    (group,) = found["groups"]
    assert group["gpus"] == 2.0 and group["group"]
    header, row, about = home.radrm("limits").stdout.splitlines()[-3:]
    assert header.split() == ["USER", "GPU-HOURS", "SHARE", "GPUS", "RUNNING", "WAITING", "RANK"]
    assert row.split()[0] == user["user"] and row.split()[2:] == ["100%", "2.0", "2", "1", "1"]
    assert about == "GPU time counts half after 7d00h."
    home.kill()
    home.start()
    (again,) = home.json("limits")["shares"]["users"]
    assert again["gpu_s"] >= user["gpu_s"] and again["gpus"] == 2.0
