"""The process that reads a job's progress from its log: it serves its job, and harms nobody."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radrm.host.attempts import log_watcher
from radrm.host.attempts.evidence import Ended, Started
from radrm.host.attempts.launcher import Launcher
from radrm.host.attempts.log_watcher import MOST_BYTES, Silence, Source
from radrm.host.processes.procfs import read_stat
from tests.host.attempts.host import SERIAL, Host, end_of, next_of
from tests.host.processes.programs import gone
from tests.report.listener import Listener
from tests.waiting import wait_until

STEP = r"(?P<step>\d+) of (?P<total>\d+)(?: saved (?P<saved>\d+))?"


@pytest.fixture
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    found = Listener(tmp_path_factory.mktemp("l") / "s")
    yield found
    found.close()


def launch(host: Host, listener: Listener, script: str, **changes: Any) -> Launcher:
    daemon = host.daemon()
    environment = {
        "PATH": os.environ["PATH"],
        "RADRM_JOB_ID": "3",
        "RADRM_PROGRESS": listener.path,
        "RADRM_CHECKPOINT_DIR": str(host.cwd),
    }
    plan = host.plan("sh", "-c", script, environment=environment, **changes)
    daemon.launch(plan)
    return daemon


def told(listener: Listener) -> dict[str, float]:
    """The last value of each key."""
    found: dict[str, float] = {}
    for each in listener.taken():
        found.update(each)
    return found


def watcher(host: Host, job: int) -> int:
    """The pid of the runner's child that is not the job."""
    runner = host.runner()
    children = [p for p in host.processes() if (s := read_stat(p)) and s.parent == runner]
    (found,) = [pid for pid in children if pid != job]
    return found


def job_of(host: Host) -> int:
    pid: int = json.loads((host.folder / "start.json").read_text())["pid"]
    return pid


# ------------------------------------------------------------------ files


def source(path: Path) -> Source:
    return Source(str(path), log_watcher.progress_pattern(r"(?P<step>\d+)"))


def test_a_log_is_read_as_it_grows(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("1\n")
    its = source(log)
    assert its.look() == {}, "what an earlier attempt has written"
    with log.open("a") as file:
        file.write("2\n3")
    assert its.look() == {"step": 2}
    with log.open("a") as file:
        file.write("4\r5")
    assert its.look() == {"step": 34}
    assert its.look(last=True) == {"step": 5}


def test_rotated_truncated_removed_and_late_files(tmp_path: Path) -> None:
    log = tmp_path / "log"
    its = source(log)
    assert its.look() == {}
    log.write_text("1\n2\n")
    assert its.look() == {"step": 2}
    log.rename(tmp_path / "log.1")
    assert its.look() == {}
    log.write_text("3\n4\n5\n")
    assert its.look() == {"step": 5}
    log.write_text("6\n")
    assert its.look() == {"step": 6}


def test_of_a_flood_only_the_last_part_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    its = source(log)
    log.write_bytes((b"x" * 99 + b"\n") * (MOST_BYTES // 25) + b"7\n")
    assert its.look() == {"step": 7}
    assert its.look() == {}


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    log = tmp_path / "log"
    (tmp_path / "other").write_text("1\n")
    its = source(log)
    if kind == "link":
        log.symlink_to(tmp_path / "other")
    elif kind == "fifo":
        os.mkfifo(log)
    else:
        log.mkdir()
    assert its.look(last=True) == {}


# ------------------------------------------------------------------ beside a job


def test_the_last_lines_arrive_before_the_end(host: Host, listener: Listener) -> None:
    daemon = launch(host, listener, "echo 3 of 9; printf '5 of 9 saved 4'", progress_pattern=STEP)
    ended = end_of(daemon)
    assert isinstance(ended, Ended) and ended.exit.code == 0
    found = told(listener)
    assert found["step"] == 5 and found["total"] == 9
    assert found["saved"] == 4
    assert json.loads((host.cwd / "saved.json").read_text())["step"] == 4


def test_a_file_instead_of_the_log(host: Host, listener: Listener) -> None:
    script = "echo step=1; echo step=8 total=10 >steps"
    end_of(launch(host, listener, script, progress_file="steps"))
    assert told(listener) == {"step": 8, "total": 10}


def test_progress_arrives_while_the_job_runs(host: Host, listener: Listener) -> None:
    script = "echo step=1; touch ready; until test -e go; do sleep 0.05; done; echo step=2 >&2"
    daemon = launch(host, listener, script, progress_pattern="auto")
    assert isinstance(next_of(daemon), Started)
    seen: list[dict[str, float]] = []
    wait_until(lambda: seen.extend(listener.taken()) or {"step": 1} in seen)
    (host.cwd / "go").touch()
    assert isinstance(next_of(daemon), Ended)
    assert told(listener) == {"step": 2}


def test_the_watcher_keeps_no_attempt_alive_and_its_death_harms_nothing(
    host: Host, listener: Listener
) -> None:
    script = "touch ready; until test -e go; do sleep 0.05; done; exit 4"
    daemon = launch(host, listener, script, progress_pattern="auto")
    assert isinstance(next_of(daemon), Started)
    host.ready()
    pid = watcher(host, job_of(host))
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: gone(pid))
    (host.cwd / "go").touch()
    ended = next_of(daemon)
    assert isinstance(ended, Ended) and ended.exit.code == 4


def test_a_watcher_that_stands_still_is_killed_at_the_end(host: Host, listener: Listener) -> None:
    script = "touch ready; until test -e go; do sleep 0.05; done"
    daemon = launch(host, listener, script, progress_pattern="auto")
    assert isinstance(next_of(daemon), Started)
    host.ready()
    pid = watcher(host, job_of(host))
    os.kill(pid, signal.SIGSTOP)
    (host.cwd / "go").touch()
    assert isinstance(next_of(daemon), Ended)
    assert gone(pid)


def test_the_watcher_dies_with_the_runner(host: Host, listener: Listener) -> None:
    script = "touch ready; exec sleep 1000"
    daemon = launch(host, listener, script, progress_pattern="auto")
    assert isinstance(next_of(daemon), Started)
    host.ready()
    pid = watcher(host, job_of(host))
    host.kill_runner()
    wait_until(lambda: gone(pid))
    next_of(daemon)


def test_a_stop_does_not_wait_for_the_watcher(host: Host, listener: Listener) -> None:
    script = "trap 'echo step=7; exit 5' TERM; touch ready; while :; do sleep 0.05; done"
    daemon = launch(host, listener, script, progress_pattern="auto", grace_s=60.0)
    assert isinstance(next_of(daemon), Started)
    host.ready()
    daemon.terminate(7)
    ended = next_of(daemon)
    assert isinstance(ended, Ended) and ended.exit.code == 5
    assert told(listener) == {"step": 7}, "also what it prints while it ends"


def test_an_endless_search_costs_its_owner_alone_and_is_told(
    host: Host, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"echo {'a' * 60}b; touch ready; until test -e go; do sleep 0.05; done; exit 3"
    daemon = launch(host, listener, script, progress_pattern=r"(?P<step>(a+)+)$")
    assert isinstance(next_of(daemon), Started)
    host.ready()
    err = host.cwd / "err"
    wait_until(lambda: "--progress-pattern took more than 2 s" in err.read_text())
    (host.cwd / "go").touch()
    ended = next_of(daemon)
    assert isinstance(ended, Ended) and ended.exit.code == 3


def test_it_is_the_jobs_user_and_holds_nothing_of_the_runners(
    open_host: Host, listener: Listener
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    host = open_host
    user = {"uid": 65534, "gid": 65534, "user": "nobody"}
    script = "touch ready; exec sleep 1000"
    daemon = launch(host, listener, script, progress_pattern="auto", **user)
    assert isinstance(next_of(daemon), Started)
    host.ready()
    pid = watcher(host, job_of(host))
    wait_until(lambda: os.stat(f"/proc/{pid}").st_uid == 65534)
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line for line in status if line.startswith("SigCgt"))
    assert not int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1, "a request is not for it"
    names = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    assert not [name for name in names if "attempts" in name or name.startswith("pipe:")], names
    daemon.kill(7)
    next_of(daemon)


# ------------------------------------------------------------------ silence


class Clock:
    now_s = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(log_watcher.time, "monotonic", lambda: found.now_s)
    return found


def after(clock: Clock, quiet: Silence, seconds: float) -> float | None:
    clock.now_s += seconds
    return quiet.look()


def test_silence_is_told_from_half_of_the_limit_on_and_its_end_once(
    tmp_path: Path, clock: Clock
) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    out.write_text("before\n")
    err.touch()
    quiet = Silence([str(out), str(err)], str(tmp_path / "progress"), 60.0)
    assert quiet.look() is None and after(clock, quiet, 29.0) is None
    assert after(clock, quiet, 1.0) == 30.0 and after(clock, quiet, 40.0) == 70.0
    with err.open("a") as log:
        log.write("alive\n")
    assert after(clock, quiet, 1.0) == 0.0 and after(clock, quiet, 1.0) is None
    assert after(clock, quiet, 29.0) == 30.0
    (tmp_path / "progress").write_text("1")
    assert after(clock, quiet, 1.0) == 0.0, "its progress file is new"


def test_a_renamed_log_counts_on_beside_the_new_one(tmp_path: Path, clock: Clock) -> None:
    log = tmp_path / "log"
    log.touch()
    quiet = Silence([str(log)], None, 60.0)
    quiet.look()
    for which in ("old", "new"):
        assert after(clock, quiet, 40.0) == 40.0
        if which == "old":
            log.rename(tmp_path / "old")
            log.touch()
            assert after(clock, quiet, 1.0) == 0.0
            assert after(clock, quiet, 40.0) == 40.0
        (tmp_path / which if which == "old" else log).write_text(which)
        assert after(clock, quiet, 1.0) == 0.0
    for number in range(20):
        log.rename(tmp_path / f"old{number}")
        log.touch()
        quiet.look()
    opened = [os.readlink(f"/proc/self/fd/{fd}") for fd in quiet._open[str(log)]]
    assert len(opened) == 4 and str(log) in opened


@pytest.mark.parametrize("what", ["missing", "pipe", "link"])
def test_a_log_that_cannot_be_judged_is_never_silent(
    tmp_path: Path, clock: Clock, what: str
) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    out.touch()
    if what == "pipe":
        os.mkfifo(err)
    elif what == "link":
        err.symlink_to(out)
    quiet = Silence([str(out), str(err)], None, 60.0)
    assert quiet.look() is None and after(clock, quiet, 1000.0) is None


def test_the_silence_of_a_job_is_told_as_its_user_and_its_word_too(
    host: Host, listener: Listener
) -> None:
    go = host.cwd / "go"
    script = f"while [ ! -e {go} ]; do sleep 0.05; done; echo alive; sleep 60"
    daemon = launch(host, listener, script, silent_s=0.4)
    next_of(daemon)
    wait_until(lambda: told(listener).get("silent", 0.0) >= 0.2)
    go.touch()
    wait_until(lambda: told(listener).get("silent") == 0.0)
    daemon.kill(SERIAL)
    end_of(daemon)
