"""A server with a radrm for all its users: nobody splits it unasked; users learn whom to ask."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radrm.client.connection import Client, find_spool
from radrm.client.starting import not_reached
from radrm.errors import Unreachable, UsageError
from radrm.host.health.checks import ask_daemons
from radrm.host.health.checks import daemon as daemon_finding
from radrm.host.sockets import listen
from radrm.host.storage import paths
from radrm.host.storage.paths import Paths, client_paths, prepare, refuse_second

ANN = 1000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a user; the server has no radrm yet."""
    monkeypatch.setattr(paths, "_SYSTEM_STATE", str(tmp_path / "lib"))
    monkeypatch.setattr(paths, "_SYSTEM_RUN", str(tmp_path / "run"))
    units = "etc/radrmd.service", "usr/radrmd.service"
    monkeypatch.setattr(paths, "SYSTEM_UNITS", tuple(str(tmp_path / unit) for unit in units))
    for name in ("lib", "run", "etc", "usr"):  # these stay when the server's is uninstalled
        (tmp_path / name).mkdir()
    return {"HOME": str(tmp_path / "ann")}


@pytest.fixture
def installed(home: dict[str, str], tmp_path: Path) -> Paths:
    (tmp_path / "usr" / "radrmd.service").touch()
    return Paths(str(tmp_path / "lib"), str(tmp_path / "run"))


def test_without_a_radrm_of_the_server_users_start_one(home: dict[str, str]) -> None:
    refuse_second(home, ANN, private=False)
    assert str(not_reached(client_paths(home, ANN))).endswith("start one: radrm daemon")


def test_after_an_uninstallation_jobs_wait_for_the_users_own_daemon(
    home: dict[str, str], tmp_path: Path
) -> None:
    places = client_paths(home, ANN)
    (tmp_path / "lib" / "spool").mkdir()
    (tmp_path / "etc" / "radrmd.service").symlink_to(os.devnull)  # as Debian masks a removed unit
    assert find_spool(Client(places)) == (places[0], False)


def test_a_daemon_that_root_runs_by_hand_is_the_servers(
    home: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen(tmp_path / "run" / "radrm.sock").close()  # killed, it leaves its socket
    with pytest.raises(UsageError, match="--private"):
        refuse_second(home, ANN, private=False)
    monkeypatch.setattr(os, "geteuid", lambda: ANN)
    said = str(not_reached(client_paths(home, ANN)))
    assert "administrator" in said and "systemctl" not in said
    (tmp_path / "lib" / "spool").mkdir()
    assert find_spool(Client(client_paths(home, ANN)))[0].state == str(tmp_path / "lib")


@pytest.mark.usefixtures("installed")
def test_a_second_daemon_is_started_only_by_who_means_it(home: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"radrm daemon --private --gpus sim:1xA100-40GB$"):
        refuse_second(home, ANN, False, "radrm daemon --private --gpus sim:1xA100-40GB")
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
