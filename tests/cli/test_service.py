"""The question of `radrm service install`: it is asked once, where somebody can answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.cli.commands import service
from radrm.config import parse_config


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that were asked, and answered with no, on a server that has MPS."""
    found: list[str] = []
    monkeypatch.setattr(service, "on_terminal", lambda: True)
    monkeypatch.setattr(service.shutil, "which", lambda name: f"/usr/bin/{name}")

    def confirm(question: str, default: bool) -> bool:
        found.append(question)
        return default

    monkeypatch.setattr(service.typer, "confirm", confirm)
    return found


def test_it_asks_once_and_the_default_is_no(asked: list[str], tmp_path: Path) -> None:
    for _ in range(2):
        service.ask_for_mps(tmp_path / "etc" / "radrm.toml")
    assert asked == ["Switch MPS on?"]
    assert parse_config((tmp_path / "etc" / "radrm.toml").read_text(), "x").mps.enabled is False


def test_a_yes_switches_it_on(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.typer, "confirm", lambda question, default: True)
    service.ask_for_mps(tmp_path / "etc" / "radrm.toml")
    assert parse_config((tmp_path / "etc" / "radrm.toml").read_text(), "x").mps.enabled is True


@pytest.mark.parametrize("lacks", ["terminal", "mps"])
def test_it_asks_nobody_who_cannot_answer_or_has_no_mps(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    if lacks == "terminal":
        monkeypatch.setattr(service, "on_terminal", lambda: False)
    else:
        monkeypatch.setattr(service.shutil, "which", lambda name: None)
    service.ask_for_mps(tmp_path / "etc" / "radrm.toml")
    assert not asked and not (tmp_path / "etc").exists()
