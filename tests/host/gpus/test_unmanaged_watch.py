"""Unmanaged processes on GPUs (real processes): which are reported, which are signalled, and
above all which are not."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from radrm.config import UnmanagedConfig
from radrm.core.events import DrainRequested, ReadingsTaken, Tick
from radrm.core.records import DeviceProcess, Instant, Reading
from radrm.core.snapshot import Snapshot
from radrm.host.gpus import unmanaged as module
from radrm.host.gpus.processes import Processes
from radrm.host.gpus.unmanaged import (
    ALWAYS_SPARED,
    UnmanagedWatch,
    has_gpu_open,
)
from radrm.host.processes.procfs import read_stat
from radrm.structs import replace
from tests.world import World, gpus

DEVICES = {"GPU-a": 0, "GPU-b": 3}
ME = pwd.getpwuid(os.getuid()).pw_name
STUBBORN = (
    "import signal, sys; signal.signal(15, signal.SIG_IGN); print(flush=True); sys.stdin.read()"
)

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts unmanaged processes, and ends those that are left."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        # For a moment after it begins to execute, a process has no command line yet.
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
            stat = read_stat(process.pid)
            if stat is None or stat.dead:
                break
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


class Server:
    """GPU 0 and GPU 3 with unmanaged processes on them, a reading each second."""

    def __init__(self, config: UnmanagedConfig, **given: Any) -> None:
        usual: dict[str, Any] = {"owner_of": lambda _: None, "may_signal": True}
        self.watch = UnmanagedWatch(config, **{**usual, "uses_gpu": lambda _: True, **given})
        self.describe = Processes().describe
        self.world = World(
            tuple(replace(gpus(1)[0], uuid=uuid, index=index) for uuid, index in DEVICES.items())
        )
        self.now_s = 1000.0

    def look(self, *pids: int, seconds: int = 1, devices: tuple[str, ...] = ("GPU-b",)) -> None:
        for _ in range(seconds):
            self.now_s += 1
            at = Instant(boot_s=self.now_s, wall_s=0)
            unmanaged = self.describe(dict.fromkeys(pids, 700))
            readings = tuple(Reading(device=d, at=at, processes=unmanaged) for d in devices)
            self.watch.look(ReadingsTaken(at=at, readings=readings), self.snapshot)

    @property
    def snapshot(self) -> Snapshot:
        return self.world.scheduler.snapshot

    def drain(self, uuid: str, reason: str | None) -> None:
        now = self.world.now
        self.world.step(DrainRequested(at=now, device=uuid, reason=reason))

    def told(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        return self.watch.action_taken(process.pid, self.now_s)


def config(action: str = "signal", **given: Any) -> UnmanagedConfig:
    return UnmanagedConfig(action=action, **{"grace_s": 20.0, "kill_grace_s": 5.0, **given})


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


# ------------------------------------------------------------------ telling


@pytest.mark.parametrize("action", ["count", "drain"])
def test_nothing_is_done_where_they_are_only_counted(
    start: Start, mocker: MockerFixture, caplog: pytest.LogCaptureFixture, action: str
) -> None:
    sleeper = start("sleep", "1000")
    server = Server(config(action))
    server.look(sleeper.pid, seconds=500)
    assert sleeper.poll() is None and lines(caplog) == []
    assert server.told(sleeper) == {} and server.watch.notes(server.snapshot) == []


def test_each_is_told_of_once(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    first, second = start("sleep", "1000"), start("sleep", "2000")
    server = Server(config("warn"))
    server.look(first.pid, seconds=500, devices=("GPU-a", "GPU-b"))
    server.look(first.pid, second.pid, seconds=500)
    assert lines(caplog) == [
        f"process {first.pid} of {ME} on GPU 0, 3 (sleep 1000) was not started by radrm",
        f"process {second.pid} of {ME} on GPU 3 (sleep 2000) was not started by radrm",
    ]
    assert server.told(second) == {"step": "warned", "seen_s": 499, "left": None}
    assert (
        "2 unmanaged processes on GPU 3 (radrm did not start them); "
        in server.watch.notes(server.snapshot)[0]
    )
    assert first.poll() is None and second.poll() is None


def test_who_has_gone_is_spoken_of_no_more(start: Start) -> None:
    sleeper = start("sleep", "1000")
    server = Server(config("warn"))
    server.look(sleeper.pid, seconds=10)
    assert "1 unmanaged process on GPU 3" in server.watch.notes(server.snapshot)[0]
    server.look()
    assert server.watch.notes(server.snapshot) == [] and server.told(sleeper) == {}


def test_what_cannot_be_identified_is_not_followed(start: Start) -> None:
    dead = start("true")
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    server = Server(config("signal", grace_s=0.0))
    server.look(dead.pid, 0, 1, -1, 4_194_304, seconds=50)
    assert server.watch.notes(server.snapshot) == []
    server.watch.look(Tick(at=Instant(boot_s=1, wall_s=1)), server.snapshot)


# ------------------------------------------------------------------ signalling


def test_term_after_the_grace_time(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    sleeper = start("sleep", "1000")
    server = Server(config())
    server.look(sleeper.pid, seconds=20)
    assert sleeper.poll() is None, "not a moment before"
    server.look(sleeper.pid)
    assert sleeper.wait(60) == -signal.SIGTERM
    assert lines(caplog)[1:] == [
        f"process {sleeper.pid} of {ME} on GPU 3 (sleep 1000) was not started by radrm "
        "and has been there for 20s: TERM sent"
    ]


def test_kill_for_who_ignores_it(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    stubborn = start(sys.executable, "-c", STUBBORN)
    stubborn.stdout.readline()
    server = Server(config())
    server.look(stubborn.pid, seconds=25)
    assert stubborn.poll() is None
    assert server.told(stubborn)["step"] == "TERM"
    server.look(stubborn.pid)
    assert stubborn.wait(60) == -signal.SIGKILL
    assert lines(caplog)[-1].endswith("KILL sent")


def spared_by(server: Server, process: subprocess.Popen[bytes]) -> str | None:
    """Let the time of a process come: why it was left alone; None where it was not."""
    server.look(process.pid, seconds=21)
    if server.told(process).get("step") in ("TERM", "KILL"):
        process.wait(60)
        return None
    server.look(process.pid, seconds=40)
    assert process.poll() is None
    return server.told(process).get("left") or "not told of either"


def test_a_jobs_process_is_not_touched(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    sleeper = start("sleep", "1000")
    owners = {sleeper.pid: (12, 1)}
    why = spared_by(Server(config(), owner_of=owners.get), sleeper)
    assert why == "it belongs to a job"
    said = [line for line in lines(caplog) if "gets no TERM" in line]
    assert len(said) == 1, "said once, not each second"


def test_whoever_has_no_gpu_open_is_not_touched(start: Start) -> None:
    """The host's pids, seen from a container, are other processes'."""
    sleeper = start("sleep", "1000")
    why = spared_by(Server(config(), uses_gpu=has_gpu_open), sleeper)
    assert "has a GPU open" in why


def test_a_pid_that_has_changed_hands_meanwhile_is_not_hit(
    start: Start, mocker: MockerFixture
) -> None:
    sleeper = start("sleep", "1000")

    def another_one(pid: int) -> bool:
        now = module.read_stat(pid)
        now.start_ticks += 1
        mocker.patch.object(module, "read_stat", return_value=now)
        return True

    Server(config(), uses_gpu=another_one).look(sleeper.pid, seconds=21)
    assert sleeper.poll() is None


def test_the_daemon_does_not_signal_itself() -> None:
    server = Server(config(grace_s=0.0))
    server.look(os.getpid(), seconds=10)
    assert "system" in server.watch.action_taken(os.getpid(), 0)["left"]


def test_without_the_right_to_nobody_is_signalled(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    sleeper = start("sleep", "1000")
    Server(config(), may_signal=False).look(sleeper.pid, seconds=100)
    assert sleeper.poll() is None
    assert "needs a daemon that runs as root" in lines(caplog)[0]
    assert len(lines(caplog)) == 2, "and he is told of"


def test_a_drained_gpu_is_its_administrators(start: Start) -> None:
    sleeper = start("sleep", "1000")
    server = Server(config())
    server.drain("GPU-b", "bench")
    server.look(sleeper.pid, seconds=100)
    server.drain("GPU-b", None)
    server.look(sleeper.pid, seconds=20)
    assert sleeper.poll() is None, "the time on a drained GPU does not count"
    server.look(sleeper.pid)
    assert sleeper.wait(60) == -signal.SIGTERM


# ------------------------------------------------------------------ the spared


def program(folder: Path, name: str, mode: int) -> str:
    """`sleep` under another name."""
    found = shutil.which("sleep")
    assert found is not None
    copy = folder / name
    shutil.copyfile(os.path.realpath(found), copy)
    copy.chmod(mode)
    return str(copy)


def test_a_program_that_root_has_put_there_is_spared_by_its_name(start: Start) -> None:
    sleeper = start("sleep", "1000")
    name = os.path.basename(os.readlink(f"/proc/{sleeper.pid}/exe"))
    assert spared_by(Server(config(spare=(name,))), sleeper) == "not told of either"
    assert spared_by(Server(config(spare=(name + "x",))), sleeper) is None


def test_nobody_is_spared_for_calling_himself_xorg(start: Start, tmp_path: Path) -> None:
    assert "Xorg" in ALWAYS_SPARED
    sleeper = start(program(tmp_path, "Xorg", 0o777), "1000")
    assert spared_by(Server(config()), sleeper) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can put a program there as root would")
def test_xorg_is_spared(start: Start, tmp_path: Path) -> None:
    path = program(tmp_path, "Xorg", 0o755)
    sleeper = start(path, "1000")
    os.unlink(path)
    assert spared_by(Server(config()), sleeper) == "not told of either", "upgraded meanwhile, too"


def test_users_can_be_spared(start: Start) -> None:
    assert spared_by(Server(config(spare_users=(ME,))), start("sleep", "9")) == "not told of either"
    assert spared_by(Server(config(spare_users=("x" + ME,))), start("sleep", "999")) is None


def test_where_the_executable_cannot_be_told_nobody_is_signalled(
    start: Start, mocker: MockerFixture
) -> None:
    """The name will do for not speaking of somebody, and for nothing more."""
    mocker.patch.object(module.os, "readlink", side_effect=PermissionError)
    sleeper = start("sleep", "1000")
    assert spared_by(Server(config(spare=("sleep",))), sleeper) == "not told of either"
    why = spared_by(Server(config()), sleeper)
    assert why == "the program that it executes is unknown"


def test_has_gpu_open(tmp_path: Path, start: Start) -> None:
    device = tmp_path / "nvidia0"
    device.write_text("")
    sleeper = start("sleep", "1000")
    assert not has_gpu_open(os.getpid(), str(tmp_path / "nvidia"))
    with device.open():
        assert has_gpu_open(os.getpid(), str(tmp_path / "nvidia"))
        assert not has_gpu_open(sleeper.pid, str(tmp_path / "nvidia"))
    assert not has_gpu_open(4_194_304)


def test_unmanaged_of_a_device_that_nobody_knows(start: Start) -> None:
    sleeper = start("sleep", "1000")
    server = Server(config("warn"))
    server.look(sleeper.pid, seconds=10, devices=("GPU-x",))
    assert (
        "1 unmanaged process on a GPU (radrm did not start it)"
        in server.watch.notes(server.snapshot)[0]
    )
    assert DeviceProcess(1).command is None
