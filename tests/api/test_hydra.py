"""The launcher of Hydra with a real daemon: an application that knows nothing of radrm."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from importlib.util import find_spec

import pytest

from radrm import JobFailed
from tests.daemon.harness import DaemonHome
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.daemon,
    pytest.mark.skipif(
        not all(map(find_spec, ("hydra", "submitit"))), reason="pip install 'radrm[hydra]'"
    ),
]
APPLICATION = """
import logging, os
import hydra

@hydra.main(version_base=None, config_path=".", config_name="config")
def train(cfg):
    logging.getLogger(__name__).info("lr=%s job=%s", cfg.lr, os.environ.get("RADRM_JOB_ID"))
    if cfg.lr > 1:
        raise ValueError("diverged")
    return cfg.lr

if __name__ == "__main__":
    train()
"""


def sweep(home: DaemonHome, *words: str) -> subprocess.CompletedProcess[str]:
    home.file("config.yaml", "lr: 0.5\n")
    program = str(home.file("app.py", APPLICATION))
    return subprocess.run(
        [sys.executable, program, "-m", "hydra/launcher=radrm", "hydra.sweep.dir=runs", *words],
        cwd=home.work,
        env=home.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.nightly
def test_a_sweep_and_a_job_that_fails(shared_daemon: DaemonHome) -> None:
    done = sweep(
        shared_daemon, "lr=0.1,2", "hydra.launcher.name=lrs", "hydra.launcher.timeout_min=600",
        "hydra.launcher.gpus_per_node=1", "hydra.launcher.gpu_memory=2G",
        "+hydra.launcher.options.comment=hello",
    )  # fmt: skip
    assert done.returncode == 1 and "ValueError: diverged" in done.stderr
    assert "overrides: ['lr=2']" in done.stderr
    jobs = shared_daemon.ask("status", jobs=["lrs"])
    assert [(job["comment"], job["gpus"], job["state"]) for job in jobs] == [
        ("hello", 1, "COMPLETED"),
        ("hello", 1, "COMPLETED"),
    ]
    log = (shared_daemon.work / "runs" / "0" / "app.log").read_text()
    assert f"lr=0.1 job={jobs[0]['id']}" in log
    assert "lr: 0.1" in (shared_daemon.work / "runs" / "0" / ".hydra" / "config.yaml").read_text()


class TwoArguments(Exception):
    def __init__(self, key: str, value: object) -> None:
        super().__init__(key, value, "bad")


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (TwoArguments("lr", 1), TwoArguments, "('lr', 1, 'bad')"),
        (TwoArguments("lr", threading.Lock()), JobFailed, "the job raised TwoArguments: ('lr'"),
    ],
)
def test_an_exception_reaches_the_sweep_whatever_its_constructor_takes(
    error: Exception, kind: type, text: str
) -> None:
    import cloudpickle
    from hydra.core.utils import JobReturn, JobStatus

    from hydra_plugins.radrm_launcher.launcher import to_raise

    failed = JobReturn(status=JobStatus.FAILED, _return_value=to_raise(error))
    found = pickle.loads(cloudpickle.dumps(failed))
    with pytest.raises(kind) as it:
        _ = found.return_value
    assert str(it.value).startswith(text)
