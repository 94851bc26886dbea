"""Fixtures for tests of attempts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.host.attempts import folder as attempts
from radrm.host.processes import cgroups
from radrm.host.processes.controllers import Controllers, prepare
from radrm.host.processes.tree import kill_tree
from tests.host.attempts.host import Host, remove_group
from tests.waiting import wait_until


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    wait_until(lambda: not kill_tree(host.token, None))
    if host.launchers:
        host.launchers[-1].close()
    for folder in host.state.glob("attempts/*"):
        fields, _ = attempts.read_record(str(folder), attempts.LAUNCH)
        if fields is not None:
            remove_group(fields)


@pytest.fixture
def controllers() -> Controllers:
    """Those of version 1, which leave this process where it is."""
    if None in (cgroups.own_group("cpu"), cgroups.own_group("memory")):
        pytest.skip("this machine has no cpu and memory controller of cgroup v1")
    found = prepare()
    if found.reasons:
        pytest.skip(str(found.reasons))
    return found
