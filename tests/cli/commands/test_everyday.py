"""The commands of every day against a real daemon: what people type, and what comes of it."""

from __future__ import annotations

import json

import pytest

from tests.cli.going_on import started
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon


def block(home: DaemonHome, name: str = "blocker") -> int:
    """A job that has both GPUs to itself, so that others wait."""
    job = home.submit(
        f"--name={name}", "--gpus=2", "--collocation=exclusive", "--", "sleep", "9999"
    )
    home.wait_state(job, "RUNNING")
    return job


def test_a_waiting_job_is_held_edited_released_cancelled_and_run_again(
    guest: DaemonHome,
) -> None:
    blocker = block(guest)
    job = guest.submit("--name=mine", "--gpu-memory=1G", "--", "true")
    assert f"Held job {job} (mine)" in guest.radrm("hold", "mine").stdout
    assert "held" in guest.radrm("explain", "mine").stdout
    assert f"Changed job {job}" in guest.radrm("edit", "mine", "--priority=7").stdout
    assert "priority 7" in guest.radrm("status", "mine").stdout
    assert guest.radrm("release", "mine").returncode == 0
    said = guest.radrm("explain", str(job)).stdout
    assert f"All GPUs are taken (job {blocker} has GPU 0, 1 to itself)." in said
    assert guest.radrm("cancel", str(blocker)).returncode == 0
    assert guest.wait_end(job)["state"] == "COMPLETED"
    assert "it was COMPLETED" in guest.radrm("requeue", "mine").stdout
    wait_until(lambda: guest.job(job)["attempts"] == 2, "the second run")
    guest.wait_end(job)
    attempts = guest.json("explain", str(job))["attempts"]
    assert [a["outcome"] for a in attempts] == ["completed", "completed"]


def test_a_refused_order_is_an_error_and_the_rest_is_done(guest: DaemonHome) -> None:
    job = guest.submit("--", "sleep", "9999")
    done = guest.radrm("cancel", "99", str(job))
    assert done.returncode == 1
    assert done.stderr.startswith("radrm: there is no job") and f"job {job}" in done.stdout


def test_an_array_is_one_row_and_its_elements_have_names(guest: DaemonHome) -> None:
    block(guest)
    array = guest.submit("--name=sweep", "--array=0-99", "--", "true")
    lines = guest.radrm("status").stdout.splitlines()
    assert lines[0].startswith("1 running, 100 pending") and len(lines) == 4
    assert f"{array}_[0-99]" in lines[3]
    assert f"Job {array}_3 " in guest.radrm("status", f"{array}_3").stdout
    assert "100 in all" in guest.radrm("cancel", str(array)).stdout


def test_pages(guest: DaemonHome) -> None:
    first_id = block(guest)
    guest.radrm("submit", *[guest.file(f"{i}.rad", "#!/bin/sh\ntrue\n").name for i in range(5)])
    first = guest.radrm("status", "--limit", "4").stdout.splitlines()
    assert first[-1] == "... 2 more: radrm status --limit 4 --page 2"
    second = guest.radrm("status", "--limit", "4", "--page", "2").stdout.splitlines()
    assert [line.split()[0] for line in second[2:]] == [f"{first_id + 4}", f"{first_id + 5}"]
    assert "no page 3" in guest.radrm("status", "--limit", "4", "--page", "3").stderr


def test_a_drained_gpu_takes_nobody_until_it_is_resumed(guest: DaemonHome) -> None:
    assert guest.radrm("drain", "--yes", "--reason", "fan is loud").stdout.count("Drained") == 2
    job = guest.submit("--gpu-memory=1G", "--", "true")
    assert guest.radrm("explain", str(job)).stdout.count("fan is loud") >= 2
    assert guest.radrm("resume", "1").returncode == 0
    assert guest.wait_end(job)["state"] == "COMPLETED"
    assert guest.radrm("resume").returncode == 0
    wrong = guest.radrm("drain", "7")
    assert wrong.returncode == 1 and "no GPU" in wrong.stderr


def test_a_log_is_followed_from_before_the_start_through_a_retry(
    guest: DaemonHome,
) -> None:
    blocker = block(guest)
    guest.file("twice.rad", '#!/bin/sh\necho "attempt $RADRM_ATTEMPT"\n[ -e "$0".no ]\n')
    job = guest.submit("--retries=1", "twice.rad")
    with started(guest, "logs", "-f", str(job)) as follower:
        assert "waiting for its start" in follower.stderr.readline()
        guest.radrm("cancel", str(blocker))
        said, remarks = follower.communicate(timeout=60)
    assert said == "attempt 1\nattempt 2\n"
    assert "attempt 2:" in remarks and "FAILED" in remarks
    assert follower.returncode == 1, "the job's exit code"


def test_following_outlives_the_daemon(daemon: DaemonHome) -> None:
    job = daemon.submit("--name=long", "--", "sh", "-c", "until [ -e go ]; do sleep 0.05; done")
    daemon.wait_state(job, "RUNNING")
    with started(daemon, "status", "--follow", "--json") as follower:
        assert follower.stdout is not None and follower.stderr is not None
        assert json.loads(follower.stdout.readline())["state"] == "RUNNING"
        daemon.kill()
        assert "does not answer" in follower.stderr.readline()
        daemon.start()
        assert "is back" in follower.stderr.readline()
        (daemon.work / "go").touch()
        assert json.loads(follower.stdout.readline())["state"] == "COMPLETED"
        assert follower.stdout.read() == "" and follower.wait(60) == 0


def test_a_job_is_followed_to_its_end(guest: DaemonHome) -> None:
    job = guest.submit("--", "sh", "-c", "echo hello; exit 3")
    guest.wait_end(job)
    done = guest.radrm("status", str(job), "--follow")
    assert done.returncode == 0, "the view ended well, whatever the job did"
    head, *middle, last, step = done.stdout.splitlines()
    assert head.startswith(f"Job {job}  sh") and middle == ["hello"]
    assert (
        last.startswith(f"job {job} FAILED")
        and "exit code 3" in last
        and f"radrm logs {job}" in step
    )


def test_a_reader_that_leaves_ends_a_follower_that_has_nothing_to_say(
    guest: DaemonHome,
) -> None:
    job = guest.submit("--", "sh", "-c", "echo one; exec sleep 9999")
    with started(guest, "logs", "-f", str(job)) as follower:
        assert follower.stdout.readline() == "one\n"
        follower.stdout.close()
        assert follower.wait(60) == 141
