"""A watched folder for tests of looks into it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radrm.host.storage.spool import Envelope, Spool
from radrm.host.watched import taking
from radrm.host.watched.folder import Folder
from radrm.host.watched.login import Login
from radrm.host.watched.taking import Look, Report
from tests.host.storage.envelopes import all_of

SCRIPT = "#!/bin/sh\n#RAD --gpus=0\necho hi\n"
TICKET = "01M80TA4D4JDCEV010A4H87B41"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
no_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may open any file")

LOGIN = Login({"PATH": "/bin", "GREETING": "hello"}, 0o027)


class Place:
    """A watched folder, a home and a spool; and the jobs that a daemon has made of envelopes."""

    def __init__(self, root: Path) -> None:
        self.folder, self.home, self.spool = root / "jobs", root / "home", root / "spool"
        for made in (self.folder, self.home, self.spool):
            made.mkdir(mode=0o700, parents=True)
        self.jobs: dict[str, Envelope] = {}

    def put(self, name: str, text: str = SCRIPT) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def look(
        self, *moved: str, pause: Callable[[float], None] = lambda _: None, **words: Any
    ) -> Report:
        with Folder(str(self.folder)) as folder:
            home = str(words.pop("home", self.home))
            spool = Spool(str(self.spool))
            return Look(folder, spool, home, lambda: LOGIN, moved, pause=pause, **words).run()

    def ingest(self) -> None:
        """As the daemon does: a ticket that is known makes no second job."""
        for arrival in all_of(Spool(str(self.spool))):
            assert arrival.envelope is not None, arrival.wrong
            self.jobs.setdefault(arrival.envelope.ticket, arrival.envelope)
            os.unlink(self.spool / arrival.name)

    def names(self, below: str = "") -> list[str]:
        found = sorted(os.listdir(self.folder / below))
        return [name for name in found if name not in ("done", "refused", ".lock")]

    def reasons(self) -> dict[str, str]:
        """Each refused file, without its ticket, and its reason."""
        files = [name for name in self.names("refused") if not name.endswith(".txt")]
        reasons = [name for name in self.names("refused") if name.endswith(".txt")]
        assert reasons == [f"{name}.txt" for name in files]
        return {name[27:]: (self.folder / "refused" / f"{name}.txt").read_text() for name in files}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(taking, "SETTLE_S", 0.0)
    return Place(tmp_path)
