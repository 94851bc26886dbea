"""`radrm shares`: show the recent GPU time of users, and whose job is next."""

from __future__ import annotations

from radrm.cli.parameters import JSON
from radrm.cli.show.shares import shares_page
from radrm.cli.show.styled import show
from radrm.client.connection import Client
from radrm.client.text import print_json

PARAMETERS = (JSON,)


def shares(as_json: bool) -> None:
    """Show the recent GPU time of users, and whose job is next.

    Below the users: their Unix groups, if there are several. GPU time counts half after
    core.use_half_life_s. Jobs that share a GPU share its time.
    RANK 1: the user whose job is first in the queue. Under the orders `smallest-work` and `fair`
    users take turns by their GPU time.

    \b
    Examples:
      radrm shares
      radrm shares --json
    """
    with Client() as client:
        answer = client.ask("shares")
    if as_json:
        print_json(answer)
    else:
        show(*shares_page(answer))
