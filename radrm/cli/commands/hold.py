"""`radrm hold`: keep waiting jobs from starting."""

from __future__ import annotations

from radrm.cli.parameters import CHOSEN_JOBS, JSON, STATE, USER
from radrm.cli.results import job_name, run_on_jobs

PARAMETERS = (CHOSEN_JOBS, USER, STATE, JSON)


def hold(jobs: list[str], user: str, state: str, as_json: bool) -> int:
    """Keep waiting jobs from starting, until they are released.

    A held job keeps its age in the queue; other jobs pass it. `radrm submit --hold` submits
    a job as held.

    \b
    Examples:
      radrm hold 12
      radrm hold 'sweep-*'; radrm release 'sweep-*'
      radrm hold --state pending            all your waiting jobs
    """
    return run_on_jobs("hold", jobs, lambda r: f"Held {job_name(r)}", as_json, user, state)
