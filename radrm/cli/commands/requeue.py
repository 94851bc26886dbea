"""`radrm requeue`: run jobs again, running or ended."""

from __future__ import annotations

from radrm.cli.parameters import CHOSEN_JOBS, FLAG, JSON, STATE, USER, Parameter
from radrm.cli.results import job_name, run_on_jobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document

_FROM_START = "Begin anew: do not save, and go on from nothing that was saved."
_FOLLOWERS = "Also the jobs that follow them (--after) and have failed or been cancelled, in order."
PARAMETERS = (
    *(CHOSEN_JOBS, USER, STATE),
    Parameter("from_start", FLAG, _FROM_START, flags=("--from-start",)),
    Parameter("followers", FLAG, _FOLLOWERS, flags=("--followers",)),
    JSON,
)


def requeue(
    jobs: list[str], user: str, state: str, from_start: bool, followers: bool, as_json: bool
) -> int:
    """Put jobs back into the queue.

    They wait behind all others. A running job that can save is asked to, stops when it has saved,
    and goes on from that. If it does not save in time, it runs on. Any other running job is stopped
    at once. A job that has ended runs again: from what it has saved, or from its start if it is
    COMPLETED and no steps are known to be left.

    \b
    Examples:
      radrm requeue 12
      radrm requeue 12_3 12_7
      radrm requeue 12 --from-start         from nothing that was saved
      radrm requeue 12 --followers          and what failed because of it
      radrm requeue 'sweep-*' --state failed,timeout
    """
    words = {"followers": followers, "from_start": from_start}
    more = {name: True for name, given in words.items() if given}
    return run_on_jobs("requeue", jobs, _describe, as_json, user, state, more)


def _describe(result: Document) -> str:
    if result.get("saves"):
        return f"Asked {job_name(result)} to save its work; when it has, it is requeued"
    return f"Requeued {job_name(result)}, it was {result['state']}"
