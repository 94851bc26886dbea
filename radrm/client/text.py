"""All that a command prints, without rich: lines for people, texts of radrm, JSON. Light to import.

Text of users (names, paths, reasons, what other programs said) reaches a terminal by `say`, `warn`
and `cli/show/styled.py` alone, and each makes it plain. `print` is refused by the linter.
"""

from __future__ import annotations

import sys

from radrm.errors import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Document = dict[str, Any]
else:
    Document = dict  # without the import of `typing`

FINAL = frozenset({"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"})
"""The job has ended."""
LIVE = frozenset({"LAUNCHING", "RUNNING", "STOPPING"})
"""The job has an attempt."""
WAITING = frozenset({"PENDING", "RECOVERING"})


_LONG = 1000
"""Entries from which on a list has one a line: what `json` indents takes three times as long."""


def print_json(document: Any) -> None:
    import json  # other commands need none of it

    if isinstance(document, list) and len(document) >= _LONG:
        print_text("[\n" + ",\n".join(map(json.dumps, document)) + "\n]\n")
    else:
        print_text(json.dumps(document, indent=2) + "\n")


def print_text(text: str) -> None:
    """Print a text of radrm itself as it is: a help, a configuration, JSON, words of completion."""
    sys.stdout.write(text)
    sys.stdout.flush()


def say(*lines: str, error: bool = False) -> None:
    """Print lines for people, on standard output or standard error. No text in them can move the
    cursor or begin another line."""
    stream = sys.stderr if error else sys.stdout
    stream.write("".join(f"{plain(line)}\n" for line in lines))
    stream.flush()


def warn(text: str) -> None:
    """Print one line about what radrm does, on standard error."""
    say(f"radrm: {text}", error=True)


def my_name() -> str:
    """The name of the user who types, as the daemon names users."""
    import os
    import pwd  # here: few commands ask

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def label(job: Document) -> str:
    """The label of a job: `12`, or `12_3` for an element of an array."""
    return str(job.get("label") or job["id"])


def notice_lines(job: Document) -> list[str]:
    """The notices about a job that could not be sent: which, to whom, why."""
    lines = []
    for each in job.get("notices") or ():
        tries = each["tries"]
        how = "not sent" if each["given_up"] else "not sent yet"
        often = f" ({tries} {'try' if tries == 1 else 'tries'})" if tries else ""
        lines.append(f"{each['event']} to {each['target']} {how}{often}: {each['error']}")
    return lines


_EDITS = {"idle": "--expect-idle", "silent": "--silent-limit=none"}


def next_steps(job: Document) -> list[str]:
    """The commands that users most often type next about a job in this state."""
    name, state = label(job), job["state"]
    if job.get("held"):
        return [f"radrm release {name}", f"radrm explain {name}"]
    if state in WAITING:
        first = job.get("behind") or name
        return [f"radrm explain {first}", *(job.get("way_out") or ()), f"radrm cancel {name}"]
    if state not in FINAL:
        spares = [_EDITS.get(w["kind"], "") for w in job.get("warnings") or ()]
        edits = [f"radrm edit {name} {' '.join(spares)}"] if any(spares) else []
        return [f"radrm logs {name} -f", *edits, f"radrm explain {name}"]
    if state == "COMPLETED":
        return [f"radrm logs {name}"]
    if not job["attempts"]:
        return [f"radrm explain {name}"]  # a requeued job would fail for the same reason
    if job.get("outcome") == "oom":
        return [f"radrm logs {name}", f"radrm requeue {name} --gpu-memory=MORE"]
    if "gpus.misplaced" in str(job.get("reason")):
        return [f"radrm logs {name}"]  # the same: the script chooses its GPU itself
    again = [f"radrm logs {name}", f"radrm requeue {name}"]
    limited = (job.get("ran_s") or 0.0) >= (job.get("time_limit_s") or float("inf"))
    if state == "TIMEOUT" and limited and job.get("saved_work_done") is None:
        return [again[0], f"radrm requeue {name} --time=LONGER"]  # else it ends there once more
    return again
