"""docs/policies.md says what the code does, and its examples work."""

from __future__ import annotations

import re
import shlex

from radrm.config import Config, parse_config, resolved, with_set
from radrm.wiring import find_rule, make_rules, make_settings
from tests.paths import REPOSITORY

PAGE = (REPOSITORY / "docs" / "policies.md").read_text()


def example(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found[1]


def test_the_defaults_are_the_defaults() -> None:
    defaults = set(re.findall(r"^\| `([\w-]+)` \(default\) \|", PAGE, re.MULTILINE))
    config = resolved(Config())
    named = (config.policy, config.order, config.estimator, config.recovery)
    assert defaults == {*named, config.collocation.value}


def test_the_example_file_and_the_example_command_ask_for_the_same() -> None:
    from_file = parse_config(example("toml"), "policies.md")
    words = shlex.split(example("bash"))
    assert words[:2] == ["radrm", "daemon"]
    from_command = Config()
    for flag, setting in zip(words[2::2], words[3::2], strict=True):
        assert flag == "--set"
        from_command = with_set(from_command, setting)
    assert make_rules(from_file) == make_rules(from_command)
    assert make_settings(from_file) == make_settings(from_command)
    assert make_rules(from_file) != make_rules(Config())


def test_the_published_thresholds_on_the_page_are_those_of_the_code() -> None:
    magm = find_rule("policies", "magm")()
    row = f"max({magm.min_free_mib // 1024} GiB, need + {magm.margin_mib // 1024} GiB)"
    assert f"free >= {row}, SMACT <= {magm.max_smact:.2f}" in PAGE
    fit = find_rule("policies", "first-fit")()
    assert f"free >= need + {fit.margin_mib // 1024} GiB, SMACT <= {fit.max_smact:.2f}" in PAGE
