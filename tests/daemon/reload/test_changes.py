"""Which settings have changed, and what of them applies while the daemon runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from radrm.config import Config, parse_config
from radrm.daemon.reload.changes import AT_START, AT_START_ONE, Change, applicable, changes


def of(text: str) -> Config:
    return parse_config(text, "test")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("", "", []),
        ("", '[idle]\naction = "cancel"', ["idle.action = 'cancel' applies now; it was 'off'"]),
        (
            "[policies.sharing]\nmax_smact = 0.5\n[limits]\ngpus = 3",
            "[policies.sharing]\nmax_smact = 0.7",
            [
                "limits.gpus = 0 applies now; it was 3",
                "policies.sharing.max_smact = 0.7 applies now; it was 0.5",
            ],
        ),
        (
            "[core]\ngrace_s = 10",
            "[mps]\nenabled = true\n[core]\nsettle_s = 5",
            [
                "core.grace_s = None needs a restart; 10 stays",
                "core.settle_s = 5 applies now; it was None",
                "mps.enabled = True needs a restart; False stays",
            ],
        ),
    ],
)
def test_each_change_is_one_line(before: str, after: str, said: list[str]) -> None:
    assert [str(each) for each in changes(of(before), of(after))] == said


def test_what_needs_a_restart_stays_and_the_rest_changes() -> None:
    before = of('device_ids = "index"\n[core]\ngrace_s = 10')
    text = 'planner = "backfill"\nestimator = "none"\n[core]\ngrace_s = 3\nsettle_s = 4\n'
    after = of(text + "[energy]\npue = 2\n[retention]\nfinished_jobs = 999")
    found = applicable(before, after)
    left = changes(before, found)
    assert {each.key for each in left} == {
        *("planner", "core.settle_s", "energy.pue", "retention.finished_jobs"),
    }
    assert not any(each.at_start for each in left)
    assert all(each.at_start for each in changes(found, after))
    assert applicable(before, before) == before == replace(before)


def test_the_names_are_those_of_settings() -> None:
    table = Config().to_table()
    assert table.keys() >= AT_START
    for key in AT_START_ONE - {"core.grace_s"}:
        first, _, second = key.partition(".")
        assert second in table[first]


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("limits.gpus", True),
        ("limits.queued_jobs", False),
        ("retention.finished_jobs", False),
        ("order", True),
        ("idle.for_s", True),
    ],
)
def test_only_what_the_scheduler_uses_lets_it_begin_anew(key: str, wanted: bool) -> None:
    assert Change(key, 1, 2).of_scheduler is wanted
