"""A host for the launcher: a state folder, and the daemons that follow one another on it."""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from radrm.host.attempts import folder as attempts
from radrm.host.attempts import runner
from radrm.host.attempts.evidence import Ended, Freed, Lost, Started
from radrm.host.attempts.forking import Forker
from radrm.host.attempts.launcher import Launcher
from radrm.host.attempts.plan import LaunchPlan
from radrm.host.clock import Clock
from radrm.host.processes import cgroups
from radrm.host.processes.identity import Identity
from radrm.host.processes.limits import Limits
from radrm.host.processes.tree import attempt_processes
from tests.host.processes.programs import PYTHON, gone
from tests.waiting import wait_until

SERIAL = 7


@cache
def _forker() -> Forker:
    found = Forker("(of tests)")
    atexit.register(found.close)
    return found


def ready_forker() -> Forker:
    """The one forker of all daemons of this test process: it holds nothing of any."""

    def is_ready() -> bool:
        found = _forker()
        if not found.is_ready() and not found.pid:
            _forker.cache_clear()  # a busy machine let none start, and it rests
        return found.pid != 0 and found.is_ready()

    wait_until(is_ready, "the forker")
    return _forker()


class Host:
    """A state folder, and the daemons that follow one another on it."""

    forks = True
    """Whether runners are forks; else each is a new interpreter."""

    def __init__(self, place: Path) -> None:
        self.state = place / "state"
        self.state.mkdir()
        self.cwd = place / "work"
        self.cwd.mkdir()
        self.folder = self.state / "attempts" / str(SERIAL)
        self.token = f"token-{os.getpid()}-{place.name}"
        self.launchers: list[Launcher] = []

    def daemon(self, clock: Clock | None = None, keep: bool = False) -> Launcher:
        """A new daemon; the one before it is gone."""
        if self.launchers:
            self.launchers[-1].close()
        forker = ready_forker() if self.forks else None
        self.launchers.append(Launcher(self.state, clock or Clock(), keep, forker=forker))
        return self.launchers[-1]

    def plan(self, *argv: str, **changes: Any) -> LaunchPlan:
        fields: dict[str, Any] = {
            "serial": SERIAL,
            "job_id": 3,
            "attempt": 2,
            "uid": None,
            "gid": None,
            "user": "me",
            "argv": list(argv),
            "cwd": str(self.cwd),
            "environment": {"PATH": os.environ["PATH"], "RADRM_TOKEN": "of-another-job"},
            "stdout": str(self.cwd / "out"),
            "stderr": str(self.cwd / "err"),
            "token": self.token,
            "kill_grace_s": 0.2,
        }
        return LaunchPlan(**fields | changes)

    def ready(self) -> None:
        wait_until((self.cwd / "ready").exists)

    def processes(self) -> set[int]:
        return attempt_processes(self.token, None)

    def runner(self) -> int:
        holder = attempts.Claim.holder(str(self.folder))
        assert holder[0] == attempts.RUNNER
        return holder[1].pid

    def kill_runner(self) -> None:
        pid = self.runner()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: gone(pid))

    def prepare(self) -> None:
        """What a daemon leaves that is killed before it starts the runner."""
        self.daemon()._prepare(self.plan("touch", "ran"))

    def start_runner(self) -> subprocess.Popen[bytes]:
        command = [*PYTHON[:3], runner.__file__, str(self.folder)]
        return subprocess.Popen(command, env={"RADRM_TOKEN": self.token})


SLEEPER = ("sh", "-c", "touch ready; exec sleep 1000")


def remove_group(launch: dict[str, Any]) -> None:
    groups = [launch["cgroup"], *Limits.of(launch, SERIAL).groups]
    wait_until(lambda: all(cgroups.remove(group) for group in groups if group is not None))


def next_of(daemon: Launcher, serial: int = SERIAL) -> Started | Freed | Ended | Lost:
    """As the daemon's loop does: wait for a descriptor, then ask."""
    found = None
    while found is None:
        fds = daemon.fds()
        readable, _, _ = select.select(list(fds), [], [], 60)
        assert readable, "nothing woke us"
        assert {fds[fd] for fd in readable} == {serial}
        assert serial in daemon.with_news(readable)
        found = daemon.poll(serial)
    return found


def end_of(daemon: Launcher) -> Ended | Lost:
    found = next_of(daemon)
    return next_of(daemon) if isinstance(found, Started) else found


def write_start(host: Host, who: Identity, **changes: Any) -> None:
    fields = {
        "pid": 2**22 + 1,
        "start_ticks": 1,
        "runner_pid": who.pid,
        "runner_start_ticks": who.start_ticks,
        **attempts.now(),
    }
    attempts.write_record(str(host.folder), attempts.START, fields | changes)


ONCE = ("sh", "-c", "echo ran >>ran; touch ready; until test -e go; do sleep 0.01; done; exit 6")

A, B = "a1" * 32, "b2" * 32
