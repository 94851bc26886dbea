"""What is submitted while no daemon runs, or one hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.client import submitting
from radrm.client.connection import Client
from radrm.client.submitting import check
from radrm.errors import Unreachable
from radrm.host.sockets import listen
from radrm.host.storage.paths import Paths, prepare
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


def test_a_daemon_that_hangs_keeps_no_job_from_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitting, "CHECK_S", 0.01)
    prepare(paths := Paths(str(tmp_path), f"{tmp_path}/run"), False)
    with listen(paths.socket), Client((paths,)) as client:
        found, _, up = check(client, SubmitRequest({}, command=("true",)))
        assert not up and found[0]["error"] is None
        submitting.put(client, found, paths, up)
        with pytest.raises(Unreachable, match=r"no answer within 0\.01 s"):
            client.wait_at_most(0.01)
            client.ask("ping")
    assert found[0]["ticket"] is not None
