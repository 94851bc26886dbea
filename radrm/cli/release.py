"""`radrm release`: let held jobs start again."""

from __future__ import annotations

from radrm.cli.options import Jobs, Json
from radrm.cli.orders import called, order_jobs


def release(jobs: Jobs, as_json: Json = False) -> None:
    """Let jobs that were held start.

    \b
    Examples:
      radrm release 12
      radrm release 'sweep-*'
    """
    order_jobs("release", jobs, lambda r: f"Released {called(r)}", as_json)
