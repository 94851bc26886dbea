"""Documents that cannot drift: what they show is what the code says."""

from __future__ import annotations

import re

from tests.paths import REPOSITORY

DOCS = REPOSITORY / "docs"


def test_the_tests_that_prove_the_security_are_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "security.md").read_text()))
    there = {
        found[1]
        for folder in ("tests", "proofs")
        for path in (REPOSITORY / folder).rglob("test_*.py")
        for found in re.finditer(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert len(named) > 50 and named <= there, sorted(named - there)
