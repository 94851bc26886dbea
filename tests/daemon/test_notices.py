"""Notices of a real daemon: after a kill the next one sends what was not, and no job waits."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from radrm.daemon.answers.questions import not_sent
from radrm.host.storage.store import Store
from tests.daemon.harness import DaemonHome
from tests.documents import whole
from tests.host.notices.notes import ended, pending, submitted, waiting
from tests.waiting import wait_text, wait_until

TELL = """#!/bin/sh
cd "$(dirname "$0")"
case "$RADRM_JOB_NAME" in hangs) touch hangs; exec sleep 1000;; esac
[ -e go ] || { echo "not yet" >&2; exit 1; }
echo "$RADRM_JOB_NAME $RADRM_EVENT $(head -1)" >> told
"""


@pytest.mark.daemon
def test_a_kill_loses_no_notice_and_a_target_that_hangs_delays_no_job(daemon: DaemonHome) -> None:
    tell = daemon.file("tell", TELL)
    tell.chmod(0o755)
    refused = daemon.radrm("submit", "--", "true", env={"RADRM_NOTIFY": "me"})
    assert refused.returncode == 2 and "RADRM_NOTIFY: --notify: 'me' is not" in refused.stderr
    words = ("submit", "--json", "--gpus=0", "--name=lost", "--", "false")
    done = daemon.radrm(*words, env={"RADRM_NOTIFY": f"{tell}:fail"})
    (result,) = json.loads(done.stdout)
    wait_until(lambda: problems(daemon, result["id"]), "a try that fails")
    (problem,) = problems(daemon, result["id"])
    assert (problem["error"], problem["given_up"]) == ("tell ends with 1: not yet", False)
    status = daemon.radrm("status", str(result["id"])).stdout
    assert "not sent yet (1 try): tell ends with 1: not yet" in " ".join(status.split())
    daemon.kill()
    (daemon.work / "go").touch()
    daemon.start()
    told = daemon.work / "told"
    assert wait_text(told) == f"lost end job {result['id']} (lost) FAILED\n"
    wait_until(lambda: not problems(daemon, result["id"]), "its mark")

    daemon.submit("--gpus=0", "--name=hangs", f"--notify={tell}", "--", "true")
    wait_until((daemon.work / "hangs").exists, "a target that hangs")
    job = daemon.submit("--gpus=0", "--name=next", f"--notify={tell}", "--", "true")
    assert daemon.wait_end(job)["state"] == "COMPLETED"
    assert daemon.submit("--gpus=0", "--", "true") == job + 1
    assert "next" not in told.read_text(), "it waits for its user's other notice"


def problems(daemon: DaemonHome, job: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = whole(daemon.ask("explain", jobs=[str(job)])["job"])["notices"]
    return found


def test_only_its_user_sees_what_was_not_sent(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "radrm.sqlite"))
    job = ended(pending(uid=61001))
    submitted(store, job, "https://hooks.example.org/secret")
    (notice,) = waiting(store)
    store.notices.tried(notice, "it answers 404", for_good=True)
    for uid in (61001, 0, os.getuid()):
        (problem,) = not_sent(store, job, uid)
        assert problem["target"] == "webhook at hooks.example.org"
    assert not_sent(store, job, 61002) == []
