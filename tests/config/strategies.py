"""Strategies for configurations: any settings that are allowed."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from radrm.cli.settings import RULE_TABLES, core_settings, registry_of, rule_settings
from radrm.config import (
    Config,
    EnergyConfig,
    IdleConfig,
    LimitsConfig,
    MpsConfig,
    NotifyConfig,
    ReadingsConfig,
    RetentionConfig,
)
from radrm.core.words import Collocation
from radrm.wiring import registry, table_of


def setting_values(default: Any) -> st.SearchStrategy[Any]:
    """Values that a setting with this default takes."""
    if isinstance(default, bool):
        return st.booleans()
    if isinstance(default, int):
        return st.integers(0, 10**6)
    if isinstance(default, float):
        return st.floats(0, 1)
    return st.just(default)


NARROW: dict[str, st.SearchStrategy[Any]] = {
    "max_slowdown": st.just(0.0) | st.floats(1, 10),  # no fraction of 1
    "max_blind_jobs": st.integers(1, 100),
    "alpha": st.floats(0.001, 1),
    "min_gain": st.floats(0.1, 10),
    "beta": st.floats(1, 100),
    "interval_s": st.floats(1, 3600),
    "max_iterations": st.integers(1, 100_000),
    "period_s": st.floats(1, 3600),
    **dict.fromkeys(("quota", "budget", "start_cpus"), st.just(64.0)),
    "growth": st.floats(0.1, 1),
}
"""The values of settings that do not take all numbers from 0 to 1."""


def some_of(settings: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    optional = {key: setting_values(default) for key, default in settings.items()}
    optional |= {key: values for key, values in NARROW.items() if key in optional}
    return st.fixed_dictionaries({}, optional=optional)


def tables(table: str) -> st.SearchStrategy[dict[str, Any]]:
    kind = registry_of(table)
    names = {table_of(kind, name) for name in registry(kind)}
    optional = {name: some_of(rule_settings(table, name)) for name in sorted(names)}
    return st.fixed_dictionaries({}, optional=optional)


configs = st.builds(
    Config,
    **{
        key: st.sampled_from(sorted(registry(registry_of(t))))
        for t, key in RULE_TABLES.items()
        if key != "planner"
    },
    **{table: tables(table) for table in RULE_TABLES},
    collocation=st.sampled_from([c for c in Collocation if c is not Collocation.MIG]),
    device_ids=st.sampled_from(["uuid", "index"]),
    core=some_of(core_settings()),
    mps=st.builds(MpsConfig, st.booleans()),
    readings=st.builds(ReadingsConfig, interval_s=st.floats(0.2, 10)),
    limits=st.builds(
        LimitsConfig,
        running_jobs=st.integers(0, 10**9),
        reserved_gpu_hours=st.floats(0, 1e6),
        priority_max=st.integers(-1000, 1000),
    ),
    energy=st.builds(
        EnergyConfig,
        price=st.floats(0, 9) | st.just({"00:00": 0.1, "06:30": 0.2}),
        node_watts=st.just({}) | st.just({"V100": (530.0, 700.0), "T4": (400.0,)}),
    ),
    idle=st.builds(
        IdleConfig,
        action=st.sampled_from(["off", "notify", "requeue", "cancel"]),
        for_s=st.floats(60, 1e7),
    ),
    notify=st.builds(
        NotifyConfig,
        default=st.just(()) | st.just(("mail:fail", "~/bin/tell")),
        kinds=st.sets(st.sampled_from(["mail", "webhook", "command"])).map(tuple),
        mail_from=st.sampled_from(["", "radrm@example.org"]),
        mail_domain=st.sampled_from(["", "example.org"]),
    ),
    retention=st.builds(
        RetentionConfig,
        finished_days=st.just(0.0) | st.floats(1, 36_500),
        finished_jobs=st.just(0) | st.integers(100, 10**9),
    ),
)
