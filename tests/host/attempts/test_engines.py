"""Container engines: what radrm asks them, and containers of a job with a runner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radrm.host.attempts import engines
from radrm.host.attempts.containers import Container
from radrm.host.attempts.evidence import Ended, Lost
from radrm.host.processes import cgroups
from tests.host.attempts.host import SERIAL, A, B, Host, end_of, next_of
from tests.host.processes.programs import TOKEN, gone
from tests.paths import BIN
from tests.waiting import wait_text, wait_until

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


def test_docker_is_told_the_cpus() -> None:
    """Rootless Podman starts no container with a cpuset that systemd has not delegated."""
    told = ["--cpuset-cpus=0-7,64"]
    for engine, cpus, words in (
        ("docker", "0-7,64", told),
        ("podman", "0-7,64", []),
        ("docker", "", []),
        ("docker", "0 --privileged", []),
    ):
        its = {"RADRM_CONTAINER_ENGINE": engine, "RADRM_CPU_LIST": cpus}
        assert engines.arguments(TOKEN, its).split(" ")[2:] == words


@pytest.mark.parametrize(
    ("path", "mounted"),
    [
        ("/run/radrm/progress/7/socket", "/run/radrm/progress/7"),
        ("", None),
        ("run/socket", None),
        ("/a b/socket", None),
        ("/a:b/socket", None),
        ("/a$(id)/socket", None),
    ],
)
def test_the_folder_of_the_progress_socket_is_mounted(path: str, mounted: str | None) -> None:
    words = engines.arguments(TOKEN, {"RADRM_PROGRESS": path}).split(" ")[2:]
    mount = ["--env=RADRM_PROGRESS", f"--volume={mounted}:{mounted}:ro"]
    assert words == ([] if mounted is None else mount)


def test_the_file_that_reports_is_mounted() -> None:
    words = engines.arguments(TOKEN, {"RADRM_REPORT_PY": "/usr/lib/radrm/report.py"}).split(" ")
    file = "/usr/lib/radrm/report.py"
    assert words[2:] == ["--env=RADRM_REPORT_PY", f"--volume={file}:{file}:ro"]


CLIENT = {
    "CUDA_MPS_PIPE_DIRECTORY": "/run/radrm/mps/GPU-1",
    "CUDA_MPS_LOG_DIRECTORY": "/run/radrm/mps/GPU-1.log",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8192M",
}
PASSED = [
    "--env=CUDA_MPS_PIPE_DIRECTORY",
    "--env=CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "--volume=/run/radrm/mps/GPU-1:/run/radrm/mps/GPU-1",
    "--ipc=host",
]
SHARE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


@pytest.mark.parametrize(
    ("changes", "uid", "words"),
    [
        ({}, 1000, [*PASSED, "--user=1000:100"]),
        ({}, 0, PASSED),
        ({SHARE: "60"}, 0, [*PASSED[:2], f"--env={SHARE}", *PASSED[2:]]),
        ({"RADRM_CONTAINER_ENGINE": "podman"}, 1000, PASSED),
        ({"DOCKER_HOST": "unix:///run/user/1000/docker.sock"}, 1000, PASSED),
        ({"CUDA_MPS_PIPE_DIRECTORY": "/run/a b"}, 1000, []),
        ({"CUDA_MPS_PIPE_DIRECTORY": "/run/a:/etc"}, 1000, []),
        ({"CUDA_MPS_PIPE_DIRECTORY": None}, 1000, []),
        ({"CUDA_MPS_LOG_DIRECTORY": None}, 1000, []),  # no client: its pipe directory is empty
    ],
)
def test_a_client_of_mps_stays_one_in_its_container(
    changes: dict[str, str | None], uid: int, words: list[str]
) -> None:
    environment = {k: v for k, v in {**CLIENT, **changes}.items() if v is not None}
    assert engines.arguments(TOKEN, environment, uid, 100).split(" ")[2:] == words


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
    monkeypatch.setattr(engines, "PATIENCE_S", 2.0)
    asked.command("docker", f"echo {A}")
    engines.end(asked.launch(environment={"RADRM_CONTAINER_ENGINE": "docker"}), [])
    lines = asked.lines()
    assert lines[:1] in ([LIST], [])
    assert set(lines) <= {LIST, f"docker kill {A}"}  # how often is a matter of the machine


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
    monkeypatch.setattr(engines, "PATIENCE_S", 2.0)
    asked.command("docker", f"echo $$ > {asked.folder}/pid; sleep 1000")
    engines.end(asked.launch(), [Container("docker", A, "x")])
    pid = asked.folder / "pid"  # not there, if a busy machine had not begun it
    assert not pid.exists() or not pid.read_text() or gone(int(pid.read_text()))


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
    first, second = (int(wait_text(file)) for file in files)
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
    assert [daemon.owner_of(pid) for pid in reversed(pids)] == [(3, SERIAL), (3, SERIAL)]
    daemon.kill(SERIAL)
    assert isinstance(end_of(daemon), Ended)
    assert all(map(gone, pids))
    assert docker.asked("kill") >= 1


def test_one_that_the_job_leaves_behind_dies_before_the_record(host: Host, docker: Docker) -> None:
    daemon = start(host, docker, "exit 7")
    ended = end_of(daemon)
    assert isinstance(ended, Ended) and ended.exit.code == 7
    assert ended.left.startswith("container ")
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
