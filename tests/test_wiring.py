"""From names and settings to rules: what is wrong is named with what would be right."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest
from pytest_mock import MockerFixture

from radrm.config import Config, parse_config
from radrm.core.records import Estimate
from radrm.core.words import Collocation, Quantity
from radrm.errors import BadConfig
from radrm.policies.magm import Magm
from radrm.radfile import WHOLE_DEVICE_MIB, read_job_file
from radrm.wiring import REGISTRIES, find_rule, make_estimating, make_rules, make_settings


def config(text: str) -> Config:
    return parse_config(text, "test.toml")


@pytest.mark.parametrize("kind, name", [(k, n) for k, rules in REGISTRIES.items() for n in rules])
def test_every_registered_rule_is_there_under_its_name(kind: str, name: str) -> None:
    rule = find_rule(kind, name)
    assert getattr(rule, "__dataclass_fields__")["name"].default == name  # noqa: B009


def test_settings_reach_their_rule() -> None:
    rules = make_rules(config("[policies.magm]\nmax_smact = 0.5\nmargin_mib = 0\n"))
    (planner,) = rules.planners
    assert planner.policy == Magm(max_smact=0.5, margin_mib=0)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text, words",
    [
        ('policy = "magn"', ("magn", "magm")),
        ('order = "lifo"', ("lifo", "fifo")),
        ('recovery = "none"', ("none", "exclusive")),
        ("[policies.magm]\nmax_smatc = 1.0", ("max_smatc", "max_smact")),
        ("[policies.magm]\nmax_smact = 'high'", ("max_smact", "'high'", "0.8")),
        ("[policies.magm]\nmargin_mib = 1.5", ("margin_mib", "1.5")),
        ("[policies.magm]\nmargin_mib = true", ("margin_mib", "True")),
        ("[policies.magm]\nmargin_mib = -1", ("margin_mib", "below zero")),
        ("[policies.magm]\nname = 'x'", ("name",)),
    ],
)
def test_what_is_wrong_is_named(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(BadConfig) as raised:
        make_rules(config(text))
    assert all(word in str(raised.value) for word in words), raised.value
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text, word",
    [
        ("[core]\ngrace = 5", "grace_s"),
        ("[core]\ngrace_s = true", "grace_s"),
        ("[core]\nuse_coarse_smact = 1", "use_coarse_smact"),
    ],
)
def test_core_settings_are_checked(text: str, word: str) -> None:
    with pytest.raises(BadConfig, match=word):
        make_settings(config(text))


def test_core_settings_are_taken_and_never_stale_too_soon() -> None:
    settings = make_settings(
        config('collocation = "mps"\n[core]\ngrace_s = 5\nuse_coarse_smact = true'), 6.0
    )
    assert (settings.grace_s, settings.use_coarse_smact) == (5, True)
    assert settings.collocation is Collocation.MPS
    assert settings.stale_after_s == 60.0


def test_third_parties_add_rules_by_entry_points(mocker: MockerFixture) -> None:
    point = EntryPoint("theirs", "radrm.policies.magm:Magm", "radrm.policies")
    mocker.patch("radrm.wiring.entry_points", return_value=EntryPoints([point]))
    assert find_rule("policies", "theirs") is Magm


def memory(text: str, estimator: str = "auto", **options: str) -> list[tuple[float, str]]:
    job_file = read_job_file(text.encode(), "a.rad", dict(options))
    found = make_estimating(Config(estimator=estimator)).estimate(job_file)
    return [(e.upper, e.source) for e in found if e.quantity is Quantity.MEMORY]


PROTOTYPE = "conda activate tf\npython a.py\na.model\nwiki\n8\nexclusive\n1\n{}\n5000\n40000\n8000"


def test_what_is_declared_beats_every_estimator() -> None:
    declared = PROTOTYPE.format(20774)
    assert memory(declared) == [(20774, "declared")]
    assert memory(declared, "none") == []
    assert memory(declared, "none", **{"gpu-memory": "4G"}) == [(4096, "declared")]
    assert memory("#!/bin/sh\ntrue\n") == []
    assert memory(PROTOTYPE.format(40000)) == [(WHOLE_DEVICE_MIB, "declared")]


def test_declared_activity_and_duration_are_estimates_too() -> None:
    job_file = read_job_file(b"#!/bin/sh\n#RAD --smact=0.5 --duration=1:00:00\ntrue\n", "a", {})
    assert make_estimating(Config()).estimate(job_file) == (
        Estimate(Quantity.SMACT, 0.5, 0.5, "declared"),
        Estimate(Quantity.DURATION, 3600.0, 3600.0, "declared"),
    )
