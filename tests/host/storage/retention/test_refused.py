"""Refused files: any user can make any number of them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from radrm.host.storage.retention import refused
from radrm.host.storage.tickets import new_ticket

DAY_S = 86400.0


def ticket_of(wall_s: float, monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as patched:
        patched.setattr("radrm.host.storage.tickets.wall_s", lambda: wall_s)
        patched.setattr("radrm.host.storage.tickets._last", 0)
        return new_ticket()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Twenty refused files, the oldest first."""
    (tmp_path / "refused").mkdir(mode=0o700)
    found = [
        tmp_path / "refused" / f"{ticket_of(days * DAY_S, monkeypatch)}.job"
        for days in range(1, 21)
    ]
    for file in found:
        file.write_bytes(b"x" * 200_000)
    return found


def left(files: list[Path]) -> list[Path]:
    return [file for file in files if file.exists()]


def size_of(files: list[Path]) -> int:
    return sum(512 * file.stat().st_blocks for file in files)


def test_a_flood_of_refused_files_goes_in_pieces_the_oldest_first(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused, "MOST_HELD", 8)
    most = size_of(files[:4])
    for kept in (12, 4, 4):
        pieces = refused.remove_old(str(files[0].parent), 0.0, most, lambda: True)
        assert len(list(pieces)) >= kept, "one file a piece"
        assert left(files) == files[-kept:]


def test_a_start_removes_what_is_too_much_and_a_flood_is_met_at_once(files: list[Path]) -> None:
    came, at_s = 0, 0.0
    most = size_of(files[:8])
    kept = refused.RefusedFiles(str(files[0].parent), most, lambda: came, lambda: at_s)
    kept.finish()
    assert left(files) == files[-8:] and math.isinf(kept.due_in_s)
    for file in files[:4]:
        file.write_bytes(b"x" * 200_000)
    came += most // 4
    kept.work()
    assert len(left(files)) == 12 and math.isinf(kept.due_in_s), "not so many that it matters"
    came += 1
    kept.work()
    while not math.isinf(kept.due_in_s):
        at_s += kept.due_in_s
        kept.work()
    assert left(files) == files[-8:]


def test_a_folder_that_cannot_be_looked_into_stops_no_start(tmp_path: Path) -> None:
    (tmp_path / "refused").symlink_to(tmp_path)
    (tmp_path / f"{new_ticket()}.job").touch()
    refused.RefusedFiles(str(tmp_path / "refused"), 0, int).finish()
    assert len(list(tmp_path.iterdir())) == 2
