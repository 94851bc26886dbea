"""From names and settings to rules: what is wrong is named with what would be right."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from importlib.metadata import EntryPoint, EntryPoints
from math import inf, nan

import pytest
from pytest_mock import MockerFixture

from radrm import wiring
from radrm.config import Config, parse_config
from radrm.core.records import Estimate, Job
from radrm.core.rules import Order, SlowPlanner, is_slow, missing_members
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.core.words import Collocation, Quantity
from radrm.errors import BadConfig
from radrm.jobfile.radfile import read_job_file
from radrm.planners.order_policy import OrderPolicy
from radrm.policies.sharing import Magm
from radrm.published.andreas import Andreas
from radrm.wiring import (
    AUTO_CHAIN,
    INTERFACES,
    KINDS,
    QUICK,
    TABLES,
    describe,
    find_rule,
    make_estimating,
    make_planner,
    make_rules,
    make_settings,
    registry,
    settings_of,
)

MAGM = 'policy = "magm"\n[policies.sharing]\n'


def config(text: str) -> Config:
    return parse_config(text, "test.toml")


def test_a_rule_without_settings_offers_none() -> None:
    with pytest.raises(BadConfig, match=r"\[planners.strict\] has no setting 'depth'; it has none"):
        make_rules(config('planner = "strict"\n[planners.strict]\ndepth = 1'))


def test_every_registered_rule_is_there_under_its_name() -> None:
    for kind, name in [(each, name) for each in KINDS for name in registry(each)]:
        rule = find_rule(kind, name)
        assert is_dataclass(rule)
        assert {each.name: each.default for each in fields(rule)}["name"] == name


def test_settings_reach_their_rule() -> None:
    rules = make_rules(config(f"{MAGM}max_smact = 0.5\nmargin_mib = 0\n"))
    (planner,) = rules.planners
    assert planner.policy == Magm(max_smact=0.5, margin_mib=0)


@pytest.mark.parametrize(
    "text, words",
    [
        ('policy = "magn"', ("magn", "magm")),
        ('order = "lifo"', ("lifo", "fifo")),
        ('recovery = "nine"', ("nine", "none")),
        ('recovery = "exclusive"\n[recoveries.exclusive]\nmax = 1', ("[recoveries.exclusive]",)),
        (
            "policy = 'magm'\n[policies.sharing]\nmax_smact = 80",
            ("[policies.sharing]", "max_smact = 80", "0 to 1"),
        ),
        ('policy = "exclusive"\n[policies.exclusive]\nfloor_mib = 1', ("floor_mib",)),
        (f"{MAGM}overommits = true", ("overommits",)),
        (f"{MAGM}max_smatc = 1.0", ("max_smatc", "max_smact")),
        (f"{MAGM}max_smact = 'high'", ("max_smact", "'high'", "0.8")),
        (f"{MAGM}margin_mib = 1.5", ("margin_mib", "1.5")),
        (f"{MAGM}margin_mib = true", ("margin_mib", "True")),
        (f"{MAGM}margin_mib = -1", ("margin_mib", "below zero")),
        (f"{MAGM}margin_mib = {10**12}", ("margin_mib", "above 1,000,000,000")),
        (f"{MAGM}name = 'x'", ("name",)),
        ("[policies.lug]\nmax_smact = 0.5", ("[policies.lug]", "in [policies.sharing]")),
        ("[planners.andreas]\nseed = 1", ("[planners.andreas]", "no setting 'seed'")),
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
        ("[core]\ngrace_s = 1e308", "above 1,000,000,000"),
        ("[core]\nretry_s = 1", "unknown key 'core.retry_s'"),
        ("[core]\novercommit = true", "unknown key 'core.overcommit'"),
        ('policy = "magn"', "magm"),
    ],
)
def test_core_settings_are_checked(text: str, word: str) -> None:
    with pytest.raises(BadConfig, match=word):
        make_settings(config(text))


@pytest.mark.parametrize("value", [nan, inf, -inf, -0.5, True, 10**400])
def test_no_rule_takes_a_number_that_is_none(value: float) -> None:
    for kind, names in ((each, registry(each)) for each in KINDS):
        for name in names:
            rule = find_rule(kind, name)
            for key, setting in settings_of(rule).items():
                if type(setting.default) is float:
                    with pytest.raises(BadConfig, match=f"{name}.{key} = "):
                        wiring._checked(name, rule, {key: value})


def test_core_settings_are_taken_and_never_stale_too_soon() -> None:
    settings = make_settings(config('collocation = "mps"\n[core]\ngrace_s = 5'), 6.0)
    assert settings.grace_s == 5
    assert settings.collocation is Collocation.MPS
    assert settings.stale_after_s == 30.0
    assert make_settings(config(""), 6.0, patience_s=60.0).stale_after_s == 60.0
    assert make_settings(config("")).stale_after_s == 5.0


@pytest.mark.parametrize(
    "text, overcommit",
    [
        ("", False),
        ('policy = "exclusive"', False),
        ('policy = "rr"', True),
        ('policy = "rr"\n[policies.sharing]\nconditions = true', False),
        ('policy = "magm"\n[policies.sharing]\nconditions = false', True),
        ('policy = "packing"\n[policies.sharing]\nconditions = false', False),
    ],
)
def test_the_core_lets_jobs_overcommit_exactly_when_the_policy_looks_at_nothing(
    text: str, overcommit: bool
) -> None:
    assert make_settings(config(text)).overcommit is overcommit
    (planner,) = make_rules(config(text)).planners
    assert planner.policy.overcommits is overcommit


def test_python_code_gives_fixed_values_and_a_file_does_not() -> None:
    given = Config(planner=("andreas",), planners={"andreas": {"seed": 7}}, core={"retry_s": 1.0})
    (planner,) = make_rules(given).planners
    assert isinstance(planner, Andreas) and planner.seed == 7
    assert make_settings(given).retry_s == 1.0
    with pytest.raises(BadConfig, match="has no setting 'seed'"):
        make_rules(replace(given, from_text=True))


def test_a_rule_that_lacks_a_part_of_its_interface_is_an_error(mocker: MockerFixture) -> None:
    class Theirs:
        name, version, floor_mib, whole_device = "theirs", 1, 1024, False

        def choose(self) -> None: ...

    mocker.patch("radrm.wiring.find_rule", return_value=Theirs)
    with pytest.raises(BadConfig, match=r"\[policies.theirs\] .* has no overcommits, refuse; add"):
        make_settings(Config(policy="theirs"))


def test_an_order_of_an_earlier_release_is_told_the_new_call(mocker: MockerFixture) -> None:
    class Old(Order):
        name = "theirs"

        def key(self, job: Job) -> tuple[int]:
            return (job.id,)

    mocker.patch("radrm.wiring.find_rule", return_value=Old)
    with pytest.raises(
        BadConfig, match=r"\[orders.theirs\] .*Old has key\(job\), not key\(job, now\)"
    ):
        make_rules(Config(order="theirs", policy="magm"))


def theirs(mocker: MockerFixture, **members: object) -> None:
    """A planner `theirs` of a third party, with these members, beside radrm's own."""
    known = find_rule
    whole: dict[str, object] = {
        "name": "theirs",
        "version": 1,
        "listens": frozenset(),
        "starts_jobs": False,
        "plan": lambda *_: None,
        "explain": lambda *_: (),
    }
    made = {k: v for k, v in (whole | members).items() if v is not None}
    rule = type("Theirs", (), made)
    mocker.patch(
        "radrm.wiring.find_rule",
        lambda kind, name: rule if name == made.get("name", "theirs") else known(kind, name),
    )


def test_planners_keep_their_order_and_one_starts_jobs(mocker: MockerFixture) -> None:
    theirs(mocker)
    rules = make_rules(config('planner = ["theirs", "strict"]'))
    assert [planner.name for planner in rules.planners] == ["theirs", "strict"]
    assert make_planner(config("planner = 'theirs'"), "theirs").name == "theirs"


@pytest.mark.parametrize(
    "planner, members, words",
    [
        (
            '"theirs"',
            {},
            'planner = "theirs": no planner starts .* planner = .*"strict", "theirs"',
        ),
        ('["strict", "theirs"]', {"starts_jobs": True}, "strict and theirs both start"),
        ('"theirs"', {"starts_jobs": 1}, "starts_jobs is neither true nor false"),
        (
            '"theirs"',
            {"starts_jobs": None},
            r"\[planners.theirs\] the rule has no starts_jobs; add",
        ),
        ('"theirs"', {"plan": None}, "the rule has no plan; add what radrm.rules.Planner has"),
        (
            '"theirs"',
            {"plan": None, "think": lambda *_: None, "explain": None},
            "the rule has no explain; add what radrm.rules.SlowPlanner has",
        ),
        (
            '"fallback"',
            {"name": "fallback", "starts_jobs": True},
            "radrm has a planner of this name",
        ),
    ],
)
def test_planners_that_cannot_be_used(
    mocker: MockerFixture, planner: str, members: dict[str, object], words: str
) -> None:
    theirs(mocker, **members)
    with pytest.raises(BadConfig, match=words):
        make_rules(config(f"planner = {planner}"))


def test_a_planner_has_the_name_of_its_entry_point(mocker: MockerFixture) -> None:
    known = find_rule
    mocker.patch(
        "radrm.wiring.find_rule",
        lambda kind, name: OrderPolicy if name == "mine" else known(kind, name),
    )
    with pytest.raises(BadConfig, match="its name is 'strict'; call it 'mine' too"):
        make_planner(Config(), "mine")


@pytest.mark.parametrize("kind", KINDS)
def test_every_rule_here_has_all_of_its_interface(kind: str) -> None:
    interface = INTERFACES[kind]
    assert "name" in missing_members(object(), interface)
    for name in registry(kind):
        rule = find_rule(kind, name)
        wanted = SlowPlanner if kind == "planners" and is_slow(rule) else interface
        assert missing_members(rule, wanted) == [], name


def test_every_kind_of_rule_has_its_table_in_the_configuration() -> None:
    assert TABLES.keys() == set(KINDS)
    assert set(TABLES.values()) <= set(Config.__dataclass_fields__)


def test_third_parties_add_rules_by_entry_points(mocker: MockerFixture) -> None:
    point = EntryPoint("theirs", "radrm.policies.sharing:Magm", "radrm.policies")
    mocker.patch("importlib.metadata.entry_points", return_value=EntryPoints([point]))
    assert find_rule("policies", "theirs") is Magm


def memory(text: str, estimator: str = "auto", **options: str) -> list[tuple[float, str]]:
    job_file = read_job_file(text.encode(), "a.rad", dict(options))
    found = make_estimating(Config(estimator=estimator)).estimate(describe(job_file))
    return [(e.upper, e.source) for e in found if e.quantity is Quantity.MEMORY][:1]


PROTOTYPE = "conda activate tf\npython a.py\na.model\nwiki\n8\nexclusive\n1\n{}\n5000\n40000\n8000"


def test_what_is_declared_beats_every_estimator() -> None:
    declared = PROTOTYPE.format(20774)
    assert memory(declared) == [(20774, "declared")]
    assert memory(declared, "none") == []
    assert memory(declared, "none", **{"gpu-memory": "4G"}) == [(4096, "declared")]
    assert memory("#!/bin/sh\ntrue\n") == []
    assert memory(PROTOTYPE.format(40000)) == [(WHOLE_DEVICE_MIB, "declared")]
    assert memory(declared, "horus") == [(5000, "horus")]
    assert memory(declared, "horus", **{"gpu-memory": "4G"}) == [(4096, "declared")]


def test_auto_asks_one_after_the_other_and_believes_the_first() -> None:
    assert AUTO_CHAIN[:2] == QUICK == ("declared", "history")
    assert memory(PROTOTYPE.format(20774)) == [(20774, "declared")]
    job_file = read_job_file(b"#!/bin/sh\n#RAD --batch-size=8 --smact=0.5\ntrue\n", "a", {})
    table = (
        "Layer (type)  Output Shape  Param #\n====\n"
        "Linear-1  [-1, 1024]  1024\n====\nTotal params: 1,024\n"
    )
    told = make_estimating(Config()).estimate(describe(replace(job_file, summary=table)))
    assert (told[0].quantity, told[0].source) == (Quantity.SMACT, "declared")
    assert [e.source for e in told[1:]] == [
        n for n in AUTO_CHAIN if n in {e.source for e in told[1:]}
    ]
    assert told[-1].source == "horus" and {e.quantity for e in told[1:]} == {Quantity.MEMORY}
    unreadable = describe(replace(job_file, summary="BertModel("))
    assert make_estimating(Config()).estimate(unreadable) == told[:1]


def test_declared_activity_and_duration_are_estimates_too() -> None:
    job_file = read_job_file(b"#!/bin/sh\n#RAD --smact=0.5 --duration=1:00:00\ntrue\n", "a", {})
    assert make_estimating(Config()).estimate(describe(job_file)) == (
        Estimate(Quantity.SMACT, 0.5, 0.5, "declared"),
        Estimate(Quantity.DURATION, 3600.0, 3600.0, "declared"),
    )


class _Exits:
    name, version, listens = "theirs", 1, frozenset[type]()

    @property
    def starts_jobs(self) -> bool:
        raise SystemExit(3)

    def plan(self, *_: object) -> None: ...

    def explain(self, *_: object) -> None: ...


class _RaisesAtOnce:
    def __init__(self) -> None:
        raise OSError("no such file")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("no_such_module:Rule", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("tests.test_wiring:NoSuchRule", "AttributeError"),
        ("tests.test_wiring:_Exits", "SystemExit: 3 (test_wiring.py:"),
        ("tests.test_wiring:_RaisesAtOnce", "OSError: no such file (test_wiring.py:"),
        ("tests.test_wiring:__name__", "'tests.test_wiring' is not a callable object"),
    ],
)
def test_a_planner_that_raises_while_it_is_made_is_named(
    mocker: MockerFixture, target: str, words: str
) -> None:
    point = EntryPoint("theirs", target, "radrm.planners")
    mocker.patch("importlib.metadata.entry_points", return_value=EntryPoints([point]))
    with pytest.raises(BadConfig) as caught:
        make_rules(replace(Config(), planner=("strict", "theirs")))
    assert str(caught.value).startswith("[planners.theirs] the rule cannot be used: ")
    assert words in str(caught.value)
