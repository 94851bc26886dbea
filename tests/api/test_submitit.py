"""The plugin of submitit with a real daemon, as submitit's documentation uses executors."""

from __future__ import annotations

import os
import signal
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("submitit", reason="pip install 'radrm[submitit]'")

import submitit

from radrm.api.submitit_plugin import RadrmExecutor, RadrmJob, _pattern
from radrm.errors import Refused, UsageError
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.daemon,
    pytest.mark.skipif(
        not [each for each in entry_points(group="submitit") if each.value.startswith("radrm.")],
        reason="radrm was installed before it had entry points: pip install -e .",
    ),
]


@pytest.fixture
def executor(found_daemon: DaemonHome) -> Any:
    RadrmJob.watcher.clear()
    executor = submitit.AutoExecutor(folder="log/%j", cluster="radrm")
    executor.update_parameters(timeout_min=600)  # the daemon's time is fast
    return executor


def add(a: int, b: int) -> int:
    print(f"adding {a} and {b}")
    return a + b


def test_a_call_on_a_gpu(executor: Any, found_daemon: DaemonHome) -> None:
    executor.update_parameters(
        timeout_min=400, gpus_per_node=1, cpus_per_task=1, mem_gb=0.5, name="sum",
        slurm_partition="dev", radrm_gpu_memory="2G", radrm_comment="it's 100 %",
        radrm_setup=["export GREETING=hello"],
    )  # fmt: skip
    job = executor.submit(os.getenv, "GREETING")
    assert job.result() == "hello" and job.exception() is None
    document = found_daemon.job(job.job_id)
    assert (document["name"], document["time_limit_s"], document["memory_mib"]) == (
        "sum",
        24000,
        512,
    )
    assert (document["gpus"], document["cpus"], document["comment"]) == (1, 1, "it's 100 %")
    assert document["signal"] == "USR2@90"
    assert job.paths.folder == Path.cwd() / "log" / job.job_id and job.done()


def test_an_array(executor: Any) -> None:
    executor.update_parameters(radrm_array_parallelism=2)
    jobs = executor.map_array(add, [1, 2], [10, 20])
    array = jobs[0].job_id.partition("_")[0]
    assert [job.job_id for job in jobs] == [f"{array}_{i}" for i in range(2)]
    assert [job.result() for job in jobs] == [11, 22]
    assert "adding 2 and 20" in jobs[1].stdout()


@pytest.mark.nightly
def test_failures_and_deaths(executor: Any) -> None:
    failed, killed = executor.submit(add, 1, "b"), executor.submit(os.kill, 0, signal.SIGKILL)
    with pytest.raises(submitit.core.utils.FailedJobError, match="TypeError"):
        failed.result()
    assert "TypeError" in failed.stderr() and failed.state == "FAILED"
    with pytest.raises(submitit.core.utils.UncompletedJobError) as caught:
        killed.result()
    assert str(caught.value).startswith(f"job {killed.job_id} (submitit) FAILED: killed by signal")


def test_cancel(executor: Any) -> None:
    job = executor.submit(time.sleep, 1000)
    job.cancel()
    assert wait_until(lambda: job.done(force_check=True)) and job.state == "CANCELLED"
    with pytest.raises(Refused, match="has ended"):
        job.cancel()
    job.cancel(check=False)


class Saving(submitit.helpers.Checkpointable):
    """Works until something stops it; then it goes on where it was."""

    def __call__(self, stop: str, mark: str, tries: int = 0) -> int:
        self.arguments = stop, mark, tries + 1
        Path(mark).touch()
        if not tries:
            if stop == "signal":
                os.kill(os.getpid(), submitit.JobEnvironment()._usr_sig())
            time.sleep(1000)
        return tries

    def checkpoint(self, *_: Any) -> Any:
        return submitit.helpers.DelayedSubmission(Saving(), *self.arguments)


def test_a_job_that_is_asked_to_save_goes_on(executor: Any, found_daemon: DaemonHome) -> None:
    by_signal = executor.submit(Saving(), "signal", str(found_daemon.work / "one"))
    executor.update_parameters(radrm_checkpoint="exit")
    by_term = executor.submit(Saving(), "term", str(found_daemon.work / "two"))
    wait_until((found_daemon.work / "two").exists)
    found_daemon.ask("requeue", jobs=[by_term.job_id])
    assert (by_signal.result(), by_term.result()) == (1, 1)
    assert by_signal.stdout().count("Starting with JobEnvironment(job_id=") == 2


def second_time(mark: str) -> str:
    if not os.path.exists(mark):
        open(mark, "w").close()
        raise OSError("the first attempt")
    return "the second"


def test_a_failure_that_runs_again_is_no_result(executor: Any, found_daemon: DaemonHome) -> None:
    executor.update_parameters(radrm_retries=1)
    assert executor.submit(second_time, str(found_daemon.work / "mark")).result() == "the second"


def test_what_is_asked_wrongly(
    executor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given, said in (
        ({"radrm_gpu_memory": "much"}, "submitit: --gpu-memory: 'much' is not a size"),
        ({"nodes": 2}, "nodes=2: a job of radrm is one task"),
        ({"timeout_min": 0}, "--time"),
        ({"name": "a\nb"}, "--name"),
    ):
        with pytest.raises(UsageError, match=said):
            executor.update_parameters(**given)
    with pytest.raises(NameError, match="gpu_memry"):
        executor.update_parameters(radrm_gpu_memry="8G")
    with pytest.raises(UsageError, match="unknown parameters partition"):
        RadrmExecutor(tmp_path).update_parameters(partition="dev")
    assert executor.submit(add, 1, 2).result() == 3  # a refused parameter changed nothing
    monkeypatch.setenv("PATH", str(tmp_path))  # submitit takes Slurm first where there is one
    assert submitit.AutoExecutor(folder=tmp_path).cluster == "radrm"


def test_a_folder_of_everybody_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match="everybody can write there"):
        RadrmExecutor(tmp_path).submit(add, 1, 2)


def test_time_limits_of_both_kinds(tmp_path: Path) -> None:
    executor = RadrmExecutor(tmp_path)
    executor.update_parameters(time="2:00:00")
    assert executor.parameters["timeout_min"] == 120
    executor.update_parameters(timeout_min=1)
    text = executor._make_submission_file_text("true", "")
    assert "#RAD --time=60\n" in text and "#RAD --signal=USR2@30\n" in text


def test_folders_with_odd_names() -> None:
    assert _pattern(Path("/a%b/%A/%a/%j_%t"), 2) == "/a%%b/%A/%a/%A_%a_0"
    assert _pattern(Path("/100%/%j_%t"), 0) == "/100%%/%j_0"
