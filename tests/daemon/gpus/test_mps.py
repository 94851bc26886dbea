"""MPS with the real daemon: NVML and the control daemon are stand-ins, jobs are real processes.

A job here is a client as CUDA makes one of a process that finds a control daemon, and records
its environment (tests/standins/mps_client.py). On a push: the environment of clients, that a fault
stays with its server, and that a server outlives the daemon. At night: who stays after a fault, the
end of one of several clients, and servers of several users.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from radrm.host.mps.control import PID_FILE, Control
from tests.daemon.harness import DaemonHome
from tests.paths import STANDINS
from tests.standins.nvml_library import Nvml
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon

FIRST, SECOND = (f"GPU-{str(n) * 8}-0000-0000-0000-000000000000" for n in (1, 2))


class Server(DaemonHome):
    """A server with two GPUs of 40 GiB that MPS serves."""

    def begin(self, *settings: str, fixed: Sequence[str] = ()) -> None:
        self.settings = [
            "mps.enabled=true",
            "core.smact_warm_s=0",
            "core.grace_s=1",
            "policy=first-fit",
            *settings,
        ]
        self.fixed = ["core.smact_after_exit_s=0", *fixed]
        self.start()
        wait_until(lambda: all(r["state"] != "starting" for r in self.ask("mps")), "MPS")
        wait_until(
            lambda: all(g["state"] == "idle" for g in self.ask("gpus")), "GPUs that are sound"
        )

    def control(self, uuid: str) -> Control:
        pipes = str(self.folder / "home" / "run" / "mps" / uuid[4:12])
        return Control(pipes, f"{pipes}.log", uuid)

    def wrong(self, **how: Any) -> None:
        beside = self.folder / "mps-state.new"
        beside.write_text(json.dumps(how))
        beside.rename(self.folder / "mps-state")
        if "hang" in how or "single" in how:
            return
        # The stand-in looks when it is asked something: at once, not at radrm's next question.
        for uuid in how:
            environment = {**self.environment, "CUDA_MPS_PIPE_DIRECTORY": self.control(uuid).pipes}
            command = [sys.executable, str(STANDINS / "bin" / "nvidia-cuda-mps-control")]
            subprocess.run(command, input=b"get_server_list\n", env=environment, check=True)

    def state_of(self, uuid: str) -> str:
        (row,) = (row for row in self.ask("mps") if uuid in row["uuids"])
        return str(row["state"])

    def up(self) -> None:
        wait_until(lambda: all(row["state"] == "up" for row in self.ask("mps")), "MPS")

    def client(self, *options: str, stubborn: bool = False) -> int:
        """A job that is a client."""
        words = [sys.executable, str(STANDINS / "mps_client.py"), "notes"]
        line = "exec " + " ".join([*words, *(["stubborn"] if stubborn else [])])
        script = f"#!/bin/bash\n{line.replace('notes', 'notes-$RADRM_JOB_ID')}\n"
        file = self.file("client.sh", script)
        return self.submit(*options, str(file))

    def notes(self, job: int) -> list[str]:
        file = self.work / f"notes-{job}"
        return file.read_text().splitlines() if file.exists() else []

    def waits_for(self, job: int, words: str) -> None:
        wait_until(lambda: words in json.dumps(self.job(job)), words)

    def told(self, job: int, line: str) -> list[str]:
        wait_until(lambda: line in self.notes(job), f"job {job} to be told {line}")
        return self.notes(job)


@pytest.fixture
def server(nvml_driver: Nvml) -> Iterator[Server]:
    # Under /tmp itself: the address of a socket holds 107 bytes.
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        made = Server(Path(folder))
        for uuid in (FIRST, SECOND):
            nvml_driver.gpu(uuid, utilization_gpu=10)
        made.gpus = None
        made.environment |= nvml_driver.environment
        made.environment["PATH"] = f"{STANDINS / 'bin'}:{made.environment['PATH']}"
        made.environment["MPS_STANDIN_STATE"] = str(made.folder / "mps-state")
        yield made
        try:
            made.close()
        finally:
            for file in made.folder.glob(f"home/run/mps/*/{PID_FILE}"):
                who = Control(str(file.parent), "").process()
                if who is not None:
                    os.kill(who.pid, signal.SIGKILL)


def test_clients_are_told_where_their_server_is_and_how_much_they_may_have(server: Server) -> None:
    server.begin("mps.active_thread_percentage=60")
    server.radrm("drain", "1")
    jobs = [
        server.client("--gpu-memory=8G:8G", "--device-ids=index"),
        server.client("--gpu-memory=4G:4G"),
    ]
    for job, cap, name in zip(jobs, (8192, 4096), ("0", FIRST), strict=True):
        run = server.folder / "home" / "run" / "mps"
        notes = server.told(job, "ready")
        assert notes[1:6] == [
            f"CUDA_VISIBLE_DEVICES={name}",
            f"CUDA_MPS_PIPE_DIRECTORY={run}/11111111",
            f"CUDA_MPS_LOG_DIRECTORY={run}/11111111.log",
            f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={cap}M",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=60",
        ]
        assert server.job(job)["collocation"] == "mps"
        (record,) = server.folder.glob(f"home/**/attempts/{job}/launch.json")
        ends = json.loads(record.read_text())["ends_clients"]
        assert ends[-2:] == [f"{run}/11111111", str(STANDINS / "bin" / "nvidia-cuda-mps-control")]
    log = Path(server.control(SECOND).logs, "control.log").read_text()
    assert log.startswith(f"start, devices {SECOND}\n"), "a control daemon for each GPU"
    # A job on both can be the client of neither, and finds no other server by chance.
    two = server.client("--gpus=2", "--gpu-memory=1G")
    server.radrm("resume", "1")
    server.radrm("cancel", *map(str, jobs))
    notes = server.told(two, "no MPS")
    assert notes[2] == f"CUDA_MPS_PIPE_DIRECTORY={run}/none" and "=None" in notes[4]
    assert server.job(two)["collocation"] == "timeslice"
    (record,) = server.folder.glob(f"home/**/attempts/{two}/launch.json")
    assert json.loads(record.read_text())["ends_clients"] is None


def test_a_crash_and_a_fault_stay_with_their_server(server: Server) -> None:
    server.begin()
    server.up()
    # One that crashes is started again over its leftovers.
    before = server.control(FIRST).process()
    os.kill(before.pid, signal.SIGKILL)
    wait_until(lambda: server.control(FIRST).process() not in (None, before))
    server.up()
    jobs = [server.client("--gpu-memory=30G") for _ in range(2)]
    for job in jobs:
        server.told(job, "ready")
    ended = [line for line in server.said().splitlines() if "control daemon has ended" in line]
    assert len([line for line in ended if "MPS of " in line]) == 1
    # A fault ends only its server's clients. One that runs again did so while the fault was seen.
    server.wrong(**{FIRST: {"fault": 1}})
    (first,) = (job for job in jobs if server.job(job)["devices"] == [FIRST])
    wait_until(lambda: server.job(first)["state"] == "FAILED" or server.job(first)["attempts"] > 1)
    server.up()
    (other,) = (job for job in jobs if job != first)
    assert server.job(other)["state"] == "RUNNING"
    server.radrm("drain", "1")
    # It fits beside one that runs again, which has 34.5G of the 39.4G.
    again = server.client("--gpu-memory=1G")
    server.told(again, "ready")
    assert server.job(again)["devices"] == [FIRST]


@pytest.mark.nightly
def test_who_stays_after_a_fault_is_ended_and_a_server_that_stays_is_replaced(
    server: Server,
) -> None:
    server.begin(fixed=["core.retry_s=0.5"])
    server.radrm("drain", "1")
    job = server.client("--gpu-memory=30G", stubborn=True)
    server.told(job, "ready")
    soft = server.client("--gpu-memory=2G")  # its end is what makes radrm look at once
    server.told(soft, "ready")
    before = server.control(FIRST).process()
    server.wrong(**{FIRST: {"fault": 1, "stuck": True}})
    wait_until(lambda: server.state_of(FIRST) == "fault")
    held = server.client("--gpu-memory=32G", "--collocation=mps", "--name=held")
    wait_until(lambda: server.state_of(FIRST) == "up")
    assert "TERM" in server.told(job, "terminate")
    assert server.control(FIRST).process() not in (None, before)
    # Nobody knows which of them has caused it, so both run again by themselves.
    server.radrm("cancel", str(job))
    wait_until(lambda: server.notes(soft).count("ready") == 2, "its second attempt")
    card = server.radrm("status", str(soft)).stdout
    assert "its MPS server had a fault, which ends the work of all its clients" in card, card
    server.told(held, "ready")
    assert server.said().count("is in a fault") == 1


def test_it_lives_on_without_the_daemon_and_is_taken_over(server: Server) -> None:
    server.begin()
    job = server.client("--gpu-memory=30G")
    server.told(job, "ready")
    before = [server.control(uuid).process() for uuid in (FIRST, SECOND)]
    for end in (server.kill, server.stop):
        end()
        server.start()
        server.up()
        assert [server.control(uuid).process() for uuid in (FIRST, SECOND)] == before
    assert server.job(job)["state"] == "RUNNING"

    def of_jobs() -> list[int]:
        servers = [each for row in server.ask("mps") for each in row["servers"]]
        return [client["job"] for each in servers for client in each["clients"]]

    wait_until(lambda: of_jobs() == [job], "its client")
    line = f"GPU 0: up, control daemon {before[0].pid}, 1 client (job {job})\n"
    assert server.radrm("mps", "status").stdout.startswith(line)


def test_without_the_program_jobs_share_by_time_slices_and_all_are_told(server: Server) -> None:
    server.environment["PATH"] = server.environment["PATH"].split(":", 1)[1]
    server.begin()
    job = server.client("--gpu-memory=8G")
    assert server.told(job, "no MPS")[4] == "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=None"
    assert server.job(job)["collocation"] == "timeslice"
    assert server.said().count("nvidia-cuda-mps-control is not on PATH") == 1
    status = server.radrm("mps", "status")
    assert "GPU 0: down" in status.stdout and "is not on PATH" in status.stdout
    done = server.radrm("mps", "start", "0")
    assert done.returncode == 1 and "is not on PATH" in done.stderr


@pytest.mark.nightly
def test_it_is_stopped_and_started_by_order(server: Server) -> None:
    server.begin("mps.enabled=[0]")
    job = server.client("--gpu-memory=8G", "--collocation=mps")
    server.told(job, "ready")
    assert [row["state"] for row in server.ask("mps")] == ["up", "off"]
    refused = server.radrm("mps", "stop", "0")
    assert refused.returncode == 1 and f"job {job} is its client" in refused.stderr
    started = server.radrm("mps", "start", "1")
    assert (started.returncode, started.stdout) == (0, "Started MPS on GPU 1\n"), started.stderr
    wait_until(lambda: [g["mps"] for g in server.ask("gpus")] == [True, True])
    stopped = server.radrm("mps", "stop", "--all", "--force")
    assert stopped.returncode == 0, stopped.stderr
    assert stopped.stdout == "Stopped MPS on GPU 0\nStopped MPS on GPU 1\n"
    assert server.wait_end(job)["state"] == "FAILED"
    assert "terminate" in server.notes(job)
    wait_until(lambda: [g["mps"] for g in server.ask("gpus")] == [False, False])
    assert [server.control(uuid).process() for uuid in (FIRST, SECOND)] == [None, None]


@pytest.mark.nightly
def test_a_clients_work_is_taken_away_before_it_is_killed(server: Server) -> None:
    server.begin()
    jobs = [server.client("--gpu-memory=8G", stubborn=True) for _ in range(2)]
    for job in jobs:
        server.told(job, "ready")
    assert server.radrm("cancel", str(jobs[0])).returncode == 0
    assert server.wait_end(jobs[0])["state"] == "CANCELLED"
    assert server.notes(jobs[0])[-2:] == ["TERM", "terminate"]
    # A control daemon that hangs keeps nobody alive.
    server.wrong(hang=True)
    assert server.radrm("cancel", str(jobs[1])).returncode == 0
    assert server.wait_end(jobs[1])["state"] == "CANCELLED"
    server.wrong()


@pytest.mark.nightly
def test_the_end_of_one_client_harms_no_other_and_no_client_comes_too_early(
    server: Server,
) -> None:
    """A raw TERM cut off work in flight, and faulted its server; a first client was refused."""
    server.begin("core.grace_s=30", fixed=["core.retry_s=0.5"])
    slow_and_old = {"begins": 1.0, "old": True}
    server.wrong(raw=True, single=True, **{FIRST: {"begins": 0.5}, SECOND: slow_and_old})
    server.radrm("drain", "1")
    ended, other = (server.client("--gpu-memory=8G") for _ in range(2))
    for job in (ended, other):
        server.told(job, "ready")
    assert server.radrm("cancel", str(ended)).returncode == 0
    assert server.wait_end(ended)["state"] == "CANCELLED"
    assert server.notes(ended)[-1] == "terminate"
    assert server.notes(other)[-1] == "ready" and server.state_of(FIRST) == "up"
    # An old control daemon starts no server by command: the first client is refused, and runs
    # again by itself.
    server.radrm("drain", "0")
    server.radrm("resume", "1")
    refused = server.client("--gpu-memory=8G")
    server.waits_for(refused, "its MPS server took no new client (CUDA error 807)")
    assert server.told(refused, "ready").count("refused") == 1


def test_simulated_gpus_need_no_control_daemon(server: Server) -> None:
    server.gpus = "sim:2xA100-40GB"
    server.begin("mps.enabled=[1]")
    assert [g["mps"] for g in server.ask("gpus")] == [False, True]
    assert "simulated on GPU 1" in server.radrm("mps", "status").stdout
    refused = server.radrm("mps", "stop", "--all")
    assert refused.returncode == 1 and "without a control daemon" in refused.stderr


@pytest.mark.nightly
@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers for all users")
def test_a_server_for_all_users_is_known_as_one_once_a_client_shows_it(server: Server) -> None:
    server.begin("mps.multiuser=true")
    home = server.folder / "home"
    for folder in (server.folder, server.work, home, home / "run", home / "run" / "mps"):
        folder.chmod(0o777)  # all may pass, as through /run/radrm
    server.radrm("drain", "1")
    assert [row["multiuser"] for row in server.ask("mps")] == [False, False]
    script = server.file(
        "other.sh",
        f"#!/bin/bash\nexec {sys.executable} {STANDINS}/mps_client.py notes-$RADRM_JOB_ID as=65534",
    )
    job = server.submit("--gpu-memory=8G", str(script))
    server.told(job, "ready")
    # A job that leaves its server ill or well makes radrm look at it at once.
    soft = server.client("--gpu-memory=2G")
    server.told(soft, "ready")
    server.radrm("cancel", str(soft))
    wait_until(lambda: [r["multiuser"] for r in server.ask("mps")] == [True, False], "the proof")
    assert server.said().count("takes jobs of several users at a time") == 1
    server.radrm("cancel", str(job))


@pytest.mark.nightly
def test_beside_clients_others_are_time_sliced(server: Server) -> None:
    server.begin()
    for _ in range(2):
        server.told(server.client("--gpu-memory=30G"), "ready")
    wide = server.client("--gpus=2", "--gpu-memory=1G")
    notes = server.told(wide, "no MPS")
    assert server.job(wide)["collocation"] == "timeslice"
    assert notes[4] == "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=None"
