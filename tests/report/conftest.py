from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.listener import Listener


@pytest.fixture
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    found = Listener(tmp_path_factory.mktemp("l") / "s")
    yield found
    found.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The checkpoint folder of the job."""
    return tmp_path


@pytest.fixture
def in_job(listener: Listener, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Listener:
    """This process looks like a job's."""
    monkeypatch.setenv("RADRM_JOB_ID", "7")
    monkeypatch.setenv("RADRM_PROGRESS", listener.path)
    monkeypatch.setenv("RADRM_CHECKPOINT_DIR", str(folder))
    monkeypatch.delenv("RADRM_CHECKPOINT_SIGNAL", raising=False)
    return listener
