"""Make rules from the configuration. Only this module finds a rule by its name.

A rule's name selects its class, and the settings of its table become the class's fields. Third
parties add rules by entry points (`radrm.orders`, `radrm.policies`, ...; see `radrm.rules`).
Estimators are made without the rest: `radrm estimate` does not import what schedules jobs.
Names and settings are checked here. A rule raises ValueError for a value that it cannot use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from msgspec import Struct

from radrm import structs, wings
from radrm.config import Config, resolved, shown
from radrm.core.records import DECLARED, Estimate
from radrm.core.rules import (
    Order,
    Planner,
    Policy,
    Recovery,
    Rules,
    SlowPlanner,
    is_slow,
    missing_members,
    wrong_calls,
)
from radrm.core.settings import CoreSettings
from radrm.core.settings import settings_of as own_settings_of
from radrm.deadlines import UTC, Costs, Zone
from radrm.deadlines import make_costs as make_costs
from radrm.errors import BadConfig, one_line
from radrm.estimators.auto import Auto, Complain, ignore
from radrm.estimators.declared import Declared
from radrm.estimators.describing import describe as describe
from radrm.estimators.interface import Description, Estimator
from radrm.planners.idle import NOTIFY, OFF, Idle
from radrm.planners.slots import Slots

_OWN = {
    "orders": "radrm.orders:ORDERS",
    "policies": "radrm.policies:POLICIES",
    "planners": "radrm.planners:PLANNERS",
    "estimators": "radrm.estimators:ESTIMATORS",
    "recovery": "radrm.recovery:RECOVERIES",
}
"""Where radrm's rules of each kind are listed."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from radrm.core.rules import Rules

KINDS = tuple(_OWN)
"""The kinds of rules."""

TABLES: Mapping[str, str] = {kind: kind for kind in KINDS} | {"recovery": "recoveries"}
"""The table of the configuration for each kind of rule."""

INTERFACES: Mapping[str, type] = {
    "orders": Order,
    "policies": Policy,
    "planners": Planner,
    "estimators": Estimator,
    "recovery": Recovery,
}
"""The protocol that a rule of each kind must have."""

AUTO_CHAIN = ("declared", "history", "trace", "script", "summary", "gpumemnet", "horus")
"""The estimators that `auto` calls, best first. The first answer for each quantity counts."""
OF_SUMMARIES = frozenset({"summary", "gpumemnet", "horus"})
"""Those that answer nothing about a job without a model's summary. They are large to import."""
QUICK = ("declared", "history")
"""Those of `AUTO_CHAIN` that answer at once, from the job file and the store. They come first."""

_MOST = 1_000_000_000
"""The largest number of a setting of rules and of the core: as seconds, it is 31 years."""

# Fields of a rule that are not settings: its name, and its parts.
_NOT_SETTINGS = frozenset(
    {
        *("name", "version", "listens", "starts_jobs", "whole_device"),
        *("order", "policy", "recovery_policy", "costs", "routes", "complain"),
        *("site_zone", "shares"),
    }
)

_SHARED = {("policies", "sharing"): "radrm.policies.sharing:Sharing"}
"""The tables of several rules, by kind and name."""

FALLBACK = "fallback"
"""The name of the planner that starts jobs while the configured one rests."""
TRACES_WAITED_FOR = 10.0
"""In lengths of one trace, the time in which a job's estimators must have answered."""
READINGS_MISSED = 5
"""A reading is stale after this many missed rounds of readings."""

_OF_USERS = "running_jobs", "gpus", "reserved_gpu_hours"
"""The limits of users that the core applies."""


# ------------------------------------------------------------------ rules


def registry(kind: str) -> Mapping[str, str]:
    """Return where each rule of a kind is that radrm has, with those of its wings."""
    own = _own(kind)
    return {**own, **wings.planners()} if kind == "planners" else own


def _own(kind: str) -> Mapping[str, str]:
    found: Mapping[str, str] = _at(_OWN[kind])
    return found


def _at(place: str) -> Any:
    """Return what is at a place, "module:name"."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def find_rule(kind: str, name: str) -> Callable[..., Any]:
    """Return the class of a rule. Raises `BadConfig`, which names the nearest known rule."""
    if kind == "planners":
        from radrm.planners import NOT_CHOSEN  # an estimator needs no planner

        if name in NOT_CHOSEN:
            raise BadConfig(f"{name} is not chosen as a planner; {NOT_CHOSEN[name]}")
    # Reading what wings have is slow, and most sites use a rule of the server.
    target = _own(kind).get(name) or registry(kind).get(name)
    if target is not None:
        found: Callable[..., Any] = _at(target)
        return found
    theirs = offered(kind)
    if name in theirs:
        with _not_raising(f"{TABLES[kind]}.{name}"):
            loaded: Callable[..., Any] = theirs[name].load()
        return loaded
    names = sorted([*registry(kind), *theirs])
    raise BadConfig(f"there is no rule {shown(name)} among {kind}{_nearest(name, names)}")


def offered(kind: str) -> dict[str, EntryPoint]:
    """Return the entry points of a kind of rule that other packages have, by the rule's name."""
    from importlib.metadata import entry_points  # slow, and only rules of third parties need it

    return {point.name: point for point in entry_points(group=f"radrm.{kind}")}


def _make(
    kind: str,
    name: str,
    tables: Mapping[str, Mapping[str, Any]],
    interface: type | None = None,
    **parts: Any,
) -> Any:
    """Return a rule with the settings of its table. Raises `BadConfig`.

    `interface` is the protocol that it must have; None: that of its kind.
    """
    rule, table = find_rule(kind, name), table_of(kind, name)
    where, given = f"{TABLES[kind]}.{table}", dict(tables.get(table, {}))
    settings = _checked(where, rule, given)
    interface = interface or INTERFACES[kind]
    with _not_raising(where):
        try:
            made = rule(**settings, **parts)
        except ValueError as error:
            raise BadConfig(f"[{where}] {error}") from None
        if (getattr(rule, "__module__", None) or "").partition(".")[0] == "radrm":
            return made  # the types of our own are checked before they ship
        missing = missing_members(made, interface)
        wrong = wrong_calls(made, interface)
    if missing or wrong:
        wanted, kept = f"radrm.rules.{interface.__name__}", type(made)
        has = f"of {kept.__module__}.{kept.__qualname__} has {'; '.join(wrong)};" if wrong else ""
        lacks = f"has no {', '.join(missing)};" if missing else ""
        whole = " ".join(("the rule", *filter(None, (has, lacks))))
        raise BadConfig(f"[{where}] {whole} add what {wanted} has, or use another rule")
    return made


@contextmanager
def _not_raising(where: str) -> Iterator[None]:
    """Raise `BadConfig` for what code of third parties raises while a rule is made."""
    try:
        yield
    except BadConfig:
        raise
    except (Exception, SystemExit) as error:
        raise BadConfig(f"[{where}] the rule cannot be used: {one_line(error)}") from error


def settings_of(rule: Callable[..., Any]) -> dict[str, Field[Any]]:
    """Return the fields of a rule's class that are settings, by name."""
    found = own_settings_of(rule)
    return {name: found[name] for name in found if name not in _NOT_SETTINGS}


def table_of(kind: str, name: str) -> str:
    """Return the table of a rule's settings: its own, or one of several rules."""
    return str(getattr(find_rule(kind, name), "table", name))


def rule_of_table(kind: str, table: str) -> Callable[..., Any]:
    """Return the class whose settings a table holds: one that several rules share, or the rule
    itself. Raises `BadConfig` for an unknown table."""
    shared = _SHARED.get((kind, table))
    return find_rule(kind, table) if shared is None else _at(shared)


def _check_tables(config: Config) -> None:
    """Raise `BadConfig` for a table of a missing rule, and in a file for what is no setting."""
    for kind, tables in TABLES.items():
        for table, given in getattr(config, tables).items():
            rule = rule_of_table(kind, table)
            if (used := getattr(rule, "table", table)) != table:
                where = f"{tables}.{used}"
                raise BadConfig(f"[{tables}.{table}] has no settings; write them in [{where}]")
            if config.from_text and is_dataclass(rule):
                _known(f"{tables}.{table}", settings_of(rule), given)


def _checked(where: str, rule: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a table, and fixed values that only Python code can give.

    Raises `BadConfig` for unknown keys and wrong kinds.
    """
    if not is_dataclass(rule):
        return dict(given)
    taken = {f.name: f for f in fields(rule) if f.init and f.name not in _NOT_SETTINGS}
    _known(where, taken, given)
    for key, value in given.items():
        _check_kind(f"{where}.{key}", taken[key], value)
    return {key: tuple(each) if isinstance(each, list) else each for key, each in given.items()}


def _known(where: str, settings: Mapping[str, Field[Any]], given: Mapping[str, Any]) -> None:
    for key in given:
        if key not in settings:
            hint = _nearest(key, sorted(settings))
            raise BadConfig(f"[{where}] has no setting {shown(key)}{hint}")


def _check_kind(where: str, setting: Field[Any], value: Any) -> None:
    default = setting.default
    if default is MISSING:
        return
    kind = type(default)
    # Python counts a bool as an int, so it is checked first.
    if isinstance(value, bool) is not (kind is bool):
        right = False
    elif kind is tuple:
        right = isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
    elif kind is float:
        right = isinstance(value, (int, float))
        if right and not _finite(value):
            raise BadConfig(f"{where} = {shown(value)} is not a finite number")
    else:
        right = isinstance(value, kind)
    if not right:
        usual = list(default) if kind is tuple else default
        raise BadConfig(f"{where} = {shown(value)} is of the wrong kind; {usual!r} is its default")
    if isinstance(value, (int, float)) and not 0 <= value <= _MOST:
        wrong = "is below zero" if value < 0 else f"is above {_MOST:,}"
        raise BadConfig(f"{where} = {shown(value)} {wrong}")


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number with hundreds of digits
        return False


def _nearest(word: str, names: list[str]) -> str:
    if not names:
        return "; it has none; remove it"
    near = get_close_matches(word, names, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(names)}"


def make_rules(config: Config, zone: Zone = UTC, sessions: bool = False) -> Rules:
    """Return the rules that a configuration names. `zone`: that of local times. `sessions`: jobs
    may be sessions of `radrm run`."""
    from radrm.core.rules import Rules
    from radrm.interference.learning import LossLearner
    from radrm.orders import Ageing
    from radrm.planners.order_policy import OrderPolicy
    from radrm.policies.exclusive import Exclusive

    _check_tables(config)
    config = resolved(config)
    order = make_order(config)
    if isinstance(order, Ageing):
        order = replace(order, site_zone=zone)
    policy, costs = _make_policy(config), make_costs(config, zone)
    planners = tuple(_make_planner(config, name, policy, costs) for name in config.planner)
    _check_planners(planners)
    planners += tuple(added(config, policy, zone, sessions))
    recovery: Recovery = _make("recovery", config.recovery, config.recoveries)
    alone: Any = Exclusive()
    fallback = OrderPolicy(alone, alone, name=FALLBACK)
    return Rules(order, planners, recovery, fallback, LossLearner())


def make_order(config: Config) -> Order:
    """Return the order of a configuration. Raises `BadConfig`."""
    from radrm.orders import SmallestWork

    config = resolved(config)
    order: Order = _make("orders", config.order, config.orders)
    if isinstance(order, SmallestWork):
        order = replace(order, shares=_make("orders", "fair", config.orders))
    return order


def make_planner(config: Config, name: str, zone: Zone = UTC) -> Planner | SlowPlanner:
    """Return one planner of a configuration. Raises `BadConfig`."""
    _check_tables(config)
    config = resolved(config)
    return _make_planner(config, name, _make_policy(config), make_costs(config, zone))


def _make_planner(config: Config, name: str, policy: Policy, costs: Costs) -> Planner | SlowPlanner:
    from radrm.policies.exclusive import Exclusive

    rule = find_rule("planners", name)
    parts: dict[str, Any] = {
        "policy": policy,
        "recovery_policy": Exclusive(whole_device=policy.whole_device),
        "costs": costs,
    }
    with _not_raising(f"planners.{name}"):
        # Only a planner that takes them (the default one) gets the other rules.
        taken = signature(rule).parameters
        everything = any(each.kind is Parameter.VAR_KEYWORD for each in taken.values())
        used = {part: made for part, made in parts.items() if everything or part in taken}
        interface = SlowPlanner if is_slow(rule) else Planner
        found: Planner | SlowPlanner = _make("planners", name, config.planners, interface, **used)
        if type(found.starts_jobs) is not bool:
            raise BadConfig(f"[planners.{name}] its starts_jobs is neither true nor false")
        # A planner's state, failures and process go by its name.
        if found.name != name:
            raise BadConfig(f"[planners.{name}] its name is {found.name!r}; call it {name!r} too")
    if name == FALLBACK:
        raise BadConfig(f"[planners.{name}] radrm has a planner of this name; choose another")
    return found


def _check_planners(planners: Sequence[Planner | SlowPlanner]) -> None:
    """Raise `BadConfig` unless exactly one planner starts jobs."""
    listed = ", ".join(f'"{planner.name}"' for planner in planners)
    where = f"planner = [{listed}]" if len(planners) > 1 else f"planner = {listed}"
    starters = [planner.name for planner in planners if planner.starts_jobs]
    if not starters:
        raise BadConfig(
            f'{where}: no planner starts waiting jobs; add one that does, as planner = ["strict", '
            f"{listed}]"
        )
    if len(starters) > 1:
        raise BadConfig(
            f"{where}: {starters[0]} and {starters[1]} both start waiting jobs; keep one of them"
        )


def _make_policy(config: Config) -> Policy:
    policy: Policy = _make("policies", config.policy, config.policies)
    return policy


def make_settings(
    config: Config,
    reading_interval_s: float = 1.0,
    cpus: int | None = None,
    patience_s: float = 0.0,
    exempt: tuple[int, ...] = (),
) -> CoreSettings:
    """Return the core's settings. `exempt`: the users (uids) without limits.

    A reading is stale only after `READINGS_MISSED` rounds and `patience_s`.
    """
    given = _checked("core", CoreSettings, config.core)
    if cpus is not None:
        given.setdefault("gpuless_at_once", cpus)
    policy = _make_policy(resolved(config))
    follows = {
        "collocation": config.collocation,
        "yield_to_unmanaged": config.unmanaged.action == "drain",
        "stops_misplaced": config.gpus.misplaced == "cancel",
        "overcommit": policy.overcommits,
        "whole_devices": policy.whole_device,
        "trial_floor_mib": policy.floor_mib if getattr(policy, "trials", False) is True else None,
        # A policy that does not say so cannot weigh it.
        "honours_slowdown": getattr(policy, "honours_slowdown", False) is True,
        "gpu_order": config.gpus.order,
        "estimate_limit_s": TRACES_WAITED_FOR * config.estimation.trace_limit_s,
        "checkpoint_limit_s": config.checkpoint.patience_s,
        **{f"user_{name}": getattr(config.limits, name) for name in _OF_USERS},
        "exempt_users": exempt,
    }
    settings = CoreSettings(**{**given, **follows})
    stale_after_s = max(settings.stale_after_s, READINGS_MISSED * reading_interval_s, patience_s)
    return replace(settings, stale_after_s=stale_after_s)


# ------------------------------------------------------------------ estimates


class Estimating(Struct, frozen=True):
    """The estimator of a configuration, and its part `quick` that answers at once."""

    estimator: Estimator
    quick: Estimator

    def at_once(self, job: Description) -> tuple[Estimate, ...]:
        """Return the estimates that need no work."""
        return _declared_first(self.quick, job)

    def estimate(self, job: Description) -> tuple[Estimate, ...]:
        """Return all estimates. This may take long. An estimator of third parties may raise."""
        return _declared_first(self.estimator, job)


def _declared_first(estimator: Estimator, job: Description) -> tuple[Estimate, ...]:
    """Return the declared figures, and the estimator's for the other quantities.

    The estimator's own record of a declared figure has its learned bound, and comes instead.
    """
    declared = Declared().estimate(structs.replace(job, published={}))
    known = {e.quantity for e in declared}
    found = estimator.estimate(job)
    own = {e.quantity: e for e in found if e.source == DECLARED}
    first = tuple(own.get(e.quantity, e) for e in declared)
    return first + tuple(e for e in found if e.quantity not in known)


def _unchanged(estimator: Estimator) -> Estimator:
    return estimator


def make_estimating(
    config: Config,
    timed: Callable[[Estimator], Estimator] = _unchanged,
    complain: Complain = ignore,
    summaries: bool = True,
) -> Estimating:
    """Return the estimator of a configuration. `timed` wraps each route of `auto`. `summaries`:
    jobs may have a model's summary."""
    if config.estimator != "auto":
        chosen: Estimator = _make("estimators", config.estimator, config.estimators)
        nothing: Estimator = _make("estimators", "none", {})
        return Estimating(estimator=timed(chosen), quick=nothing)

    def auto(*names: str) -> Estimator:
        routes = [timed(_make("estimators", name, config.estimators)) for name in names]
        return make_auto(config, routes, complain)

    asked = [each for each in asked_by_auto(config) if summaries or each not in OF_SUMMARIES]
    return Estimating(estimator=auto(*asked), quick=auto(*QUICK))


def asked_by_auto(config: Config) -> tuple[str, ...]:
    """Return the estimators that `auto` calls, best first. Raises `BadConfig`.

    Those of a site (`also`) come after what is declared and measured: these know the job itself.
    """
    also = make_auto(config, ()).also
    for name in also:
        if name in ("auto", *AUTO_CHAIN) or also.count(name) > 1:
            raise BadConfig(f"[estimators.auto] also = {list(also)}: {name} is asked already")
    return (*QUICK, *also, *AUTO_CHAIN[len(QUICK) :])


def make_auto(config: Config, routes: Sequence[Estimator], complain: Complain = ignore) -> Auto:
    """Return `auto` with its settings, for these routes, best first."""
    words: dict[str, Any] = {"routes": tuple(routes), "complain": complain}
    made: Auto = _make("estimators", "auto", config.estimators, **words)
    return made


# ------------------------------------------------------------------
# The planners that run because of a table of their own, behind the configured ones.


def added(config: Config, policy: Policy, zone: Zone, sessions: bool) -> Iterator[Planner]:
    """Yield these planners. `sessions`: jobs may be sessions of users, as in a daemon.

    Raises `BadConfig` for settings that contradict one another."""
    if config.slots.length_s > 0:
        # Behind those that start jobs: a job that still waits then could not start.
        yield _slots(config, policy, zone)
    its, off = config.idle, config.idle.action == OFF
    if sessions or not off:
        yield Idle(
            NOTIFY if off else its.action,
            *(its.smact_below, its.for_s, its.warmup_s, its.warn_s, its.interactive_for_s),
            only_sessions=off,
        )


def _slots(config: Config, policy: Policy, zone: Zone) -> Slots:
    length_s, warn_s = config.slots.length_s, config.slots.warn_s
    if warn_s >= length_s:
        raise BadConfig(
            f"slots.warn_s = {warn_s:g} is not less than slots.length_s = {length_s:g}; "
            f"write [slots] warn_s = {length_s / 10:g}"
        )
    return Slots(policy, length_s, warn_s, zone)
