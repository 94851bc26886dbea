"""`radrm status --follow`: a line for each change, or one job with its log."""

from __future__ import annotations

import json
import sys
from typing import Any

from radrm.cli.show.card import headline
from radrm.cli.show.jobs import PAGE, change_line, no_jobs
from radrm.cli.show.log import outputs
from radrm.cli.show.styled import Styled, show
from radrm.client.connection import Client
from radrm.client.follow import LogFollower, Patient, changes, end_line
from radrm.client.text import Document, label, next_steps, print_text, warn
from radrm.errors import Refused


def follow_jobs(client: Client, words: Document, as_json: bool) -> None:
    """Follow the jobs that the words of a question select."""
    found = client.ask("page", **words, offset=0, limit=2)
    alone = words["jobs"] and found["total"] == 1 and found["jobs"][0].get("count", 1) == 1
    if as_json:
        for changed in changes(Patient(client, warn), words):
            print_text("".join(f"{json.dumps(job)}\n" for job in changed))
    elif alone:
        _follow_one(client, found)
    else:
        _follow_lines(client, words)


def _follow_one(client: Client, found: Document) -> None:
    """Show the job in one line, then its log as it grows, then how it ended."""
    (job,) = found["jobs"]
    show(headline(job, found["devices"]))

    def say(text: str) -> Any:
        show(Styled(text, "dim"))

    follower = LogFollower(Patient(client, say).ask, label(job), outputs(job["user"]), say)
    try:
        job = follower.follow(attempt=None, lines=None)
    except Refused:
        (job,) = client.ask("status", jobs=[label(job)])
        if job["attempts"]:  # the job ran, so the refusal is about its log
            raise
    show(Styled(end_line(job), "bold"))
    if job["state"] != "COMPLETED":
        show(Styled(f"next: {'   '.join(next_steps(job))}"))


def _follow_lines(client: Client, words: Document) -> None:
    patient = Patient(client, warn)
    begun = False
    for changed in changes(patient, words):
        left = 0 if begun else len(changed) - PAGE
        changed, begun = changed if begun else changed[:PAGE], True
        at = patient.ask("page", **words, offset=0, limit=1)
        show(*(change_line(job, at["devices"], at["now"]) for job in changed))
        if left > 0:
            show(Styled(f"... and {left} more; each is shown when it changes"))
        sys.stdout.flush()
    if not begun:
        show(no_jobs(words))
