"""The exit codes of `radrm wait` and `radrm submit --wait`."""

from __future__ import annotations

import pytest

from radrm.client.awaiting import exit_code, wait_for
from tests.cli.fakes import Script, job


@pytest.mark.parametrize(
    ("state", "outcome", "code", "expected"),
    [
        ("COMPLETED", "completed", 0, 0),
        ("FAILED", "failed", 7, 7),
        ("FAILED", "failed", 0, 1),  # the kernel killed a process of it, not the first one
        ("CANCELLED", "cancelled", 143, 143),
        ("CANCELLED", "cancelled", 0, 1),  # it saved and ended at TERM
        ("TIMEOUT", "timeout", 0, 124),
        ("FAILED", "lost", None, 125),
        ("FAILED", "failed", None, 125),
    ],
)
def test_only_a_job_that_completed_counts_as_success(
    state: str, outcome: str, code: int | None, expected: int
) -> None:
    document = {"state": state, "outcome": outcome, "exit_code": code, "started_at": 1.0}
    assert exit_code(document) == expected


def test_all_jobs_are_those_that_have_not_ended() -> None:
    """`radrm wait '*'` had the exit code of a job of last week."""
    old = job(3, "CANCELLED", exit_code=130)
    assert wait_for(Script(status=[[old]]), ["*"]) == []
    named = wait_for(Script(status=[[old]]), ["resnet*"])
    assert [each["id"] for each in named] == [3], "what was named counts, also if it ended at once"
