"""Which device files a job may open; what the kernel then does, with devices of its own."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from radrm.core.records import Device
from radrm.core.words import DeviceKind
from radrm.errors import Refused, StoreError
from radrm.host import isolation as bpf
from radrm.host import isolation as numbers
from radrm.host.attempts import folder as attempts
from radrm.host.attempts import runner
from radrm.host.attempts.evidence import Ended, Started, Void
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.isolation import Isolation, Numbers, find
from radrm.host.processes import cgroups
from radrm.host.processes.controllers import Controllers
from tests.host.attempts.host import Host, end_of, next_of
from tests.host.attempts.runner.attempt import launch_record
from tests.waiting import wait_until

NULL, ZERO, FULL = 3, 5, 7
"""Minor numbers of major 1: they stand in for three GPUs."""
HERE = Isolation(None, Numbers(gpu_major=1, shared=frozenset({8})))
MIG_MINORS = (
    "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu3/gi1/access 147\n"
)
DEVICES = "Character devices:\n  1 mem\n195 nvidia\n508 nvidia-caps\n\nBlock devices:\n  7 loop\n"


def gpu(minor: int | None, index: int = 0) -> Device:
    return Device(f"GPU-{index}", index, "H100", 81559, minor=minor)


def instance(gi: int, ci: int, minor: int = 0) -> Device:
    kind = DeviceKind.MIG
    return Device("MIG-1", 0, "1g", 9728, kind=kind, minor=minor, instance=(gi, ci))


@pytest.fixture
def proc(tmp_path: Path) -> str:
    folder = tmp_path / "driver/nvidia-caps"
    folder.mkdir(parents=True)
    (tmp_path / "devices").write_text(DEVICES)
    (folder / "mig-minors").write_text(MIG_MINORS)
    (folder / "sys-minors").write_text("fabric-imex-mgmt 4323\n")
    return str(tmp_path)


# ---------------------------------------------------------------- rules


def test_a_job_gets_the_files_of_its_gpus_and_those_of_no_gpu(proc: str) -> None:
    isolation = Isolation(None, numbers.read(proc))
    assert isolation.rules([gpu(6), gpu(0, 1)]) == {195: {0, 6, 254, 255}, 508: {1, 2, 4323}}
    assert isolation.rules([]) == {195: {254, 255}, 508: {1, 2, 4323}}


def test_a_mig_instance_is_its_gpus_file_and_two_capabilities(proc: str) -> None:
    isolation = Isolation(None, numbers.read(proc))
    assert isolation.rules([instance(1, 0)]) == {195: {0, 254, 255}, 508: {1, 2, 12, 13, 4323}}


def test_a_driver_without_mig_has_one_rule(tmp_path: Path) -> None:
    (tmp_path / "devices").write_text(DEVICES.replace("508 nvidia-caps\n", ""))
    isolation = Isolation(None, numbers.read(str(tmp_path)))
    assert isolation.rules([gpu(1)]) == {195: {1, 254, 255}}


def test_a_job_is_never_denied_a_gpu_of_its_own(proc: str) -> None:
    isolation = Isolation(None, numbers.read(proc))
    for device in (gpu(None), instance(1, 5), instance(1, 0, minor=3)):
        assert isolation.rules([gpu(1), device]) is None
        assert "does not name the device files of GPU 0" in str(isolation.why_not([device]))
    assert isolation.why_not([gpu(1)]) is None


def test_where_nothing_is_isolated_there_is_one_reason(proc: str) -> None:
    assert Isolation().rules([gpu(0)]) is None
    assert find(True, 1000).reason == "the daemon does not run as root"
    off = find(False, 0, proc)
    assert off.reason == "gpus.isolate = false"
    assert off.numbers == numbers.read(proc), "of jobs that run isolated"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EPERM, "attaches no device program (eBPF): Operation not permitted"),
        (errno.ENOSYS, "it needs Linux 4.15 or newer"),
        (errno.EINVAL, "it needs Linux 4.15 or newer"),
    ],
)
def test_a_kernel_that_attaches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refused(group: str, rules: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(cgroups, "place", lambda name: str(tmp_path / name))
    monkeypatch.setattr(bpf, "attach", refused)
    isolation = find(True, 0)
    assert words in str(isolation.reason)
    assert isolation.rules([]) is None
    assert list(tmp_path.iterdir()) == [], "the trial leaves nothing"


@pytest.mark.parametrize("interrupted", [4, 5])
def test_a_load_that_a_signal_interrupts_is_tried_again(
    interrupted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def call(command: int, attributes: bytes) -> int:
        calls.append(command)
        if len(calls) <= interrupted:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return 99

    monkeypatch.setattr(bpf, "_call", call)
    if interrupted == 4:
        assert bpf._load(b"\0" * 8) == 99
    else:
        with pytest.raises(BlockingIOError):
            bpf._load(b"\0" * 8)
    assert len(calls) == 5


def test_a_server_without_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "place", lambda name: None)
    assert find(True, 0).reason == "there is no cgroup v2"
    monkeypatch.setattr(cgroups, "place", lambda name: str(tmp_path / "none" / name))
    assert "no control group can be made" in str(find(True, 0).reason)


# ---------------------------------------------------------------- the kernel


@pytest.fixture
def group() -> Iterator[str]:
    path = cgroups.place(f"radrm-test-{os.getpid()}")
    why = find(True, os.getuid()).reason
    if path is None or why is not None or not cgroups.make(path):
        pytest.skip(f"no device program can be attached here: {why}")
    yield path
    wait_until(lambda: cgroups.remove(path))


@pytest.fixture
def nodes(tmp_path: Path) -> list[str]:
    """Files of the three devices, with names of our own: the numbers count."""
    for minor in (NULL, ZERO, FULL):
        os.mknod(tmp_path / f"gpu{minor}", 0o20666, os.makedev(1, minor))
    return [str(tmp_path / f"gpu{minor}") for minor in (NULL, ZERO, FULL)]


def opened(group: str, nodes: list[str]) -> list[bool]:
    """Whether a process in the group can open each file."""
    script = 'echo $$ > "$0"; for each; do (: < "$each") && echo yes || echo no; done'
    command = ["sh", "-c", script, f"{group}/cgroup.procs", *nodes]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line == "yes" for line in done.stdout.splitlines()]


def test_a_process_opens_only_what_the_rules_allow(group: str, nodes: list[str]) -> None:
    assert opened(group, nodes) == [True, True, True]
    bpf.attach(group, {1: {NULL}})
    assert opened(group, nodes) == [True, False, False]
    inner = f"{group}/inner"
    assert cgroups.make(inner)
    assert opened(inner, nodes) == [True, False, False], "nor in a group of the job's own"
    fd = os.open(nodes[1], os.O_RDONLY)  # we are not in it
    os.close(fd)


def test_other_programs_of_the_group_stay_and_all_must_allow(
    group: str, nodes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(bpf, "NAME", b"of_systemd")
        bpf.attach(group, {1: {NULL, ZERO}})
    assert not bpf.replace(group, {1: {FULL}}), "it was not isolated"
    bpf.attach(group, {1: {NULL, FULL}})
    assert opened(group, nodes) == [True, False, False]
    assert bpf.replace(group, {1: {ZERO, FULL}})
    assert opened(group, nodes) == [False, True, False]


def test_a_resize_changes_what_a_running_job_may_open(group: str, nodes: list[str]) -> None:
    HERE.change(group, [gpu(NULL)])
    assert opened(group, nodes) == [True, True, True], "it began without"
    bpf.attach(group, HERE.rules([gpu(NULL)]) or {})
    HERE.change(group, [gpu(NULL), gpu(ZERO)])
    assert opened(group, nodes) == [True, True, False]
    HERE.change(group, [gpu(ZERO)])
    assert opened(group, nodes) == [False, True, False]
    with pytest.raises(Refused, match="does not name the device files of GPU 4"):
        HERE.change(group, [gpu(None, 4)])
    off = Isolation("gpus.isolate = false", HERE.numbers)
    off.change(group, [gpu(FULL)])
    assert opened(group, nodes) == [False, False, True], "a setting does not lock out a job"


def test_a_job_is_isolated_from_its_first_instruction_on(
    group: str, nodes: list[str], host: Host
) -> None:
    """Also after a restart of the daemon."""
    daemon = host.daemon()
    script = (
        '(: < "$1") && (: < "$2") || echo first no >> seen; touch ready;'
        'until [ -e go ]; do sleep 0.01; done; (: < "$2") || echo then no >> seen'
    )
    prepare = partial(bpf.attach, rules=HERE.rules([gpu(NULL)]) or {})
    argv = ("sh", "-c", script, "sh", *nodes[:2])
    daemon.launch(host.plan(*argv, environment={"PATH": os.environ["PATH"]}, prepare=prepare))
    assert isinstance(next_of(daemon), Started)
    host.ready()
    second = host.daemon()
    second.adopt(7, 3)
    (host.cwd / "go").touch()
    assert isinstance(end_of(second), Ended)
    assert (host.cwd / "seen").read_text() == "first no\nthen no\n"


@pytest.mark.parametrize("limited", [False, True], ids=["", "limited"])
def test_no_log_is_opened_before_the_job_is_isolated(
    group: str, nodes: list[str], host: Host, limited: bool
) -> None:
    """`--output=/dev/nvidia3` would give a job the open file of another GPU."""
    places = Controllers(memory=str(host.state)) if limited else Controllers()  # takes no process
    daemon = Launcher(host.state, Clock(), controllers=places)
    host.launchers.append(daemon)
    prepare = partial(bpf.attach, rules=HERE.rules([gpu(NULL)]) or {})
    more = {"memory_mib": 100} if limited else {}
    daemon.launch(host.plan("touch", "ran", stdout=nodes[1], prepare=prepare, **more))
    ended = end_of(daemon)
    assert isinstance(ended, Ended) and ended.never_started is not None
    assert f"cannot write the log {nodes[1]}: Operation not permitted" in ended.never_started
    assert not ended.passing and not (host.cwd / "ran").exists()


# ---------------------------------------------------------------- what fails


def test_a_group_that_cannot_be_set_up_launches_nothing(host: Host) -> None:
    def prepare(group: str) -> None:
        raise OSError(1, "Operation not permitted")

    daemon = host.daemon()
    with pytest.raises(StoreError, match="cannot be launched"):
        daemon.launch(host.plan("true", prepare=prepare))
    assert not daemon.live and not host.folder.exists()


def test_a_daemon_killed_before_it_starts_the_runner_leaves_no_group(
    group: str, host: Host
) -> None:
    daemon = host.daemon()
    live, _ = daemon._prepare(host.plan("touch", "ran"))
    live.make_group(lambda path: bpf.attach(path, {1: {NULL}}))
    assert live.cgroup is not None and os.path.isdir(live.cgroup)
    second = host.daemon()
    assert isinstance(second.adopt(live.serial, live.job_id), Void)
    second.forget(live.serial)
    assert not os.path.exists(live.cgroup)


@pytest.mark.parametrize("limited", [False, True])
def test_a_job_never_runs_outside_a_group_that_was_set_up(limited: bool, tmp_path: Path) -> None:
    """Here the group takes no process; both ways into a group are tried."""
    folder, group = tmp_path / "attempts/7", str(tmp_path / "radrm-7-aabb")
    folder.mkdir(parents=True)
    argv = ["touch", "ran"]
    record = launch_record("token-of-it", tmp_path, argv=argv, cgroup=group, grouped=True)
    if limited:
        record["limits"] = {"memory": group, "memory_mib": 100}
    attempts.write_record(str(folder), attempts.LAUNCH, record)
    command = [sys.executable, "-I", "-S", runner.__file__, str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    end, _ = attempts.read_record(str(folder), attempts.EXIT)
    assert end["passing"]
    assert "takes no process" in end["never_started"]
    assert not (tmp_path / "ran").exists()
