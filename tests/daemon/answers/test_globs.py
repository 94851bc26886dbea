"""Globs mean what the shell means by them, and none can be made dear."""

from __future__ import annotations

import pytest

from radrm.daemon.views.references import MAX_GLOBS, MAX_PATTERN, Globs, is_glob
from radrm.errors import UsageError


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("sweep-*", "sweep-", True),
        ("*", "", True),
        ("?", "", False),
        ("[!a]*[0-9]", "b x9", True),
        ("[]]", "]", True),
        ("[", "[", True),
        ("a[", "a[", True),
        ("net", "nets", False),
        ("*é?", "café!", True),
    ],
)
def test_cases(pattern: str, name: str, matches: bool) -> None:
    assert bool(Globs([pattern]).matching(name)) is matches


def test_no_pattern_makes_a_name_dear() -> None:
    """With a matcher that goes back to earlier stars, this would take longer than the universe."""
    assert Globs(["*a" * 100 + "*b"] * MAX_GLOBS).matching("a" * 128) == ()


def test_too_many_are_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match=f"has {MAX_GLOBS + 1} globs, and {MAX_GLOBS} is the most"):
        Globs(["*"] * (MAX_GLOBS + 1))
    with pytest.raises(UsageError, match="longer"):
        Globs(["*" * (MAX_PATTERN + 1)])
    assert is_glob("a*") and is_glob("a?") and is_glob("[a]") and not is_glob("a-b_]")
