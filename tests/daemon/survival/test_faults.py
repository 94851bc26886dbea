"""What jobs, people and disks do wrong: it hurts whoever did it, and nobody else."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until


def lives(pid: int) -> bool:
    """A zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_script_edited_after_submission_runs_as_it_was(daemon: DaemonHome) -> None:
    blocker = daemon.submit("--gpus=2", "--gpu-memory=30G", "--", "sleep", "100")
    daemon.file("job.rad", "#!/bin/sh\n#RAD --gpu-memory=30G\necho as submitted\n")
    job = daemon.submit("job.rad")
    daemon.file("job.rad", "#!/bin/sh\necho changed\n")
    (daemon.work / "job.rad").unlink()
    daemon.ask("cancel", jobs=[str(blocker)])
    assert daemon.wait_end(job)["state"] == "COMPLETED"
    assert daemon.output(job) == "as submitted\n"


def test_a_folder_that_has_vanished_fails_its_job_alone(daemon: DaemonHome) -> None:
    folder = daemon.work / "sub"
    folder.mkdir()
    blocker = daemon.submit("--gpus=2", "--gpu-memory=30G", "--", "sleep", "100")
    job = daemon.submit("--gpu-memory=30G", f"--chdir={folder}", "--", "true")
    folder.rmdir()
    daemon.ask("cancel", jobs=[str(blocker)])
    ended = daemon.wait_end(job)
    assert ended["state"] == "FAILED" and str(folder) in ended["reason"]
    assert daemon.radrm("wait", str(job)).returncode == 125
    after = daemon.submit("--gpu-memory=30G", "--", "true")
    assert daemon.wait_end(after)["state"] == "COMPLETED"


def test_a_job_file_that_vanishes_before_it_is_read(daemon: DaemonHome) -> None:
    done = daemon.radrm("submit", "was-here.rad")
    assert done.returncode == 1 and "was-here.rad" in done.stderr


def test_one_that_forks_and_leaves_is_not_over_before_its_children(daemon: DaemonHome) -> None:
    """A daemonised child is ended with its job: it would hold the GPU unseen."""
    daemon.file(
        "leave.rad",
        "#!/bin/bash\n#RAD --gpu-memory=1G\n"
        "setsid nohup env -i sleep 1000 >/dev/null 2>&1 &\necho $!\n",
    )
    job = daemon.submit("leave.rad")
    assert daemon.wait_end(job)["state"] == "COMPLETED"
    assert not lives(int(daemon.output(job)))


def test_one_that_fills_its_log_is_read_in_pieces(daemon: DaemonHome) -> None:
    megabytes = 64
    job = daemon.submit("--gpus=0", "--", "head", "-c", f"{megabytes}M", "/dev/zero")
    assert daemon.wait_end(job)["state"] == "COMPLETED"
    log = daemon.work / f"radrm-{job}.out"
    assert log.stat().st_size == megabytes * 2**20
    failed = daemon.submit(
        "--gpus=0", "--", "sh", "-c", f"head -c {megabytes}M /dev/zero >&2; echo end >&2; exit 9"
    )
    assert daemon.wait_end(failed)["exit_code"] == 9, "its end is judged by the last of it"


def test_one_that_kills_its_own_runner_is_lost_and_its_device_free_again(
    daemon: DaemonHome,
) -> None:
    daemon.file(
        "kill.rad",
        "#!/bin/bash\n#RAD --gpu-memory=30G --gpus=2\n"
        "echo $$; sleep 1000 & echo $!; setsid sleep 1000 & echo $!\n"
        "kill -9 $PPID; wait\n",
    )
    job = daemon.submit("kill.rad")
    waiting = daemon.submit("--gpu-memory=30G", "--gpus=2", "--", "true")
    ended = daemon.wait_end(job)
    assert (ended["state"], ended["outcome"]) == ("FAILED", "lost")
    pids = [int(word) for word in daemon.output(job).split()]
    assert not any(map(lives, pids)), "dead before its device is used again"
    assert daemon.wait_end(waiting)["state"] == "COMPLETED"


def test_a_log_folder_that_cannot_be_written_fails_the_job_with_that_reason(
    daemon: DaemonHome,
) -> None:
    job = daemon.submit("--gpus=0", "--output=no/such/folder/out", "--", "true")
    ended = daemon.wait_end(job)
    assert ended["state"] == "FAILED" and "no/such/folder" in ended["reason"]


# ------------------------------------------------------------------ a full disk


@pytest.fixture
def cramped(small_disk: Path) -> Iterator[DaemonHome]:
    home = DaemonHome(small_disk)
    try:
        yield home
    finally:
        (small_disk / "filler").unlink(missing_ok=True)
        home.close()


def fill(disk: Path) -> Path:
    """Leave no byte."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                if file.write(b"x" * (64 * 1024)) == 0:
                    break
            except OSError:
                break
        while True:
            try:
                file.write(b"x")
            except OSError:
                break
    assert shutil.disk_usage(disk).free == 0
    return filler


def test_on_a_full_disk_nothing_is_lost_and_work_goes_on_when_there_is_room(
    cramped: DaemonHome, small_disk: Path
) -> None:
    cramped.start()
    victim = cramped.submit("--gpus=0", "--", "sleep", "1000")
    cramped.wait_state(victim, "RUNNING")
    running = cramped.submit("--gpu-memory=30G", "--gpus=2", "--", "sleep", "1000")
    cramped.wait_state(running, "RUNNING")
    waiting = cramped.submit("--gpu-memory=30G", "--gpus=2", "--", "true")
    filler = fill(small_disk)

    done = cramped.radrm("submit", "--gpus=0", "--", "true")
    assert done.returncode == 1 and "No space left" in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    for order in ("hold", "release", "hold", "release"):
        (told,) = cramped.ask(order, jobs=[str(waiting)])
        assert told["error"] is None
    cramped.ask("cancel", jobs=[str(victim)])
    ended = cramped.wait_end(victim)
    assert ended["state"] == "CANCELLED", "a cancel frees things: it needs no room"
    pid = psutil.Process(_main_pid(cramped)).pid
    os.kill(pid, signal.SIGKILL)  # the job ends while nothing can be written
    wait_until(lambda: not lives(pid), "the job's end")
    assert cramped.radrm("status").returncode == 0, "questions are answered meanwhile"

    filler.unlink()
    ended = cramped.wait_end(running)
    assert (ended["state"], ended["outcome"]) == ("FAILED", "failed"), ended["reason"]
    assert cramped.wait_end(waiting)["state"] == "COMPLETED"
    after = cramped.submit("--gpus=0", "--", "true")
    assert cramped.wait_end(after)["state"] == "COMPLETED"


def _main_pid(home: DaemonHome) -> int:
    """The process of the only job."""
    assert home.process is not None
    runners = psutil.Process(home.process.pid).children()
    (job,) = [child for runner in runners for child in runner.children()]
    return job.pid
