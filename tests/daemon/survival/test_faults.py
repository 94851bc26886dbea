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
from tests.waiting import PATIENCE_S, wait_until


def lives(pid: int) -> bool:
    """A zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_script_edited_after_submission_runs_as_it_was(guest: DaemonHome) -> None:
    blocker = guest.submit("--gpus=2", "--gpu-memory=30G", "--", "sleep", "9999")
    guest.file("job.rad", "#!/bin/sh\n#RAD --gpu-memory=30G\necho as submitted\n")
    job = guest.submit("job.rad")
    guest.file("job.rad", "#!/bin/sh\necho changed\n")
    (guest.work / "job.rad").unlink()
    guest.ask("cancel", jobs=[str(blocker)])
    assert guest.wait_end(job)["state"] == "COMPLETED"
    assert guest.output(job) == "as submitted\n"


def test_a_folder_that_has_vanished_fails_its_job_alone(guest: DaemonHome) -> None:
    folder = guest.work / "sub"
    folder.mkdir()
    blocker = guest.submit("--gpus=2", "--gpu-memory=30G", "--", "sleep", "9999")
    job = guest.submit("--gpu-memory=30G", f"--chdir={folder}", "--", "true")
    folder.rmdir()
    guest.ask("cancel", jobs=[str(blocker)])
    ended = guest.wait_end(job)
    assert ended["state"] == "FAILED" and str(folder) in ended["reason"]
    assert guest.radrm("wait", str(job)).returncode == 125
    after = guest.submit("--gpu-memory=30G", "--", "true")
    assert guest.wait_end(after)["state"] == "COMPLETED"


def test_a_job_file_that_vanishes_before_it_is_read(guest: DaemonHome) -> None:
    done = guest.radrm("submit", "was-here.rad")
    assert done.returncode == 1 and "was-here.rad" in done.stderr


def test_one_that_forks_and_leaves_is_not_over_before_its_children(guest: DaemonHome) -> None:
    """A daemonised child is ended with its job: it would hold the GPU unseen."""
    guest.file(
        "leave.rad",
        "#!/bin/bash\n#RAD --gpu-memory=1G\n"
        "setsid nohup env -i sleep 1000 >/dev/null 2>&1 &\necho $!\n",
    )
    job = guest.submit("leave.rad")
    assert guest.wait_end(job)["state"] == "COMPLETED"
    assert not lives(int(guest.output(job).split()[0]))


def test_one_that_fills_its_log_is_read_in_pieces(guest: DaemonHome) -> None:
    megabytes = 64
    job = guest.submit("--gpus=0", "--", "head", "-c", f"{megabytes}M", "/dev/zero")
    assert guest.wait_end(job)["state"] == "COMPLETED"
    log = guest.work / f"radrm-{job}.out"
    assert log.stat().st_size == megabytes * 2**20
    failed = guest.submit(
        "--gpus=0", "--", "sh", "-c", f"head -c {megabytes}M /dev/zero >&2; echo end >&2; exit 9"
    )
    assert guest.wait_end(failed)["exit_code"] == 9, "its end is judged by the last of it"


def test_one_that_kills_its_own_runner_is_lost_and_its_device_free_again(
    guest: DaemonHome,
) -> None:
    guest.file(
        "kill.rad",
        "#!/bin/bash\n#RAD --gpu-memory=30G --gpus=2\n"
        "echo $$; sleep 1000 & echo $!; setsid sleep 1000 & echo $!\n"
        "kill -9 $PPID; wait\n",
    )
    job = guest.submit("kill.rad")
    waiting = guest.submit("--gpu-memory=30G", "--gpus=2", "--", "true")
    ended = guest.wait_end(job)
    assert (ended["state"], ended["outcome"]) == ("FAILED", "lost")
    pids = [int(word) for word in guest.output(job).split()]
    assert not any(map(lives, pids)), "dead before its device is used again"
    assert guest.wait_end(waiting)["state"] == "COMPLETED"


def test_a_log_folder_that_cannot_be_written_fails_the_job_with_that_reason(
    guest: DaemonHome,
) -> None:
    job = guest.submit("--gpus=0", "--output=no/such/folder/out", "--", "true")
    ended = guest.wait_end(job)
    assert ended["state"] == "FAILED" and "no/such/folder" in ended["reason"]


def test_a_daemon_whose_spool_is_replaced_ends_and_the_next_one_takes_the_jobs(
    home: DaemonHome,
) -> None:
    home.start()
    running = home.submit("--gpus=0", "--", "sleep", "1000")
    home.wait_state(running, "RUNNING")
    spool = home.folder / "home" / "spool"
    spool.rename(home.folder / "old")
    spool.mkdir(0o700)
    later = home.radrm("submit", "--gpus=0", "--", "true")
    assert home.process.wait(PATIENCE_S) == 1
    assert later.returncode == 0 and len(list(spool.iterdir())) == 1
    last = home.said().splitlines()[-1]
    assert f"{spool} was removed or replaced" in last and "Traceback" not in home.said()
    home.start()
    assert home.ask("status", jobs=[str(running)])[0]["state"] == "RUNNING"
    assert home.wait_end(running + 1)["state"] == "COMPLETED"


def test_a_daemon_whose_run_folder_is_removed_makes_it_and_its_socket_anew(
    home: DaemonHome,
) -> None:
    home.start()
    driver, run = home.driver(), home.folder / "home" / "run"
    running = home.submit("--gpus=0", "--", "sleep", "1000")
    home.wait_state(running, "RUNNING")
    try:
        shutil.rmtree(run)
        wait_until(home.answers, "the socket to be made anew")
        assert run.stat().st_mode & 0o777 == 0o700
        assert home.ask("status", jobs=[str(running)])[0]["state"] == "RUNNING"
        run.rename(home.folder / "moved")
        run.write_text("not a folder")
        assert home.process is not None
        wait_until(lambda: "cannot be made anew" in home.said(), "the line in the log")
        run.unlink()
        wait_until(home.answers, "the socket to be made anew")
        assert home.said().count("cannot be made anew") == 1
        after = home.submit("--gpus=0", "--", "true")
        assert home.wait_end(after)["state"] == "COMPLETED"
    finally:
        driver.ask("quit")
        driver.close()


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

    def jobs() -> list[psutil.Process]:
        try:
            below = psutil.Process(home.process.pid).children(recursive=True)
            runners = [each for each in below if any("runner" in word for word in each.cmdline())]
            return [child for runner in runners for child in runner.children()]
        except psutil.NoSuchProcess:  # a runner without a job has ended
            return []

    (job,) = wait_until(jobs, "the job's process")
    return job.pid
