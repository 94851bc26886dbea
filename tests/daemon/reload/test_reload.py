"""HUP: a real daemon reads its configuration again, and running jobs run on."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon

IDLE = """
[idle]
action = "cancel"
for_s = 60
warn_s = 60
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DaemonHome]:
    made = DaemonHome(tmp_path, gpus="sim:2xA100-40GB")
    (tmp_path / "radrm.toml").write_text("")
    made.environment["RADRM_CONFIG"] = str(tmp_path / "radrm.toml")
    made.settings = ["core.smact_warm_s=1"]
    made.start()
    yield made
    made.close()


def test_what_can_change_at_once_does_and_the_rest_is_named(server: DaemonHome) -> None:
    file, process = Path(server.environment["RADRM_CONFIG"]), server.process
    assert process is not None
    running = server.submit("--name=spared", "--expect-idle", "--", "sleep", "999")
    queued = server.submit("--gpus=2", "--begin=+9h", "--", "true")
    before = server.wait_state(running, "RUNNING")

    file.write_text("[idle]\naction = 'sometimes'\n")
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: "nothing has changed: " in server.said(), "the mistake")
    (line,) = [each for each in server.said().splitlines() if "nothing has changed" in each]
    assert "idle.action" in line and "'sometimes'" in line
    refused = server.radrm("config", "reload")
    assert refused.returncode == 2 and "idle.action" in refused.stderr

    file.write_text(f'order = "weight"\ndevice_ids = "index"\n{IDLE}')
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: "idle.warn_s = 60" in server.said(), "the reload")
    said = server.said()
    assert "idle.action = 'cancel' applies now; it was 'off'" in said
    assert "order = 'weight' applies now; it was 'fair'" in said or "order = 'weight'" in said
    assert "device_ids = 'index' needs a restart; 'uuid' stays" in said
    assert server.ask("ping")["order"] == "weight" and server.ask("ping")["pid"] == process.pid

    # The job runs on in the same attempt, and an idle one is warned and cancelled.
    idle = server.submit("--", "sleep", "999")
    ended = server.wait_end(idle)
    assert ended["state"] == "CANCELLED"
    assert ended["reason"].startswith("idle: GPU ") and ", below 0.05 for " in ended["reason"]
    assert "it is cancelled in 1m00s" in server.said()
    now = server.job(running)
    assert (now["state"], now["attempts"]) == ("RUNNING", 1)
    assert now["started_at"] == pytest.approx(before["started_at"])
    assert server.job(queued)["begin_at"] is not None

    file.write_text("[retention]\nfinished_jobs = 999\n")
    found = json.loads(server.radrm("config", "reload", "--json").stdout)
    assert {each["key"]: each["applied"] for each in found}["retention.finished_jobs"] is True
    assert server.radrm("config", "reload").stdout == "No setting has changed.\n"
    server.kill()
    server.start()
    assert server.job(running)["state"] == "RUNNING"
