"""The job is born into its control group; its runner is never there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radrm.host.attempts import folder as attempts
from radrm.host.attempts import runner
from radrm.host.processes import cgroups
from radrm.host.processes.calls import clone_into
from radrm.host.processes.identity import identify
from radrm.host.processes.tree import kill_tree
from tests.host.attempts.runner.attempt import launch_record
from tests.waiting import wait_until


@pytest.fixture
def group() -> Iterator[str]:
    """The name of a group that can be made here."""
    path = cgroups.place(f"radrm-test-{os.getpid()}")
    if path is None or not cgroups.make(path):
        pytest.skip("no control group can be made here")
    wait_until(lambda: cgroups.remove(path))
    yield path
    wait_until(lambda: cgroups.remove(path))


def test_a_fork_is_born_inside_and_its_parent_stays_outside(group: str) -> None:
    assert cgroups.make(group)
    pid = clone_into(group)
    if pid == 0:
        os._exit(cgroups.processes(group) != {os.getpid()})
    if pid is None:
        pytest.skip("the kernel clones nothing into a group here")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert cgroups.processes(group) == set()


@pytest.mark.parametrize("path", ["/proc/nothing/group", "/proc/self"])
def test_where_no_process_can_be_born(path: str) -> None:
    assert clone_into(path) is None


class Started:
    """A runner started as the launcher does, and its folder."""

    def __init__(self, place: Path, group: str) -> None:
        self.folder = place / "attempts" / "7"
        self.folder.mkdir(parents=True)
        self.cwd = place
        self.group = group
        self.token = f"token-{os.getpid()}-{place.name}"

    def prepare(self, *argv: str) -> None:
        how: dict[str, Any] = {"argv": list(argv), "umask": 0o022, "cgroup": self.group}
        fields = launch_record(self.token, self.cwd, **how)
        attempts.write_record(str(self.folder), attempts.LAUNCH, fields)

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", runner.__file__, str(self.folder)]
        return subprocess.Popen(command, env={"RADRM_TOKEN": self.token}, stdout=subprocess.DEVNULL)

    def exit_code(self) -> int | None:
        record, damage = attempts.read_record(str(self.folder), attempts.EXIT)
        assert record is not None, damage
        code: int | None = record["code"]
        return code


@pytest.fixture
def started(tmp_path: Path, group: str) -> Iterator[Started]:
    started = Started(tmp_path, group)
    yield started
    wait_until(lambda: not kill_tree(started.token, None, cgroup=group))


def test_killing_the_group_leaves_the_runner_to_tell_it(started: Started, group: str) -> None:
    started.prepare("sleep", "1000")
    runner = started.start()
    wait_until(lambda: (started.folder / attempts.START).exists())
    assert runner.pid not in cgroups.processes(group)
    killed = cgroups.kill(group)
    for pid in () if killed else cgroups.processes(group):
        os.kill(pid, 9)
    assert runner.wait(60) == 0
    record, _ = attempts.read_record(str(started.folder), attempts.EXIT)
    assert record["signal"] == 9


def test_a_runner_that_stands_down_leaves_no_group(started: Started, group: str) -> None:
    started.prepare("touch", "ran")
    me = identify(os.getpid())
    assert me is not None
    assert attempts.Claim.take(str(started.folder), attempts.DAEMON, me)
    assert started.start().wait(60) == 0
    assert not os.path.exists(group)
    assert not (started.cwd / "ran").exists()
