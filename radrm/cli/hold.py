"""`radrm hold`: keep waiting jobs from starting."""

from __future__ import annotations

from radrm.cli.options import Jobs, Json
from radrm.cli.orders import called, order_jobs


def hold(jobs: Jobs, as_json: Json = False) -> None:
    """Keep waiting jobs from starting, until they are released.

    They keep their age in the queue, and let others pass.

    \b
    Examples:
      radrm hold 12
      radrm hold 'sweep-*'; radrm release 'sweep-*'
    """
    order_jobs("hold", jobs, lambda r: f"Held {called(r)}", as_json)
