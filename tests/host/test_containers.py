"""Containers belong to the jobs that started them, and to nobody who merely says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.host.attempts import cgroups, engines
from radrm.host.attempts.containers import Container, Containers, groups_of
from radrm.host.attempts.evidence import Ended, Lost
from radrm.host.attempts.owners import LiveAttempt, PidOwners
from tests.host.test_launcher import SERIAL, Host, end_of, host, next_of
from tests.host.test_processes import SLEEP, TOKEN, Run, gone, run, wait_until

__all__ = ["host", "run"]  # fixtures

A, B = "a1" * 32, "b2" * 32
USER = "/user.slice/user-1000.slice/user@1000.service"
BIN = Path(__file__).parents[1] / "standins" / "bin"

# ------------------------------------------------------------------ what /proc writes


@pytest.mark.parametrize(
    ("text", "engine", "identifier"),
    [
        (f"0::/system.slice/docker-{A}.scope\n", "docker", A),
        (f"0::/system.slice/docker-{A}.scope/init\n", "docker", A),
        (f"0::{USER}/user.slice/docker-{A}.scope\n", "docker", A),  # rootless
        (f"0::/docker/{A}\n", "docker", A),
        (f"12:pids:/docker/{A}\n11:memory:/docker/{A}\n0::/\n", "docker", A),
        (f"0::/radrm-7-0a0b0c0d/{A}\n", None, A),  # --cgroup-parent with cgroupfs
        (f"0::/machine.slice/libpod-{A}.scope/container\n", "podman", A),
        (f"0::/libpod_parent/libpod-{A}\n", "podman", A),
        (f"0::/../docker-{A}.scope\n", "docker", A),  # seen from within another container
        (f"0::/kubepods.slice/kubepods-pod5.slice/cri-containerd-{A}.scope\n", None, A),
        (f"0::/kubepods.slice/kubepods-pod5.slice/crio-{A}.scope\n", None, A),
        (f"0::/kubepods/besteffort/pod5/{A}\n", None, A),
        (f"0::{USER}/apptainer-4711.scope\n", None, "apptainer-4711"),
        ("0::/user.slice/singularity-4711.scope\n", None, "singularity-4711"),
    ],
)
def test_a_container_is_recognised(text: str, engine: str | None, identifier: str) -> None:
    assert list(groups_of(text).values()) == [(engine, identifier)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0::/\n",
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        f"0::/machine.slice/libpod-conmon-{A}.scope\n",
        f"0::/system.slice/docker-{A[:12]}.scope\n",
        f"0::/system.slice/docker-{A}.scope.d\n",
        f"0::/x-{A}\n",
        "0::/apptainer-x.scope\n",
        A,
    ],
)
def test_what_is_no_container(text: str) -> None:
    assert groups_of(text) == {}


def test_one_inside_another_comes_first_and_cgroup_v2_before_v1() -> None:
    text = f"3:pids:/docker/{A}\n0::/docker/{A}/docker/{B}\n"
    assert list(groups_of(text).items()) == [
        (f"0::/docker/{A}/docker/{B}", ("docker", B)),
        (f"0::/docker/{A}", ("docker", A)),
    ]


WORDS = st.sampled_from(["0", ":", "/", "docker", f"docker-{A}.scope", A, "\n", "..", "libpod-"])


@given(st.one_of(st.text(), st.lists(WORDS).map("".join)))
def test_whatever_stands_there_a_group_is_the_beginning_of_a_line(text: str) -> None:
    for group in groups_of(text):
        assert any(f"{line}/".startswith(f"{group}/") for line in text.splitlines())


# ------------------------------------------------------------------ recorded processes


class Proc:
    """A folder that looks like /proc."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "self").mkdir()

    def process(
        self, pid: int, group: str, ticks: int, numbers: str = "", **environment: str
    ) -> None:
        folder = self.folder / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "cgroup").write_text(f"0::{group}\n")
        (folder / "stat").write_text(f"{pid} (x) S 1 1 1 {'0 ' * 13}1 0 {ticks} 0\n")
        (folder / "status").write_text(f"Name:\tx\nNSpid:\t{pid} {numbers}\nThreads:\t1\n")
        text = "".join(f"{name}={value}\0" for name, value in environment.items())
        (folder / "environ").write_text(text)

    def end(self, pid: int) -> None:
        for file in (self.folder / str(pid)).iterdir():
            file.unlink()

    def ours(self) -> list[str]:
        return [each.id for each in Containers(str(self.folder)).of_attempt(TOKEN)]


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def scope(identifier: str, below: str = "/system.slice") -> str:
    return f"{below}/docker-{identifier}.scope"


def test_the_first_process_speaks_for_all(proc: Proc) -> None:
    proc.process(50, scope(A), 9, "1", RADRM_TOKEN=TOKEN)
    proc.process(40, scope(A), 10, "17")  # pids start again from the bottom
    proc.process(60, scope(B), 5, "1", RADRM_TOKEN="another")
    proc.process(70, "/user.slice", 5, RADRM_TOKEN=TOKEN)
    containers = Containers(str(proc.folder))
    (found,) = containers.of_attempt(TOKEN)
    assert (found.engine, found.id, found.first, set(found.members)) == ("docker", A, 50, {40, 50})
    assert containers.vouchers(40) == [40, 50]
    assert containers.vouchers(70) == containers.vouchers(4711) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"RADRM_TOKEN": TOKEN}),  # `docker exec` into one that others use
        ({"RADRM_JOB_ID": "3", "RADRM_ATTEMPT": "2"}, {}),
        ({"XRADRM_TOKEN": TOKEN}, {}),
        ({"RADRM_TOKEN": TOKEN + "x"}, {}),
    ],
)
def test_nothing_else_ties_a_container(
    proc: Proc, first: dict[str, str], second: dict[str, str]
) -> None:
    proc.process(50, scope(A), 9, "1", **first)
    proc.process(51, scope(A), 10, "7", **second)
    assert proc.ours() == []
    assert Containers(str(proc.folder)).vouchers(51) == [51, 50]


def test_a_group_of_the_same_name_elsewhere_is_another_container(proc: Proc) -> None:
    proc.process(50, scope(A), 9, "1", RADRM_TOKEN="the victim's")
    proc.process(30, scope(A, "/user.slice/user-1000.slice"), 1, RADRM_TOKEN=TOKEN)
    (found,) = Containers(str(proc.folder)).of_attempt(TOKEN)
    assert set(found.members) == {30}
    assert Containers(str(proc.folder)).vouchers(50) == [50]


def test_where_the_first_is_hidden_nobody_takes_its_place(proc: Proc) -> None:
    proc.process(51, scope(A), 10, "7", RADRM_TOKEN=TOKEN)
    assert proc.ours() == []
    assert Containers(str(proc.folder)).vouchers(51) == [51]


def test_without_a_pid_namespace_the_oldest_is_the_first(proc: Proc) -> None:
    proc.process(51, scope(A), 10, RADRM_TOKEN=TOKEN)
    proc.process(52, scope(A), 11)
    assert proc.ours() == [A]


def test_until_the_last_process_is_gone_it_is_ours(proc: Proc) -> None:
    containers = Containers(str(proc.folder))
    proc.process(50, scope(A), 9, "1", RADRM_TOKEN=TOKEN)
    proc.process(51, scope(A), 10, "7")
    (found,) = containers.of_attempt(TOKEN)
    proc.end(50)
    (left,) = containers.of_attempt(TOKEN, {found.group})
    assert set(left.members) == {51}
    proc.end(51)
    assert containers.of_attempt(TOKEN, {found.group}) == []


def test_what_a_container_starts_in_itself_is_its_attempts(proc: Proc) -> None:
    proc.process(50, scope(A), 9, "1", RADRM_TOKEN=TOKEN)
    proc.process(51, scope(B, scope(A)), 10, "8 1")
    assert set(Containers(str(proc.folder)).vouchers(51)) == {50, 51}
    (found,) = Containers(str(proc.folder)).of_attempt(TOKEN)
    assert set(found.members) == {50, 51}


def test_a_path_that_is_used_again_is_looked_at_again(proc: Proc) -> None:
    containers = Containers(str(proc.folder))
    proc.process(50, scope(A), 9, "1")
    assert containers.vouchers(50) == [50]
    proc.end(50)
    proc.process(60, scope(A), 20, "1")
    assert containers.vouchers(60) == [60]


def test_owners_believe_the_first_process(run: Run) -> None:
    stranger, first = run(SLEEP), run(SLEEP, token=TOKEN)
    wait_until(lambda: b"RADRM_TOKEN" in Path(f"/proc/{first.pid}/environ").read_bytes())
    owners = PidOwners({stranger.pid: [first.pid]}.__getitem__)
    owners.update([LiveAttempt(3, 2, TOKEN, None)])
    assert owners.owner_of(stranger.pid) == (3, 2)
    assert owners.seen_of((3, 2)) == [stranger.pid]
    owners.update([LiveAttempt(4, 1, "another", None)])
    assert owners.owner_of(stranger.pid) is None


# ------------------------------------------------------------------ the command line


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        ({"NVIDIA_VISIBLE_DEVICES": "GPU-1"}, ['--gpus="device=GPU-1"']),
        ({"NVIDIA_VISIBLE_DEVICES": "0,3"}, ['--gpus="device=0,3"']),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, []),
        ({"NVIDIA_VISIBLE_DEVICES": "GPU-1 --privileged"}, []),
        ({}, []),
        (
            {"NVIDIA_VISIBLE_DEVICES": "MIG-1,MIG-2", "RADRM_CONTAINER_ENGINE": "podman"},
            ["--device=nvidia.com/gpu=MIG-1", "--device=nvidia.com/gpu=MIG-2"],
        ),
    ],
)
def test_the_arguments_as_a_shell_splits_them(environment: dict[str, str], gpus: list[str]) -> None:
    text = engines.arguments(TOKEN, environment)
    done = subprocess.run(
        ["sh", "-c", r'printf "%s\n" $ARGS'], env={"ARGS": text}, capture_output=True, text=True
    )
    label = f"--label=radrm.attempt={engines.label_of(TOKEN)}"
    assert done.stdout.splitlines() == ["--env=RADRM_TOKEN", label, *gpus]
    assert TOKEN not in text


# ------------------------------------------------------------------ asking an engine


class Asked:
    """An engine that is a script, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.chmod(0o777)

    def command(self, name: str, then: str) -> None:
        file = self.folder / name
        file.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.folder}/asked\n{then}\n')
        file.chmod(0o755)

    def launch(self, **changes: Any) -> dict[str, Any]:
        environment = {"PATH": f"{self.folder}:/usr/bin:/bin", **changes.pop("environment", {})}
        fields = {"uid": None, "gid": None, "user": "me", "token": TOKEN}
        return {**fields, "environment": environment, **changes}

    def lines(self) -> list[str]:
        file = self.folder / "asked"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


LIST = f"docker ps --quiet --no-trunc --filter label=radrm.attempt={engines.label_of(TOKEN)}"


def test_each_engine_is_told_of_its_own(asked: Asked) -> None:
    asked.command("docker", "")
    asked.command("podman", "")
    found = [Container("docker", A, "x"), Container("podman", B, "y"), Container(None, B, "z")]
    engines.end(asked.launch(), found)
    assert sorted(asked.lines()) == [f"docker kill {A}", f"podman kill {B}"]


def test_a_declared_engine_lists_and_only_ids_are_killed(asked: Asked) -> None:
    once = f"[ $1 = ps ] && mkdir {asked.folder}/listed"
    asked.command("docker", f'{once} && echo "{A} --all abc $(id) {B}"')
    engines.end(asked.launch(environment={"RADRM_CONTAINER_ENGINE": "docker"}), [])
    assert asked.lines() == [LIST, f"docker kill {A} {B}", LIST]


def test_an_engine_that_lists_for_ever_is_left(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "PATIENCE_S", 0.5)
    asked.command("docker", f"echo {A}")
    engines.end(asked.launch(environment={"RADRM_CONTAINER_ENGINE": "docker"}), [])
    assert set(asked.lines()) == {LIST, f"docker kill {A}"}


@pytest.mark.parametrize("name", ["", "sh", "./docker", "docker kill"])
def test_no_other_command_is_ever_run(asked: Asked, name: str) -> None:
    asked.command("docker", "")
    launch = asked.launch(environment={"RADRM_CONTAINER_ENGINE": name})
    assert engines.declared(launch) is None
    engines.end(launch, [])
    assert asked.lines() == []


def test_an_engine_that_is_missing_or_breaks(asked: Asked) -> None:
    launch = asked.launch(environment={"RADRM_CONTAINER_ENGINE": "podman"})
    engines.end(launch, [Container("docker", A, "x")])
    asked.command("podman", "head -c 1000000 /dev/zero; exit 3")
    engines.end(launch, [])
    assert len(asked.lines()) == 1


def test_an_engine_that_hangs_is_ended(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "PATIENCE_S", 0.5)
    asked.command("docker", f"echo $$ > {asked.folder}/pid; sleep 1000")
    engines.end(asked.launch(), [Container("docker", A, "x")])
    assert gone(int((asked.folder / "pid").read_text()))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_it_is_asked_as_the_jobs_user(asked: Asked, tmp_path: Path) -> None:
    for folder in tmp_path.parents:
        if folder.stat().st_mode & 0o011 != 0o011:
            folder.chmod(folder.stat().st_mode | 0o011)
    asked.command("docker", f"id -u > {asked.folder}/uid")
    launch = asked.launch(uid=65534, gid=65534, user="nobody")
    engines.end(launch, [Container("docker", A, "x")])
    assert (asked.folder / "uid").read_text() == "65534\n"


# ------------------------------------------------------------------ with a runner


class Docker:
    """The stand-in's daemon, in a control group of our own."""

    def __init__(self, folder: Path, group: str) -> None:
        self.folder = folder
        folder.mkdir()
        self.environment = {
            "PATH": f"{BIN}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DOCKER_STANDIN": str(folder),
            "DOCKER_GROUP": group,
        }
        self.daemon = subprocess.Popen([BIN / "docker", "serve"], env=self.environment)
        wait_until((folder / "serving").exists)

    def asked(self, what: str) -> int:
        return [line.split()[0] for line in (self.folder / "asked").read_text().splitlines()].count(
            what
        )


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[Docker]:
    group = cgroups.place(f"radrm-docker-{os.getpid()}-{tmp_path.name}")
    if group is None or not cgroups.make(group):
        pytest.skip("no control group can be made here")
    docker = Docker(tmp_path / "docker", group)
    yield docker
    docker.daemon.kill()
    docker.daemon.wait()
    for pid in cgroups.processes(group):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: cgroups.remove(group))


# Its processes know nothing of the attempt but what the first one was given.
IMAGE = "image sh -c 'echo $$ > first; env -i sleep 1000 & echo $! > second; wait'"


def containers_pids(host: Host) -> list[int]:
    files = [host.cwd / name for name in ("first", "second")]
    wait_until(lambda: all(file.exists() and file.read_text() for file in files))
    first, second = (int(file.read_text()) for file in files)
    wait_until(lambda: Path(f"/proc/{second}/cmdline").read_bytes().startswith(b"sleep"))
    assert Path(f"/proc/{second}/environ").read_bytes() == b""
    return [first, second]


def start(host: Host, docker: Docker, then: str, arguments: str = "$RADRM_CONTAINER_ARGS") -> Any:
    daemon = host.daemon()
    image = IMAGE.replace("first", f"{host.cwd}/first").replace("second", f"{host.cwd}/second")
    script = f"docker run {arguments} {image} && {then}"
    daemon.launch(host.plan("sh", "-c", script, environment=docker.environment))
    return daemon


def test_a_container_is_its_jobs_and_ends_with_it(host: Host, docker: Docker) -> None:
    daemon = start(host, docker, "exec sleep 1000")
    next_of(daemon)
    pids = containers_pids(host)
    # The second one first: nothing is known of its parent yet.
    assert [daemon.owner_of(pid) for pid in reversed(pids)] == [(3, 2), (3, 2)]
    daemon.kill(SERIAL)
    assert isinstance(end_of(daemon), Ended)
    assert all(map(gone, pids))
    assert docker.asked("kill") >= 1


def test_one_that_the_job_leaves_behind_dies_before_the_record(host: Host, docker: Docker) -> None:
    daemon = start(host, docker, "exit 7")
    ended = end_of(daemon)
    assert isinstance(ended, Ended) and ended.exit.code == 7
    assert cgroups.processes(docker.environment["DOCKER_GROUP"]) == set()


def test_one_without_the_token_is_nobodys(host: Host, docker: Docker) -> None:
    daemon = start(host, docker, "exit 0", "--env=RADRM_JOB_ID=3 --label=radrm.attempt=mine")
    wait_until(lambda: (host.folder / "exit.json").exists())
    pids = containers_pids(host)
    assert [daemon.owner_of(pid) for pid in pids] == [None, None]
    end_of(daemon)
    assert not any(map(gone, pids))


def test_with_a_killed_runner_its_container_is_lost_too(host: Host, docker: Docker) -> None:
    daemon = start(host, docker, "exec sleep 1000")
    next_of(daemon)
    pids = containers_pids(host)
    host.kill_runner()
    assert isinstance(end_of(daemon), Lost)
    assert all(map(gone, pids))
