"""`radrm requeue`: run jobs again, those that run and those that have ended."""

from __future__ import annotations

from radrm.cli.options import Jobs, Json
from radrm.cli.orders import called, order_jobs


def requeue(jobs: Jobs, as_json: Json = False) -> None:
    """Put jobs back into the queue.

    One that runs is stopped first; one that has ended runs again.

    \b
    Examples:
      radrm requeue 12
      radrm requeue 12_3 12_7
    """
    order_jobs("requeue", jobs, lambda r: f"Requeued {called(r)}, it was {r['state']}", as_json)
