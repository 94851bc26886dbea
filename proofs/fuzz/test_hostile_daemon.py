"""A few hostile inputs for a real daemon, by each way in; `make fuzz` sends tens of thousands."""

from __future__ import annotations

import os
from random import Random

import pytest

from proofs.fuzz.hostile_daemon import WAYS, Attack
from tests.daemon.harness import DaemonHome


@pytest.mark.daemon
@pytest.mark.parametrize("name", WAYS)
def test_a_daemon_outlives_what_it_is_sent(shared_daemon: DaemonHome, name: str) -> None:
    attack = Attack(shared_daemon, os.geteuid(), Random(name))
    WAYS[name].act(attack, 100 if name == "daemon-requests" else 20)
    attack.look()
    attack.run_honest_job()
    assert not attack.findings
