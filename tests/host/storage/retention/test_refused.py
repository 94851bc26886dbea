"""Refused files: any user can make any number of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.host.storage.retention import refused
from radrm.host.storage.tickets import new_ticket

DAY_S = 86400.0


def ticket_of(wall_s: float, monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as patched:
        patched.setattr("time.time", lambda: wall_s)
        patched.setattr("radrm.host.storage.tickets._last", 0)
        return new_ticket()


def test_a_flood_of_refused_files_goes_in_pieces_the_oldest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused, "MOST_HELD", 8)
    (tmp_path / "refused").mkdir(mode=0o700)
    files = [
        tmp_path / "refused" / f"{ticket_of(days * DAY_S, monkeypatch)}.job"
        for days in range(1, 21)
    ]
    for file in files:
        file.write_bytes(b"x" * 200_000)
    most = 4 * 512 * files[0].stat().st_blocks
    for left in (12, 4, 4):
        pieces = refused.remove_old(str(tmp_path / "refused"), 0.0, most, lambda: True)
        assert len(list(pieces)) >= left, "one file a piece"
        assert sorted((tmp_path / "refused").iterdir()) == files[-left:]
