"""The whole daemon on a small DGX: four A100s that are used in four ways, and what breaks there.

GPU 0 is plain; GPU 1 is under MPS; GPU 2 is in MIG mode with instances of two sizes; GPU 3 is
plain, and unmanaged processes use it. SM activity comes from DCGM. `pynvml` is the real one;
the driver's library, `dcgmi` and `nvidia-cuda-mps-control` are stand-ins, jobs are real processes.
What each part does by itself has tests of its own (test_nvml, test_readings, test_mps): here
nothing that happens to one may harm the others. That takes long, so it is done at night; on a push
test_doctor has this server.
"""

from __future__ import annotations

import os
import pwd

import pytest

from tests.daemon.gpus.dgx import CUT, LARGE, LOST, PLAIN, SERVED, SHARED, SMALL, Dgx
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon


@pytest.mark.nightly
def test_jobs_of_all_kinds_land_where_they_belong(dgx: Dgx) -> None:
    dgx.begin()
    with dgx.unmanaged(SHARED, 20_000) as unmanaged:
        wait_until(
            lambda: dgx.gpu(SHARED)["unmanaged_mib"] == 20_000, "the unmanaged process to be seen"
        )
        assert [(g["index"], g["uuid"]) for g in dgx.ask("gpus")] == [
            *((0, PLAIN), (1, SERVED)),
            *((2, uuid) for uuid in (*dgx.small, dgx.large)),
            (3, SHARED),
        ]
        # The two clients share, each with a cap of its own.
        clients = [dgx.client(8192), dgx.client(4096)]
        pipes = dgx.folder / "home" / "run" / "mps" / SERVED[4:12]
        for job, cap in zip(clients, (8192, 4096), strict=True):
            notes = dgx.told(job, "ready")
            assert f"CUDA_VISIBLE_DEVICES={SERVED}" in notes
            assert f"CUDA_MPS_PIPE_DIRECTORY={pipes}" in notes
            assert f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={cap}M" in notes
            assert dgx.runs_on(job) == [SERVED]
        # An instance each.
        parts = [dgx.hold(3000, f"--mig-profile={SMALL}") for _ in range(2)]
        assert sorted(uuid for job in parts for uuid in dgx.runs_on(job)) == sorted(dgx.small)
        # The only GPU that nobody uses; an unmanaged process's is none.
        alone = dgx.hold(21_000, "--collocation=exclusive")
        assert dgx.runs_on(alone) == [PLAIN]
        # An idle instance is no second GPU. Beside clients it would be time-sliced.
        dgx.radrm("drain", "1")
        two = dgx.hold(6000, "--gpus=2")
        dgx.waits(two, "a job on several GPUs cannot span MIG instances")
        dgx.complete(alone)
        assert sorted(dgx.runs_on(two)) == [PLAIN, SHARED]
        # The unmanaged process counts: 13 GiB are left of its GPU, and people see whose it is.
        beside = dgx.hold(16_000, "--collocation=timeslice")
        assert dgx.runs_on(beside) == [PLAIN]
        dgx.radrm("resume", "1")
        assert dgx.peaks(*parts, two, beside) == [3000, 3000, 6000, 16_000]
        (seen,) = (g for g in dgx.json("gpus") if g["uuid"] == SHARED)
        assert (seen["used_mib"], seen["unmanaged_mib"]) == (26_000, 20_000)
        assert seen["unmanaged"] == [
            {
                "pid": unmanaged,
                "used_mib": 20_000,
                "user": pwd.getpwuid(os.getuid()).pw_name,
                "command": "sleep 1000",
            }
        ]
        assert dgx.diagnosis() == {
            "GPUs": ("ok", "4 x NVIDIA A100-SXM4-40GB"),
            "MIG": ("ok", "on for GPU 2"),
            "compute mode": ("ok", "DEFAULT"),
            "SM activity": ("ok", "read by dcgm"),
        }
        large = dgx.hold(27_000)
        dgx.waits(large, "13.1G")
    assert dgx.runs_on(large) == [SHARED]
    dgx.complete(*parts, two, beside, large)
    dgx.radrm("cancel", *map(str, clients))
    assert [dgx.wait_end(job)["state"] for job in clients] == ["CANCELLED"] * 2


@pytest.mark.nightly
def test_trouble_with_sharing_stays_where_it_is(dgx: Dgx) -> None:
    """DCGM, MPS and an Xid: each keeps new jobs from what it concerns."""
    dgx.begin()
    client = dgx.client(8000)
    dgx.told(client, "ready")
    part = dgx.hold(3000, f"--mig-profile={SMALL}")
    both = [dgx.hold(20_000, "--collocation=timeslice") for _ in range(2)]
    assert sorted(uuid for job in both for uuid in dgx.runs_on(job)) == [PLAIN, SHARED]
    everybody = (client, part, *both)
    # DCGM dies. Nobody comes beside others, an idle instance can still be had.
    dgx.dcgm("down")
    wait_until(lambda: dgx.gpu(PLAIN)["smact_error"], "DCGM's end to show")
    beside = dgx.hold(4000, "--collocation=timeslice")
    dgx.waits(beside, "dcgmi")
    dgx.radrm("hold", str(beside))
    other_part = dgx.hold(3000, f"--mig-profile={SMALL}")
    dgx.runs_on(other_part)
    dgx.radrm("release", str(beside))
    dgx.dcgm("ok")
    dgx.runs_on(beside)
    dgx.unharmed(*everybody, other_part)
    dgx.complete(beside)
    # A fault of MPS, which stays for a while. Its client has lost its work, and would run again.
    dgx.mps(fault=1, stuck=True)
    wait_until(lambda: dgx.job(client)["state"] == "PENDING", "the end of its attempt")
    assert "its MPS server had a fault" in dgx.job(client)["reason"]
    dgx.radrm("cancel", str(client))
    new_job = dgx.client(9000)
    dgx.waits(new_job, "MPS server is in a fault")
    dgx.mps(fault=1)
    dgx.told(new_job, "ready")
    assert dgx.runs_on(new_job) == [SERVED]
    dgx.unharmed(part, *both, other_part, new_job)
    # An Xid says that GPU 0 is broken. Its job is left alone; nobody else comes.
    dgx.driver.xid(PLAIN, 79)
    wait_until(lambda: dgx.gpu(PLAIN)["state"] == "unhealthy", "the Xid")
    assert "Xid 79" in dgx.gpu(PLAIN)["reason"]
    dgx.unharmed(*both)
    dgx.complete(*both)
    alone = [dgx.hold(35_000, "--collocation=exclusive") for _ in range(2)]
    assert dgx.runs_on(alone[0]) == [SHARED]
    dgx.waits(alone[1], "Xid 79")
    assert dgx.radrm("resume", "0").returncode == 0
    assert dgx.runs_on(alone[1]) == [PLAIN]
    dgx.unharmed(part, other_part, new_job)
    dgx.complete(*alone, part, other_part)
    dgx.radrm("cancel", str(new_job))
    assert dgx.wait_end(new_job)["state"] == "CANCELLED"


@pytest.mark.nightly
def test_devices_that_go_and_come_harm_no_others(dgx: Dgx) -> None:
    """A new partition, a lost GPU, a driver that hangs."""
    dgx.begin()
    client = dgx.client(8000)
    dgx.told(client, "ready")
    part = dgx.hold(15_000, f"--mig-profile={LARGE}")
    lost = dgx.hold(20_000, "--collocation=exclusive")
    assert dgx.runs_on(part) == [dgx.large]
    assert dgx.runs_on(lost) == [PLAIN]
    everybody = (client, part, lost)
    # GPU 2 is cut anew around the instance that is in use.
    for uuid in dgx.small:
        dgx.driver.gone(uuid)
    fresh = dgx.driver.mig(CUT, "2g.10gb")
    # GPU 0 is lost at the same time.
    dgx.driver.fail("*", LOST, PLAIN)
    wait_until(lambda: dgx.gpu(PLAIN)["state"] == "unreadable", "the loss to show")
    assert "lost" in dgx.gpu(PLAIN)["reason"]
    wait_until(lambda: fresh in [g["uuid"] for g in dgx.ask("gpus")], "the new instance")
    on_fresh = dgx.hold(9000, "--mig-profile=2g.10gb")
    assert dgx.runs_on(on_fresh) == [fresh]
    assert not {g["uuid"] for g in dgx.ask("gpus") if g["state"] != "vanished"} & {*dgx.small}
    refused = dgx.radrm("submit", f"--mig-profile={SMALL}", "--", "true")
    assert "can never run" in refused.stderr
    level, finding = dgx.diagnosis()["GPUs"]
    assert level == "fail" and finding.startswith("GPU 0: ")
    beside = dgx.hold(30_000)
    assert dgx.runs_on(beside) == [SHARED]
    dgx.unharmed(*everybody, on_fresh)
    dgx.driver.fail("*", 0, PLAIN)
    wait_until(lambda: dgx.gpu(PLAIN)["state"] == "busy", "GPU 0 to be back")
    # The driver hangs: nothing is known of any GPU, and nothing that runs is touched.
    dgx.driver.hang("nvmlDeviceGetMemoryInfo*")
    wait_until(
        lambda: {g["state"] for g in dgx.ask("gpus")} <= {"unreadable", "vanished"},
        "the driver's silence to be noticed",
    )
    waiting = dgx.hold(2000)
    dgx.waits(waiting, "the driver has not answered for")
    dgx.unharmed(*everybody, on_fresh, beside)
    dgx.complete(beside)
    dgx.driver.release("nvmlDeviceGetMemoryInfo*")
    dgx.runs_on(waiting)
    dgx.unharmed(*everybody, on_fresh)
    dgx.complete(part, lost, on_fresh, waiting)
    dgx.radrm("cancel", str(client))
    assert dgx.wait_end(client)["state"] == "CANCELLED"
