"""`radrm hold`: keep waiting jobs from starting."""

from __future__ import annotations

from radrm.cli.options import Json
from radrm.cli.orders import Jobs, State, User, called, order_jobs


def hold(jobs: Jobs = None, user: User = "", state: State = "", as_json: Json = False) -> None:
    """Keep waiting jobs from starting, until they are released.

    They keep their age in the queue, and let others pass. `radrm submit --hold` submits a
    job that waits so from the beginning.

    \b
    Examples:
      radrm hold 12
      radrm hold 'sweep-*'; radrm release 'sweep-*'
      radrm hold --state pending            all of yours that wait
    """
    order_jobs("hold", jobs, lambda r: f"Held {called(r)}", as_json, user, state)
