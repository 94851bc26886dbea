"""What one needs next: two commands for a situation, and the ten lines of `radrm` alone."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from radrm.cli.show import next as next_
from radrm.cli.show.next import command_lines, commands, overview
from tests.cli.fakes import ESC, NOW, Document, gpu, job, page, shown

FAILED = job(7, "FAILED", exit_code=3)
WAITING = job(9, position=3, expected_start_at=NOW + 1200, latest_start_at=NOW + 2400)
RUNNING = job(8, "RUNNING")


def own(**changed: Any) -> Document:
    found = {"failed": None, "waiting": None, "running": None, "queued": 0, "ended": {}}
    return {**found, "hints": True, **changed}


@pytest.mark.parametrize(
    ("has", "first", "second"),
    [
        ({}, "radrm submit -- python train.py", "radrm gpus"),
        ({"failed": FAILED}, "radrm logs 7", "radrm requeue 7"),
        ({"waiting": WAITING}, "radrm explain 9", "radrm cancel 9"),
        ({"running": RUNNING}, "radrm logs 8 -f", "radrm explain 8"),
        ({"failed": FAILED, "running": RUNNING}, "radrm logs 7", "radrm logs 8 -f"),
        (
            {"failed": FAILED, "waiting": WAITING, "running": RUNNING},
            "radrm logs 7",
            "radrm explain 9",
        ),
        ({"waiting": job(9, held=True)}, "radrm release 9", "radrm explain 9"),
        (
            {"failed": job(7, "FAILED", outcome="oom")},
            "radrm logs 7",
            "radrm requeue 7 --gpu-memory",
        ),
    ],
)
def test_two_commands_for_a_situation(has: Document, first: str, second: str) -> None:
    found = [command for command, _ in commands(own(**has))]
    assert len(found) == 2
    assert found[0].startswith(first) and found[1].startswith(second)


def test_the_server_can_silence_them() -> None:
    assert len(command_lines(own())) == 2
    assert command_lines(own(hints=False)) == []


@pytest.mark.parametrize(
    ("terminal", "said", "wanted"),
    [
        *((True, None, True), (True, "1", True), (True, "0", False), (True, "OFF", False)),
        *((False, None, False), (False, "1", False)),
    ],
)
def test_the_user_can_silence_them(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, said: str | None, wanted: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.delenv("RADRM_HINTS", raising=False)
    if said is not None:
        monkeypatch.setenv("RADRM_HINTS", said)
    assert next_.are_wanted() is wanted


STATES = ("idle", "busy", "others", "drained", "unreadable", "vanished")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_start_of_the_day_has_ten_lines_at_most(width: int) -> None:
    jobs = [job(i, "RUNNING", name=f"{ESC}{'long' * 50}", reason="why " * 99) for i in range(3)]
    waiting = {**WAITING, "label": "123456_789012", "name": ESC * 20}
    devices = [{**gpu(i % 16), "index": i, "state": STATES[i % 6]} for i in range(64)]
    has = own(failed=FAILED, waiting=waiting, queued=10_000, ended={"COMPLETED": 190, "FAILED": 9})
    answer = {**page(jobs, 10_003, RUNNING=3, PENDING=9000, RECOVERING=7), "own": has}
    lines = shown(overview(answer, devices), width)
    assert len(lines) <= 10 and all(len(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines)
    if width >= 80:
        text = "\n".join(lines)
        for words in ("9000 pending", "64 GPUs", "10000 jobs wait, 2 before", "radrm logs 7"):
            assert words in text
        assert any(line.lstrip().startswith("123456_789012") for line in lines), "one that waits"


def test_the_start_of_a_day_without_anything() -> None:
    answer = {**page([], 0), "counts": {}, "own": own()}
    lines = shown(overview(answer, []), 80)
    assert len(lines) == 6
    assert "none runs or waits" in lines[0] and "no job waits" in lines[2]
