"""Runners and daemons that are killed: no process is left, and a job runs at most once."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from radrm.core.records import Exit
from radrm.host.attempts import folder as attempts
from radrm.host.attempts import live
from radrm.host.attempts.evidence import Ended, Lost, Running, Started, State, Void
from radrm.host.attempts.launcher import Launcher
from radrm.host.attempts.live import Live
from radrm.host.processes import cgroups
from radrm.host.processes.procfs import token_of
from radrm.host.processes.tree import kill_tree
from tests.host.attempts.host import ONCE, SERIAL, SLEEPER, Host, end_of, next_of
from tests.host.processes.programs import ESCAPED, PYTHON, SLEEP, gone, read_pid
from tests.paths import REPOSITORY
from tests.waiting import wait_until

# ------------------------------------------------------------------ the runner is killed


@pytest.mark.parametrize("grouped", [True, False], ids=["group", "no group"])
def test_a_killed_runner_loses_the_attempt(
    host: Host, monkeypatch: pytest.MonkeyPatch, grouped: bool
) -> None:
    if not grouped:
        monkeypatch.setattr(cgroups, "place", lambda _: None)
    daemon = host.daemon()
    daemon.launch(host.plan("sh", "-c", "setsid sleep 1000 & touch ready; exec sleep 1000"))
    started = next_of(daemon)
    host.ready()
    os.kill(host.runner(), signal.SIGKILL)
    lost = next_of(daemon)
    assert isinstance(lost, Lost) and isinstance(started, Started) and lost.started is not None
    assert (lost.reason, lost.began) == ("its runner was killed while it ran", True)
    assert lost.started.pid == started.pid
    assert not host.processes()
    assert daemon.fds() == {} == daemon.fds()


def test_the_work_of_mps_clients_goes_before_they_are_killed(host: Host) -> None:
    daemon = host.daemon()
    told = host.cwd / "told"
    script = f'echo "$0" "$@" >{told}; kill -0 $2 && echo lives >>{told}'
    ends = ["sh", "-c", script]
    daemon.launch(host.plan(*SLEEPER, ends_clients=ends))
    started = next_of(daemon)
    assert isinstance(started, Started)
    host.ready()
    host.kill_runner()
    assert isinstance(next_of(daemon), Lost) and not host.processes()
    assert told.read_text().split() == ["kill", "5", str(started.pid), "lives"]


def test_a_job_that_kills_its_runner(host: Host) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan("sh", "-c", "kill -9 $PPID; exec sleep 1000"))
    lost = end_of(daemon)
    assert isinstance(lost, Lost) and lost.began
    assert not host.processes()


def test_what_was_seen_on_a_device_dies_with_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where there is no group, and it left session, parent and environment behind."""
    monkeypatch.setattr(cgroups, "place", lambda _: None)
    daemon = host.daemon()
    pid_file = host.cwd / "pid"
    daemon.launch(host.plan(*PYTHON, f"{ESCAPED}\nescape(); time.sleep(1000)", str(pid_file)))
    escaped = read_pid(pid_file)
    wait_until(lambda: daemon.owner_of(escaped))
    assert token_of(escaped) is None
    os.kill(host.runner(), signal.SIGKILL)
    assert isinstance(end_of(daemon), Lost)
    assert gone(escaped)


@pytest.mark.parametrize("order", [Launcher.terminate, Launcher.kill])
def test_orders_reach_the_tree_of_a_dead_runner(
    host: Host, order: Callable[[Launcher, int], None]
) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan(*SLEEPER))
    assert isinstance(next_of(daemon), Started)
    host.kill_runner()
    order(daemon, SERIAL)
    assert isinstance(next_of(daemon), Lost)
    assert not host.processes()


def test_a_runner_that_dies_before_its_claim(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process tests the lock, so that it cannot get there."""
    daemon = host.daemon()
    host.state.joinpath("attempts").mkdir()
    start = Launcher._start_runner

    def start_held_up(
        daemon: Launcher, live: Live, gate: int | None, ready: Callable[[], None]
    ) -> None:
        lock = attempts.take_lock(live.evidence.folder)
        start(daemon, live, gate, ready)
        os.kill(live.runner.pid, signal.SIGKILL)
        os.close(lock)

    monkeypatch.setattr(Launcher, "_start_runner", start_held_up)
    daemon.launch(host.plan("touch", "ran"))
    assert end_of(daemon) == Lost("its runner was killed before it could begin", False, None)
    assert not (host.cwd / "ran").exists()


def test_survivors_of_a_kill_are_waited_for(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process stuck in the kernel: the devices are not free before it is gone."""
    daemon = host.daemon()
    daemon.launch(host.plan(*SLEEPER))
    started = next_of(daemon)
    assert isinstance(started, Started)
    stuck = subprocess.Popen([*PYTHON, SLEEP])

    def resisting(*args: Any, **more: Any) -> set[int]:
        kill_tree(*args, **more)
        return {stuck.pid} if stuck.poll() is None else set()

    monkeypatch.setattr(live, "kill_tree", resisting)
    os.kill(host.runner(), signal.SIGKILL)
    while daemon._live[SERIAL].state is not State.STUCK:
        assert select.select(list(daemon.fds()), [], [], 60)[0]
        assert daemon.poll(SERIAL) is None
    for order in (Launcher.terminate, Launcher.kill):
        order(daemon, SERIAL)  # what is stuck has its KILL; to look anew would find it again
        assert daemon.poll(SERIAL) is None
        assert daemon._live[SERIAL].state is State.STUCK
        assert not select.select(list(daemon.fds()), [], [], 0)[0], "the daemon would never sleep"
    stuck.kill()
    assert isinstance(next_of(daemon), Lost)
    stuck.wait()


def test_what_is_long_to_kill_does_not_hold_the_daemon(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a tree of thousands of processes."""
    daemon = host.daemon()
    daemon.launch(host.plan(*SLEEPER))
    assert isinstance(next_of(daemon), Started)
    may_go_on = threading.Event()

    def slow(*args: Any, **more: Any) -> set[int]:
        assert may_go_on.wait(60)
        return kill_tree(*args, **more)

    monkeypatch.setattr(live, "kill_tree", slow)
    os.kill(host.runner(), signal.SIGKILL)
    assert daemon._live[SERIAL].pidfd is not None
    assert select.select([daemon._live[SERIAL].pidfd], [], [], 60)[0]
    for _ in range(5):
        assert daemon.poll(SERIAL) is None
        daemon.kill(SERIAL)
        assert not select.select(list(daemon.fds()), [], [], 0)[0], "there is nothing to do yet"
    may_go_on.set()
    assert isinstance(next_of(daemon), Lost)
    assert not host.processes()


# ------------------------------------------------------------------ kill -9 at any moment


MOMENTS_S = [n * 0.03 for n in range(3)]
"""From before a runner has begun to after its job has; the crash matrix kills at each point."""


@pytest.mark.parametrize("moment_s", MOMENTS_S)
def test_a_runner_killed_at_any_moment(host: Host, moment_s: float) -> None:
    daemon = host.daemon()
    daemon.launch(host.plan(*ONCE))
    (pid,) = {live.runner.pid for live in daemon._live.values() if live.runner is not None}
    time.sleep(moment_s)  # not to wait for anything: the moment is the test
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: gone(pid))
    found = host.daemon().adopt(SERIAL, 3)
    assert isinstance(found, Void | Lost)
    assert not host.processes()
    ran = (host.cwd / "ran").exists()
    assert not ran or (isinstance(found, Lost) and found.began)
    assert not (isinstance(found, Void) and (host.folder / "start.json").exists())


DAEMON = """
import sys
from radrm.host.clock import Clock
from radrm.host.attempts.launcher import Launcher
from pathlib import Path
from tests.host.attempts.host import ONCE, Host
host = Host.__new__(Host)
place = Path(sys.argv[1])
host.cwd, host.token = place / "work", sys.argv[2]
launcher = Launcher(place / "state", Clock())
sys.stdout.write("r")
sys.stdout.flush()
launcher.launch(host.plan(*ONCE))
sys.stdin.read()
"""


@pytest.mark.parametrize("moment_s", MOMENTS_S)
def test_a_daemon_killed_at_any_moment(host: Host, moment_s: float) -> None:
    """The job runs once or not at all, and what is said of it is true."""
    command = [sys.executable, "-c", DAEMON, str(host.cwd.parent), host.token]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY
    ) as first:
        assert first.stdout.read(1) == b"r"
        time.sleep(moment_s)  # not to wait for anything: the moment is the test
        first.kill()
    second = host.daemon()
    found = second.adopt(SERIAL, 3)
    if isinstance(found, Void):
        wait_until(lambda: not host.processes())  # the runner, standing down
        assert not (host.cwd / "ran").exists()
        return
    assert isinstance(found, Running)
    (host.cwd / "go").touch()
    while not isinstance(end := second.poll(SERIAL), Ended | Lost):
        select.select(list(second.fds()), [], [], 0.05)
    assert isinstance(end, Ended) and end.exit == Exit(code=6)
    assert (host.cwd / "ran").read_text() == "ran\n"


def test_a_runner_whose_code_is_removed_records_the_end(host: Host) -> None:
    """An upgrade or a removal of the package does not end jobs, and their ends are known."""
    code = host.cwd / "code" / "radrm"
    for part in ("core", "host"):
        shutil.copytree(REPOSITORY / "radrm" / part, code / part)
    for file in (REPOSITORY / "radrm").glob("*.py"):
        shutil.copy2(file, code)
    host.daemon()._prepare(host.plan(*ONCE))
    command = [*PYTHON[:3], str(code / "host" / "attempts" / "runner.py"), str(host.folder)]
    runs = subprocess.Popen(command, env={"RADRM_TOKEN": host.token})
    host.ready()
    wait_until(lambda: attempts.read_record(str(host.folder), attempts.START)[0])
    shutil.rmtree(code)
    (host.cwd / "go").touch()
    assert runs.wait() == 0
    record, _ = attempts.read_record(str(host.folder), attempts.EXIT)
    assert record["code"] == 6
