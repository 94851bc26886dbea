"""Whose groups a submission's jobs get."""

from __future__ import annotations

import grp
import os
import pwd

import pytest

from radrm.daemon.intake.envelopes import group_of

ROOT = pwd.getpwnam("root")
FOREIGN = max(each.gr_gid for each in grp.getgrall() if each.gr_gid < 65534)


def test_a_group_that_a_file_has_from_its_folder_is_no_jobs_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert group_of(0, ROOT.pw_gid) == ROOT.pw_gid
    assert FOREIGN not in os.getgrouplist("root", ROOT.pw_gid)
    assert group_of(0, FOREIGN) == ROOT.pw_gid

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert group_of(4711, FOREIGN) == 65534, "as while a directory service does not answer"
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert group_of(4711, 4711) == 4711, "the daemon's own user"
