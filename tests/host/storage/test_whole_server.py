"""A server with a radrm for all its users: nobody splits it unasked; users learn whom to ask."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radrm.client.connection import Client, find_spool
from radrm.client.starting import not_reached
from radrm.errors import Unreachable, UsageError
from radrm.host.health.daemon import ask_daemons
from radrm.host.health.daemon import daemon as daemon_finding
from radrm.host.storage import paths
from radrm.host.storage.paths import Paths, client_paths, prepare, refuse_second

ANN = 1000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a user; the server has no radrm yet."""
    monkeypatch.setattr(paths, "_SYSTEM_STATE", str(tmp_path / "lib"))
    monkeypatch.setattr(paths, "_SYSTEM_RUN", str(tmp_path / "run"))
    return {"HOME": str(tmp_path / "ann")}


@pytest.fixture
def installed(home: dict[str, str], tmp_path: Path) -> Paths:
    (tmp_path / "lib").mkdir()
    return Paths(str(tmp_path / "lib"), str(tmp_path / "run"))


def test_without_a_radrm_of_the_server_users_start_one(home: dict[str, str]) -> None:
    refuse_second(home, ANN, private=False)
    assert str(not_reached(client_paths(home, ANN))).endswith("start one: radrm daemon")


@pytest.mark.usefixtures("installed")
def test_a_second_daemon_is_started_only_by_who_means_it(home: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="--private"):
        refuse_second(home, ANN, private=False)
    refuse_second(home, ANN, private=True)
    refuse_second({**home, "RADRM_HOME": "/elsewhere"}, ANN, private=False)
    refuse_second({}, 0, private=False)  # this is the server's own


@pytest.mark.usefixtures("installed")
def test_users_are_told_whom_to_ask(home: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: ANN)
    said = str(not_reached(client_paths(home, ANN)))
    assert "administrator" in said and "radrm daemon" not in said
    found = daemon_finding(ask_daemons(client_paths(home, ANN)))
    assert found.next_step and "administrator" in found.next_step
    elsewhere = client_paths({**home, "RADRM_HOME": "/elsewhere"}, ANN)
    assert str(not_reached(elsewhere)).endswith("start one: radrm daemon")


def test_jobs_wait_for_the_servers_daemon_also_of_a_user_who_had_one(
    home: dict[str, str], installed: Paths
) -> None:
    places = client_paths(home, ANN)
    own = places[0]
    prepare(own, False)
    Path(own.database).touch()
    with pytest.raises(Unreachable, match="server's radrm is not running"):
        find_spool(Client(places))  # its daemon has never run: a job would wait for nobody
    os.mkdir(installed.spool)
    assert find_spool(Client(places)) == (installed, False)
