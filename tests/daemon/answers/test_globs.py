"""Globs mean what the shell means by them, and none can be made dear."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.daemon.views.references import MAX_GLOBS, MAX_SETS, Globs, is_glob
from radrm.errors import UsageError

TEXT = st.text("ab*?[]!-", max_size=12)


@given(st.lists(TEXT, max_size=5), st.text("ab*[]-", max_size=8))
def test_they_match_as_the_shell_does(patterns: list[str], name: str) -> None:
    expected = tuple(n for n, pattern in enumerate(patterns) if fnmatchcase(name, pattern))
    assert Globs(patterns).matching(name) == expected


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


def test_no_pattern_makes_a_name_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each character is looked at once for all patterns, however many stars they have."""
    looked = []
    move = Globs._move
    monkeypatch.setattr(Globs, "_move", lambda self, c: looked.append(c) or move(self, c))
    globs = Globs(["*a" * 100 + "b"] * MAX_GLOBS)
    assert globs.matching("a" * 60_000) == ()
    assert looked == ["a"]
    assert len(globs.matching("a" * 200 + "b")) == MAX_GLOBS


def test_too_many_are_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match=f"has {MAX_GLOBS + 1} globs, and {MAX_GLOBS} is the most"):
        Globs(["*"] * (MAX_GLOBS + 1))
    with pytest.raises(UsageError, match=r"different \[\.\.\.\]"):
        Globs(["".join(f"[{chr(i)}]" for i in range(0x4E00, 0x4E00 + MAX_SETS + 1))])
    assert is_glob("a*") and is_glob("a?") and is_glob("[a]") and not is_glob("a-b_]")
