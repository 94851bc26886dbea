"""`radrm init`: what it asks, shows and writes, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from radrm.cli.app import make_app
from radrm.cli.commands import init as module
from radrm.config import GOALS, parse_config
from radrm.errors import DeviceError, UsageError


class Desk:
    """A user's home, and what was installed as a service."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.config = home / ".config" / "radrm" / "radrm.toml"
        self.rc = home / ".bashrc"
        self.gpus: list[str] = []
        self.services: list[tuple[str | None, bool]] = []

    def init(self, *words: str, typed: str | None = None) -> Result:
        done = CliRunner().invoke(make_app("init"), ["init", *words], input=typed)
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    found = Desk(tmp_path)

    def open_gpus(_: object) -> SimpleNamespace:
        if not found.gpus:
            raise DeviceError("the NVIDIA driver is not installed")
        devices = [SimpleNamespace(index=i, name=name) for i, name in enumerate(found.gpus)]
        return SimpleNamespace(devices=lambda: devices)

    for name in ("RADRM_CONFIG", "RADRM_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setattr(module.os, "getuid", lambda: 1000)
    monkeypatch.setattr(module, "open_gpus", open_gpus)
    monkeypatch.setattr(module, "_radrm", lambda: "radrm")
    monkeypatch.setattr(module, "_is_served", lambda: False)
    monkeypatch.setattr(module, "_may_serve", lambda: True)
    monkeypatch.setattr(module, "on_terminal", lambda: True)
    monkeypatch.setattr(module, "install_own", lambda *words: found.services.append(words))
    return found


def test_defaults_on_a_machine_with_gpus(desk: Desk) -> None:
    desk.gpus = ["NVIDIA A100"]
    said = desk.init("--yes").stdout
    assert parse_config(desk.config.read_text(), "written").goal == "sharing"
    assert desk.rc.read_text().count("radrm completion bash") == 1
    assert desk.services == [(None, False)]
    assert said.splitlines()[-1] == "Next: radrm submit --wait -- echo hello"
    for shown in (str(desk.config), 'goal = "sharing"', str(desk.rc), "NVIDIA A100"):
        assert shown in said


def test_four_questions_at_most_and_their_answers(desk: Desk) -> None:
    desk.gpus = ["NVIDIA A100"]
    desk.rc.write_text("alias ll='ls -l'")  # no newline at its end
    done = desk.init(typed="y\nexclusive\nn\ny\n")
    assert done.exit_code == 0, done.output
    assert parse_config(desk.config.read_text(), "written").policy == "exclusive"
    assert desk.rc.read_text().startswith("alias ll='ls -l'\nif command -v radrm")
    assert not desk.services
    assert "Next, start the daemon: radrm daemon &" in done.stdout


def test_simulated_gpus_and_answers_that_are_none(desk: Desk) -> None:
    done = desk.init(typed="sim:nothing\nsim:1xA100-40GB\nspeed\nthroughput\ny\nn\n")
    assert "the NVIDIA driver is not installed" in done.stdout
    assert "'speed' is none of sharing," in done.stdout
    assert parse_config(desk.config.read_text(), "written").goal == "throughput"
    assert desk.services == [("sim:1xA100-40GB", False)] and not desk.rc.exists()


def test_what_is_there_stays(desk: Desk) -> None:
    desk.config.parent.mkdir(parents=True)
    desk.config.write_text('policy = "lug"\n')
    desk.rc.write_text("source <(radrm completion bash)\n")
    said = desk.init("--yes").stdout
    assert "exists, and stays as it is" in said and desk.config.read_text() == 'policy = "lug"\n'
    assert desk.rc.read_text() == "source <(radrm completion bash)\n"
    assert desk.init("--yes").exit_code == 0, "a second run changes nothing"


def test_a_dry_run_writes_nothing(desk: Desk) -> None:
    said = desk.init("--yes", "--dry-run").stdout
    assert str(desk.config) in said and list(desk.home.iterdir()) == []
    assert desk.services == [("sim:2xA100-40GB", True)]


def test_without_a_terminal_it_does_not_ask(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "on_terminal", lambda: False)
    with pytest.raises(UsageError, match="radrm init --yes"):
        desk.init()


def test_a_daemon_that_answers_needs_no_service(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_is_served", lambda: True)
    assert "start the daemon" not in desk.init("--yes").stdout and not desk.services


@pytest.mark.parametrize(
    ("shell", "path"), [("zsh", ".zshrc"), ("fish", ".config/fish/completions/radrm.fish")]
)
def test_other_shells(desk: Desk, monkeypatch: pytest.MonkeyPatch, shell: str, path: str) -> None:
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    desk.init("--yes")
    assert f"radrm completion {shell}" in (desk.home / path).read_text()


def test_every_goal_is_offered() -> None:
    assert set(module._GOALS) == {*GOALS, "exclusive"}
