"""What a queue and a submission mean, from documents alone."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

# Of the extra; mcp itself would take each worker a second.
pytest.importorskip("pydantic", reason="pip install 'radrm[mcp]'")

from radrm.agents import commands
from radrm.agents.jobs import finding
from radrm.agents.machine import kind_of, pressure
from radrm.agents.preview import fit, raw_of, request_of
from radrm.errors import Refused, UsageError
from tests.cli.fakes import NOW, Script, job, page


def waiting(**changes: Any) -> dict[str, Any]:
    state = {"state": "PENDING", "held": False, "begin_at": None, "after": [], "behind": None}
    found = {"position": 1, "estimate_source": "declared", "gpus": 1, "expected_start_at": None}
    return {**job(7), **state, **found, "devices": [], **changes}


def test_a_held_job_is_said_to_be_held_once() -> None:
    held = waiting(held=True, reason="It is held until it is released (radrm release 7).")
    answer = {"job": held, "summary": held["reason"]}
    assert finding(answer) == held["reason"]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "GPUs"),
        ({"gpus": 0}, "other"),
        ({"held": True, "behind": "3"}, "held"),
        ({"begin_at": NOW + 60}, "begin"),
        ({"after": [{"job": "3", "condition": "ok"}]}, "dependency"),
        ({"behind": "3"}, "line"),
        ({"position": None, "estimate_source": None}, "estimate"),
    ],
)
def test_what_a_job_waits_for(changes: dict[str, Any], kind: str) -> None:
    assert kind_of(waiting(**changes)) == kind


def device(index: int, free_mib: int | None, state: str = "busy") -> dict[str, Any]:
    nothing = dict.fromkeys(("reason", "used_mib", "unmanaged_mib", "smact", "power_w"))
    size = {"total_mib": 40960, "free_mib": free_mib, "reserved_mib": 0}
    texts = {"uuid": f"GPU-{index}", "name": "A100", "labels": [], "notes": []}
    return {"index": index, "state": state, **nothing, **size, **texts}


def test_the_pressure_of_a_queue() -> None:
    rows = [
        {**job(1), "state": "RUNNING", "devices": ["GPU-0", "GPU-1"]},
        waiting(expected_start_at=NOW + 60, waited_s=5.0),
        waiting(expected_start_at=NOW + 600, waited_s=50.0, behind="7", count=4),
        waiting(expected_start_at=NOW - 9, waited_s=1.0, behind="7", user="bob"),
    ]
    devices = [device(0, 100), device(1, 300), device(2, None, "unhealthy"), device(3, 9, "idle")]
    found = pressure(page(rows, 10, RUNNING=1, PENDING=6, FAILED=0), devices)
    assert found.counts == {"RUNNING": 1, "PENDING": 6}
    assert (found.gpus, found.gpus_idle, found.free_mib, found.largest_free_mib) == (4, 1, 409, 300)
    assert [each.gpu for each in found.gpus_out_of_service] == [2]
    assert found.expected_wait_s == [0.0, 60.0, 600.0]
    assert found.oldest_wait_s == 50.0
    assert [(each.kind, each.jobs) for each in found.waiting] == [("line", 5), ("GPUs", 1)]
    assert [(each.waiting, each.gpus_held) for each in found.users] == [(5, 2), (1, 0)]
    assert (found.looked_at, found.left_out) == (4, 6)


@pytest.mark.parametrize(
    ("gpus", "needs_mib", "room", "says"),
    [
        (0, None, [], "it needs no GPU; no job waits"),
        (1, None, [], "its GPU memory is neither declared nor known"),
        (1, 200, [1], "1 GPU(s) have 200M free now; no job waits"),
        (2, 200, [1], "it needs 200M on 2 GPU(s), and 1 have that free now (the largest 300M)"),
        (2, 100, [0, 1], "2 GPU(s) have 100M free now"),
    ],
)
def test_whether_a_job_could_start(
    gpus: int, needs_mib: int | None, room: list[int], says: str
) -> None:
    found = fit(gpus, needs_mib, [device(0, 100), device(1, 300)], 0, None)
    assert found.gpus_with_room == room
    assert found.says.startswith(says)


def test_options_are_those_of_the_client() -> None:
    given = {"gpus": 2, "gpu_memory": "2G", "env": {"LR": 0.1}, "hold": True, "requeue": False}
    assert raw_of(given) == {"gpus": "2", "gpu-memory": "2G", "env": ["LR=0.1"], "hold": True}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((None, None, None), "either a command or a job file"),
        ((["true"], "job.rad", None), "either a command or a job file"),
        ((None, "-", None), "standard input"),
        ((None, "/dev/zero", None), "not a regular file"),
        ((["true"], None, {"params": "/dev/zero"}), "not a regular file"),
        ((["true"], None, {"gpux": "1"}), "did you mean --gpus"),
        ((["true"], None, {"gpus": "many"}), "gpus"),
        ((["true"], None, {"hold": "x"}), "hold is True or False"),
    ],
)
def test_requests_that_cannot_be(words: tuple[Any, Any, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        request_of(*words)


def test_options_as_an_agent_writes_them() -> None:
    options = {"hold": True, "requeue": False, "env": ["A=1", "B=2"], "gpu-memory": "12G"}
    request = request_of(["python", "x.py"], None, options)
    assert request.raw_options == {"hold": True, "env": ["A=1", "B=2"], "gpu-memory": "12G"}
    assert request.command == ("python", "x.py")


# ------------------------------------------------------------------ whose jobs


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Script:
    """What a daemon of several users is asked; `ann` is the agent's user."""
    bobs = page([{**job(3), "user": "bob"}], 1)
    client = Script(limits=[{"user": "ann"}], page=[bobs], cancel=[[]], edit=[[]])
    monkeypatch.setattr(commands, "daemon", lambda: nullcontext(client))
    return client


def test_commands_are_about_the_users_own_jobs(asked: Script) -> None:
    with pytest.raises(Refused, match="none of these jobs is this user's"):
        commands.cancel_jobs(["3"])
    assert asked.asked[-1] == ("cancel", {"jobs": ["3"], "user": "ann"})
    with pytest.raises(Refused, match="job 3 is bob's; name jobs of ann"):
        commands.edit_jobs(["3"], {"comment": "mine"})
    assert "edit" not in [word for word, _ in asked.asked]
