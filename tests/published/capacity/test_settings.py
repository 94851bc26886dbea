"""Wrong settings of `andreas` are said in one line, and so is a missing numpy."""

from __future__ import annotations

import pytest
from pytest_mock import MockerFixture

from radrm.config import Config, parse_config
from radrm.errors import BadConfig
from radrm.extras import command
from radrm.wiring import make_rules


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("max_iterations = 0", "max_iterations = 0 is not in 1..100000"),
        ("period_s = 0.5", "period_s = 0.5 is not at least 1 (second)"),
    ],
)
def test_wrong_settings(setting: str, why: str) -> None:
    config = parse_config(f'planner = "andreas"\n[planners.andreas]\n{setting}\n', "x.toml")
    with pytest.raises(BadConfig) as error:
        make_rules(config)
    assert str(error.value) == f"[planners.andreas] {why}"


def test_without_numpy_it_says_what_to_install(mocker: MockerFixture) -> None:
    mocker.patch("radrm.published.andreas.find_spec", return_value=None)
    with pytest.raises(BadConfig) as error:
        make_rules(parse_config('planner = "andreas"', "x.toml"))
    said = f"[planners.andreas] needs numpy; install it: {command('andreas')}"
    assert str(error.value) == said
    other = Config(planner=("andreas",), planners={"andreas": {"method": "edf"}})
    assert make_rules(other).planners[0].name == "andreas"
