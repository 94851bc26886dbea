"""Commands about jobs of a real daemon: by user and state, and which jobs fail with a cancel."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon

ME = pwd.getpwuid(os.getuid()).pw_name
OTHER = "nobody-of-that-name"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonHome]:
    """One daemon for all of them: to start it takes longer than they do."""
    made = DaemonHome(Path(tmp_path_factory.mktemp("commands")), gpus="sim:1xA100-40GB")
    made.start()
    yield made
    made.close()


def sleeper(server: DaemonHome, *options: str) -> int:
    return server.submit("--collocation=exclusive", *options, "--", "sleep", "999")


def states(server: DaemonHome, *jobs: int) -> list[str]:
    return [server.job(job)["state"] for job in jobs]


def test_cancel_names_what_it_takes_along(server: DaemonHome) -> None:
    first = sleeper(server)
    server.wait_state(first, "RUNNING")
    second, third = (sleeper(server, f"--after={n}") for n in (first, first + 1))
    whatever = sleeper(server, f"--after={first}:any")
    dry = server.radrm("cancel", "--dry-run", str(first))
    assert dry.stdout.startswith(f"Would cancel job {first} (sleep), it is RUNNING; the jobs")
    done = server.radrm("cancel", str(first))
    assert done.stdout.partition(";")[2] == dry.stdout.partition(";")[2]
    assert f"fail with it: {second}, {third}\n" in done.stdout
    assert server.wait_end(first)["state"] == "CANCELLED"
    assert states(server, second, third) == ["FAILED", "FAILED"], "as was said"
    server.wait_state(whatever, "RUNNING")
    assert "follow" not in server.radrm("cancel", str(whatever)).stdout
    server.wait_end(whatever)


def test_followers_run_again_after_the_job_that_failed(server: DaemonHome) -> None:
    def job(name: str, *options: str) -> int:
        command = f"echo {name} >> order; test -e fixed || test {name} = last"
        return server.submit("--gpus=0", f"--name={name}", *options, "--", "sh", "-c", command)

    first = job("first", "--hold")
    ran = job("ran", f"--after={first}:any")
    never = job("never", f"--after={first}", f"--after={ran}")
    last = job("last", f"--after={never}")
    other = job("other", "--hold")
    both = job("both", f"--after={never}", f"--after={other}")
    server.ask("cancel", jobs=[str(other)])
    server.ask("release", jobs=[str(first)])
    for each in (ran, last, both):
        server.wait_end(each)
    assert states(server, first, ran, never, last, both) == ["FAILED"] * 5
    (server.work / "order").unlink()
    (server.work / "fixed").touch()
    done = server.radrm("requeue", "--followers", str(first))
    assert [line.split()[2] for line in done.stdout.splitlines()] == list(
        map(str, (first, ran, never, last))
    )
    assert f"job {both} never ran and cannot" in done.stderr and done.returncode == 1
    assert server.wait_end(last)["state"] == "COMPLETED"
    assert (server.work / "order").read_text().split() == ["first", "ran", "never", "last"]


def test_a_requeue_with_options_changes_a_job_or_leaves_it(server: DaemonHome) -> None:
    job = server.submit("--gpus=0", "--time=1h", "--env=TRY=1", "--", "sh", "-c", "exit $TRY")
    array = server.submit("--gpus=0", "--array=0-1", "--", "false")
    for each in (job, f"{array}_0", f"{array}_1"):
        server.wait_end(each)
    before = server.json("status", str(job))
    for wrong in ("--gpus=9", "--after=no-such-job", "--env=1"):
        assert server.radrm("requeue", str(job), wrong).returncode in (1, 2)
        assert server.json("status", str(job)) == before
    done = server.radrm("requeue", str(job), str(array), "--env=TRY=0", "--name=again")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 3
    found = server.wait_end(job)
    assert (found["state"], found["name"], found["run"]) == ("COMPLETED", "again", 2)
    assert [(each["run"], each["exit_code"]) for each in found["earlier"]] == [(1, 1)]
    (shown,) = server.json("status", str(job))
    assert shown["options"] == ["--gpus=0", "--time=1h", "--env=TRY=0", "--name=again"]
    rows = [each for each in server.json("history")["jobs"] if each["id"] == job]
    assert [(each["run"], each["name"], each["state"], each["exit_code"]) for each in rows] == [
        (1, "sh", "FAILED", 1),
        (2, "again", "COMPLETED", 0),
    ]
    assert rows[0]["attempts"] == 1 and rows[0]["ended_at"] < rows[1]["started_at"]
    assert server.wait_end(f"{array}_1")["name"] == "again"
    runs = sleeper(server, "--time=2h")
    server.wait_state(runs, "RUNNING")
    assert "only while it waits" in server.radrm("requeue", str(runs), "--gpu-memory=1G").stderr
    assert server.job(runs)["attempts"] == 1
    assert server.radrm("requeue", str(runs), "--time=3h").returncode == 0
    wait_until(lambda: server.job(runs)["attempts"] == 2, "its next attempt")
    assert (server.job(runs)["time_limit_s"], server.job(runs)["run"]) == (3 * 3600, 1)
    server.radrm("cancel", str(runs))
    server.wait_end(runs)


def test_submitted_on_hold(server: DaemonHome) -> None:
    held = server.submit("--hold", "--", "true")
    array = server.submit("--hold", "--array=0-2", "--", "true")
    found = [server.job(job) for job in (held, f"{array}_2")]
    assert [job["held"] for job in found] == [True, True]
    assert all("radrm release" in job["reason"] for job in found)
    free = server.submit("--", "true")
    server.wait_end(free)
    assert server.job(held)["state"] == "PENDING"
    assert "radrm hold" in server.radrm("edit", str(held), "--hold").stderr
    server.radrm("release", str(held), str(array))
    assert server.wait_end(held)["state"] == "COMPLETED"
    assert server.wait_end(f"{array}_2")["state"] == "COMPLETED"


def test_by_state_and_user(server: DaemonHome) -> None:
    first = sleeper(server)
    server.wait_state(first, "RUNNING")
    waiting = [sleeper(server) for _ in range(3)]
    held = server.json("hold", "--state", "pending")
    assert [result["id"] for result in held] == waiting
    assert all(server.job(job)["held"] for job in waiting)
    assert server.radrm("release", "--state=pending", "--user", OTHER).stdout == (
        f"No such jobs: jobs of {OTHER} that are pending.\n"
    )
    assert len(server.json("release", "--user", ME, "--state", "pending")) == 3
    # A word and a state together: those that are both.
    done = server.radrm("cancel", str(first), "--state", "pending")
    assert done.returncode == 1 and "no job of" in done.stderr
    assert len(server.json("cancel", "sleep", "--state=pending")) == 3
    assert states(server, first, *waiting) == ["RUNNING", *["CANCELLED"] * 3]
    assert len(server.json("cancel", "--user", ME)) == 1
    assert server.wait_end(first)["state"] == "CANCELLED"
    # What has ended is among them only where such a state is asked for.
    assert server.json("cancel", "--user", ME) == []
    again = [result["id"] for result in server.json("requeue", "--state", "cancelled")]
    assert {first, *waiting} <= set(again)
    assert server.radrm("cancel", "--state", "nonsense").returncode == 2
    server.radrm("cancel", "--state", "pending,running,launching")
    server.wait_end(first)


def test_a_refusal_is_about_jobs_that_have_not_ended(server: DaemonHome) -> None:
    names = ("--name=old",)
    ended = [server.submit(*names, "--", "true") for _ in range(2)]
    for job in ended:
        server.wait_end(job)
    assert server.radrm("hold", "old").stderr == "radrm: all 2 jobs of 'old' have ended\n"
    command = "test $RADRM_ARRAY_TASK_ID = 0 || sleep 999"
    array = server.submit("--array=0-1", "--", "sh", "-c", command)
    server.wait_end(f"{array}_0")
    server.wait_state(f"{array}_1", "RUNNING")
    said = server.radrm("hold", str(array)).stderr
    assert said.startswith(f"radrm: job {array}_1 is RUNNING; only a waiting job can be held (and")
    server.radrm("cancel", str(array))
    assert server.wait_end(f"{array}_1")["state"] == "CANCELLED"


def test_the_last_jobs_by_no_name(server: DaemonHome) -> None:
    first = server.submit("--hold", "--", "true")
    array = server.submit("--hold", "--name=three", "--array=0-2", "--", "true")
    assert [job["id"] for job in server.json("status", "@~1")] == [first]
    assert [job["label"] for job in server.json("status", "@")] == [
        f"{array}_{i}" for i in range(3)
    ]
    assert f"Job {first} " in server.radrm("explain", "@~1").stdout
    assert "none of the 3 jobs has started yet" in server.radrm("logs", "@").stderr
    assert len(server.json("cancel", "@", "@~1")) == 4
    for word in ("@", "three", str(array)):  # it is an array also when it has ended
        assert f"name one of them, as {array}_0" in server.radrm("explain", word).stderr
    assert "no job that @~999 could mean" in server.radrm("hold", "@~999").stderr


def test_a_job_follows_those_that_had_the_name_when_it_was_submitted(server: DaemonHome) -> None:
    prep = server.submit("--hold", "--name=prep", "--", "true")
    job = server.submit("--gpus=0", "--after=prep", "--", "true")
    assert [each["job"] for each in server.job(job)["after"]] == [str(prep)]
    server.submit("--hold", "--name=prep", "--", "true")
    assert [each["job"] for each in server.job(job)["after"]] == [str(prep)]
    server.json("edit", str(job), "--after=@:any")
    (last,) = server.json("status", "@")
    assert server.job(job)["after"] == [{"job": last["label"], "condition": "any"}]
    missing = server.radrm("submit", "--after=nobody", "--", "true")
    assert missing.stderr == (
        "radrm: --after=nobody: there is no job nobody; `radrm status --all` lists them\n"
    )
    server.radrm("cancel", "prep", str(job))


def test_an_edit_warns_of_what_a_submission_would_name(server: DaemonHome) -> None:
    job = server.submit("--hold", "--", "true")

    def warned(*options: str) -> str:
        (result,) = server.json("edit", str(job), *options)
        assert result["error"] is None and "folder" not in result
        return str(result.get("warning"))

    assert warned("--comment=x") == "None"
    assert "/no-such does not exist" in warned("--chdir=no-such")
    assert "the folder of --output, /no/such, does not exist" in warned("--output=/no/such/%j")
    assert warned("--chdir=/", "--output=/dev/null") == "None"
    assert "--error=/tmp is a folder" in warned("--error=/tmp")
    if not os.access("/usr/sbin/sendmail", os.X_OK):
        assert "this server cannot send mail" in warned("--notify=mail")
    server.radrm("cancel", str(job))


def test_of_jobs_that_are_submitted_together_the_earlier_one_is_followed(
    server: DaemonHome,
) -> None:
    for name, after in (("first", ""), ("second", "#RAD --after=first\n")):
        server.file(f"{name}.rad", f"#!/bin/sh\n#RAD --gpus=0 --hold\n{after}true\n")
    server.submit("--hold", "--name=first", "--", "true")
    planned = server.radrm("submit", "--dry-run", "--after=@", "--after=fir*", "--", "true")
    assert planned.returncode == 0, planned.stderr
    both = server.json("submit", "--dry-run", "first.rad", "second.rad")
    assert [each["error"] for each in both] == [None, None]
    done = server.json("submit", "first.rad", "second.rad")
    assert server.job(done[1]["id"])["after"] == [{"job": str(done[0]["id"]), "condition": "ok"}]
    server.radrm("cancel", "first", "second")


def test_a_name_with_states_means_also_the_ended_jobs_of_an_array_that_still_runs(
    server: DaemonHome,
) -> None:
    command = "test $RADRM_ARRAY_TASK_ID = 0 && exit 3; exec sleep 999"
    options = ("--gpus=0", "--name=sweep", "--array=0-1")
    first = server.submit(*options, "--", "sh", "-c", command)
    assert server.wait_end(f"{first}_0")["state"] == "FAILED"
    server.wait_state(f"{first}_1", "RUNNING")

    def shown(*asked: str) -> list[int]:
        return [job["id"] for job in server.json("status", *asked)]

    assert shown("sweep") == [first + 1], "unfinished jobs come first"
    assert shown("sweep", "--state", "failed") == shown("swe*", "--state", "failed") == [first]
    assert shown("sweep", "--state", "failed,running") == [first, first + 1]
    wrong = server.radrm("requeue", "sweep")
    assert wrong.returncode == 1 and "--state" in wrong.stderr, "nothing that runs is lost"
    assert [each["id"] for each in server.json("requeue", "sweep", "--state", "failed")] == [first]
    assert server.wait_end(f"{first}_0")["attempts"] == 2
    assert server.job(f"{first}_1")["attempts"] == 1
    assert server.radrm("requeue", "sweep", "--state", "running").returncode == 0
    server.ask("cancel", jobs=[str(first)])
