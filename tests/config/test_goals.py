"""`auto`: the rules that a goal means, and what stays as a site has set it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from radrm.config import GOALS, Config, contradictions, parse_config, resolved
from radrm.errors import BadConfig
from radrm.wiring import make_rules, make_settings


def test_a_published_policy_comes_with_the_published_order_and_planner() -> None:
    found = resolved(Config(policy="lug"))
    assert (found.policy, found.order, found.planner) == ("lug", "fifo", ("strict",))


@pytest.mark.parametrize("goal", GOALS)
def test_each_goal_names_rules_that_can_be_made(goal: str) -> None:
    config, wanted = Config(goal=goal), GOALS[goal]
    found = resolved(config)
    assert (found.policy, found.order) == (wanted.policy, wanted.order)
    assert found.planner == (wanted.planner,)
    assert make_rules(config) == make_rules(found)
    assert make_settings(config) == make_settings(found)


def test_resolving_twice_changes_nothing() -> None:
    for goal in GOALS:
        once = resolved(Config(goal=goal))
        assert resolved(once) == once


def test_what_a_site_sets_wins_over_the_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    goal = replace(
        GOALS["published"],
        policies={"sharing": {"max_smact": 0.5, "margin_mib": 1}},
        planners={"strict": {"depth": 7}},
    )
    monkeypatch.setitem(GOALS, "sharing", goal)
    given = parse_config(
        "[policies.sharing]\nmax_smact = 0.9\n[policies.packing]\nmax_demand = 3", "x"
    )
    found = resolved(given)
    assert found.policies == {
        "sharing": {"max_smact": 0.9, "margin_mib": 1},
        "packing": {"max_demand": 3},
    }
    assert found.planners == {"strict": {"depth": 7}}
    assert resolved(replace(given, order="fifo", planner=("auto", "mine"))).planner == (
        "strict",
        "mine",
    )


def test_settings_of_a_rule_that_auto_does_not_choose_are_named() -> None:
    given = parse_config("[policies.sharing]\nmax_smact = 0.5\n[policies.packing]\n", "x")
    (line,) = contradictions(given)
    assert line == (
        "policy = 'auto' means 'packing', so the settings of 'sharing' are not used; "
        "set policy, or remove them"
    )
    assert contradictions(replace(given, policy="magm")) == []
    assert contradictions(replace(given, goal="published")) == [
        "policy = 'auto' means 'magm', so the settings of 'packing' are not used; "
        "set policy, or remove them"
    ]


def test_the_shipped_order_takes_the_weights_of_users() -> None:
    assert contradictions(parse_config("[orders.fair]\nweights = {ada = 2}", "x")) == []


def test_an_unknown_goal_is_refused_with_those_that_exist() -> None:
    with pytest.raises(BadConfig, match=r"goal must be .*sharing"):
        parse_config('goal = "fast"', "x")
