"""What sharing costs here: learned on simulated GPUs, shown, and kept over a restart."""

from __future__ import annotations

import json

import pytest

from tests.daemon.harness import DaemonHome, simjob

pytestmark = pytest.mark.daemon


def test_the_cost_of_sharing_is_learned_shown_and_kept(home: DaemonHome) -> None:
    home.gpus = "sim:1xA100-40GB"
    home.settings = ["core.smact_warm_s=20"]
    home.start()
    assert home.ask("health")["sharing"] == []
    long, short = (  # the second is beside the first for all its time
        home.submit("--gpu-memory=6G", "--smact=0.4", "--", *simjob(6, 0.4, seconds))
        for seconds in (8000, 400)
    )
    home.wait_end(short)
    (learned,) = home.ask("health")["sharing"]
    assert (learned["name"], learned["mps"], learned["periods"]) == ("A100-40GB", False, 1)
    waiting = home.submit("--gpu-memory=35G", "--", *simjob(6, 0.4, 10))
    assert learned["text"] in " ".join(home.radrm("explain", str(waiting)).stdout.split())
    home.kill()
    home.start()
    assert home.ask("health")["sharing"] == [learned]
    found = json.loads(home.radrm("doctor", "--json").stdout)
    (said,) = [each["finding"] for each in found if each["check"] == "sharing"]
    assert said == learned["text"].removeprefix("sharing ")
    home.ask("cancel", jobs=[str(waiting), str(long)])
