"""What users can do about a job in its state, and the jobs that a filter selects."""

from __future__ import annotations

import re

from radrm.client.states import FINAL, LIVE, WAITING
from radrm.client.text import Document, label
from radrm.errors import plain


def names_of(job: Document) -> list[str]:
    """Return the names of the jobs in a row: one, or waiting elements of an array that are alike.

    The first is the one that the row's card and log are about.
    """
    if job.get("count", 1) == 1:
        return [label(job)]
    step = re.search(r":(\d+)\]$", label(job))
    by, first = int(step[1]) if step else 1, job["array_index"]
    return [f"{job['array_id']}_{first + by * number}" for number in range(job["count"])]


def refused_here(command: str, job: Document) -> str:
    """Return why a command makes no sense for a job in its state; "" if it does."""
    state = job["state"]
    held = bool(job.get("held"))
    fits = {
        "cancel": state not in FINAL,
        "hold": state in WAITING and not held,
        "release": held,
        "requeue": state in FINAL,
        "raise": state in WAITING,
        "lower": state in WAITING,
    }
    if fits[command]:
        return ""
    now = "held" if held else "running" if state in LIVE else plain(state).lower()
    return f"Job {plain(label(job))} is {now}: nothing to {command}."


def words_of(text: str, every: bool) -> Document:
    """Return the words of `page` for a filter: `user=ann state=running resnet`.

    A word without `=` is a part of a job's name, or a glob.
    """
    words: Document = {"all": every, "user": None, "state": None, "jobs": []}
    for word in text.split():
        key, equals, value = word.partition("=")
        if equals and key in ("user", "state"):
            words[key] = value or None
        else:
            words["jobs"].append(glob_of(word))
    return words


def glob_of(text: str) -> str:
    """Return a glob for names that hold this text; a glob as it is."""
    return text if any(c in text for c in "*?[") else f"*{text}*"
