"""`radrm wait`: wait until jobs have ended. Its exit code is the highest of the jobs'."""

from __future__ import annotations

from radrm.cli.parameters import JOBS, JSON
from radrm.client.connection import Client
from radrm.client.exits import highest, tell_failures, wait_for
from radrm.client.text import print_json, warn

PARAMETERS = (JOBS, JSON)


def wait(jobs: list[str], as_json: bool) -> int:
    """Wait for jobs to end.

    The exit code is the highest of the jobs' own; 124 for a time limit, 125 for a job that
    was lost or never started, 127 if its program is missing, 128+n for signal n. A name or
    pattern selects unfinished jobs; if none matches, ended ones. '*' selects unfinished jobs only.

    \b
    Examples:
      radrm wait 12 && echo fine
      radrm wait 'sweep-*'
    """
    with Client() as client:
        documents = wait_for(client, jobs)
    if as_json:
        print_json(documents)
    else:
        tell_failures(documents)
    if not documents and jobs == ["*"]:
        warn("no job is unfinished")
        return 0
    return highest(documents)
