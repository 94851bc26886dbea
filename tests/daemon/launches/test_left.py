"""What a script leaves running: its card names it, or the job lasts as long as that."""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome

pytestmark = pytest.mark.daemon


def test_what_was_left_and_ended_is_on_the_card(guest: DaemonHome) -> None:
    job = guest.submit("--gpus=0", str(guest.file("left.sh", "nohup sleep 1000 >bg.log 2>&1 &\n")))
    end = guest.wait_end(job)
    assert end["state"] == "COMPLETED" and end["left"].startswith("sleep 1000 (pid ")
    for words in (("status", str(job)), ("explain", str(job))):
        said = guest.radrm(*words).stdout
        assert end["left"] in " ".join(said.split()) and "--background=wait" in said


def test_a_job_that_waits_lasts_until_its_last_process_ends(guest: DaemonHome) -> None:
    """Also for a daemon that has started anew: it finds the attempt running, and can cancel it."""
    script = "#RAD --gpus=0 --background=wait\nsleep 1000 & echo $! >ready"
    job = guest.submit(str(guest.file("waits.sh", script)))
    guest.wait_state(job, "RUNNING")
    assert guest.radrm("cancel", str(job)).returncode == 0
    end = guest.wait_end(job)
    assert (end["state"], end.get("left")) == ("CANCELLED", None)
