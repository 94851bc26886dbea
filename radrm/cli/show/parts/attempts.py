"""The attempts of a job, a row for each."""

from __future__ import annotations

from radrm.cli.show.columns import Column, Rows
from radrm.cli.show.styled import Styled
from radrm.client.amounts import show_joules, show_smact
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from radrm.client.text import Document


def attempts_table(job: Document, attempts: Sequence[Document]) -> Rows:
    """A row for each attempt. A live attempt shows the usage so far."""
    planners = any(attempt.get("planner") not in (None, "default") for attempt in attempts)
    table = Rows(
        (
            Column("ATTEMPT", right=True),
            Column("OUTCOME"),
            Column("GPU"),
            Column("SHARING", rank=6),
            Column("TIME", right=True),
            Column("RESERVED", right=True, rank=4),
            Column("PEAK", right=True, rank=2),
            Column("SMACT", right=True, rank=3),
            Column("ENERGY", right=True, rank=5),
            *[Column("PLANNER", rank=7)] * planners,
            Column("WHY", least=20, wrap=True),
        )
    )
    for attempt in attempts:
        ended = attempt.get("ended_at")
        if ended is None:
            attempt = attempt | {key: job[key] for key in _OF_LIVE}
        outcome = str(attempt.get("outcome") or job["state"].lower())
        code = attempt.get("exit_code")
        reason = plain(attempt.get("reason") or _requested(attempt))
        if not reason and code:
            reason = f"exit code {code}"
        table.add(
            str(attempt["number"]),
            Styled(plain(outcome), _OUTCOME_STYLE.get(outcome, "")),
            ",".join(map(str, attempt.get("devices") or [])) or "-",
            plain(attempt.get("collocation") or "-"),
            show_seconds(attempt.get("ran_s")),
            show_mib(attempt.get("reserved_mib")),
            show_mib(attempt.get("peak_mib")),
            show_smact(attempt.get("smact")),
            show_joules(attempt.get("energy_j")),
            *[plain(attempt.get("planner") or "-")] * planners,
            reason,
        )
    return table


def _requested(attempt: Document) -> str:
    """The last change of a live attempt that a planner or user asked for."""
    asked = attempt.get("requested") if attempt.get("ended_at") is None else None
    if not asked:
        return ""
    who = asked["user"] if asked.get("user") else f"the planner {asked['planner']}"
    return f"{who} asked for {asked['kind']}"


_OF_LIVE = ("reserved_mib", "peak_mib", "energy_j")
_OUTCOME_STYLE = {
    "completed": "green",
    "failed": "bold red",
    "oom": "magenta",
    "timeout": "red",
    "lost": "bold red",
    "cancelled": "dim",
}
