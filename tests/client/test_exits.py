"""The exit codes of `radrm wait` and `radrm submit --wait`."""

from __future__ import annotations

import pytest

from radrm.client.exits import exit_code


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
