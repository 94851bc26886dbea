"""Docstrings, comments and the page of the architecture name only files that are there."""

from __future__ import annotations

import re

import pytest

from tests.paths import REPOSITORY

NAMED = re.compile(r"`((?:\w+/)*\w+\.py)`")
OF_OTHERS = {"fewest_jobs.py", "other.py", "torch/nn/parallel/comm.py", "train.py"}
"""Files of users and of other programs."""

TEXTS = [*REPOSITORY.glob("radrm/**/*.py"), REPOSITORY / "docs" / "architecture.md"]


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Each file by each end of its path."""
    ends: set[str] = set()
    for folder in ("radrm", "tests", "proofs", "tools", "benchmarks"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            words = path.relative_to(REPOSITORY).parts
            ends |= {"/".join(words[at:]) for at in range(len(words))}
    return ends


def test_each_file_that_is_named_is_there(known: set[str]) -> None:
    missing = [
        f"{path.relative_to(REPOSITORY)}: {name}"
        for path in TEXTS
        for name in NAMED.findall(path.read_text("utf-8"))
        if name not in known and name not in OF_OTHERS
    ]
    assert missing == []
