"""A service of one user's own: its unit, its commands, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radrm.errors import Refused, UsageError
from radrm.host.service import steps
from radrm.host.service.files import UNIT
from tests.cli.runner import Ran, invoke


class Desk:
    """A user with a systemd, below a folder."""

    def __init__(self, folder: Path) -> None:
        self.unit = folder / "config" / "systemd" / "user" / UNIT
        self.ran: list[str] = []
        self.code = 0

    def radrm(self, *words: str) -> Ran:
        return invoke(*words)

    def error(self, *words: str) -> str:
        error = self.radrm(*words).exception
        assert isinstance(error, (Refused, UsageError)), error
        return str(error)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    found = Desk(tmp_path)
    (tmp_path / "run" / "systemd").mkdir(parents=True)
    (tmp_path / "run" / "systemd" / "private").touch()

    def run(command: list[str]) -> int:
        found.ran.append(" ".join(command))
        return found.code

    monkeypatch.setattr(steps.run_all, "__defaults__", (run,))
    monkeypatch.setattr("radrm.cli.commands.service.os.geteuid", lambda: 1000)
    monkeypatch.setattr("radrm.cli.commands.service._lingers", lambda: False)
    unit = str(tmp_path / "server.service")
    monkeypatch.setattr("radrm.host.storage.paths.SYSTEM_UNITS", (unit,))
    monkeypatch.setattr("radrm.host.storage.paths._SYSTEM_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return found


def test_the_status_shows_the_unit_and_ends_as_the_service_is(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str]) -> int:
        asked.append(command)
        return desk.code

    monkeypatch.setattr("radrm.cli.commands.service.run", run)
    assert f"write   {desk.unit}" in desk.radrm("service", "status", "--user").stdout
    desk.radrm("service", "install", "--user")
    desk.code = 3
    done = desk.radrm("service", "status", "--user")
    assert (done.exit_code, done.stdout) == (1, f"same    {desk.unit}\n")
    assert asked[-1] == ["systemctl", "--user", "--no-pager", "--lines=0", "status", UNIT]


def test_a_service_of_ones_own_beside_that_of_the_server_is_asked_for(
    desk: Desk, tmp_path: Path
) -> None:
    (tmp_path / "server.service").touch()
    said = desk.error("service", "install", "--user", "--gpus", "sim:2xA100-40GB")
    assert said.endswith("radrm service install --user --private --gpus sim:2xA100-40GB")
    assert desk.ran == []
    assert desk.radrm("service", "install", "--user", "--private").exit_code == 0
    assert desk.radrm("service", "remove", "--user").exit_code == 0
    assert "--private goes with --user" in desk.error("service", "install", "--private")


def test_the_daemon_of_the_unit_is_private(desk: Desk) -> None:
    """Also if the server gets a radrm for all users only later."""
    assert desk.radrm("service", "install", "--user").exit_code == 0
    assert "/radrmd --private\n" in desk.unit.read_text()


def test_install_again_and_uninstall(desk: Desk) -> None:
    done = desk.radrm("service", "install", "--user")
    assert done.exit_code == 0, done.stdout
    assert f"write   {desk.unit}" in done.stdout and "loginctl enable-linger" in done.stdout
    assert "ExecStart=/" in desk.unit.read_text()
    begun = ["systemctl --user daemon-reload", f"systemctl --user enable --now {UNIT}"]
    assert desk.ran == begun
    assert f"same    {desk.unit}" in desk.radrm("service", "install", "--user").stdout
    desk.ran.clear()
    assert "Running jobs go on" in desk.radrm("service", "remove", "--user").stdout
    assert not desk.unit.exists()
    ended = [f"systemctl --user disable --now {UNIT}", "systemctl --user daemon-reload"]
    assert desk.ran == ended


def test_a_dry_run_changes_nothing(desk: Desk) -> None:
    assert (
        "run     systemctl --user" in desk.radrm("service", "install", "--user", "--dry-run").stdout
    )
    assert not desk.unit.exists() and not desk.ran


def test_simulated_gpus_stand_in_the_unit(desk: Desk) -> None:
    assert desk.radrm("service", "install", "--user", "--gpus", "sim:2xA100-40GB").exit_code == 0
    assert "/radrmd --private --gpus sim:2xA100-40GB\n" in desk.unit.read_text()
    for wrong in ("0,1", "sim:x y", "sim:a%h", "sim:a\nExecStart=/bin/sh"):
        assert "is not sim:SPEC" in desk.error("service", "install", "--user", "--gpus", wrong)


def test_a_unit_that_was_changed_stays(desk: Desk) -> None:
    desk.unit.parent.mkdir(parents=True)
    desk.unit.write_text("[Service]\nExecStart=/mine\n")
    assert "systemctl --user edit radrmd" in desk.error("service", "install", "--user")
    assert "rm " in desk.radrm("service", "remove", "--user").stdout
    assert desk.unit.read_text().endswith("/mine\n") and not desk.ran
    assert desk.radrm("service", "install", "--user", "--replace").exit_code == 0
    assert "/mine" not in desk.unit.read_text()


def test_a_command_that_fails_names_the_user_s_own_journal(desk: Desk) -> None:
    desk.code = 1
    assert f"journalctl --user -u {UNIT}" in desk.error("service", "install", "--user")


def test_what_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "exclude each other" in desk.error("service", "install", "--user", "--root", "/x")
    assert "--gpus goes with --user" in desk.error(
        "service", "install", "--gpus", "sim:1xA100-40GB"
    )
    os.unlink(Path(os.environ["XDG_RUNTIME_DIR"], "systemd", "private"))
    assert "no systemd runs for you" in desk.error("service", "install", "--user")
    monkeypatch.setattr("radrm.cli.commands.service.os.geteuid", lambda: 0)
    assert "root's daemon serves the whole server" in desk.error("service", "install", "--user")
