"""Fixtures for tests of attempts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm.host.attempts import folder as attempts
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
