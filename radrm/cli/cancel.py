"""`radrm cancel`: end jobs: TERM, and KILL after the grace time."""

from __future__ import annotations

from radrm.cli.options import Jobs, Json
from radrm.cli.orders import called, order_jobs


def cancel(jobs: Jobs, as_json: Json = False) -> None:
    """Cancel jobs, waiting or running.

    A running job's whole process tree gets TERM, and KILL after the grace time.

    \b
    Examples:
      radrm cancel 12
      radrm cancel 12_3 'sweep-*'
    """
    order_jobs("cancel", jobs, lambda r: f"Cancelled {called(r)}, it was {r['state']}", as_json)
