"""File systems that a user mounts in radrm's folders do not affect other users."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from radrm.host.storage.tickets import new_ticket
from tests.daemon.harness import DaemonHome
from tests.standins.mounted import mounted, requires_mounts
from tests.waiting import wait_until


@pytest.mark.daemon
@pytest.mark.parametrize("silent", [True, False])
def test_a_mount_in_the_spool_or_over_checkpoints_harms_no_other_job(
    home: DaemonHome, silent: bool
) -> None:
    requires_mounts()
    home.start()
    spool = home.folder / "home" / "spool"
    folder, file = (spool / f"{new_ticket()}.job" for _ in range(2))
    draft = spool / f".{new_ticket()}"
    folder.mkdir()
    for made in (file, draft):
        made.touch(0o600)
    os.utime(draft, (0, 0))
    with ExitStack() as mounts:
        for path in (folder, file, draft):
            mounts.enter_context(mounted(path, silent))
        script = "until test -e go; do sleep 0.05; done"
        first = home.submit("--gpu-memory=1G", "--", "sh", "-c", script)
        home.wait_state(first, "RUNNING")
        mounts.enter_context(mounted(home.folder / "home" / "checkpoints" / str(first), silent))
        home.kill()
        home.start()
        (home.work / "go").touch()
        second = home.submit("--gpu-memory=1G", "--", "true")
        for job in (first, second):
            assert home.wait_end(job)["state"] == "COMPLETED"
        home.stop()
        home.start()
        assert home.wait_end(home.submit("--gpu-memory=1G", "--", "true"))["state"] == "COMPLETED"
    wait_until(lambda: not home.ask("page", limit=1)["total"], "the jobs' end")
