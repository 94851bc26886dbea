"""CPU shares of real jobs, and what they use, with the controllers of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radrm.host.attempts.evidence import Running, Started
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.processes.controllers import Controllers
from tests.host.attempts.host import SERIAL, SLEEPER, Host, next_of
from tests.host.attempts.test_limits import SPIN, launch, own, python, relaunch
from tests.waiting import wait_until


def test_weights_of_a_running_job(host: Host, controllers: Controllers) -> None:
    daemon = launch(host, controllers, *SLEEPER, cpu_weight=2.0)
    host.ready()
    its = own(host)
    assert its.cpu is not None

    def shares() -> str:
        return Path(its.cpu or "", "cpu.shares").read_text()

    assert shares() == "2048\n"
    assert Path(its.cpu, "cpu.cfs_quota_us").read_text() == "-1\n", "a weight is no cap"
    daemon.set_shares(SERIAL, None, 0.01)
    assert shares() == "10\n"
    second = relaunch(host, controllers)
    assert isinstance(second.adopt(SERIAL, 3), Running)
    second.restore_shares(SERIAL, None, 100.0)
    assert shares() == "102400\n"
    second.set_shares(SERIAL, 1.5, None)
    assert shares() == "1024\n"
    second.kill(SERIAL)
    next_of(second)


def test_what_a_job_uses_is_counted_where_that_is_wanted(
    host: Host, controllers: Controllers
) -> None:
    if controllers.account is None:
        pytest.skip("no cpuacct controller of cgroup v1 can be used here")
    daemon = Launcher(host.state, Clock(), controllers=controllers, account=True)
    host.launchers.append(daemon)
    daemon.launch(host.plan(*python(SPIN)))
    assert isinstance(next_of(daemon), Started)
    host.ready()
    first = daemon.counted(SERIAL)
    assert first.cpu_s is not None and first.memory_mib is not None
    wait_until(lambda: (daemon.counted(SERIAL).cpu_s or 0) > (first.cpu_s or 0) + 0.1)
    second = relaunch(host, controllers)
    assert isinstance(second.adopt(SERIAL, 3), Running)
    assert (second.counted(SERIAL).cpu_s or 0) > 0.1, "a restart loses none of it"
    groups = own(host).groups
    assert len(groups) == 3
    second.kill(SERIAL)
    next_of(second)
    assert not any(map(os.path.exists, groups))
    assert second.counted(SERIAL).cpu_s is None
