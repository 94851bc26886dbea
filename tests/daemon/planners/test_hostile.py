"""Planners that fail or never end: everybody's jobs run on, and the log has one line on each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

HOSTILE = Path(__file__).with_name("hostile.py").read_text()
FAST = {
    "raises": ("Raises", "KeyError: 'x' (hostile.py:"),
    "nonsense": ("Nonsense", "it answered with a int, not a Plan"),
    "spins-in-view": ("SpinsInView", "it took longer than 2 s (hostile.py:"),
    "sleeps": ("Sleeps", "it took longer than 2 s (hostile.py:"),
}
SLOW = {
    "slow-raises": ("SlowRaises", "KeyError: 'x' (hostile.py:"),
    "slow-nonsense": ("SlowNonsense", "it answered with a int, not a Plan"),
    "slow-spins": ("SlowSpins", "it took longer than 3 s"),
    "slow-exits": ("SlowExits", "its process ended"),
    "slow-eats": ("SlowEats", "MemoryError"),
    "slow-endless": ("SlowEndless", "it proposed more than 200"),
}
WORST = {name: SLOW[name] for name in ("slow-raises", "slow-spins", "slow-exits", "slow-eats")}
"""Each slow planner has a process of its own: all of them at once are a proof for the night."""


@pytest.mark.parametrize(
    "planners",
    [
        pytest.param(FAST, id="fast"),
        pytest.param(WORST, id="slow", marks=pytest.mark.nightly),
        pytest.param(SLOW, id="all slow", marks=pytest.mark.nightly),
    ],
)
def test_planners_that_fail_harm_nobody(
    home: DaemonHome, planners: dict[str, tuple[str, str]]
) -> None:
    classes = {name: f"hostile:{which}" for name, (which, _) in planners.items()}
    classes["slow-meddles"] = "hostile:SlowMeddles"
    home.install({"radrm.planners": classes}, hostile=HOSTILE)
    home.settings = [f"planner={'+'.join(['strict', *planners, 'slow-meddles'])}"]
    think_s = 3 if "slow-spins" in planners else 60  # what works well has the time for it
    home.fixed = ["core.retry_s=90000", "core.retry_most_s=90000", f"core.think_s={think_s}"]
    home.start()
    jobs = [home.submit("--gpu-memory=1G", "--", "true") for _ in range(2)]
    for job in jobs:
        assert home.wait_end(job)["state"] == "COMPLETED"
    wait_until(lambda: home.said().count("failed (") >= len(planners), "a line on each planner")
    for name, (_, why) in planners.items():
        (line,) = [each for each in home.said().splitlines() if f"the planner {name} f" in each]
        assert why in line and "the others go on without it" in line
    findings = json.loads(home.radrm("doctor", "--json").stdout)
    (rules,) = [found for found in findings if found["check"] == "rules"]
    assert rules["level"] == "warn"
    third = home.submit("--gpu-memory=1G", "--", "true")
    assert home.wait_end(third)["state"] == "COMPLETED"
    assert "slow-meddles" not in home.said(), "one that prints, reads and forks works well"


def test_a_planner_whose_starts_are_refused_is_named(home: DaemonHome) -> None:
    home.install({"radrm.planners": {"forgets": "hostile:Forgets"}}, hostile=HOSTILE)
    home.settings = ["planner=forgets"]
    home.start()
    job = home.submit("--gpu-memory=1G", "--cpus=1", "--", "true")
    wait_until(lambda: "lanner forgets" in home.radrm("explain", str(job)).stdout, "its name")
    explained = home.radrm("explain", str(job)).stdout
    assert "start" in explained and "about to start" not in explained

    def doubted() -> bool:
        findings = json.loads(home.radrm("doctor", "--json").stdout)
        (rules,) = [found for found in findings if found["check"] == "rules"]
        return rules["level"] == "warn" and "planner forgets" in json.dumps(rules)

    wait_until(doubted, "the doctor to name it")
    assert home.said().count("planner forgets") == 1
