"""Commands about jobs: a line for each job, errors apart, and the exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest

import radrm.client.connection
from radrm.client.connection import batches
from radrm.errors import UsageError
from tests.cli.fakes import ESC, Script
from tests.cli.runner import Ran, invoke


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(client: Script, *words: str, **more: Any) -> Ran:
        monkeypatch.setattr(radrm.client.connection, "Client", lambda: client)
        return invoke(*words, **more)

    return run


def result(label: str = "12_3", error: str | None = None, **changed: Any) -> dict[str, Any]:
    document = {"id": 15, "label": label, "name": "sweep", "state": "RUNNING", "error": error}
    return document | changed


COMMANDS = {
    "cancel": "Cancelled job 12_3 (sweep), it was RUNNING\n",
    "hold": "Held job 12_3 (sweep)\n",
    "release": "Released job 12_3 (sweep)\n",
    "requeue": "Requeued job 12_3 (sweep), it was RUNNING\n",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_job_is_a_line(run: Any, command: str) -> None:
    client = Script(**{command: [[result()]]})
    done = run(client, command, "12_3", "sweep-*")
    assert (done.exit_code, done.stdout, done.stderr) == (0, COMMANDS[command], "")
    assert client.asked == [(command, {"jobs": ["12_3", "sweep-*"]})]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_was_refused_is_said_apart_and_the_rest_is_done(run: Any, command: str) -> None:
    answer = [result(), result("99", "there is no job '99'", name=None, state=None)]
    done = run(Script(**{command: [answer]}), command, "12_3", "99")
    assert done.exit_code == 1
    assert done.stdout == COMMANDS[command]
    assert done.stderr == "radrm: there is no job '99'\n"
    as_json = run(Script(**{command: [answer]}), command, "12_3", "99", "--json")
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (1, answer)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_names_jobs(run: Any, command: str) -> None:
    done = run(Script(), command)
    assert done.exit_code == 2 or isinstance(done.exception, UsageError)


def test_thousands_go_in_several_requests(run: Any) -> None:
    client = Script(cancel=[lambda words: [result(i) for i in words["jobs"]]])
    done = run(client, "cancel", *map(str, range(2500)))
    assert [len(words["jobs"]) for _, words in client.asked] == [1000, 1000, 500]
    assert done.stdout.count("\n") == 2500


# ------------------------------------------------------------------ whom


@pytest.mark.parametrize("command", COMMANDS)
def test_jobs_can_be_chosen_by_user_and_state(run: Any, command: str) -> None:
    client = Script(**{command: [[result()]]})
    assert (
        run(client, command, "--state", "running, pending", "--user=ada").stdout
        == COMMANDS[command]
    )
    assert run(client, command, "sweep-*", "--state", "pending").exit_code == 0
    assert client.asked == [
        (command, {"jobs": [], "user": "ada", "state": "running,pending"}),
        (command, {"jobs": ["sweep-*"], "state": "pending"}),
    ]


def test_where_there_are_none_of_them_it_says_so(run: Any) -> None:
    client = Script(cancel=[[]])
    done = run(client, "cancel", "--state", "PENDING")
    assert (done.exit_code, done.stdout) == (0, "No such jobs: your jobs that are pending.\n")
    done = run(client, "cancel", "--user", f"a{ESC}")
    assert done.stdout.startswith("No such jobs: jobs of a") and "\x1b" not in done.stdout
    assert json.loads(run(client, "cancel", "--user", "ada", "--json").stdout) == []


def test_who_names_nobody_is_told_how(run: Any) -> None:
    done = run(Script(), "cancel")
    assert isinstance(done.exception, UsageError)
    assert "--user or --state" in str(done.exception)


@pytest.mark.parametrize(
    ("followers", "said"),
    [
        ([], ""),
        (["13"], "; the job that follows it fails with it: 13"),
        (["13", "14_2"], "; the jobs that follow it fail with it: 13, 14_2"),
        (
            [str(n) for n in range(20, 35)],
            "; the jobs that follow it fail with it: 20, 21, 22, 23, 24, 25, 26, 27, 28, 29 "
            "and 5 more",
        ),
    ],
)
def test_a_cancel_names_those_that_fail_with_it(run: Any, followers: list[str], said: str) -> None:
    done = run(Script(cancel=[[result(followers=followers)]]), "cancel", "12_3")
    assert done.stdout == f"Cancelled job 12_3 (sweep), it was RUNNING{said}\n"


# ------------------------------------------------------------------ devices


def test_drain_and_resume(run: Any) -> None:
    device = {"index": 3, "uuid": "GPU-d", "error": None}
    wrong = {"index": None, "uuid": "7", "error": "there is no GPU '7'"}
    client = Script(drain=[[device, wrong]], resume=[[device]])
    done = run(client, "drain", "3", "7", "--reason", "fan is loud")
    assert (done.exit_code, done.stderr) == (1, "radrm: there is no GPU '7'\n")
    assert done.stdout == "Drained GPU 3; undo: radrm resume 3\n"
    assert run(client, "resume", "3").stdout == "Resumed GPU 3\n"
    assert run(Script(resume=[[]]), "resume").stdout == "No GPU is drained.\n"
    assert run(Script(resume=[[]]), "resume", "--json").stdout == "[]\n"
    assert client.asked == [
        ("drain", {"devices": ["3", "7"], "reason": "fan is loud"}),
        ("resume", {"devices": ["3"]}),
    ]


def test_all_devices_are_drained_only_by_who_means_it(run: Any) -> None:
    client = Script(drain=[[]])
    assert isinstance(run(client, "drain").exception, UsageError), "a script may have lost a name"
    assert isinstance(run(client, "drain", "--yes", "3").exception, UsageError)
    assert client.asked == []
    for every in ("--yes", "-y", "--all"):
        assert run(client, "drain", every).exit_code == 0
    assert client.asked == [("drain", {"devices": [], "reason": ""})] * 3


def test_many_globs_go_in_requests_that_the_daemon_takes() -> None:
    words = [f"net-{n}*" for n in range(150)] + ["12"]
    requests = list(batches(words))
    assert [len(batch) for batch in requests] == [100, 51]
    assert [word for batch in requests for word in batch] == words
