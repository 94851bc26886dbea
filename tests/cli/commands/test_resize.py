"""`radrm resize`: one new size, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

import radrm.cli.results
from radrm.client.awaiting import wait_resized
from tests.cli.fakes import Pauses, Script, job
from tests.cli.runner import invoke


def elastic(gpus: int, state: str = "RUNNING", **changed: Any) -> dict[str, Any]:
    role = {"name": "main", "count": gpus, "min": 1, "max": 4, "gpus": 1}
    size = {"gpus": gpus, "gpus_min": 1, "gpus_max": 4, "roles": [role], "resizing": None}
    return job(5, state, checkpoint_pending=False, checkpoint_error=None, resize_error=None) | {
        **size,
        **changed,
    }


UNDER_WAY = {"gpus": 2, "roles": {"main": 2}}
ASKED = [{"id": 5, "label": "5", "name": "resnet50", "state": "RUNNING", "error": None}]


@pytest.mark.parametrize(
    ("documents", "error"),
    [
        ([elastic(1, resizing=UNDER_WAY), elastic(2)], None),
        ([elastic(2)], None),
        (
            [elastic(1, resizing=UNDER_WAY), elastic(1, resize_error="no answer within 2m00s")],
            "job 5 keeps its size: no answer within 2m00s",
        ),
        ([elastic(1)], "job 5 keeps its size: the request was withdrawn"),
        (
            [
                elastic(1, resizing=UNDER_WAY, checkpoint_pending=True),
                elastic(1, "STOPPING"),
                elastic(2, "LAUNCHING", attempts=2),
                elastic(2, attempts=2),
            ],
            None,
        ),
        (
            [elastic(1, checkpoint_pending=True), elastic(1, checkpoint_error="no answer")],
            "job 5 keeps its size: no answer",
        ),
        ([elastic(1, "COMPLETED")], "job 5 did not get that size: it has ended (COMPLETED)"),
        (
            [
                elastic(1, "STOPPING"),
                elastic(1, "PENDING", reason="its GPU is to be read"),
                elastic(2, attempts=2),
            ],
            None,
        ),
    ],
)
def test_it_waits_for_what_comes_of_it(documents: list[Any], error: str | None) -> None:
    client = Script(status=[[each] for each in documents])
    pauses = Pauses()
    found = wait_resized(client.ask, elastic(1), 2, {}, pauses)
    assert found["error"] == error
    assert len(pauses.seconds) == len(documents) - 1


def test_a_stopped_job_that_waits_on_is_an_answer() -> None:
    waiting = elastic(1, "PENDING", reason="preempted")
    client, pauses = Script(status=[[elastic(1, "STOPPING")], [waiting]]), Pauses()
    found = wait_resized(client.ask, elastic(1), 2, {}, pauses)
    assert found["error"] == "job 5 was stopped and waits in its queue: preempted"
    assert 5 <= sum(pauses.seconds) < 7


def test_the_tasks_of_roles_are_compared() -> None:
    ps = {"name": "ps", "count": 2, "min": 1, "max": 4, "gpus": 0}
    worker = {"name": "worker", "count": 6, "min": 1, "max": 8, "gpus": 0}
    reached = elastic(0, roles=[ps, worker])
    client = Script(status=[[reached]])
    assert wait_resized(client.ask, reached, None, {"worker": 6})["error"] is None
    assert wait_resized(client.ask, reached, None, {"worker": 5})["error"] is not None


def run(monkeypatch: pytest.MonkeyPatch, client: Script, *words: str) -> Any:
    monkeypatch.setattr(radrm.cli.results, "Client", lambda: client)
    return invoke("resize", *words)


def test_the_result_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Script(status=[[elastic(1)], [elastic(2)]], resize=[[*ASKED]])
    done = run(monkeypatch, client, "5", "--gpus=2")
    assert (done.exit_code, done.stdout) == (0, "Resized job 5 (resnet50): 2 of 1-4 GPUs\n")
    assert client.asked[1] == ("resize", {"jobs": ["5"], "gpus": 2})
    client = Script(status=[[elastic(1)]], resize=[[*ASKED]])
    done = run(monkeypatch, client, "5", "--role", "ps=2", "--role=worker=6", "--no-wait")
    assert (done.exit_code, done.stdout) == (0, "Asked job 5 (resnet50) to change its size\n")
    assert client.asked[1] == ("resize", {"jobs": ["5"], "roles": {"ps": 2, "worker": 6}})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["5"], "say one new size: radrm resize JOB --gpus=2, or --role worker=6"),
        (["5", "--gpus=2", "--role=a=1"], "say one new size"),
        (["5", "--role=worker"], "--role 'worker' is not NAME=N; write --role worker=6"),
        (["5", "--role==6"], "--role '=6' is not NAME=N"),
        (["5", "--role=worker=-1"], "--role 'worker=-1' is not NAME=N"),
    ],
)
def test_bad_words_are_refused_before_anything_is_asked(
    monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    client = Script()
    done = run(monkeypatch, client, *words)
    assert message in str(done.exception) and client.asked == []


def test_a_refusal_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {**ASKED[0], "error": "job 5 cannot run with 8 GPUs; its range is 1-4"}
    client = Script(status=[[elastic(1)]], resize=[[refused]])
    done = run(monkeypatch, client, "5", "--gpus=8")
    assert done.exit_code == 1 and "its range is 1-4" in done.stderr
