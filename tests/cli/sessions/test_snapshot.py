"""`--snapshot` against a real daemon: the code as it was submitted, the logs outside."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.daemon.harness import DaemonHome

pytestmark = pytest.mark.daemon


def test_a_waiting_job_runs_the_code_that_was_submitted(shared_daemon: DaemonHome) -> None:
    """A requeue does so too; without its copy it says that it is gone."""
    home = shared_daemon
    home.file("code.sh", "echo first; pwd; echo $RADRM_SUBMIT_DIR")
    job = home.submit("--name=copied", "--hold", "--snapshot", "--", "sh", "code.sh")
    home.file("code.sh", "echo second")
    home.radrm("release", "copied")
    assert home.wait_end(job)["state"] == "COMPLETED"
    said, folder, submitted = home.output(job).splitlines()
    assert said == "first" and submitted == os.path.realpath(home.work)
    assert folder.startswith(str(home.folder / "home" / "snapshots"))
    home.radrm("requeue", "copied")
    again = home.radrm("logs", "-f", "copied")
    assert again.returncode == 0 and again.stdout.startswith("first\n")
    shutil.rmtree(Path(folder).parent)
    home.radrm("requeue", "copied")
    end = home.wait_end(job)
    assert end["state"] == "FAILED"
    assert end["reason"].endswith(
        f"the snapshot of the code is gone: {folder}; submit the job again"
    )


def test_code_that_cannot_be_copied_is_refused_in_one_line(shared_daemon: DaemonHome) -> None:
    done = shared_daemon.radrm("submit", "--snapshot=nowhere", "--", "true")
    assert done.returncode == 1 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "work/nowhere has no files" in done.stderr
