"""`radrm limits`: show one's limits, and the recent GPU time of all users."""

from __future__ import annotations

from radrm.cli.parameters import JSON, TEXT, Parameter
from radrm.cli.show.shares import limits_page, shares_page
from radrm.cli.show.styled import Styled, show
from radrm.client.connection import Client
from radrm.client.text import print_json

LIMITS_PARAMETERS = (
    Parameter("user", TEXT, "This user; only for root.", "NAME", ("--user",)),
    JSON,
)


def limits(user: str, as_json: bool) -> None:
    """Show your limits with their use, and whose job is next.

    The administrator sets the limits in the table [limits] of the configuration. Each job counts
    its GPUs: one that two jobs share counts twice, and a MIG instance counts as one.

    Below the users: their Unix groups, if there are several. GPU time counts half after
    core.use_half_life_s. Jobs that share a GPU share its time. RANK 1: the user whose job is first
    in the queue. Under the orders `smallest-work` and `fair` users take turns by their GPU time.

    \b
    Examples:
      radrm limits
      sudo radrm limits --user ada
    """
    with Client() as client:
        answer = client.ask("limits", **({"user": user} if user else {}))
        shares = client.ask("shares")
    if as_json:
        print_json({**answer, "shares": shares})
    else:
        show(*limits_page(answer), Styled(), *shares_page(shares))
