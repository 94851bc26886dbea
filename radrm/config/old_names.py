"""Names of an earlier release, which are accepted for one more release.

A renamed table works under its old name, with a warning, until the next release. A removed
setting is ignored, with a warning. In the next release remove their lines here: the old names
become unknown keys.
"""

from __future__ import annotations

from radrm.config.shapes import Table

OLD_TABLES = {"strangers": "unmanaged"}
"""The present name of each renamed table."""

_BOUNDED = "the first waiting job always starts first; planner = 'backfill' lets others pass it"
REMOVED = {
    ("orders", "fifo", "strict"): f"{_BOUNDED} within a bound",
    ("planners", "default", "depth"): f"{_BOUNDED} within a bound",
}
"""What replaces each removed setting of a rule, by table, rule and key."""


def notice(old: str, source: str) -> str:
    """Return the warning about one old name."""
    return (
        f"{source}: the table [{old}] is now called [{OLD_TABLES[old]}]; this release accepts "
        "both names, the next one does not; rename the table"
    )


def without_removed(table: Table, source: str) -> tuple[Table, list[str]]:
    """Return a configuration without removed settings, and a warning about each."""
    left, notices = dict(table), []
    for (kind, rule, key), instead in REMOVED.items():
        rules = left.get(kind)
        settings = rules.get(rule) if isinstance(rules, dict) else None
        if isinstance(rules, dict) and isinstance(settings, dict) and key in settings:
            kept = {name: value for name, value in settings.items() if name != key}
            left[kind] = {**rules, rule: kept}
            notices.append(
                f"{source}: {kind}.{rule}.{key} is gone and has no effect: {instead}; remove it"
            )
    return left, notices


def with_present_names(table: Table, source: str) -> tuple[Table, list[str], list[str]]:
    """Return a configuration with its present names, then errors, then warnings.

    Both names of one table together are an error: either could be the intended one.
    """
    renamed, errors, notices = dict(table), [], []
    for old in OLD_TABLES.keys() & table.keys():
        present, value = OLD_TABLES[old], renamed.pop(old)
        if present in table:
            errors.append(
                f"{source}: [{old}] and [{present}] are two names of one table; keep [{present}]"
            )
        else:
            renamed[present] = value
            notices.append(notice(old, source))
    return renamed, errors, notices
