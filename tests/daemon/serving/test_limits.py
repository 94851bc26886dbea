"""The limits of a daemon of the whole server, as two users meet them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.paths import REPOSITORY
from tests.waiting import PATIENCE_S

MORE = "wait until some have started, or cancel some"


@pytest.mark.skipif(os.getuid() != 0, reason="only root serves several users")
def test_two_users_before_a_daemon_of_root(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.daemon.serving.limits_inside"]
    new = [place for place in ("/var/lib/radrm", "/run/radrm") if not os.path.exists(place)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RADRM_")}
    done = subprocess.run(
        ["unshare", "--mount", *words],
        env={**environment, "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    for place in new:  # where it has mounted
        with suppress(OSError):
            os.rmdir(place)
    if "unshare" in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["of root"] == "no limits: root and the daemon's user have none"
    reason = (
        "limits.priority_max: its priority is 11, the limit is 10; lower --priority, or ask an "
        "administrator"
    )
    assert found["failed"] == ["FAILED", reason]
    ada, bob = "61001", "61002"
    running = [state for user, state in found["states"] if user == ada and state != "PENDING"]
    assert len(running) == 2 and len(found["states"]) == 6, (
        "three of ada's are queued, one is bob's"
    )
    said = f"Needs 1 GPU, other jobs of {ada} use 2, the limit is 2 (limits.gpus)."
    assert found["why"] == [said]
    limits = {each["name"]: (each["limit"], each["use"]) for each in found["limits"]["limits"]}
    assert found["limits"]["note"] is None
    assert (limits["queued_jobs"], limits["gpus"]) == ((3, 3), (2, 2))
    assert limits["running_jobs"] == (None, 2)
    assert limits["spool_files"] == (50_000, 2), "what is too much waits there"
    assert found["other"] == "only root may see the limits of another user"
    assert found["connections"] == (
        "you have 3 connections to the daemon, the limit is 3; close some"
    )
    assert found["submit"] == 1
    assert f"you have 3 queued jobs, 1 more would exceed the limit of 3; {MORE}" in done.stderr
    (edited,) = found["edit"]
    assert edited["error"] == reason and bob in [user for user, _ in found["states"]]
