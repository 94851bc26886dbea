"""What `radrm doctor` says of control groups, pidfd, inotify and limits of the kernel."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radrm.host.health import kernel
from tests.host.health.judging import ME, judged


def a_group(*files: str) -> Callable[[str], bool]:
    """Makes a control group as this kernel does, with these files."""

    def make(path: str) -> bool:
        os.mkdir(path)
        for file in files:
            Path(path, file).touch()
        return True

    return make


def test_tree_kill(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()
    group = str(tmp_path / "x")
    judged(kernel.tree_kill(None), "warn", "cgroup v2")
    judged(kernel.tree_kill(group, lambda _: False), "warn", str(tmp_path), "Delegate=yes")
    judged(kernel.tree_kill(group, a_group()), "warn", "5.14")
    assert not os.path.exists(group)
    judged(kernel.tree_kill(group, a_group("cgroup.kill")), "ok", str(tmp_path))


def test_limits() -> None:
    judged(kernel.limits(None), "ok", "--cpus")
    why = "CPUs are booked, not enforced: there is no cgroup v2 for this user"
    judged(kernel.limits(why), "warn", why, "as a service")


@pytest.mark.skipif(ME == 0, reason="root may write to every file")
def test_a_group_that_nobody_can_be_moved_out_of(tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch(0o400)
    found = kernel.tree_kill(str(tmp_path / "x"), a_group("cgroup.kill"))
    judged(found, "warn", "no process can be moved")


def refused(number: int) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize(
    ("soft", "hard", "mps", "level", "words"),
    [
        (1024, 1 << 20, False, "ok", "MPS would need 16384"),
        (1024, 1 << 20, True, "warn", "ulimit -n 16384"),
        (1024, 4096, True, "warn", "LimitNOFILE=16384"),
        (256, 4096, False, "warn", "1024"),
        (16384, 16384, True, "ok", "16384"),
        (-1, -1, True, "ok", "unlimited"),
    ],
)
def test_open_files(soft: int, hard: int, mps: bool, level: str, words: str) -> None:
    judged(kernel.open_files(soft, hard, mps), level, words)


def test_isolation_is_a_matter_of_root() -> None:
    judged(kernel.isolation(None, True, True), "ok", "only the GPUs that it was given")
    judged(
        kernel.isolation("there is no cgroup v2", True, True), "warn", "no cgroup v2", "security"
    )
    judged(kernel.isolation("the daemon does not run as root", True, False), "ok", "root")
    judged(kernel.isolation("gpus.isolate = false", False, True), "ok", "gpus.isolate = false")
