"""Show people the limits of a user."""

from __future__ import annotations

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.styled import Styled
from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.cli.show.styled import Part
    from radrm.client.text import Document

_MEANING = {
    "queued_jobs": "jobs that wait",
    "running_jobs": "jobs that run at a time",
    "gpus": "GPUs of the running jobs together",
    "array_size": "elements of an array",
    "environment_kib": "KiB of environment of a job",
    "priority_max": "highest --priority",
    "spool_files": "submissions in the spool",
    "spool_mib": "their MiB",
    "connections": "connections to the daemon",
    "requests_per_s": "requests a second, on average",
}


def limits_page(answer: Document) -> list[Part]:
    """A table of the limits; what applies to this user before it, if none do."""
    page: list[Part] = []
    if answer["note"] is not None:
        page.append(Styled(f"{plain(answer['user'])}: {plain(answer['note'])}"))
    table = Rows(
        (
            Column("LIMIT", least=8),
            Column("VALUE", right=True),
            Column("USE", right=True),
            Column("MEANING", rank=1, least=8),
        )
    )
    for each in answer["limits"]:
        limit = "none" if each["limit"] is None else _number(each["limit"])
        use = "-" if each["use"] is None else _number(each["use"])
        table.add(plain(each["name"]), limit, use, _MEANING.get(each["name"], ""))
    return [*page, table]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.1f}"
