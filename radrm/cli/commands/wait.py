"""`radrm wait`: until jobs have ended; the exit code is theirs."""

from __future__ import annotations

import typer

from radrm.cli.options import Jobs, Json
from radrm.client.connection import Client
from radrm.client.exits import highest, tell_failures, wait_for
from radrm.client.text import print_json


def wait(jobs: Jobs, as_json: Json = False) -> None:
    """Wait for jobs to end.

    The exit code is the highest of theirs; 124 for a time limit, 125 for a job that was
    lost or never started, 128+n for a signal.

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
    raise typer.Exit(highest(documents))
