"""Variants: ways to run a trace, made from a command's options and the configuration.

A variant is checked in the same way as a daemon's configuration.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from typing import Any

from msgspec import Struct, field

from radrm.config import Config, load_config, resolved, with_set
from radrm.config.values import Place, planners
from radrm.core.records import DECLARED
from radrm.core.words import Collocation
from radrm.errors import BadConfig, UsageError
from radrm.host.storage.paths import system_mode
from radrm.lab.simulator.estimates import NONE
from radrm.lab.simulator.scenario import AUTO, FIDELITIES, ORACLE, Fidelity, Known, Life, Scenario
from radrm.lab.simulator.servers import HASH
from radrm.simulated.spec import parse_servers
from radrm.structs import replace
from radrm.wiring import find_rule, make_rules, make_settings, registry, settings_of, table_of

ALONE = "exclusive"
"""A policy that is always compared."""
SORTING = ("andreas",)
"""The planners that sort the waiting jobs themselves."""
_MOST_VARIANTS = 200
MOST_ERROR = 3.0
_MODES = ("mps", "timeslice", "exclusive")
_OF_POLICY = "policy."
_OF_LIFE = "life."
_ALSO = {"scheduler.smact_limit": "policy.max_smact"}


class Choices(Struct, frozen=True):
    """A command's options for all variants; None: as configured."""

    gpus: str = "sim:4xA100-40GB"
    order: str | None = None
    planner: str | None = None
    collocation: str | None = None
    recovery: str | None = None
    fidelity: str = "radrm"
    seeds: int = 1
    settings: Sequence[str] = ()
    known: Sequence[str] = ()
    servers: int = 1
    life: Life = field(default_factory=Life)
    cpus: float | None = None
    dealer: str = HASH


def configured() -> Config:
    """The configuration of this machine."""
    return load_config(os.environ, system_mode(os.environ, os.getuid()))


# ------------------------------------------------------------------ variants


class Variant(Struct, frozen=True):
    """One way to run a trace. Its runs differ only in the seed of `scenario`.

    `yours`: it is the daemon of this machine as it is configured.
    """

    scenario: Scenario
    servers: int = 1
    dealer: str = HASH
    yours: bool = False

    @property
    def policy(self) -> str:
        return self.scenario.config.policy

    @property
    def estimator(self) -> str:
        return self.scenario.estimator

    @property
    def planner(self) -> str:
        return self.scenario.config.planners_joined

    @property
    def order(self) -> str:
        return self.scenario.config.order

    @property
    def mode(self) -> str:
        if self.scenario.config.collocation is Collocation.EXCLUSIVE:
            return "exclusive"
        return "mps" if self.scenario.mps else "timeslice"


def own_estimator(base: Config, fidelity: str = "radrm") -> str:
    """The estimator of the daemon: `auto`, or none. The published loop has no `auto`."""
    if fidelity == "published":
        return ORACLE
    return NONE if base.estimator in (NONE, DECLARED) else AUTO


def your_daemon(base: Config, estimator: str, choices: Choices) -> Variant:
    """The daemon of this machine as it is configured, on the GPUs and with the knowledge of
    `choices`. No other choice counts, but for the model of jobs (`life.`)."""
    plain = Choices(
        gpus=choices.gpus,
        seeds=choices.seeds,
        settings=[word for word in choices.settings if word.strip().startswith(_OF_LIFE)],
        known=choices.known,
        servers=choices.servers,
        life=choices.life,
        cpus=choices.cpus,
        dealer=choices.dealer,
    )
    return replace(make_variant(base, base.policy, estimator, plain), yours=True)


def make_variant(base: Config, policy: str, estimator: str, choices: Choices) -> Variant:
    """A checked variant. Raises `BadConfig` and `UsageError`."""
    fidelity = _fidelity(choices.fidelity)
    config, mps = _mode(dataclasses.replace(base, policy=policy), choices.collocation)
    config = dataclasses.replace(
        config,
        order=choices.order or config.order,
        planner=_planners(choices.planner) or config.planner,
        recovery=choices.recovery or config.recovery,
    )
    life = choices.life
    for setting in choices.settings:
        config, life = _set(config, life, setting)
    if fidelity == "published":
        config = dataclasses.replace(config, goal="published")  # its loop has no other planner
    config = resolved(config)
    make_rules(config)
    make_settings(config)
    scenario = Scenario(
        devices=parse_servers(choices.gpus),
        config=config,
        fidelity=fidelity,
        mps=mps,
        estimator=estimator,
        known=_known(choices.known),
        life=life,
        cpus=choices.cpus,
    )
    return Variant(scenario, choices.servers, choices.dealer)


def _known(words: Iterable[str]) -> Known:
    """The quantities that are known, from words as `smact` and `duration=0.3`."""
    names = Known.__struct_fields__
    found: dict[str, float] = {}
    for word in words:
        name, equals, text = word.partition("=")
        try:
            error = float(text) if equals else 0.0
        except ValueError:
            error = -1.0
        if name not in names or not 0 <= error <= MOST_ERROR:
            raise UsageError(
                f"--known {word!r}: write NAME or NAME=ERROR, with an error from 0 to "
                f"{MOST_ERROR:g}; names are: {', '.join(names)}"
            )
        found[name] = error
    return Known(**found)


def _planners(word: str | None) -> tuple[str, ...]:
    """The planners of an option's value, as `strict+mine`; none without the option.

    Planners of radrm that start no jobs stand beside `strict`.
    """
    found = planners(word, Place("--planner", [], "planner")) if word else ()
    if found and all(each in registry("planners") and not starts_jobs(each) for each in found):
        return ("strict", *found)
    return found


def starts_jobs(planner: str) -> bool:
    """Return whether a planner of radrm starts jobs: others stand beside one that does."""
    rule: Any = find_rule("planners", planner)
    return any(each.name == "starts_jobs" and each.default is True for each in fields(rule))


def _fidelity(word: str) -> Fidelity:
    for known in FIDELITIES:
        if word == known:
            return known
    raise UsageError(f"--fidelity {word!r} is not one of {', '.join(FIDELITIES)}")


def _mode(config: Config, word: str | None) -> tuple[Config, bool]:
    """The configuration for a way of sharing, and whether the GPUs are under MPS.

    Without a word it is the configured one: MPS only where that is enabled."""
    if word is None and config.collocation is not Collocation.AUTO:
        word = config.collocation.value
    if word is None:
        return config, config.mps.enabled
    if word not in _MODES:
        raise UsageError(
            f"--collocation {word!r} is not one of {', '.join(_MODES)}; for MIG, use --gpus, "
            "as sim:1xA100-40GB:3g.20gb+4g.20gb"
        )
    alone = word == "exclusive"
    mode = Collocation.EXCLUSIVE if alone else Collocation.AUTO
    return dataclasses.replace(config, collocation=mode), word != "timeslice"


def _set(config: Config, life: Life, setting: str) -> tuple[Config, Life]:
    key, equals, value = setting.partition("=")
    key = key.strip()
    key = _ALSO.get(key, key)
    if key.startswith(_OF_LIFE):
        return config, _set_life(life, key.removeprefix(_OF_LIFE), value, setting)
    if key.startswith(_OF_POLICY):
        own = key.removeprefix(_OF_POLICY)
        policy = resolved(config).policy
        if own not in settings_of(find_rule("policies", policy)):
            return config, life  # it belongs to another compared policy: see `check_settings`
        key = f"policies.{table_of('policies', policy)}.{own}"
    return with_set(config, f"{key}{equals}{value}"), life


def _set_life(life: Life, key: str, value: str, setting: str) -> Life:
    known = [name for name in Life.__struct_fields__ if name != "steady"]
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if key not in known or not 0 <= number <= 1e6:
        raise BadConfig(f"--set {setting}: write life.NAME=NUMBER; names are: {', '.join(known)}")
    if key == "spread" and number >= 1:
        raise BadConfig(f"--set {setting}: the spread is a part of 1, below 1")
    changed: dict[str, Any] = {key: number}
    if key == "restarts":
        if number not in (0, 1):
            raise BadConfig(f"--set {setting}: write 1 (jobs restart at another size) or 0")
        changed = {key: bool(number)}
    return replace(life, **changed)


def check_settings(settings: Iterable[str], policies: Sequence[str]) -> None:
    """Raise `BadConfig` for a `policy.KEY` that none of these policies has."""
    for setting in settings:
        key = setting.partition("=")[0].strip()
        key = _ALSO.get(key, key)
        if not key.startswith(_OF_POLICY):
            continue
        own = key.removeprefix(_OF_POLICY)
        known = {name for each in policies for name in settings_of(find_rule("policies", each))}
        if own not in known:
            what = f"there are: {', '.join(sorted(known))}" if known else "it has none"
            owner = policies[0] if len(policies) == 1 else "any policy that is run"
            raise BadConfig(f"--set {setting}: {own!r} is no setting of {owner}; {what}")


def with_planners(
    choices: Choices,
    words: Sequence[str],
    orders: Sequence[str] = (),
    sorting: Collection[str] = SORTING,
) -> list[Choices]:
    """The choices for each word of `--planner`, and for each order.

    They are as they are without a word. A planner of `sorting` runs once: it uses no order."""
    found = [replace(choices, planner=word) for word in words] or [choices]
    if not orders:
        return found
    return [
        replace(each, order=order)
        for each in found
        for order in (orders[:1] if {*sorting} & {*_planners(each.planner)} else orders)
    ]


def compared_variants(
    base: Config,
    policies: Sequence[str],
    estimators: Sequence[str],
    choices: Choices,
    planners: Sequence[str] = (),
    orders: Sequence[str] = (),
    sorting: Collection[str] = SORTING,
    yours: bool = True,
) -> list[Variant]:
    """Your daemon, the variant of `exclusive`, and one of every other policy with every estimator,
    every word of `planners` and every order. `exclusive` gets all of them if it is the only policy.

    `yours`: whether your daemon is among them."""
    others = [name for name in policies if name != ALONE]
    check_settings(choices.settings, others or [ALONE])
    chosen, planned = (
        list(estimators) or [own_estimator(base, choices.fidelity)],
        with_planners(choices, planners, orders, sorting),
    )
    many = len(others or [ALONE]) * len(chosen) * len(planned)
    if many > _MOST_VARIANTS:
        raise UsageError(
            f"{many} combinations of policy, estimator, planner and order are more than "
            f"{_MOST_VARIANTS}; name fewer"
        )
    made = [
        make_variant(base, name, each, plan)
        for name in others or [ALONE]
        for each in chosen
        for plan in planned
    ]
    if others:
        made.insert(0, make_variant(base, ALONE, chosen[0], planned[0]))
    if not yours or choices.fidelity == "published":
        return made
    first = your_daemon(base, chosen[0], choices)
    return [first, *(each for each in made if each.scenario != first.scenario)]
