"""The commands find no configuration but their own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("RADRM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RADRM_CONFIG", raising=False)
