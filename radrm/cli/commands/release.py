"""`radrm release`: let held jobs start again."""

from __future__ import annotations

from radrm.cli.options import Json
from radrm.cli.orders import Jobs, State, User, called, order_jobs


def release(jobs: Jobs = None, user: User = "", state: State = "", as_json: Json = False) -> None:
    """Let jobs that were held start, and those that pause before a retry.

    \b
    Examples:
      radrm release 12
      radrm release 'sweep-*'
      radrm release --state pending         all of yours that are held or pause
    """
    order_jobs("release", jobs, lambda r: f"Released {called(r)}", as_json, user, state)
