"""`radrm requeue`: run jobs again, those that run and those that have ended."""

from __future__ import annotations

from radrm.cli.options import Json
from radrm.cli.orders import Jobs, State, User, called, order_jobs


def requeue(jobs: Jobs = None, user: User = "", state: State = "", as_json: Json = False) -> None:
    """Put jobs back into the queue.

    One that runs is stopped first; one that has ended runs again.

    \b
    Examples:
      radrm requeue 12
      radrm requeue 12_3 12_7
      radrm requeue 'sweep-*' --state failed,timeout
    """
    order_jobs(
        "requeue",
        jobs,
        lambda r: f"Requeued {called(r)}, it was {r['state']}",
        as_json,
        user,
        state,
    )
