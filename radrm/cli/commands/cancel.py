"""`radrm cancel`: end jobs: TERM, and KILL after the grace time."""

from __future__ import annotations

from radrm.cli.options import Json
from radrm.cli.orders import Jobs, State, User, called, order_jobs
from radrm.client.text import Document

_MOST_NAMED = 10


def cancel(jobs: Jobs = None, user: User = "", state: State = "", as_json: Json = False) -> None:
    """Cancel jobs, waiting or running.

    A running job's whole process tree gets TERM, and KILL after the grace time. Jobs that
    can only follow one that completes (--after) fail with it; they are named.

    \b
    Examples:
      radrm cancel 12
      radrm cancel 12_3 'sweep-*'
      radrm cancel --state pending          all of yours that wait
      radrm cancel 'sweep-*' --state running
    """
    order_jobs("cancel", jobs, _done, as_json, user, state)


def _done(result: Document) -> str:
    said = f"Cancelled {called(result)}, it was {result['state']}"
    followers = result.get("followers") or []
    if not followers:
        return said
    named = ", ".join(map(str, followers[:_MOST_NAMED]))
    more = f" and {len(followers) - _MOST_NAMED} more" if len(followers) > _MOST_NAMED else ""
    whom = (
        "the job that follows it fails" if len(followers) == 1 else "the jobs that follow it fail"
    )
    return f"{said}; {whom} with it: {named}{more}"
