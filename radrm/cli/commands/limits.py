"""`radrm limits`: show one's limits, and what counts for them now."""

from __future__ import annotations

from radrm.cli.parameters import JSON, TEXT, Parameter
from radrm.cli.show.shares import limits_page
from radrm.cli.show.styled import show
from radrm.client.connection import Client
from radrm.client.text import print_json

PARAMETERS = (
    Parameter("user", TEXT, "This user; only for root.", "NAME", ("--user",)),
    JSON,
)


def limits(user: str, as_json: bool) -> None:
    """Show your limits, and what counts for them now.

    The administrator sets them in the table [limits] of the configuration. Each job counts its
    GPUs: one that two jobs share counts twice, and a MIG instance counts as one.

    \b
    Examples:
      radrm limits
      sudo radrm limits --user ada
    """
    with Client() as client:
        answer = client.ask("limits", **({"user": user} if user else {}))
    if as_json:
        print_json(answer)
    else:
        show(*limits_page(answer))
