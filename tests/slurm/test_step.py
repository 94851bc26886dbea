"""`radrm slurm-step` under a real Slurm: jobs of a node's daemon run in Slurm's steps."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cluster.place import OF_NODES, prepare, through_radrm
from radrm.client.connection import every_job
from radrm.host.processes.procfs import read_stat
from tests.daemon.harness import DaemonHome
from tests.slurm.cluster import Cluster
from tests.waiting import wait_until

NODE = "g1"
HERE = ("-w", NODE, "--gres=gpumem:4096")
UP = 'echo up\nwhile [ ! -e "$0.end" ]; do sleep 0.05; done'
"""A job that runs until it is ended."""

WATCHED = """\
import os, signal
from radrm.host import crossings

HERE = os.path.dirname(__file__)


def shoot(point, what):
    if point == "attempt handed over" and os.path.exists(f"{HERE}/shot"):
        os.rename(f"{HERE}/shot", f"{HERE}/fired")
        os.kill(os.getpid(), signal.SIGKILL)


crossings.watch(shoot)
"""
"""A `sitecustomize.py`, by which a daemon is killed once at this point, if there is a `shot`."""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the daemon's `sitecustomize.py`."""
    folder = tmp_path_factory.mktemp("watched")
    (folder / "sitecustomize.py").write_text(WATCHED)
    return folder


@pytest.fixture(scope="module")
def home(cluster: Cluster, watched: Path) -> Iterator[DaemonHome]:
    prepare(cluster)
    settings = [each.replace("%n", NODE) for each in OF_NODES]
    yield cluster.daemon(NODE, settings, scale=20.0, python_path=watched)


def job_of(home: DaemonHome, job: int) -> dict[str, Any] | None:
    """What the daemon says of the last run of a Slurm job."""
    found = [d for d in every_job(home.ask, all=True) if f":{job}." in d.get("outer", "")]
    return found[-1] if found else None


def submit(cluster: Cluster, body: str, *options: str) -> int:
    return cluster.sbatch(through_radrm(body, "--gpu-memory=4G", *options), *HERE)


def runs(home: DaemonHome, job: int) -> dict[str, Any]:
    def up() -> dict[str, Any] | None:
        found = job_of(home, job)
        return found if found is not None and found["state"] == "RUNNING" else None

    found = wait_until(up, f"job {job} to run")
    assert found is not None
    return found


def ended(home: DaemonHome, job: int) -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        found = job_of(home, job)
        return found if found is not None and found["ended_at"] is not None else None

    found = wait_until(over, f"the end of job {job}")
    assert found is not None
    return found


def step_of(cluster: Cluster, job: int) -> int:
    """The pid of a job's step."""
    for pid in cluster.step_processes(NODE):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
        with open(f"/proc/{pid}/environ", "rb") as file:
            own = f"SLURM_JOB_ID={job}".encode() in file.read().split(b"\0")
        if own and b"slurm-step" in words:
            return pid
    raise AssertionError(f"job {job} has no step")


def test_a_job_runs_in_its_step_with_its_arguments_on_the_gpu_that_the_daemon_gives(
    cluster: Cluster, home: DaemonHome
) -> None:
    place = cluster.work / "args.sh"
    body = 'echo "$CUDA_VISIBLE_DEVICES $SLURM_JOB_ID $RADRM_ATTEMPT [$1] [$2]"; exit 3'
    place.write_text(through_radrm(body, "--gpu-memory=4G"))
    words = "--parsable", *HERE, f"--output={cluster.work}/%A.out", str(place), "--lr", "a b"
    job = int(cluster.run("sbatch", *words).stdout)
    assert cluster.wait(job) == ("FAILED", "3:0")
    document = ended(home, job)
    uuid = document["devices"][0]
    assert cluster.output(job) == f"{uuid} {job} 1 [--lr] [a b]\n"
    assert (document["state"], document["exit_code"]) == ("FAILED", 3)
    said = wait_until(lambda: cluster.scontrol("-o", "show", "job", str(job)), "the job")
    assert said and "AdminComment=radrm:gpu_s=" in said


def test_a_signal_that_kills_the_job_is_what_slurm_sees(cluster: Cluster, home: DaemonHome) -> None:
    job = submit(cluster, "kill -9 $$")
    assert cluster.wait(job) == ("FAILED", "0:9")
    assert ended(home, job)["exit_code"] == 137


def test_after_out_of_memory_the_step_runs_the_next_attempt(
    cluster: Cluster, home: DaemonHome
) -> None:
    died = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    job = submit(
        cluster, f'if [ $RADRM_ATTEMPT = 1 ]; then echo "{died}" >&2; exit 1; fi\necho second'
    )
    assert cluster.wait(job) == ("COMPLETED", "0:0")
    assert cluster.output(job).splitlines() == [died, "second"]
    document = ended(home, job)
    assert (document["attempts"], document["oom_count"]) == (2, 1)


def test_scancel_ends_a_running_job_as_cancelled(cluster: Cluster, home: DaemonHome) -> None:
    job = submit(cluster, UP, "--retries=2", "--requeue")
    runs(home, job)
    cluster.run("scancel", str(job))
    document = ended(home, job)
    assert (document["state"], document["attempts"]) == ("CANCELLED", 1)
    assert document["reason"] == f"Slurm has cancelled job {job}"
    assert cluster.wait(job)[0] == "CANCELLED"


def test_scancel_ends_a_waiting_job(cluster: Cluster, home: DaemonHome) -> None:
    alone = submit(cluster, UP, "--gpus=2", "--collocation=exclusive")
    runs(home, alone)
    waits = submit(cluster, "echo never", "--gpus=2")
    wait_until(lambda: job_of(home, waits), "it to wait")
    cluster.run("scancel", str(waits))
    document = ended(home, waits)
    assert (document["state"], document["started_at"]) == ("CANCELLED", None)
    cluster.run("scancel", str(alone))
    assert cluster.wait(waits)[0] == "CANCELLED"


def test_a_waiting_job_that_slurm_suspends_gets_no_gpu(cluster: Cluster, home: DaemonHome) -> None:
    taken = submit(cluster, UP, "--gpus=2", "--collocation=exclusive")
    runs(home, taken)
    waiting = submit(cluster, "sleep 600")
    wait_until(lambda: job_of(home, waiting), "it to wait")
    cluster.scontrol("suspend", str(waiting))
    step = step_of(cluster, waiting)
    wait_until(lambda: "State:\tT" in Path(f"/proc/{step}/status").read_text(), "its stop")
    cluster.run("scancel", str(taken))
    assert cluster.wait(submit(cluster, "true"))[0] == "COMPLETED"
    document = job_of(home, waiting)
    assert (document["state"], document["attempts"]) == ("PENDING", 0)
    cluster.scontrol("resume", str(waiting))
    runs(home, waiting)
    cluster.run("scancel", str(waiting))


def test_a_requeue_by_slurm_ends_this_run_for_good(cluster: Cluster, home: DaemonHome) -> None:
    job = submit(cluster, UP, "--requeue")
    runs(home, job)
    cluster.scontrol("requeue", str(job))
    document = ended(home, job)
    assert document["state"] == "CANCELLED" and "runs job" in document["reason"]
    assert cluster.wait_state(job, "PENDING")["Restarts"] == "1"
    cluster.run("scancel", str(job))


def test_without_its_step_a_job_is_lost_and_nothing_of_it_runs(
    cluster: Cluster, home: DaemonHome
) -> None:
    noted = cluster.work / "lost.pid"
    job = submit(cluster, f"echo $$ > {noted}\n{UP}", "--requeue")
    runs(home, job)
    pid = int(wait_until(lambda: noted.exists() and noted.read_text().strip(), "its pid"))
    os.kill(step_of(cluster, job), signal.SIGKILL)
    document = ended(home, job)
    assert (document["state"], document["outcome"]) == ("FAILED", "lost")
    left = read_stat(pid)
    assert document["attempts"] == 1 and (left is None or left.dead)
    assert cluster.wait(job) == ("FAILED", "0:9")


def test_jobs_run_on_and_end_rightly_while_the_daemon_is_dead(
    cluster: Cluster, home: DaemonHome
) -> None:
    after = submit(cluster, f"echo up; until [ -e {cluster.work}/go ]; do sleep 0.05; done; exit 7")
    stops = submit(cluster, UP)
    runs(home, after), runs(home, stops)
    home.kill()
    cluster.run("scancel", str(stops))
    (cluster.work / "go").touch()
    wait_until(lambda: job_of_step_is_over(cluster, stops), "the step to end its job")
    home.start()
    assert cluster.wait(after) == ("FAILED", "7:0")
    assert (ended(home, after)["state"], ended(home, after)["exit_code"]) == ("FAILED", 7)
    assert ended(home, stops)["state"] == "CANCELLED"


def job_of_step_is_over(cluster: Cluster, job: int) -> bool:
    return cluster.job(job)["JobState"] == "CANCELLED"


def test_an_attempt_that_a_dying_daemon_has_handed_over_runs_once(
    cluster: Cluster, home: DaemonHome, watched: Path
) -> None:
    (watched / "shot").touch()
    job = submit(cluster, f"echo run >> {cluster.work}/handed; exit 4")
    process = home.process
    assert process is not None
    wait_until(lambda: process.poll() is not None, "the daemon to die")
    assert (process.returncode, (watched / "fired").exists()) == (-signal.SIGKILL, True)
    home.start()
    assert cluster.wait(job) == ("FAILED", "4:0")
    document = ended(home, job)
    assert (document["state"], document["exit_code"]) == ("FAILED", 4)
    assert (cluster.work / "handed").read_text() == "run\n"


def test_a_job_runs_on_and_ends_rightly_while_slurmd_is_dead(
    cluster: Cluster, home: DaemonHome
) -> None:
    body = f"until [ -e {cluster.work}/free ]; do sleep 0.05; done; exit $((5 + RADRM_ATTEMPT))"
    job = submit(cluster, body, "--retries=1")
    runs(home, job)
    cluster.kill_slurmd(NODE)
    (cluster.work / "free").touch()
    document = ended(home, job)
    assert (document["state"], document["attempts"], document["exit_code"]) == ("FAILED", 2, 7)
    cluster.start_slurmd(NODE)
    assert cluster.wait(job) == ("FAILED", "7:0")


def test_what_srun_starts_in_a_job_is_a_part_of_it(cluster: Cluster, home: DaemonHome) -> None:
    simjob = "radrm-simjob --gpu-memory 3G --seconds 60000 --print-every 1"
    job = submit(cluster, f"srun {simjob}", "--smact=0.1")
    (uuid,) = runs(home, job)["devices"]

    def memory() -> tuple[int, int]:
        (gpu,) = [each for each in home.json("gpus") if each["uuid"] == uuid]
        return gpu["used_mib"], gpu["unmanaged_mib"]

    wait_until(lambda: memory() == (3072, 0), "its memory to be the job's")
    home.radrm("cancel", str(runs(home, job)["id"]))
    assert ended(home, job)["peak_mib"] == 3072
    assert cluster.wait(job)[0] == "FAILED"


def test_a_second_step_of_a_slurm_job_is_refused_in_one_line(
    cluster: Cluster, home: DaemonHome
) -> None:
    script = cluster.work / "once.sh"
    script.write_text("#!/bin/sh\necho $RADRM_JOB_ID\n")
    job = cluster.sbatch("radrm slurm-step once.sh && radrm slurm-step once.sh", *HERE)
    assert cluster.wait(job) == ("FAILED", "1:0")
    number, said = cluster.output(job).splitlines()
    assert number == str(ended(home, job)["id"])
    assert f"Slurm job {job} has had a job here already, job {number} (COMPLETED)" in said


def test_a_signal_to_the_batch_script_reaches_the_job(cluster: Cluster, home: DaemonHome) -> None:
    job = submit(cluster, f"trap 'echo got it; exit 5' USR1\n{UP}")
    runs(home, job)
    wait_until(lambda: "up" in cluster.output(job), "its trap")
    cluster.run("scancel", "-b", "-s", "USR1", str(job))
    assert cluster.wait(job) == ("FAILED", "5:0")
    assert "got it" in cluster.output(job)


def test_outside_a_slurm_job_it_says_how_to_submit(home: DaemonHome) -> None:
    done = home.radrm("slurm-step", "job.sh")
    assert done.returncode == 2 and "sbatch -p PARTITION FILE" in done.stderr
