"""What `radrm doctor` says of folders of job files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radrm.host.health.places import job_files
from radrm.host.storage.paths import Paths
from tests.host.health.judging import judged


def test_the_folder_of_job_files_is_named_with_what_was_refused(tmp_path: Path) -> None:
    paths, me = Paths(str(tmp_path), str(tmp_path / "run")), os.getuid()
    judged(job_files(paths, False, me), "ok", "radrm spool")
    refused = tmp_path / "spool" / "refused"
    refused.mkdir(parents=True)
    judged(job_files(paths, False, me), "ok", f"{paths.spool} becomes a job")
    waiting = tmp_path / "spool" / "a.rad"
    waiting.write_text("")
    later_s = waiting.stat().st_ctime + 61
    judged(job_files(paths, False, me, later_s - 2), "ok", "becomes a job")
    judged(job_files(paths, False, me, later_s), "warn", "1 in")
    for ticket, reason in (("A", "an old reason"), ("B", "the last reason\nand more")):
        (refused / f"{ticket}.a.rad").write_text("")
        (refused / f"{ticket}.a.rad.txt").write_text(reason)
    found = job_files(paths, False, me)
    judged(found, "warn", f"2 refused in {refused}, the last: B.a.rad: the last reason")
    assert "\n" not in found.finding and "and more" not in found.finding
    judged(job_files(paths, False, me + 1), "fail", f"belongs to user {me}")


def test_a_reason_that_is_a_fifo_or_a_link_does_not_hold_doctor_up(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path), str(tmp_path / "run"))
    refused = tmp_path / "spool" / "refused"
    refused.mkdir(parents=True)
    os.mkfifo(refused / "A.a.rad.txt")
    judged(job_files(paths, False, os.getuid()), "warn", "1 refused")
    (refused / "B.a.rad.txt").symlink_to("/etc/hostname")
    judged(job_files(paths, False, os.getuid()), "warn", "the reason cannot be read")


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
def test_a_squatted_folder_of_users_is_reported(tmp_path: Path) -> None:
    paths = Paths(str(tmp_path), str(tmp_path / "run"))
    users = tmp_path / "spool" / "users"
    (users / "7").mkdir(parents=True)
    users.chmod(0o711)
    judged(job_files(paths, True, 7), "fail", "belongs to user 0 and should be user 7's")
    os.chown(users / "7", 7, 7)
    judged(job_files(paths, True, 7), "ok", f"{users}/7 becomes a job")
    os.chown(users, 1000, 1000)
    judged(job_files(paths, True, 7), "fail", "was not made by radrm (user 1000)")
