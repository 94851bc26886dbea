"""Names of an earlier release, which work for one more release.

A renamed table works under its old name, with a warning, until the next release. Then remove
its line here: the old name becomes an unknown key.
"""

from __future__ import annotations

from radrm.config.shapes import Table

OLD_TABLES = {"strangers": "unmanaged"}
"""The present name of each renamed table."""


def notice(old: str, source: str) -> str:
    """Return the warning about one old name."""
    return (
        f"{source}: the table [{old}] is now called [{OLD_TABLES[old]}]; this release accepts "
        "both names, the next one does not; rename the table"
    )


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
