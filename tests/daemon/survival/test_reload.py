"""HUP: the daemon starts anew in its process with its configuration, and running jobs run on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon


@pytest.fixture
def server(home: DaemonHome) -> DaemonHome:
    home.environment["RADRM_CONFIG"] = str(home.file("radrm.toml", ""))
    home.settings = ["core.smact_warm_s=1"]
    home.forked = False  # it executes its own command again
    home.start()
    return home


def starts(server: DaemonHome) -> int:
    return server.said().count(" is up: ")


def test_a_reload_starts_anew_and_jobs_go_on(server: DaemonHome) -> None:
    file, process = Path(server.environment["RADRM_CONFIG"]), server.process
    assert process is not None
    running = server.submit("--name=long", "--", "sh", "-c", "until [ -e go ]; do sleep 0.05; done")
    queued = server.submit("--gpus=2", "--begin=+9h", "--", "true")
    before = server.wait_state(running, "RUNNING")

    # What only a start reads, and what rules read, are in force alike; the pid stays.
    file.write_text('order = "weight"\ndevice_ids = "index"\n[limits]\nqueued_jobs = 7\n')
    done = server.radrm("config", "reload")
    assert (done.returncode, done.stderr) == (0, "")
    assert "jobs run on" in done.stdout and starts(server) == 2
    found: dict[str, Any] = server.ask("ping")
    assert (found["order"], found["pid"]) == ("weight", process.pid)
    now = server.job(running)
    assert (now["state"], now["attempts"]) == ("RUNNING", 1)
    assert now["started_at"] == pytest.approx(before["started_at"])
    assert server.job(queued)["begin_at"] is not None
    numbered = server.submit("--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert server.wait_end(numbered)["state"] == "COMPLETED"
    assert server.output(numbered).strip() in ("0", "1")

    # Its end is seen by the new daemon, which is its runner's parent, and reaps that.
    (server.work / "go").touch()
    assert server.wait_end(running)["state"] == "COMPLETED"


def test_a_wrong_file_is_refused_in_one_line_and_the_old_one_stays(server: DaemonHome) -> None:
    file, process = Path(server.environment["RADRM_CONFIG"]), server.process
    assert process is not None
    file.write_text("[idle]\naction = 'sometimes'\n")
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: "not reloaded, " in server.said(), "the mistake")
    (line,) = [each for each in server.said().splitlines() if "not reloaded, " in each]
    assert "idle.action" in line and "'sometimes'" in line
    refused = server.radrm("config", "reload")
    assert refused.returncode == 2 and "idle.action" in refused.stderr
    assert refused.stderr.count("\n") == 1 and starts(server) == 1

    # What is wrong only with the GPUs of this server would keep the daemon from coming back.
    file.write_text("[gpus]\nonly = [7]\n")
    refused = server.radrm("config", "reload")
    assert refused.returncode == 1 and "gpus.only" in refused.stderr and starts(server) == 1


@pytest.mark.nightly
def test_many_signals_at_once_kill_nothing_and_a_term_ends_it(server: DaemonHome) -> None:
    process = server.process
    assert process is not None
    job = server.submit("--", "sleep", "9999")
    server.wait_state(job, "RUNNING")
    for _ in range(3):
        process.send_signal(signal.SIGHUP)
    wait_until(lambda: starts(server) >= 2, "a new start")
    process.send_signal(signal.SIGHUP)
    count = starts(server)
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: starts(server) > count, "another start")
    assert server.job(job)["state"] == "RUNNING"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) in (0, -signal.SIGTERM)
    server.start()
    assert server.job(job)["state"] == "RUNNING"
