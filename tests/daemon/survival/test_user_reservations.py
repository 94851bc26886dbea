"""`radrm reserve` against a daemon: what it prints, and that a killed daemon keeps it."""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon


def test_a_killed_daemon_keeps_what_is_reserved(home: DaemonHome) -> None:
    home.gpus = "sim:2xA100-40GB"
    home.settings = ["core.smact_warm_s=0"]
    home.start()
    nothing = home.radrm("reserve")
    assert nothing.stdout.startswith("No GPU is reserved") and nothing.returncode == 0
    done = home.radrm("reserve", "1", "--maintenance", "--for", "2h", "--reason", "new driver")
    assert done.stdout.startswith("Reserved GPU 1 for maintenance from now until "), done
    assert done.stdout.endswith("Cancel it with: radrm reserve --cancel 1\n")
    home.radrm("reserve", "0", "--user", "nobody", "--from", "+9h", "--for", "1h")
    lost = home.radrm("reserve", "0", "--for", "10h")
    assert lost.returncode == 1 and "GPU 0 is reserved for nobody (reservation 2) in" in lost.stderr
    job = home.submit("--gpu-memory=4G", "--smact=0.1", "--", "true")
    wait_until(lambda: "reserved" in (home.job(job)["reason"] or ""), "its reason")
    home.kill()
    home.start()
    first, second = home.json("reserve")
    assert (first["state"], first["reason"], first["gpus"]) == ("active", "new driver", [1])
    assert (second["state"], second["for"]) == ("planned", "nobody")
    (device,) = [each for each in home.json("gpus") if each["index"] == 1]
    assert device["reason"].startswith("reserved for maintenance (reservation 1) for 1h")
    assert [each["id"] for each in device["reserved_for"]] == [1]
    assert "GPU 1   reserved for maintenance, 20" in home.radrm("gpus").stdout
    assert home.job(job)["state"] == "PENDING"
    home.radrm("reserve", "--cancel", "1")
    assert home.wait_end(job)["state"] == "COMPLETED"
    shown = home.radrm("reserve").stdout.splitlines()
    assert shown[0].split()[:5] == ["ID", "FOR", "GPUS", "FROM", "UNTIL"]
    assert shown[1].split()[:3] == ["2", "nobody", "0"]
