"""A real driver process, real simjob processes, and those who mean it no good."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from radrm.core.records import AttemptMemory
from radrm.core.words import DeviceKind
from radrm.errors import DeviceError, Refused, Unreachable, UsageError
from radrm.host.clock import Clock
from radrm.host.gpus.source import GpuSource
from radrm.host.simulated.client import DriverClient, OutOfGpuMemory
from radrm.host.simulated.driver import EXIT_LOCKED
from radrm.host.simulated.simjob import memory_cap_mib, wanted_mib
from radrm.host.simulated.source import LOCK_NAME, SOCKET_NAME, SoftwareGpus, ensure_driver
from radrm.host.sockets import connect

SPEC = "sim:2xA100-40GB"
SCALE = 100.0
PATIENCE_S = 30.0


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return found


def nobody(pid):
    return None


class Host:
    """A run folder with its driver, and the jobs of one test."""

    def __init__(self, folder):
        self.folder = folder
        self.driver = ensure_driver(folder, SPEC, SCALE)
        self.path = self.driver.socket
        self.gpus = SoftwareGpus(self.path)
        self.uuids = [device.uuid for device in self.gpus.devices()]
        self.jobs = []

    def simjob(self, *words, **environment):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_")}
        job = subprocess.Popen(
            [sys.executable, "-m", "radrm.host.simulated.simjob", *map(str, words)],
            env={**clean, "RADRM_SOFTWARE_GPUS": str(self.path), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.jobs.append(job)
        return job

    def read(self, owner_of=nobody):
        return self.gpus.read(self.uuids, self.driver.clock.now(), owner_of)

    def used(self):
        return [reading.used_mib for reading in self.read()]

    def close(self):
        for job in self.jobs:
            if job.poll() is None:
                job.kill()
            job.communicate()
        self.gpus.close()
        try:
            client = DriverClient(self.path)
        except Unreachable:
            return
        os.kill(client.hello().pid, signal.SIGTERM)
        client.close()
        wait_until(lambda: not self.path.exists())


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path / "run")
    yield host
    host.close()


# ------------------------------------------------------------------ jobs


def test_a_job_runs_to_its_end_and_leaves_nothing(host):
    job = host.simjob("--gpu-memory", "12G", "--seconds", 20, "--print-every", 5, "--exit-code", 7)
    out, err = job.communicate(timeout=PATIENCE_S)
    assert (job.returncode, err) == (7, "")
    assert re.search(r"epoch 10/10  100%  20\.0/20 s .* memory 12288 MiB", out.splitlines()[-1])
    wait_until(lambda: host.used() == [0, 0])


def test_readings_name_the_attempt_that_holds_the_memory(host):
    job = host.simjob("--gpu-memory", 12000, "--seconds", 9999, "--smact", 0.6)
    stranger = host.simjob("--gpu-memory", 5000, "--seconds", 9999)
    wait_until(lambda: host.used() == [17000, 0])
    first, second = host.read(lambda pid: (4, 2) if pid == job.pid else None)
    assert first.attempts == (AttemptMemory(4, 2, 12000),)
    assert (first.smact_source, first.smact_coarse) == ("software", False)
    assert 0 < first.smact < 1
    assert first.power_w > second.power_w == 58
    assert (second.attempts, second.smact) == ((), 0.0)
    assert stranger.poll() is None


def test_contention_slows_a_job_and_another_gpu_does_not(host):
    words = ("--gpu-memory", 1000, "--smact", 0.9, "--ramp", 0, "--print-every", 1e6)
    host.simjob(*words, "--seconds", 1e6)
    wait_until(lambda: host.used() == [1000, 0])
    beside = host.simjob(*words, "--seconds", 30)
    out, _ = beside.communicate(timeout=PATIENCE_S)
    assert float(re.search(r"speed ([\d.]+)", out)[1]) < 0.9
    elsewhere = DriverClient(host.path)
    elsewhere.attach("1", 0.9)
    elsewhere.start()
    assert elsewhere.ask("work")["speed"] == 1.0
    elsewhere.close()


def test_a_refused_job_dies_as_pytorch_does_and_the_others_go_on(host):
    first = host.simjob("--gpu-memory", 38000, "--seconds", 9999, "--ramp", 0)
    wait_until(lambda: host.used()[0] == 38000)
    second = host.simjob("--gpu-memory", "3.25G", "--seconds", 20, "--ramp", 0)
    _, err = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 1
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.splitlines()[-1].startswith(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.25 GiB. "
        "GPU 0 has a total capacity of 39.59 GiB of which 2.48 GiB is free."
    )
    assert first.poll() is None


def test_a_leak_ends_in_out_of_memory(host):
    job = host.simjob("--gpu-memory", "30G", "--seconds", 9999, "--leak", 2000)
    _, err = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 1
    assert "torch.OutOfMemoryError" in err


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_job_frees_its_memory(host, number):
    job = host.simjob("--gpu-memory", 12000, "--seconds", 9999, "--gpus", 2)
    wait_until(lambda: host.used() == [12000, 12000])
    job.send_signal(number)
    _, err = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == -number
    assert err == ""
    assert host.used() == [0, 0]  # the very first reading after its end


def test_an_mps_cap_is_enforced(host):
    words = ("--gpu-memory", 5000, "--seconds", 5)
    limit = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=4096M"}
    capped = host.simjob(*words, CUDA_MPS_PIPE_DIRECTORY="/tmp/mps", **limit)
    without_mps = host.simjob(*words, **limit)
    assert "CUDA out of memory" in capped.communicate(timeout=PATIENCE_S)[1]
    assert capped.returncode == 1
    assert without_mps.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("words", "environment", "cause"),
    [
        ((), {"RADRM_SOFTWARE_GPUS": ""}, "--gpus sim:"),
        ((), {"RADRM_SOFTWARE_GPUS": "/nowhere/at.all"}, "/nowhere/at.all"),
        ((), {"CUDA_VISIBLE_DEVICES": "GPU-none"}, "0 visible"),
        (("--gpus", 3), {}, "2 visible"),
        (
            (),
            {"CUDA_MPS_PIPE_DIRECTORY": "/x", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "4G"},
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=4G",
        ),
    ],
)
def test_a_job_that_cannot_begin_says_why_in_one_line(host, words, environment, cause):
    job = host.simjob("--gpu-memory", 1000, "--seconds", 1, *words, **environment)
    _, err = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 2
    assert cause in err
    assert len(err.splitlines()) == 1


def test_a_lost_gpu_kills_its_jobs_and_shows_in_readings(host):
    job = host.simjob("--gpu-memory", 1000, "--seconds", 9999)
    wait_until(lambda: host.used()[0] == 1000)
    operator = DriverClient(host.path)
    operator.ask("fail", uuid=host.uuids[0], message="GPU is lost")
    _, err = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 1
    assert err.splitlines()[-1] == "RuntimeError: CUDA error: GPU is lost"
    lost, fine = host.read()
    assert (lost.error, lost.used_mib, lost.smact) == ("GPU is lost", None, None)
    assert fine.error is None
    operator.ask("heal", uuid=host.uuids[0])
    operator.close()
    assert host.used() == [0, 0]


def test_the_jobs_memory_follows_its_ramp_and_leak():
    assert [wanted_mib(1000, 10, 0, at) for at in (0, 1.9, 2, 9.9, 10, 99)] == [
        200,
        200,
        400,
        1000,
        1000,
        1000,
    ]
    assert wanted_mib(1000, 0, 0, 0) == 1000
    assert wanted_mib(1000, 0, 5, 10) == 1050


@pytest.mark.parametrize(
    ("text", "mib"), [(None, None), ("", None), ("0=4G", 4096), ("0=4096M,1=2G", 2048)]
)
def test_the_cap_is_the_smallest_limit(text, mib):
    assert memory_cap_mib(text) == mib


# ------------------------------------------------------------------ the driver's life


def test_everybody_goes_by_the_drivers_clock(host):
    hello = DriverClient(host.path).hello()
    theirs = Clock(hello.scale, hello.anchor_boot_s, hello.anchor_wall_s)
    assert hello.scale == SCALE
    times = [theirs.now().boot_s, host.driver.clock.now().boot_s, theirs.now().boot_s]
    assert times == sorted(times)


def test_a_living_driver_is_used_again(host):
    again = ensure_driver(host.folder, SPEC, SCALE)
    assert again.pid == host.driver.pid


def test_an_idle_driver_makes_way_for_another_spec(host):
    other = ensure_driver(host.folder, "sim:1xH100-80GB", SCALE)
    assert other.pid != host.driver.pid
    (device,) = host.gpus.devices()  # over a new connection
    assert device.name == "H100-80GB"


def test_a_busy_driver_does_not_make_way(host):
    job = DriverClient(host.path)
    job.attach(None, 0.5)
    with pytest.raises(Refused, match="wait until"):
        ensure_driver(host.folder, SPEC, 1.0)
    assert ensure_driver(host.folder, SPEC, SCALE).pid == host.driver.pid
    job.close()


def test_a_dead_driver_is_an_error_and_the_next_goes_on_with_its_clock(host):
    os.kill(host.driver.pid, signal.SIGKILL)
    with pytest.raises(DeviceError, match="restart the daemon"):
        wait_until(lambda: not host.read())
    again = ensure_driver(host.folder, SPEC, SCALE)
    assert again.pid != host.driver.pid
    assert again.clock.anchor_boot_s == host.driver.clock.anchor_boot_s
    assert host.used() == [0, 0]


def test_a_bad_spec_starts_nothing(tmp_path):
    with pytest.raises(UsageError, match="A100-40GB"):
        ensure_driver(tmp_path, "sim:nonsense", 1.0)
    assert list(tmp_path.iterdir()) == []


def test_there_is_one_driver_per_lock_and_a_lonely_one_ends(tmp_path):
    command = [sys.executable, "-m", "radrm.host.simulated.driver", "--spec", SPEC]
    command += ["--socket", str(tmp_path / SOCKET_NAME), "--lock", str(tmp_path / LOCK_NAME)]
    first = subprocess.Popen([*command, "--linger", "1"])
    wait_until((tmp_path / SOCKET_NAME).exists)
    assert subprocess.run(command, check=False, capture_output=True).returncode == EXIT_LOCKED
    assert first.wait(PATIENCE_S) == 0
    assert not (tmp_path / SOCKET_NAME).exists()


def test_a_driver_far_down_is_reached(tmp_path):
    host = Host(tmp_path.joinpath(*["a-folder-far-down"] * 12))
    try:
        job = host.simjob("--gpu-memory", 1000, "--seconds", 1, "--ramp", 0)
        assert job.wait(PATIENCE_S) == 0
    finally:
        host.close()


def test_the_source_is_a_gpu_source_and_mps_is_for_whole_gpus(tmp_path):
    driver = ensure_driver(tmp_path, "sim:1xA100-40GB:3g.20gb+4g.20gb,1xA100-40GB", SCALE)
    source: GpuSource = SoftwareGpus(driver.socket, mps=True)
    devices = source.devices()
    source.close()
    assert [(d.kind, d.mps) for d in devices] == [
        (DeviceKind.MIG, False),
        (DeviceKind.MIG, False),
        (DeviceKind.GPU, True),
    ]
    DriverClient(driver.socket).ask("quit")


# ------------------------------------------------------------------ strangers


@pytest.mark.parametrize(
    "line",
    [
        b"hello\n",
        b"\x00\xff\xfe\n",
        b"{}\n",
        b"[" * 60000 + b"\n",
        b'{"op": "explode"}\n',
        b'{"op": "alloc", "mib": -5}\n',
        b'{"op": "alloc", "mib": 1e400}\n',
        b'{"op": "attach", "gpus": 1, "smact": 7}\n',
        b'{"op": "attach", "gpus": 1, "smact": NaN}\n',
        b"x" * 200_000,
    ],
)
def test_garbage_is_answered_and_its_sender_let_go(host, line):
    with connect(host.path, PATIENCE_S) as stranger:
        try:
            stranger.sendall(line)
        except BrokenPipeError:
            pass
        answer = b""
        try:
            while data := stranger.recv(65536):
                answer += data
        except ConnectionResetError:
            pass
    assert not answer or "error" in json.loads(answer)
    assert host.used() == [0, 0]


def test_requests_out_of_place_are_refused_and_the_connection_lives(host):
    with pytest.raises(DeviceError, match="attach first"):
        (client := DriverClient(host.path)).alloc(10)
    client.attach(None, 0.5)
    with pytest.raises(DeviceError, match="already"):
        client.attach(None, 0.5)
    client.alloc(1000)
    with pytest.raises(OutOfGpuMemory) as caught:
        client.alloc(40000)
    assert (caught.value.free_mib, caught.value.held_mib) == (39536, 1000)
    with pytest.raises(DeviceError, match="1 job"):
        client.ask("quit")
    client.close()


def test_who_never_reads_answers_holds_up_nobody(host):
    greedy = connect(host.path, PATIENCE_S)
    greedy.setblocking(False)
    sent = 0
    try:
        while sent < 50_000_000:
            sent += greedy.send(b'{"op": "devices"}\n' * 1000)
    except BlockingIOError:
        pass
    assert sent < 50_000_000
    assert host.used() == [0, 0]
    greedy.close()


def test_a_crowd_of_silent_strangers_and_half_lines(host):
    crowd = [connect(host.path, PATIENCE_S) for _ in range(200)]
    for stranger in crowd:
        stranger.sendall(b'{"op": "he')
    assert host.used() == [0, 0]
    crowd[0].sendall(b'llo"}\n')
    assert json.loads(crowd[0].makefile().readline())["spec"] == SPEC
    for stranger in crowd:
        stranger.close()


def test_a_client_that_only_stops_writing_still_gets_its_answers(host):
    with connect(host.path, PATIENCE_S) as client:
        client.sendall(b'{"op": "hello"}\n{"op": "devices"}\n')
        client.shutdown(socket.SHUT_WR)
        lines = client.makefile().readlines()
    assert [next(iter(json.loads(line))) for line in lines] == ["pid", "devices"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_others_may_use_the_gpus_but_not_break_them():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        host = Host(Path(folder))
        try:
            stranger = os.fork()
            if stranger == 0:
                os._exit(_try_as_a_stranger(host))
            assert os.waitstatus_to_exitcode(os.waitpid(stranger, 0)[1]) == 0
        finally:
            host.close()


def _try_as_a_stranger(host):
    try:
        os.setuid(65534)
        client = DriverClient(host.path)
        client.attach(None, 0.5)
        client.alloc(1000)
    except Exception:
        return 1
    try:
        client.ask("fail", uuid=host.uuids[0], message="x")
    except DeviceError as error:
        return 0 if "65534" in str(error) else 2
    return 3
