"""What is submitted while no daemon runs."""

from __future__ import annotations

from pathlib import Path

from radrm.client.connection import Client
from radrm.client.submitting import check
from radrm.errors import Unreachable
from radrm.host.storage.paths import Paths
from radrm.jobfile.command_line import SubmitRequest

TICKET = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def test_without_a_daemon_a_job_follows_ids_and_tickets_only(tmp_path: Path) -> None:
    with Client((Paths(str(tmp_path), f"{tmp_path}/run"),)) as client:
        after = ["12", "12_3:any", f"{TICKET}:failed"]
        (found,), _, up = check(client, SubmitRequest({"after": after}, command=("true",)))
        assert not up and found["error"] is None
        assert found["envelope"].options["after"] == after
        for word in ("prep", "@", "sweep-*"):
            (found,), _, _ = check(client, SubmitRequest({"after": [word]}, command=("true",)))
            assert found["error"].startswith(f"--after={word}: no daemon answers")
            assert found["code"] == Unreachable.exit_code
