"""Limits of CPUs and host memory of real jobs, with the controllers of this machine.

They run where this machine lets us make groups with these controllers, of whatever version.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from radrm.host.attempts.evidence import Ended
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.processes import cgroups
from radrm.host.processes.controllers import Controllers, prepare
from radrm.host.processes.limits import Limits
from tests.host.attempts.host import SERIAL, SLEEPER, Host, end_of

HOG = "x = bytearray(200 << 20)\nprint(len(x))"
"""Uses 200 MiB."""
SPIN = "import time\nwhile time.process_time() < {seconds}: pass"
"""Uses so many seconds of CPU time."""


@pytest.fixture
def controllers() -> Controllers:
    """Those of version 1, which leave this process where it is."""
    if None in (cgroups.own_group("cpu"), cgroups.own_group("memory")):
        pytest.skip("this machine has no cpu and memory controller of cgroup v1")
    found = prepare()
    if found.reasons:
        pytest.skip(str(found.reasons))
    return found


def launch(host: Host, controllers: Controllers, *argv: str, **changes: object) -> Launcher:
    if host.launchers:
        host.launchers[-1].close()
    daemon = Launcher(host.state, Clock(), controllers=controllers)
    host.launchers.append(daemon)
    daemon.launch(host.plan(*argv, **changes))
    return daemon


def own(host: Host) -> Limits:
    from radrm.host.attempts import folder

    launched, _ = folder.read_record(str(host.folder), folder.LAUNCH)
    return Limits.of(launched, SERIAL)


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-I", "-S", "-c", code


def test_a_job_within_its_limits(host: Host, controllers: Controllers) -> None:
    daemon = launch(host, controllers, *python("print('done')"), cpus=1.5, memory_mib=512)
    groups = own(host).groups
    assert len(groups) == 2
    ended = end_of(daemon)
    assert isinstance(ended, Ended)
    assert ended.exit.code == 0 and ended.exceeded_mib is None
    assert ended.started is not None and ended.started.not_limited is None
    assert not any(map(os.path.exists, groups))


def test_the_limits_hold_while_it_runs_and_its_runner_is_outside(
    host: Host, controllers: Controllers
) -> None:
    daemon = launch(host, controllers, *SLEEPER, cpus=1.5, memory_mib=512)
    host.ready()
    its = own(host)
    assert its.cpu is not None and its.memory is not None
    assert Path(its.cpu, "cpu.cfs_quota_us").read_text() == "150000\n"
    assert Path(its.memory, "memory.limit_in_bytes").read_text() == f"{512 << 20}\n"
    assert host.runner() not in cgroups.processes(its.cpu) | cgroups.processes(its.memory)
    assert (
        cgroups.processes(its.cpu)
        == cgroups.processes(its.memory)
        == host.processes() - {host.runner()}
    )
    daemon.kill(SERIAL)
    end_of(daemon)


@pytest.mark.parametrize(
    "argv",
    [
        python(HOG),
        ("sh", "-c", f'{sys.executable} -I -S -c "{HOG}"; true'),
    ],
    ids=["the job itself", "only a child"],
)
def test_more_host_memory_than_the_limit(
    host: Host, controllers: Controllers, argv: tuple[str, ...]
) -> None:
    ended = end_of(launch(host, controllers, *argv, memory_mib=64))
    assert isinstance(ended, Ended)
    assert ended.exceeded_mib == 64
    assert (host.cwd / "out").read_text() == ""
