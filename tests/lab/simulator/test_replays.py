"""The ranges of a replay contain the truth: the small form of `benchmarks.simulation.replays`."""

from __future__ import annotations

import pytest

from benchmarks.simulation import replays


@pytest.mark.nightly
def test_ranges_contain_the_truth() -> None:
    found = [replays.one(seed, seeds=5, count=20) for seed in range(2)]
    assert all(each.contained for each in found), found
