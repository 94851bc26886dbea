"""What radrm under Slurm rests on: a counted `gpumem`, exit codes, and who gets which signal."""

from __future__ import annotations

import pytest

from tests.slurm.cluster import Cluster
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon


def test_a_job_runs_where_its_gpu_memory_fits(cluster: Cluster) -> None:
    whole = cluster.sbatch("sleep 60", "--gres=gpumem:80000")
    first = cluster.wait_state(whole, "RUNNING")["BatchHost"]
    job = cluster.sbatch('echo "on $SLURMD_NODENAME"; exit 3', "--gres=gpumem:5000")
    assert cluster.wait(job) == ("FAILED", "3:0")
    assert cluster.output(job) in {f"on {node}\n" for node in cluster.nodes if node != first}
    cluster.run("scancel", str(whole))
    assert cluster.wait(whole)[0] == "CANCELLED"


def test_more_gpu_memory_than_a_node_has_is_refused(cluster: Cluster) -> None:
    done = cluster.submit("true", "--gres=gpumem:81921")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Requested node configuration is not available" in done.stderr


def test_the_completion_log_has_a_line_per_job(cluster: Cluster) -> None:
    job = cluster.sbatch("exit 5", "--gres=gpumem:5000", "--job-name=five", user="nobody")
    cluster.wait(job)
    (line,) = (row for row in cluster.completions() if row["JobId"] == str(job))
    assert line["UserId"] == "nobody(65534)"
    assert (line["Name"], line["JobState"], line["ExitCode"]) == ("five", "FAILED", "5:0")


def test_a_job_runs_on_without_its_controller(cluster: Cluster) -> None:
    job = cluster.sbatch("sleep 60", "--gres=gpumem:5000")
    node = cluster.wait_state(job, "RUNNING")["BatchHost"]
    cluster.stop_slurmctld()
    assert cluster.step_processes(node)
    cluster.start_slurmctld()
    assert cluster.job(job)["JobState"] == "RUNNING"
    cluster.run("scancel", str(job))
    assert cluster.wait(job)[0] == "CANCELLED"
    wait_until(lambda: not cluster.step_processes(node), "the end of the step")
