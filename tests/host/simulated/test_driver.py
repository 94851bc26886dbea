"""A real driver process and real simjob processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from radrm.errors import DeviceError, Refused, UsageError
from radrm.host.clock import Clock
from radrm.host.simulated.client import EXIT_LOCKED, DriverClient
from radrm.host.simulated.simjob import memory_cap_mib, wanted_mib
from radrm.host.simulated.start_driver import LOCK_NAME, SOCKET_NAME, ensure_driver
from radrm.host.sockets import connect
from tests.host.simulated.host import SCALE, SPEC
from tests.waiting import PATIENCE_S, wait_until

# ------------------------------------------------------------------ jobs


def test_a_job_runs_to_its_end_and_leaves_nothing(host):
    job = host.simjob("--gpu-memory", "12G", "--seconds", 20, "--print-every", 5, "--exit-code", 7)
    out, err = job.communicate(timeout=PATIENCE_S)
    assert (job.returncode, err) == (7, "")
    assert re.search(r"epoch 10/10  100%  20\.0/20 s .* memory 12288 MiB", out.splitlines()[-1])
    wait_until(lambda: host.used() == [0, 0])


def test_readings_name_the_attempt_that_holds_the_memory(host):
    job = host.simjob("--gpu-memory", 12000, "--seconds", 9999, "--smact", 0.6)
    unmanaged = host.simjob("--gpu-memory", 5000, "--seconds", 9999)
    wait_until(lambda: host.used() == [17000, 0])
    first, second = host.read(lambda pid: (4, 2) if pid == job.pid else None)
    (own,) = first.attempts
    assert (own.job_id, own.serial, own.used_mib) == (4, 2, 12000)
    assert own.smact <= first.smact, "of its own processes"
    assert (first.smact_source, first.smact_coarse) == ("simulated", False)
    assert 0 < first.smact < 1
    assert first.power_w > round(second.power_w, 6) == 58
    assert (second.attempts, second.smact) == ((), 0.0)
    assert unmanaged.poll() is None


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
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
        ((), {"RADRM_SIMULATED_GPUS": ""}, "--gpus sim:"),
        ((), {"RADRM_SIMULATED_GPUS": "/nowhere/at.all"}, "/nowhere/at.all"),
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


def test_an_idle_driver_makes_way_for_another_spec(own_host):
    other = ensure_driver(own_host.folder, "sim:1xH100-80GB", SCALE)
    assert other.pid != own_host.driver.pid
    (device,) = own_host.gpus.devices()  # over a new connection
    assert device.name == "H100-80GB"


def test_a_busy_driver_does_not_make_way(host):
    job = DriverClient(host.path)
    job.attach(None, 0.5)
    with pytest.raises(Refused, match="wait until"):
        ensure_driver(host.folder, SPEC, 1.0)
    assert ensure_driver(host.folder, SPEC, SCALE).pid == host.driver.pid
    job.close()


def test_a_dead_driver_is_an_error_and_the_next_goes_on_with_its_clock(own_host):
    os.kill(own_host.driver.pid, signal.SIGKILL)
    with pytest.raises(DeviceError, match="restart the daemon"):
        wait_until(lambda: not own_host.read())
    again = ensure_driver(own_host.folder, SPEC, SCALE)
    assert again.pid != own_host.driver.pid
    assert again.clock.anchor_boot_s == own_host.driver.clock.anchor_boot_s
    assert own_host.used() == [0, 0]


def test_a_bad_spec_starts_nothing(tmp_path):
    with pytest.raises(UsageError, match="A100-40GB"):
        ensure_driver(tmp_path, "sim:nonsense", 1.0)
    assert list(tmp_path.iterdir()) == []


def test_there_is_one_driver_per_lock_and_a_lonely_one_ends(tmp_path):
    command = [sys.executable, "-m", "radrm.host.simulated.driver", "--spec", SPEC]
    command += ["--socket", str(tmp_path / SOCKET_NAME), "--lock", str(tmp_path / LOCK_NAME)]
    first = subprocess.Popen([*command, "--linger", "3"])
    wait_until((tmp_path / SOCKET_NAME).exists)
    with connect(str(tmp_path / SOCKET_NAME), PATIENCE_S):  # a client, so that the first stays
        second = subprocess.run(command, check=False, capture_output=True)
    assert second.returncode == EXIT_LOCKED
    assert first.wait(PATIENCE_S) == 0
    assert not (tmp_path / SOCKET_NAME).exists()
