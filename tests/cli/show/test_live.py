"""The live picture of `radrm status --follow`: it fits, and keys move it."""

from __future__ import annotations

import os
import pty
import termios

import pytest

from radrm.cli.show.live import Keys, picture, rows_for_jobs, scrolled
from tests.cli.fakes import gpu, job, page, shown


@pytest.mark.parametrize("height", [12, 24, 50])
@pytest.mark.parametrize("devices", [1, 4, 8, 16])
@pytest.mark.parametrize("jobs", [0, 3, 200])
def test_the_picture_fits_the_screen(height: int, devices: int, jobs: int) -> None:
    room = rows_for_jobs(height, devices)
    there = [job(i, reason="x" * 300) for i in range(min(jobs, room))]
    found = page(there, jobs)
    lines = shown(picture(found, [gpu(i) for i in range(devices)], height), 80)
    assert len(lines) <= height and max(map(len, lines)) <= 80
    more = f"... and {jobs - len(there)} more; arrows scroll, q quits"
    assert (more in lines) == (jobs > len(there)) and lines[-1].endswith("q quits")
    assert sum(line.lstrip().startswith("0  A100") for line in lines) == 1


@pytest.mark.parametrize(
    ("typed", "first", "expected"),
    [
        ([], 7, 7),
        ([b"j", b"\x1b[B", b"k"], 0, 1),
        ([b"k", b"\x1b[A"], 1, 0),
        ([b"\x1b[6~"], 0, 9),
        ([b" ", b"f", b"b"], 5, 14),
        ([b"G"], 0, 90),
        ([b"G", b"j"], 0, 90),
        ([b"g"], 50, 0),
        ([b"\x1b[F", b"\x1b[H"], 50, 0),
        ([b"x", b"\x1b[5~"], 3, 0),
        ([b"j"], 95, 90),
    ],
)
def test_keys_scroll(typed: list[bytes], first: int, expected: int) -> None:
    assert scrolled(first, typed, room=10, total=100) == expected
    assert scrolled(0, typed, room=10, total=3) == 0


def test_keys_are_read_one_by_one_and_the_terminal_is_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    with open(slave, "rb", buffering=0) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        with Keys() as keys:
            assert not termios.tcgetattr(slave)[3] & termios.ICANON
            os.write(master, b"j\x1b[6~q")
            assert keys.typed(30) == [b"j", b"\x1b[6~", b"q"]
            assert keys.typed(0) == []
        assert termios.tcgetattr(slave) == before
    os.close(master)
