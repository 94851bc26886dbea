"""Limits of CPUs and host memory of real jobs, with the controllers of this machine.

They run where this machine lets us make groups with these controllers, of whatever version.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

import pytest

from radrm.errors import Refused
from radrm.host.attempts.evidence import Ended, Lost, Running, Started
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.processes import cgroups
from radrm.host.processes.controllers import Controllers
from radrm.host.processes.limits import Limits
from tests.host.attempts.host import SERIAL, SLEEPER, Host, next_of
from tests.waiting import wait_until

HOG = "x = bytearray(200 << 20)\nprint(len(x))"
"""Uses 200 MiB."""
SPIN = "import os\nos.fork()\nopen('ready', 'w')\nwhile True: pass"
"""Two processes that use all the CPU time that they get."""


def launch(host: Host, controllers: Controllers, *argv: str, **changes: object) -> Launcher:
    daemon = Launcher(host.state, Clock(), controllers=controllers)
    host.launchers.append(daemon)
    daemon.launch(host.plan(*argv, **changes))
    assert isinstance(next_of(daemon), Started)
    return daemon


def relaunch(host: Host, controllers: Controllers) -> Launcher:
    """The launcher of the next daemon."""
    host.launchers[-1].close()
    host.launchers.append(Launcher(host.state, Clock(), controllers=controllers))
    return host.launchers[-1]


def own(host: Host) -> Limits:
    from radrm.host.attempts import folder

    launched, _ = folder.read_record(str(host.folder), folder.LAUNCH)
    return Limits.of(launched, SERIAL)


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-I", "-S", "-c", code


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
    ended = next_of(launch(host, controllers, *argv, memory_mib=64))
    assert isinstance(ended, Ended)
    assert ended.exceeded_mib == 64
    assert (host.cwd / "out").read_text() == ""


def throttled(group: str) -> int:
    """How often the kernel made a group wait for its next period."""
    return cgroups.counts(group, "cpu.stat")["nr_throttled"]


def test_a_job_gets_only_its_cpus(host: Host, controllers: Controllers) -> None:
    daemon = launch(host, controllers, *python(SPIN), cpus=0.1)
    its = own(host)
    assert its.cpu is not None
    host.ready()
    wait_until(lambda: its.cpu and len(cgroups.processes(its.cpu)) == 2)
    wait_until(lambda: its.cpu and throttled(its.cpu) > 3)
    daemon.kill(SERIAL)
    next_of(daemon)


def test_cpus_of_a_running_job_change_also_after_a_restart(
    host: Host, controllers: Controllers
) -> None:
    daemon = launch(host, controllers, *python(SPIN))
    host.ready()
    its = own(host)
    assert its.cpu is not None and not os.path.exists(its.cpu), "nothing was limited"
    daemon.set_shares(SERIAL, None, None)
    assert not os.path.exists(its.cpu)
    daemon.set_shares(SERIAL, 0.1, None)
    assert cgroups.processes(its.cpu) == host.processes() - {host.runner()}
    wait_until(lambda: its.cpu and throttled(its.cpu) > 3)

    second = relaunch(host, controllers)
    assert isinstance(second.adopt(SERIAL, 3), Running)
    assert Path(its.cpu, "cpu.cfs_quota_us").read_text() == "10000\n", "the kernel keeps it"
    second.restore_shares(SERIAL, 1.5, None)
    assert Path(its.cpu, "cpu.cfs_quota_us").read_text() == "150000\n", "as its record says"
    second.set_shares(SERIAL, 2.5, None)
    assert Path(its.cpu, "cpu.cfs_quota_us").read_text() == "250000\n"
    second.set_shares(SERIAL, None, None)
    assert Path(its.cpu, "cpu.cfs_quota_us").read_text() == "-1\n"
    second.kill(SERIAL)
    next_of(second)
    assert not os.path.exists(its.cpu)
    with pytest.raises(Refused, match="has ended"):
        second.set_shares(SERIAL, 1.0, None)


def test_a_job_that_forks_all_the_time_is_gathered_whole(
    host: Host, controllers: Controllers
) -> None:
    """Each process forks its successor and ends."""
    code = "import os, time\nopen('ready', 'w')\nif os.fork():\n    time.sleep(1000)\n"
    code += "while True:\n    if os.fork(): os._exit(0)\n    time.sleep(0.03)"
    daemon = launch(host, controllers, *python(code))
    host.ready()
    daemon.set_shares(SERIAL, 1.0, None)
    its = own(host)
    assert its.cpu is not None
    # While one forks its successor there are three, for a moment.
    wait_until(lambda: its.cpu and len(cgroups.processes(its.cpu)) == 2)
    daemon.kill(SERIAL)
    next_of(daemon)


def test_a_cache_of_files_fills_the_limit_and_is_no_reason_to_fail(
    host: Host, controllers: Controllers
) -> None:
    # Each block is on disk before the next: version 1 ends who dirties more than a slow disk takes.
    argv = ["dd", "if=/dev/zero", "of=file", "bs=1M", "count=100", "oflag=dsync", "status=none"]
    daemon = launch(host, controllers, *argv, cpus=1.5, memory_mib=32)
    groups = own(host).groups
    assert len(groups) == 2
    ended = next_of(daemon)
    assert isinstance(ended, Ended)
    assert (ended.exit.code, ended.exceeded_mib) == (0, None)
    assert ended.started.not_limited is None
    assert not any(map(os.path.exists, groups))


BELOW = """
mkdir $1/mine && echo {limit} >$1/mine/memory.limit_in_bytes && echo 0 >$1/mine/cgroup.procs
{python} -I -S -c "{hog}"
echo 0 >$1/cgroup.procs
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's jobs can make groups in version 1")
@pytest.mark.parametrize(("limit", "exceeded"), [(-1, 64), (20 << 20, None)])
def test_a_group_that_the_job_has_made_below(
    host: Host, controllers: Controllers, limit: int, exceeded: int | None
) -> None:
    script = BELOW.format(limit=limit, python=sys.executable, hog=HOG)
    code = f"until test -e group; do sleep 0.01; done; set -- $(cat group); {script}"
    daemon = launch(host, controllers, "sh", "-c", code, memory_mib=64)
    group = own(host).memory
    assert group is not None
    (host.cwd / "group.new").write_text(group)
    os.rename(host.cwd / "group.new", host.cwd / "group")
    ended = next_of(daemon)
    assert isinstance(ended, Ended) and ended.exceeded_mib == exceeded
    assert not os.path.exists(group)


def test_less_host_memory_than_a_program_needs_to_start(
    host: Host, controllers: Controllers
) -> None:
    ended = next_of(launch(host, controllers, *python("pass"), memory_mib=1))
    assert isinstance(ended, Ended) and ended.exceeded_mib == 1


def test_what_a_killed_runner_leaves_is_removed(host: Host, controllers: Controllers) -> None:
    launch(host, controllers, *SLEEPER, cpus=1.0, memory_mib=512)
    host.ready()
    groups = own(host).groups
    assert all(map(os.path.exists, groups))
    other = Path(groups[0]).with_name(f"radrm-{SERIAL}9-another")
    assert cgroups.make(str(other))
    try:
        host.kill_runner()
        second = relaunch(host, controllers)
        found = second.adopt(SERIAL, 3)
        assert isinstance(found if isinstance(found, Lost) else next_of(second), Lost)
        second.forget(SERIAL)
        assert not any(map(os.path.exists, groups))
        assert other.exists(), "only this attempt's"
    finally:
        cgroups.remove(str(other))


ESCAPES = """
for file in {files}; do echo -1 >$file && echo wrote $file; done
for group in {groups}; do
    mkdir $group/mine && echo made $group/mine
    echo 0 >$group/../cgroup.procs && echo left $group
done
setsid sh -c 'setsid sleep 1000 & touch ready' &
wait; sleep 1000
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the jobs of others")
def test_a_job_cannot_leave_its_limits(open_host: Host, controllers: Controllers) -> None:
    """It runs as another user, and knows where its groups are."""
    entry = pwd.getpwnam("nobody")
    user = {"uid": entry.pw_uid, "gid": entry.pw_gid, "user": "nobody"}
    host = open_host
    code = ("sh", "-c", "until test -e escape; do sleep 0.01; done; . ./escape")
    daemon = launch(host, controllers, *code, cpus=1.0, memory_mib=512, **user)
    its = own(host)
    assert its.cpu is not None and its.memory is not None
    files = [f"{its.cpu}/{name}" for name in ("cpu.cfs_quota_us", "cgroup.procs", "tasks")]
    files += [f"{its.memory}/{name}" for name in ("memory.limit_in_bytes", "cgroup.procs")]
    script = ESCAPES.format(files=" ".join(files), groups=f"{its.cpu} {its.memory}")
    (host.cwd / "escape.new").write_text(script)
    os.rename(host.cwd / "escape.new", host.cwd / "escape")
    host.ready()
    assert (host.cwd / "out").read_text() == ""
    assert Path(its.cpu, "cpu.cfs_quota_us").read_text() == "100000\n"

    def all_inside() -> bool:
        """Once the shells have ended, and nothing comes and goes."""
        found = [cgroups.processes(group) for group in its.groups]
        return found == [host.processes() - {host.runner()}] * 2 and len(found[0]) >= 2

    wait_until(all_inside, "a job of which nothing is outside")
    daemon.kill(SERIAL)
    next_of(daemon)


@pytest.mark.parametrize("exists", [True, False])
def test_a_limit_that_cannot_be_set_is_told_and_the_job_runs(
    host: Host, tmp_path: Path, exists: bool
) -> None:
    place = tmp_path / "no-controller"
    if exists:
        place.mkdir()
    daemon = launch(host, Controllers(cpu=str(place)), *python("print('ran')"), cpus=1.0)
    ended = next_of(daemon)
    assert isinstance(ended, Ended) and ended.started is not None and ended.exit.code == 0
    assert ("takes no limit" if exists else "cannot be made") in ended.started.not_limited
    assert (host.cwd / "out").read_text() == "ran\n"


def test_without_a_controller_cpus_cannot_change(host: Host) -> None:
    reason = Controllers(reasons=(("cpu", "there is no cgroup v2 for this user"),))
    daemon = launch(host, reason, *SLEEPER, cpus=1.0)
    host.ready()
    with pytest.raises(Refused, match="CPUs are booked, not enforced: there is no cgroup v2"):
        daemon.set_shares(SERIAL, 2.0, None)
    daemon.kill(SERIAL)
    next_of(daemon)


GROWING = """
import os, time
x = bytearray(40 << 20)
open("ready", "w").close()
while not os.path.exists("more"):
    time.sleep(0.01)
y = bytearray(100 << 20)
print("done")
"""


def test_a_limit_of_memory_grows_while_the_job_runs(host: Host, controllers: Controllers) -> None:
    daemon = launch(host, controllers, *python(GROWING), memory_mib=64, memory_most_mib=256)
    host.ready()
    assert daemon.set_memory(SERIAL, 256, 256)
    assert not daemon.set_memory(SERIAL, 42, 256), "it holds nearly so much"
    (host.cwd / "more").touch()
    ended = next_of(daemon)
    assert isinstance(ended, Ended)
    assert (ended.exit.code, ended.exceeded_mib) == (0, None)
    assert daemon.set_memory(SERIAL, 64, None), "of an ended attempt there is nothing to change"
