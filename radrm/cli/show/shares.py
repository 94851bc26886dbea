"""Show people the recent GPU time of users and groups, and the limits of a user."""

from __future__ import annotations

from radrm.cli.show.columns import Column, Rows, table_of
from radrm.cli.show.styled import Styled
from radrm.core.units import show_seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from radrm.cli.show.styled import Part
    from radrm.client.text import Document


def shares_page(answer: Document) -> list[Part]:
    """A table of users, and one of groups if there are several."""
    half = Styled(f"GPU time counts half after {show_seconds(answer['half_life_s'])}.", "dim")
    page: list[Part] = [_users(answer["users"]), half]
    if len(answer["groups"]) > 1:
        page += [Styled(), _groups(answer["groups"])]
    return page


def _users(users: Sequence[Document]) -> Rows:
    return table_of(
        users,
        Column("USER", lambda row: row["user"], least=8),
        *_FIGURES,
        Column("RUNNING", lambda row: str(row["running"]), right=True),
        Column("WAITING", lambda row: str(row["waiting"]), right=True),
        Column("RANK", lambda row: str(row["rank"] or "-"), right=True),
    )


def _groups(groups: Sequence[Document]) -> Rows:
    return table_of(groups, Column("GROUP", lambda row: row["group"], least=8), *_FIGURES)


_FIGURES = (
    Column("GPU-HOURS", lambda row: f"{row['gpu_s'] / 3600:.1f}", right=True),
    Column("SHARE", lambda row: "-" if row["share"] is None else f"{row['share']:.0%}", right=True),
    Column("GPUS", lambda row: f"{row['gpus']:.1f}", right=True),
)

# ------------------------------------------------------------------ limits

_MEANING = {
    "queued_jobs": "jobs that wait",
    "running_jobs": "jobs that run at a time",
    "gpus": "GPUs of the running jobs together",
    "reserved_gpu_hours": "GPU-hours of own reservations that are not over",
    "array_size": "elements of an array",
    "environment_kib": "KiB of environment of a job",
    "priority_max": "highest --priority",
    "spool_files": "submissions in the spool",
    "spool_mib": "their MiB",
    "connections": "connections to the daemon",
    "requests_per_s": "requests a second, on average",
}


_NEAR = 0.8
"""The part of a limit from which on its use is marked."""


def limits_page(answer: Document) -> list[Part]:
    """A table of the limits with their use; what applies to this user before it, if none do."""
    page: list[Part] = []
    if answer["note"] is not None:
        page.append(Styled(f"{answer['user']}: {answer['note']}"))
    table = Rows(
        (
            Column("LIMIT", least=8),
            Column("USE", right=True),
            Column("", rank=2),
            Column("MEANING", rank=1, least=20, wrap=True),
        )
    )
    for each in answer["limits"]:
        limit, use = each["limit"], each["use"]
        mark = Styled()
        if limit is None:
            text = "no limit" if use is None else f"{_number(use)}, no limit"
        elif use is None:
            text = f"at most {_number(limit)}"
        else:
            text = f"{_number(use)} of {_number(limit)}"
            if use >= limit:
                mark = Styled("reached", "bold red")
            elif use >= _NEAR * limit:
                mark = Styled("near", "yellow")
        table.add(each["name"], text, mark, _MEANING.get(each["name"], ""))
    return [*page, table]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.1f}"
