"""Which settings of a configuration have changed, and which of them need a restart.

Some parts of the daemon are made at its start and keep their settings: they need a restart. All
others can change at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from radrm.config import Config, shown

AT_START = frozenset(
    {
        *("device_ids", "estimator", "estimators", "estimation"),
        *("mps", "readings", "unmanaged", "node", "progress", "daemon"),
    }
)
"""The keys and tables that only a start reads."""
AT_START_ONE = frozenset(
    {
        "core.grace_s",
        *("gpus.only", "gpus.until", "gpus.isolate", "gpus.memory_caps"),
    }
)
"""Single settings of other tables that only a start reads."""
_OF_HOST = frozenset({"retention", "notify", "limits"})
"""Tables that the scheduler does not use, but for these settings."""
_OF_SCHEDULER = frozenset({"limits.running_jobs", "limits.gpus"})


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that has changed: `idle.action`, from `before` to `after`."""

    key: str
    before: Any
    after: Any

    @property
    def at_start(self) -> bool:
        """True if only a start reads it."""
        return self.key.partition(".")[0] in AT_START or self.key in AT_START_ONE

    @property
    def of_scheduler(self) -> bool:
        """True if the scheduler uses it."""
        return self.key in _OF_SCHEDULER or self.key.partition(".")[0] not in _OF_HOST

    def __str__(self) -> str:
        if self.at_start:
            return f"{self.key} = {shown(self.after)} needs a restart; {shown(self.before)} stays"
        return f"{self.key} = {shown(self.after)} applies now; it was {shown(self.before)}"


def changes(before: Config, after: Config) -> tuple[Change, ...]:
    """Return the settings that differ, by key. A setting that is not given is None."""
    old, new = (dict(_flat(each.to_table())) for each in (before, after))
    return tuple(
        Change(key, old.get(key), new.get(key))
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    )


def _flat(table: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{where}{key}.")
        else:
            yield f"{where}{key}", value


def applicable(before: Config, after: Config) -> Config:
    """Return the new configuration, but for what needs a restart."""
    kept = {each.name: getattr(before, each.name) for each in fields(before)}
    found = replace(after, **{name: kept[name] for name in AT_START & kept.keys()})
    core = {key: value for key, value in found.core.items() if key != "grace_s"}
    if "grace_s" in before.core:
        core["grace_s"] = before.core["grace_s"]
    return replace(found, core=core)
