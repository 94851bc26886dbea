"""What a runner keeps of the words of its job: the attempt's own, from wherever they are."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from radrm.host.attempts.tails import look_at_room, read_as_user
from tests.host.attempts.runner.attempt import Attempt, launch_record

KEYS = ("stderr_tail", "stderr_after")


def kept(attempt: Attempt, script: str, **changes: Any) -> tuple[Any, ...]:
    attempt.run(argv=["sh", "-c", script], **changes)
    record = attempt.record("exit.json")
    return tuple(record.get(key) for key in KEYS)


@pytest.mark.parametrize(
    ("script", "tail", "after"),
    [
        ("echo a >&2; exit 1", "before\na\n", 0),
        # The job writes there by a descriptor of its own, or another job does.
        ("echo a >&2; echo other >>err; exit 1", "before\na\nother\n", 6),
        ("echo other >>err; exit 1", "before\nother\n", 6),
        ("echo a >>err; echo b >&2; exit 1", "before\na\nb\n", 0),
        ("mv err old; echo other >err; echo a >&2; exit 1", "before\na\n", 0),
        ("rm err; echo a >&2; exit 1", "before\na\n", 0),
        (": >err; echo a >&2; exit 1", "a\n", 0),
        ("printf 'a\\0\\377b' >&2; exit 1", "before\na\0\ufffdb", 0),
        ("echo no word of it >&2; exit 0", None, 0),
        ("echo CUDA out of memory >&2; exit 0", "before\nCUDA out of memory\n", 0),
    ],
)
def test_it_reads_what_the_attempt_wrote(
    attempt: Attempt, script: str, tail: str | None, after: int
) -> None:
    (attempt.cwd / "err").write_text("before\n")
    expected = tail and tail.removeprefix("before\n")
    assert kept(attempt, script) == (expected, after)


@pytest.mark.parametrize(
    ("gpus", "code", "is_read"), [("0", 0, False), ("0", 1, True), ("1", 0, True)]
)
def test_a_success_without_gpus_hides_nothing(
    attempt: Attempt, gpus: str, code: int, is_read: bool
) -> None:
    environment = {"PATH": os.environ["PATH"], "RADRM_GPUS": gpus}
    tail, _ = kept(attempt, f"echo out of memory >&2; exit {code}", environment=environment)
    assert (tail is not None) == is_read


def test_a_log_that_is_no_file_has_no_tail(attempt: Attempt) -> None:
    os.mkfifo(attempt.cwd / "pipe")
    reader = os.open(attempt.cwd / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert kept(attempt, "echo a >&2; exit 1", stderr="pipe") == (None, None)
    os.close(reader)
    attempt.record("exit.json")


def test_the_end_of_a_file_that_a_script_redirects_to(attempt: Attempt) -> None:
    attempt.run(script="#!/bin/sh\necho words > train.log 2>&1\nexit 1\n")
    assert attempt.record("exit.json")["redirected"] == [["train.log", "words\n"]]


@pytest.mark.parametrize(("blocks", "free", "full"), [(9, 0, True), (9, 1, False), (0, 0, False)])
def test_a_full_disk_of_a_log_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, free: int, full: bool
) -> None:
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_blocks=blocks, f_bavail=free))
    with open(tmp_path / "log", "wb") as log:
        launch = launch_record("token", tmp_path)
        assert read_as_user(launch, [look_at_room([log.fileno()])]) == {"no_room": full}
