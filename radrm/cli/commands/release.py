"""`radrm release`: let held jobs start."""

from __future__ import annotations

from radrm.cli.parameters import CHOSEN_JOBS, JSON, STATE, USER
from radrm.cli.results import job_name, run_on_jobs

PARAMETERS = (CHOSEN_JOBS, USER, STATE, JSON)


def release(jobs: list[str], user: str, state: str, as_json: bool) -> int:
    """Let held jobs start, and jobs that pause before a retry.

    \b
    Examples:
      radrm release 12
      radrm release 'sweep-*'
      radrm release --state pending         all your jobs that are held or pause
    """
    return run_on_jobs("release", jobs, lambda r: f"Released {job_name(r)}", as_json, user, state)
