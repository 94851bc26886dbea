"""Checks of tables, of `[notify]` and `[slurm]`, and of contradictory settings.

This checks keys, types and choices. `radrm.wiring` checks whether a rule exists, and its
settings.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from msgspec import Struct

from radrm.config import values as v
from radrm.config.goals import AUTO, GOALS, PUBLISHED, SHARING, resolved
from radrm.config.shapes import (
    CheckpointConfig,
    Config,
    DeadlinesConfig,
    EnergyConfig,
    EstimationConfig,
    GpusConfig,
    IdleConfig,
    LimitsConfig,
    MpsConfig,
    NodeConfig,
    NotifyConfig,
    ProgressConfig,
    ReadingsConfig,
    RetentionConfig,
    SlotsConfig,
    SlurmConfig,
    Table,
    UnmanagedConfig,
)
from radrm.core.settings import CoreSettings, settings_of
from radrm.core.units import parse_mib
from radrm.core.words import Collocation
from radrm.errors import BadConfig
from radrm.jobfile.targets import KINDS, Target, target_of

_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_MOST_MIB = 1 << 24


def _name(value: Any, place: v.Place) -> str:
    """Return a name of Slurm's: it becomes a word of its commands."""
    if not isinstance(value, str) or not re.fullmatch(_NAME, value):
        raise v.wrong(place, 'a name of letters, digits, _ and -, as in "shared"', value)
    return value


def _slurm_node(value: Any, place: v.Place) -> str:
    """Return a node's name, or nothing."""
    return "" if value == "" else _name(value, place)


def _memory(value: Any, place: v.Place) -> str:
    """Return a size of GPU memory as text."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    try:
        if not (whole or isinstance(value, str)) or not 1 <= parse_mib(str(value)) <= _MOST_MIB:
            raise ValueError
    except ValueError:
        raise v.wrong(place, 'a size of GPU memory, as in "6G"', value) from None
    return str(value)


def _home(value: Any, place: v.Place) -> str:
    """Return an absolute folder; `%n` in it is the node's name."""
    sound = isinstance(value, str) and value.isprintable()
    if not sound or (value != "" and not value.startswith("/")):
        raise v.wrong(place, 'an absolute folder, as in "/var/lib/radrm-%n"', value)
    return str(value)


SLURM: dict[str, v.Check] = {
    **dict.fromkeys(("enabled", "only", "fence"), v.switch),
    **dict.fromkeys(("partition", "gres"), _name),
    "node": _slurm_node,
    "default_gpumem": _memory,
    "local_wait_s": v.between(1, 31_536_000),
    "home": _home,
}


_MOST_TARGETS = 8


def _targets(value: Any, place: v.Place) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MOST_TARGETS:
        raise v.wrong(place, f'a list of at most {_MOST_TARGETS} targets, as in ["mail"]', value)
    for word in value:
        if _read(word) is None:
            raise v.wrong(place, 'targets as --notify takes them, as in ["mail:fail"]', word)
    return tuple(value)


def _read(word: Any) -> Target | None:
    try:
        return target_of(word) if isinstance(word, str) else None
    except ValueError:
        return None


def _kinds(value: Any, place: v.Place) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(word in KINDS for word in value):
        raise v.wrong(place, f"a list of {', '.join(KINDS)}", value)
    return tuple(dict.fromkeys(value))


def _sender(value: Any, place: v.Place) -> str:
    target = _read(value)
    if value != "" and (target is None or target.kind != "mail" or target.address != value):
        raise v.wrong(place, 'a mail address, or ""', value)
    return str(value)


def _domain(value: Any, place: v.Place) -> str:
    target = _read(f"user@{value}") if isinstance(value, str) else None
    if value != "" and (target is None or target.address != f"user@{value}"):
        raise v.wrong(place, 'a domain such as example.org, or ""', value)
    return str(value)


NOTIFY: dict[str, v.Check] = {
    "default": _targets,
    "kinds": _kinds,
    "mail_from": _sender,
    "mail_domain": _domain,
}


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]


class Examined(Struct, frozen=True):
    """The usable part of a configuration, and one line on each error."""

    config: Config
    errors: tuple[str, ...] = ()

    def accepted(self) -> Config:
        """Return the configuration. Raises `BadConfig` for an error."""
        if self.errors:
            raise BadConfig(self.errors[0])
        return self.config


def parse_config(text: str, source_name: str) -> Config:
    """Read TOML text. Every error begins with `source_name`. Raises `BadConfig`."""
    return examine_config(text, source_name).accepted()


def parse_table(table: Table, source_name: str) -> Config:
    """Return the configuration of a table, as `Config.to_table` makes it. Raises `BadConfig`."""
    return _examined(table, source_name).accepted()


def examine_config(text: str, source_name: str) -> Examined:
    """Read TOML text and find all its errors. Raises `BadConfig` for too deep nesting."""
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise BadConfig(f"{source_name}: not TOML: nested too deeply") from None
    except ValueError as error:
        return Examined(Config(), (f"{source_name}: not TOML: {error}",))
    return _examined(table, source_name)


def toml_value(text: str) -> Any:
    """Return the value of a TOML text; the text itself if it is not TOML."""
    try:
        read = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # one that is nested too deeply is none, either
        return text
    return read["value"] if len(read) == 1 else text


def _examined(table: Table, source: str) -> Examined:
    if v.too_deep(table):
        raise BadConfig(f"{source}: nested too deeply")
    place = v.Place(source, [])
    config = Config(**v.known(table, _CHECKS, place), from_text=True)
    return Examined(config, tuple(place.errors))


_CHOOSE_THEMSELVES = frozenset({"andreas", "deadline"})
"""The planners that have jobs give way by an order of their own."""


def contradictions(config: Config) -> list[str]:
    """Return one line for each pair of contradictory settings."""
    found = _unused_tables(config)
    if config.collocation is Collocation.MPS and not config.mps.enabled:
        found.append(
            "collocation = 'mps' while mps.enabled is false: jobs would be time-sliced; "
            "set mps.enabled = true, or collocation = 'auto'"
        )
    if config.readings.smact == "gpm" and config.readings.source == "nvidia-smi":
        found.append(
            "readings.smact = 'gpm' while readings.source = 'nvidia-smi', which cannot read GPM; "
            "set readings.source = 'auto'"
        )
    own = [name for name in config.planner if name in _CHOOSE_THEMSELVES]
    if config.slots.length_s > 0 and own:
        found.append(
            f"slots.length_s = {config.slots.length_s:g} while planner {own[0]!r} chooses itself "
            "who gives way: a job could start again at once; set slots.length_s = 0"
        )
    if {"andreas", "elastic"} <= set(config.planner):
        found.append(
            "planner 'elastic' beside 'andreas', which chooses the numbers of GPUs itself: each "
            "would undo what the other did; leave one of them out"
        )
    return found


def _unused_tables(config: Config) -> list[str]:
    """Return one line for each table of a policy or an order that `auto` does not choose."""
    meant, found = resolved(config), []
    tables_of = {meant.policy, *([SHARING] if meant.policy == PUBLISHED.policy else [])}
    for key, tables, used in (
        ("policy", config.policies, tables_of),
        ("order", config.orders, {meant.order}),
    ):
        if getattr(config, key) == AUTO:
            for name in tables.keys() - used:
                chosen = getattr(meant, key)
                found.append(
                    f"{key} = 'auto' means {chosen!r}, so the settings of {name!r} are not used; "
                    f"set {key}, or remove them"
                )
    return sorted(found)


# ------------------------------------------------------------------ the tables


def _mps(value: Any, place: v.Place) -> MpsConfig:
    sound = v.known(v.table(value, place), _MPS, place)
    enabled = sound.pop("enabled", False)
    only = enabled if isinstance(enabled, tuple) else ()
    return MpsConfig(enabled=bool(enabled), only=only, **sound)


def _gpus(value: Any, place: v.Place) -> GpusConfig:
    return GpusConfig(**v.known(v.table(value, place), _GPUS, place))


def _readings(value: Any, place: v.Place) -> ReadingsConfig:
    return ReadingsConfig(**v.known(v.table(value, place), _READINGS, place))


def _unmanaged(value: Any, place: v.Place) -> UnmanagedConfig:
    return UnmanagedConfig(**v.known(v.table(value, place), _UNMANAGED, place))


def _estimation(value: Any, place: v.Place) -> EstimationConfig:
    return EstimationConfig(**v.known(v.table(value, place), _ESTIMATION, place))


def _node(value: Any, place: v.Place) -> NodeConfig:
    return NodeConfig(**v.known(v.table(value, place), _NODE, place))


def _progress(value: Any, place: v.Place) -> ProgressConfig:
    return ProgressConfig(**v.known(v.table(value, place), _PROGRESS, place))


def _checkpoint(value: Any, place: v.Place) -> CheckpointConfig:
    sound = v.known(v.table(value, place), {"patience_s": v.between(1, 86_400)}, place)
    return CheckpointConfig(**sound)


def _deadlines(value: Any, place: v.Place) -> DeadlinesConfig:
    return DeadlinesConfig(**v.known(v.table(value, place), _DEADLINES, place))


def _energy(value: Any, place: v.Place) -> EnergyConfig:
    return EnergyConfig(**v.known(v.table(value, place), _ENERGY, place))


def _slots(value: Any, place: v.Place) -> SlotsConfig:
    # `wiring` compares the two: one `--set` changes one of them.
    return SlotsConfig(**v.known(v.table(value, place), _SLOTS, place))


def _idle(value: Any, place: v.Place) -> IdleConfig:
    return IdleConfig(**v.known(v.table(value, place), _IDLE, place))


def _core(value: Any, place: v.Place) -> dict[str, float]:
    return v.known(v.table(value, place), _CORE, place)


def _retention(value: Any, place: v.Place) -> RetentionConfig:
    return RetentionConfig(**v.known(v.table(value, place), _RETENTION, place))


def _notify(value: Any, place: v.Place) -> NotifyConfig:
    return NotifyConfig(**v.known(v.table(value, place), NOTIFY, place))


def _limits(value: Any, place: v.Place) -> LimitsConfig:
    return LimitsConfig(**v.known(v.table(value, place), _LIMITS, place))


def _slurm(value: Any, place: v.Place) -> SlurmConfig:
    return SlurmConfig(**v.known(v.table(value, place), SLURM, place))


def _collocation(value: Any, place: v.Place) -> Collocation:
    return Collocation(_COLLOCATION(value, place))


_COLLOCATION = v.choice("auto", "exclusive", "timeslice", "mps")
_RULES = v.every(v.table)

_MPS: dict[str, v.Check] = {
    "enabled": v.gpus,
    "active_thread_percentage": v.whole(1, 100),
    "multiuser": v.switch,
}
_READINGS: dict[str, v.Check] = {
    "interval_s": v.between(0.2, 10),
    "source": v.choice("auto", "nvml", "nvidia-smi"),
    "smact": v.choice("auto", "gpm", "dcgm", "dcgm-exporter", "utilization"),
    "dcgm_exporter": v.loopback_url,
}
_UNMANAGED: dict[str, v.Check] = {
    "action": v.choice("count", "warn", "drain", "signal"),
    "grace_s": v.grace,
    "spare": v.names,
    "spare_users": v.names,
}
_ESTIMATION: dict[str, v.Check] = {
    "trace": v.switch,
    "script": v.switch,
    "probe": v.switch,
    "trace_limit_s": v.between(1, 3600),
}
_GPUS: dict[str, v.Check] = {
    "only": v.gpu_names,
    "until": v.moment,
    "order": v.gpu_order,
    "isolate": v.switch,
    "misplaced": v.choice("notify", "cancel"),
    "memory_caps": v.switch,
}
_NODE: dict[str, v.Check] = {
    "cpus": v.cpus,
    "cpu_bind": v.choice("socket", "numa", "none"),
    "memory": v.host_memory,
}
_PROGRESS: dict[str, v.Check] = {"interval_s": v.between(1, 3600)}
_DEADLINES: dict[str, v.Check] = {"cost_per_hour": v.between(0, 1e9)}
_ENERGY: dict[str, v.Check] = {
    "price": v.price,
    "pue": v.between(1, 10),
    "currency": v.currency,
    "node_watts": v.node_watts,
    "wait_for_cheap": v.switch,
}
_SLOTS: dict[str, v.Check] = {"length_s": v.slot, "warn_s": v.between(0, 31_536_000)}
_IDLE: dict[str, v.Check] = {
    "action": v.choice("off", "notify", "requeue", "cancel"),
    **dict.fromkeys(("for_s", "warn_s"), v.between(60, 31_536_000)),
    "interactive_for_s": v.none_or(v.between(60, 31_536_000)),
}
_CORE: dict[str, v.Check] = dict.fromkeys(settings_of(CoreSettings), v.number)
_RETENTION: dict[str, v.Check] = {
    "finished_days": v.none_or(v.between(1, 36_500)),
    "finished_jobs": v.none_or(v.whole(100, 10**9)),
}
_LIMITS: dict[str, v.Check] = {
    **dict.fromkeys(("queued_jobs", "running_jobs", "gpus"), v.whole(0, 1_000_000_000)),
    "priority_max": v.whole(-1000, 1000),
    "reserved_gpu_hours": v.between(0, 1e6),
}
_CHECKS: dict[str, v.Check] = {
    "goal": v.choice(*GOALS),
    "policy": v.name,
    "order": v.name,
    "planner": v.planners,
    "estimator": v.name,
    "recovery": v.name,
    "collocation": _collocation,
    "device_ids": v.choice("uuid", "index"),
    "hints": v.switch,
    "policies": _RULES,
    "orders": _RULES,
    "planners": _RULES,
    "estimators": _RULES,
    "recoveries": _RULES,
    "core": _core,
    "gpus": _gpus,
    "mps": _mps,
    "readings": _readings,
    "estimation": _estimation,
    "unmanaged": _unmanaged,
    "node": _node,
    "progress": _progress,
    "checkpoint": _checkpoint,
    "deadlines": _deadlines,
    "energy": _energy,
    "slots": _slots,
    "idle": _idle,
    "retention": _retention,
    "notify": _notify,
    "limits": _limits,
    "slurm": _slurm,
}
