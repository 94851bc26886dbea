"""The mutants of `make mutants`: sound code, the same in each sample of a seed."""

from __future__ import annotations

import pytest

pytest.importorskip("cosmic_ray")
pytest.importorskip("coverage")

from tools.mutants import CORE, EQUIVALENT, ROOT, Mutant, sample


def taken(seed: str) -> list[Mutant]:
    return list(sample(seed, 5, "lifecycle/asking"))


def test_a_mutant_changes_one_line_and_stays_in_its_sample() -> None:
    found = taken("1")
    assert [str(each) for each in found] == [str(each) for each in taken("1")]
    assert [str(each) for each in found] != [str(each) for each in taken("2")]
    for each in found:
        before = (ROOT / CORE / each.file).read_text().splitlines()
        changed = [n for n, line in enumerate(each.text.splitlines()) if line != before[n]]
        assert changed == [each.line - 1]


def test_what_decides_the_same_is_still_there() -> None:
    for file, _ in EQUIVALENT:
        assert (ROOT / CORE / file).is_file()
