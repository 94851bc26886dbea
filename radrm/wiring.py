"""From configuration to rules. The one reader of the registries.

A rule's name leads to its class; the settings of its table become the class's
fields. Third parties add rules through entry points of the same group names
(`radrm.orders`, `radrm.policies`, ...). Names and settings are checked here; a rule
that cannot work with a value raises ValueError.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from radrm.config import Config
from radrm.core.records import Estimate
from radrm.core.rules import Description, Estimator, Order, Planner, Policy, Recovery
from radrm.core.scheduler import Rules
from radrm.core.settings import CoreSettings
from radrm.errors import BadConfig
from radrm.estimators import ESTIMATORS
from radrm.estimators.auto import Complain, ignore
from radrm.estimators.declared import Declared
from radrm.jobfile.radfile import JobFile
from radrm.orders import ORDERS
from radrm.orders.fifo import Fifo
from radrm.planners import PLANNERS
from radrm.planners.order_policy import OrderPolicy
from radrm.policies import POLICIES
from radrm.policies.exclusive import Exclusive
from radrm.recovery import RECOVERIES

REGISTRIES: Mapping[str, Mapping[str, str]] = {
    "orders": ORDERS,
    "policies": POLICIES,
    "planners": PLANNERS,
    "estimators": ESTIMATORS,
    "recovery": RECOVERIES,
}

TABLES: Mapping[str, str] = {kind: kind for kind in REGISTRIES} | {"recovery": "recoveries"}
"""The configuration's table for each kind of rule."""

AUTO_CHAIN = ("declared", "history", "trace", "summary", "gpumemnet", "horus")
"""What the estimator `auto` asks, best first; for each quantity the first that tells it is
believed."""
QUICK = ("declared", "history")
"""Those of them that answer at once, from what the job file and the store say."""

# Fields of a rule that belong to the rule itself and are nobody's setting.
_NOT_SETTINGS = frozenset(
    {
        *("name", "version", "listens", "whole_device"),
        *("order", "policy", "recovery_policy", "routes", "complain"),
    }
)

READINGS_MISSED = 5
"""So many rounds of readings may be missed before the last one counts as stale."""

# Fields of the core's settings that follow from something else.
_NOT_CORE_SETTINGS = {
    "collocation": 'write collocation = "..." above the tables',
    "overcommit": "it follows from the policy: conditions = false in the policy's table",
    "whole_devices": 'it follows from the policy: policy = "exclusive"',
}


# ------------------------------------------------------------------ rules


def find_rule(kind: str, name: str) -> Callable[..., Any]:
    """The class of a rule. Raises `BadConfig` naming the nearest one there is."""
    known = dict(REGISTRIES[kind])
    target = known.get(name)
    if target is not None:
        module, _, attribute = target.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), attribute)
        return found
    # Imported here: only rules that radrm does not bring along need it, and people wait.
    from importlib.metadata import entry_points

    offered = {point.name: point for point in entry_points(group=f"radrm.{kind}")}
    if name in offered:
        loaded: Callable[..., Any] = offered[name].load()
        return loaded
    names = sorted([*known, *offered])
    raise BadConfig(f"there is no rule {name!r} among {kind}{_nearest(name, names)}")


def _make(kind: str, name: str, tables: Mapping[str, Mapping[str, Any]], **parts: Any) -> Any:
    rule, where = find_rule(kind, name), f"{TABLES[kind]}.{name}"
    given = dict(tables.get(name, {}))
    settings = _checked(where, rule, given)
    try:
        return rule(**settings, **parts)
    except ValueError as error:
        raise BadConfig(f"[{where}] {error}") from None


def settings_of(rule: Callable[..., Any]) -> dict[str, Field[Any]]:
    """The fields of a rule's class that are settings, by name."""
    found = fields(rule) if is_dataclass(rule) else ()
    return {f.name: f for f in found if f.init and f.name not in _NOT_SETTINGS}


def _checked(where: str, rule: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a table, each a known field of the right kind."""
    if not is_dataclass(rule):
        return dict(given)
    settings = settings_of(rule)
    for key, value in given.items():
        if key not in settings:
            hint = _nearest(key, sorted(settings))
            raise BadConfig(f"[{where}] has no setting {key!r}{hint}")
        _check_kind(f"{where}.{key}", settings[key], value)
    return dict(given)


def _check_kind(where: str, setting: Field[Any], value: Any) -> None:
    default = setting.default
    if default is MISSING:
        return
    kind = type(default)
    if isinstance(value, bool) is not (kind is bool):
        right = False
    elif kind is float:
        right = isinstance(value, (int, float)) and _finite(value)
    else:
        right = isinstance(value, kind)
    if not right:
        raise BadConfig(f"{where} = {value!r} is of the wrong kind; {default!r} is its default")
    if isinstance(value, (int, float)) and value < 0:
        raise BadConfig(f"{where} = {value!r} is below zero")


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number with hundreds of digits
        return False


def _nearest(word: str, names: list[str]) -> str:
    near = get_close_matches(word, names, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(names)}"


def make_rules(config: Config) -> Rules:
    """The rules that a configuration names."""
    order: Order = _make("orders", config.order, config.orders)
    policy = _make_policy(config)
    planner: Planner = _make(
        "planners",
        config.planner,
        config.planners,
        order=order,
        policy=policy,
        recovery_policy=Exclusive(whole_device=policy.whole_device),
    )
    recovery: Recovery = _make("recovery", config.recovery, config.recoveries)
    for kind, table in TABLES.items():
        for name in getattr(config, table):
            find_rule(kind, name)  # a table of settings for a rule that does not exist
    first: Any = Fifo()
    alone: Any = Exclusive()
    instead = OrderPolicy(first, alone, alone, name="instead")
    return Rules(order=order, planners=(planner,), recovery=recovery, instead=instead)


def _make_policy(config: Config) -> Policy:
    policy: Policy = _make("policies", config.policy, config.policies)
    return policy


def make_settings(
    config: Config,
    reading_interval_s: float = 1.0,
    cpus: int | None = None,
    patience_s: float = 0.0,
) -> CoreSettings:
    """The core's settings; nothing is stale before a few readings could have been taken, nor
    before `patience_s`.

    `overcommit` and `whole_devices` follow from the policy and are nobody's to set: with a
    policy that looks at memory the first would only void what that policy promises.
    """
    for key in config.core.keys() & _NOT_CORE_SETTINGS.keys():
        raise BadConfig(f"[core] {key} is not set here; {_NOT_CORE_SETTINGS[key]}")
    given = _checked("core", CoreSettings, {**config.strangers.for_core, **config.core})
    if cpus is not None:
        given.setdefault("gpuless_at_once", cpus)
    policy = _make_policy(config)
    follows = {
        "collocation": config.collocation,
        "overcommit": bool(getattr(policy, "overcommits", False)),
        "whole_devices": policy.whole_device,
    }
    settings = CoreSettings(**{**given, **follows})
    stale_after_s = max(settings.stale_after_s, READINGS_MISSED * reading_interval_s, patience_s)
    return replace(settings, stale_after_s=stale_after_s)


def settings_markdown() -> str:
    """Every setting of every rule, with its default: the table of the documentation."""
    lines = ["| table | settings and their defaults |", "| --- | --- |"]
    for kind, rules in REGISTRIES.items():
        for name in rules:
            settings = settings_of(find_rule(kind, name)).values()
            shown = ", ".join(f"`{s.name} = {json.dumps(s.default)}`" for s in settings)
            lines += [f"| `[{TABLES[kind]}.{name}]` | {shown} |"] if shown else []
    return "\n".join(lines)


# ------------------------------------------------------------------ estimates


@dataclass(frozen=True, slots=True)
class Estimating:
    """The estimator of a configuration, and that part of it which answers at once."""

    estimator: Estimator
    quick: Estimator

    def at_once(self, job: Description) -> tuple[Estimate, ...]:
        """What needs no thought."""
        return _declared_first(self.quick, job)

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        """All that can be told: it may take a while, and a third party's may raise anything."""
        return _declared_first(self.estimator, job)


def _declared_first(estimator: Estimator, job: Description) -> tuple[Estimate, ...]:
    """What is declared beats every estimator; the rest is theirs to tell."""
    told = Declared().estimate(replace(job, published={}))
    known = {e.quantity for e in told}
    return told + tuple(e for e in estimator.estimate(job) if e.quantity not in known)


def _as_it_is(estimator: Estimator) -> Estimator:
    return estimator


def make_estimating(
    config: Config,
    timed: Callable[[Estimator], Estimator] = _as_it_is,
    complain: Complain = ignore,
) -> Estimating:
    """The estimator that a configuration names. `timed` wraps each route of `auto`."""
    if config.estimator != "auto":
        chosen: Estimator = _make("estimators", config.estimator, config.estimators)
        nothing: Estimator = _make("estimators", "none", {})
        return Estimating(estimator=timed(chosen), quick=nothing)

    def auto(*names: str) -> Estimator:
        routes = [timed(_make("estimators", name, config.estimators)) for name in names]
        return make_auto(config, routes, complain)

    return Estimating(estimator=auto(*AUTO_CHAIN), quick=auto(*QUICK))


def make_auto(
    config: Config, routes: Sequence[Estimator], complain: Complain = ignore
) -> Estimator:
    """`auto` with its configured settings over these routes, best first."""
    words = {"routes": tuple(routes), "complain": complain}
    made: Estimator = _make("estimators", "auto", config.estimators, **words)
    return made


def describe(job_file: JobFile) -> Description:
    """What a job file tells an estimator."""
    options = job_file.options
    named = {
        "measured": job_file.measured,
        "horus": job_file.horus,
        "faketensor": job_file.faketensor,
        "gpumemnet": job_file.gpumemnet,
    }
    return Description(
        spec=job_file.spec(user="", uid=-1),
        declared_mib=options.gpu_memory_mib,
        declared_smact=options.smact,
        declared_duration_s=options.duration_s,
        published={name: mib for name, mib in named.items() if mib is not None},
        summary=job_file.summary,
        batch_size=options.batch_size,
        sequence_length=options.sequence_length,
        input_shape=options.input_shape,
        optimizer=options.optimizer,
        precision=options.precision,
    )
