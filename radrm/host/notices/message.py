"""The words of a notice: subject, text, and the JSON for programs.

Theory of operation. Names and reasons are texts of users. Each becomes one plain line first, so
none can end a header or forge a line. A line about something unknown is left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain

_LONGEST_SUBJECT = 250
_LONGEST_TEXT = 8000
_LONGEST_CHAT = 1900
"""Discord refuses longer texts."""


@dataclass(frozen=True, slots=True)
class Message:
    """A notice in words. `document` is for programs."""

    subject: str
    text: str
    document: Mapping[str, Any]

    @property
    def for_chat(self) -> dict[str, Any]:
        """The JSON for a webhook. Chat services read `text` (Slack, Mattermost) or `content`
        (Discord)."""
        words = f"{self.subject}\n{self.text}"[:_LONGEST_CHAT]
        return {**self.document, "subject": self.subject, "text": words, "content": words}


def message_of(facts: Mapping[str, Any], host: str) -> Message:
    """Return the message about these facts (`storage/notices/facts.py`)."""
    what = plain(_what(facts))
    known = [(name, plain(str(value))) for name, value in _lines(facts) if value not in (None, "")]
    warning = [plain(facts["text"])] if facts.get("text") else []
    table = [f"{name:<10} {value}" for name, value in known]
    lines = [what, *warning, "", *table, "", f"More: radrm status {plain(str(facts['job']))}"]
    hidden = ("gid", "once", "id", "text")
    document = {key: value for key, value in facts.items() if key not in hidden}
    return Message(
        f"radrm on {plain(host)}: {what}"[:_LONGEST_SUBJECT],
        "\n".join(lines)[:_LONGEST_TEXT] + "\n",
        {**document, "warning": facts.get("text"), "host": host},
    )


def _lines(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return what the text says of a job, line by line; None or "": unknown."""
    states, params, peak = (facts.get(name) for name in ("states", "params", "peak_mib"))
    return [
        ("state", facts.get("state")),
        ("parameters", ", ".join(f"{k}={v}" for k, v in (params or {}).items())[:500]),
        ("reason", facts.get("reason")),
        ("elements", ", ".join(f"{count} {state}" for state, count in (states or {}).items())),
        ("submitted", _date(facts.get("submitted_at"))),
        ("waited", _span(facts.get("waited_s"))),
        ("started", _date(facts.get("started_at"))),
        ("ended", _date(facts.get("ended_at"))),
        ("ran", _span(facts.get("ran_s"))),
        ("memory", f"at most {show_mib(peak)} per GPU" if peak else None),
        ("attempts", facts.get("attempts")),
        ("comment", facts.get("comment")),
    ]


def _what(facts: Mapping[str, Any]) -> str:
    """What has happened, in a few words."""
    event, states = facts["event"], facts.get("states")
    kind = "array" if states or event == "held" else "job"
    job = f"{kind} {facts['job']} ({facts['name']})"
    if event == "oom":
        return f"{job} hit GPU out-of-memory"
    if event == "start":
        return f"{job} has started"
    if event in _WARNED:
        return f"{job} {_WARNED[event]}"
    if states:
        parts = ", ".join(f"{count} {state}" for state, count in states.items())
        return f"{job} has ended: {parts}"
    first = "; its array goes on" if event == "fail" else ""
    return f"{job} {facts['state']}{first}"


_WARNED = {
    "idle": "leaves its GPUs idle",
    "silent": "is silent",
    "held": "is held, because too many of its elements failed",
}


def _date(wall_s: float | None) -> str | None:
    if wall_s is None or not 0 <= wall_s < 2**37:
        return None
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_s))


def _span(seconds: float | None) -> str | None:
    return None if seconds is None else show_seconds(seconds)
