"""The launcher with real runners: what one daemon sees of its attempts, and launches that fail."""

from __future__ import annotations

import errno
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radrm.core.records import Exit
from radrm.errors import Refused, StoreError
from radrm.host.attempts import folder as attempts
from radrm.host.attempts import launcher
from radrm.host.attempts.evidence import Ended, Evidence, Freed, Lost, Started
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.processes.affinity import listed
from tests.host.attempts.host import SERIAL, SLEEPER, Host, end_of, next_of
from tests.host.processes.programs import gone
from tests.waiting import wait_until

ALL_CPUS = sorted(os.sched_getaffinity(0))
CPU = ALL_CPUS[-1]

# ------------------------------------------------------------------ one daemon


def test_an_ordinary_life(host: Host) -> None:
    clock = Clock()
    daemon = host.daemon(clock)
    before = clock.now()
    daemon.launch(host.plan("sh", "-c", "echo $$ $RADRM_TOKEN; exit 5"))
    started = next_of(daemon)
    assert isinstance(started, Started)
    ended = next_of(daemon)
    assert isinstance(ended, Ended)
    assert (ended.exit, ended.never_started) == (Exit(code=5), None)
    assert ended.started.pid == started.pid
    assert before.boot_s <= started.at.boot_s <= ended.at.boot_s <= clock.now().boot_s
    assert (host.cwd / "out").read_text().split() == [str(started.pid), host.token]
    assert daemon.poll(SERIAL) is None
    assert daemon.fds() == {}
    assert daemon.serials() == [SERIAL]
    daemon.forget(SERIAL)
    assert daemon.serials() == []


def test_its_gpus_are_free_before_it_is_known_how_it_ended(host: Host) -> None:
    """A reading that begins then shows nothing of the job."""
    clock = Clock()
    daemon = host.daemon(clock)
    environment = {"PATH": os.environ["PATH"], "RADRM_GPUS": "1"}
    daemon.launch(host.plan("sh", "-c", "echo x >&2; exit 3", environment=environment))
    assert isinstance(next_of(daemon), Started)
    assert next_of(daemon) == Freed()
    free, ended = clock.now(), next_of(daemon)
    assert isinstance(ended, Ended) and ended.at.boot_s <= free.boot_s


def test_an_end_counts_while_its_runner_still_syncs_the_record(host: Host) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan(*SLEEPER))
    assert isinstance(next_of(daemon), Started)
    runner, live = host.runner(), daemon._live[SERIAL]
    assert live.announcement is not None
    heard, tell = os.pipe()
    os.dup2(heard, live.announcement)
    assert daemon.poll(SERIAL) is None
    attempts.write_record(
        str(host.folder), attempts.EXIT, {**attempts.NO_END, "code": 3, **attempts.now()}
    )
    os.write(tell, b"\n")
    assert isinstance(next_of(daemon), Ended) and not gone(runner)
    os.kill(runner, signal.SIGUSR2)
    wait_until(lambda: gone(runner))


@pytest.mark.parametrize(
    ("its", "runs_on", "told"),
    [
        ({"cpu_list": [CPU]}, [CPU], str(CPU)),
        ({}, ALL_CPUS, None),
        # Its own launcher binds its tasks.
        ({"cpu_list": [CPU], "binds_tasks": True}, ALL_CPUS, str(CPU)),
        # CPUs that have gone offline since.
        ({"cpu_list": [8000]}, ALL_CPUS, None),
    ],
)
def test_a_job_runs_on_the_cpus_near_its_gpus(
    host: Host, its: dict[str, Any], runs_on: list[int], told: str | None
) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan("sh", "-c", "grep Cpus_allowed_list /proc/self/status", **its))
    started = next_of(daemon)
    assert isinstance(started, Started) and started.cpu_list == told
    end_of(daemon)
    assert (host.cwd / "out").read_text().split()[1] == listed(runs_on)


def test_a_start_record_with_other_cpus_names_none(tmp_path: Path) -> None:
    fields = {"pid": 1, "start_ticks": 1, "runner_pid": 1, "runner_start_ticks": 1}
    for cpus in ("0", [None], [-1], [True], [1e3], [8192], [0] * 9000, {}, None):
        record = {**fields, "cpu_list": cpus, **attempts.now()}
        attempts.write_record(str(tmp_path), attempts.START, record)
        assert Evidence(str(tmp_path), Clock()).started().cpu_list is None, cpus


def test_many_at_once(host: Host) -> None:
    daemon = host.daemon()
    for serial in range(8):
        daemon.launch(host.plan("sh", "-c", f"exit {serial}", serial=serial))
    ends = {}
    while len(ends) < 8:
        fds = daemon.fds()
        for fd in select.select(list(fds), [], [], 60)[0]:
            found = daemon.poll(fds[fd])
            if isinstance(found, Ended):
                ends[fds[fd]] = found.exit.code
    assert ends == {serial: serial for serial in range(8)}
    assert daemon.fds() == {} and daemon.fds() == {}


def test_never_started(host: Host) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan("no-such-program"))
    ended = end_of(daemon)
    assert isinstance(ended, Ended) and ended.exit == Exit(127)
    assert "no-such-program" in str(ended.never_started)


def test_a_scaled_clock(host: Host) -> None:
    clock = Clock(scale=60.0)
    daemon = host.daemon(clock)
    daemon.launch(host.plan("true", kill_grace_s=90.0))
    launch, _ = attempts.read_record(str(host.folder), attempts.LAUNCH)
    assert launch["kill_grace_s"] == 1.5
    ended = end_of(daemon)
    record, _ = attempts.read_record(str(host.folder), attempts.EXIT)
    assert record is not None and isinstance(ended, Ended)
    assert ended.at.boot_s == clock.at(record["boot_s"]).boot_s


@pytest.mark.parametrize("moment", ["at once", "running"])
@pytest.mark.parametrize(
    ("order", "number"),
    [(Launcher.terminate, signal.SIGTERM), (Launcher.kill, signal.SIGKILL)],
)
def test_ending_one(
    host: Host, order: Callable[[Launcher, int], None], number: int, moment: str
) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan(*SLEEPER))
    if moment == "running":
        host.ready()
    order(daemon, SERIAL)
    ended = end_of(daemon)
    assert isinstance(ended, Ended) and ended.exit == Exit(signal=number)
    order(daemon, SERIAL)
    wait_until(lambda: not host.processes())  # its runner ends, too


def test_a_job_cannot_hold_its_runner_up(host: Host) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan("sh", "-c", "kill -STOP $PPID; touch ready; exec sleep 1000"))
    host.ready()
    daemon.kill(SERIAL)
    ended = end_of(daemon)
    assert isinstance(ended, Ended) and ended.exit == Exit(signal=signal.SIGKILL)


# ------------------------------------------------------------------ launching that fails


def test_a_state_folder_that_cannot_be_used(host: Host) -> None:
    (host.state / "attempts").touch()
    with pytest.raises(StoreError, match="attempt 7 cannot be launched"):
        host.daemon().launch(host.plan("true"))


def test_a_folder_that_is_there_is_never_touched(host: Host) -> None:
    host.prepare()
    with pytest.raises(StoreError, match="File exists"):
        host.daemon().launch(host.plan("true"))
    assert (host.folder / "launch.json").exists()


@pytest.mark.parametrize("step", ["write_record", "posix_spawn"])
def test_a_launch_that_fails_leaves_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(attempts if step == "write_record" else launcher.os, step, full)
    host.forks = False
    daemon = host.daemon()
    with pytest.raises(StoreError, match="No space left on device"):
        daemon.launch(host.plan("true"))
    assert not host.folder.exists()
    assert daemon.fds() == {} and daemon.poll(SERIAL) is None


def test_no_descriptor_for_the_runner(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    host.forks = False
    daemon = host.daemon()
    with monkeypatch.context() as patch:
        patch.setattr(launcher.os, "pidfd_open", none_left)
        daemon.launch(host.plan("touch", "ran"))
    assert end_of(daemon) == Lost("its runner was killed before it could begin", False, None)


def test_only_root_runs_jobs_of_others(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Refused, match="this daemon is not root"):
        host.daemon().launch(host.plan("true", uid=1001, gid=1001, user="ann"))


def test_forgetting(host: Host) -> None:
    daemon = host.daemon(keep=True)
    daemon.launch(host.plan(*SLEEPER))
    with pytest.raises(ValueError, match="has not ended"):
        daemon.forget(SERIAL)
    daemon.kill(SERIAL)
    end_of(daemon)
    daemon.forget(SERIAL)
    assert (host.folder / "exit.json").exists()
    host.daemon().forget(SERIAL)
    assert not host.folder.exists()
    host.daemon().forget(SERIAL)


def test_a_descriptor_stays_open_until_a_selector_had_time_to_let_go(host: Host) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan(*SLEEPER))
    next_of(daemon)
    before = set(daemon.fds())
    daemon.kill(SERIAL)  # else its runner waits for another attempt
    next_of(daemon)
    assert daemon.fds() == {}
    assert any(map(is_open, before))
    daemon.fds()
    assert not any(map(is_open, before))


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
