"""The words of a notice: subject, text, and the JSON for programs.

Theory of operation. Names and reasons are texts of users. Each becomes one plain line before it is
put into a template, so none can end a header or forge a line. A field that is unknown is empty, and
a line of the text whose fields are all empty is left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from radrm.config import NotifyConfig
from radrm.config.notify import FIELD
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain

TEXT = """\
{what}
{warning}

state      {state}
parameters {params}
reason     {reason}
elements   {elements}
submitted  {submitted}
waited     {waited}
started    {started}
ended      {ended}
ran        {ran}
memory     at most {peak} per GPU
attempts   {attempts}
comment    {comment}

More: radrm status {job}
"""
"""The text, unless the site has its own."""
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


def message_of(config: NotifyConfig, facts: Mapping[str, Any], host: str) -> Message:
    """Return the message about these facts (`storage/notices/facts.py`)."""
    fields = fields_of(facts, host)
    subject = _filled(config.subject, fields)[:_LONGEST_SUBJECT]
    lines = [
        _filled(line, fields)
        for line in (config.text or TEXT).split("\n")
        if not (named := FIELD.findall(line)) or any(fields.get(name) for name in named)
    ]
    text = "\n".join(lines).strip("\n")[:_LONGEST_TEXT] + "\n"
    hidden = ("gid", "once", "id", "text")
    known = {key: value for key, value in facts.items() if key not in hidden}
    return Message(subject, text, {**known, "warning": facts.get("text"), "host": host})


def fields_of(facts: Mapping[str, Any], host: str) -> dict[str, str]:
    """Return what `{...}` in a template means, as plain lines; empty: unknown."""
    states = facts.get("states") or {}
    found = {
        **{name: facts.get(name) for name in ("event", "job", "name", "user", "comment", "state")},
        "what": _what(facts),
        "warning": facts.get("text"),
        "host": host,
        "exit_code": facts.get("exit_code"),
        "reason": facts.get("reason"),
        "params": ", ".join(f"{k}={v}" for k, v in (facts.get("params") or {}).items())[:500],
        "elements": ", ".join(f"{count} {state}" for state, count in states.items()),
        "submitted": _date(facts.get("submitted_at")),
        "started": _date(facts.get("started_at")),
        "ended": _date(facts.get("ended_at")),
        "waited": _span(facts.get("waited_s")),
        "ran": _span(facts.get("ran_s")),
        "gpus": facts.get("gpus"),
        "peak": show_mib(facts["peak_mib"]) if facts.get("peak_mib") else None,
        "attempts": facts.get("attempts"),
        "ooms": facts.get("oom_count"),
    }
    return {name: "" if value is None else plain(str(value)) for name, value in found.items()}


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


def _filled(template: str, fields: Mapping[str, str]) -> str:
    return FIELD.sub(lambda found: fields.get(found[1], ""), template)


def _date(wall_s: float | None) -> str | None:
    if wall_s is None or not 0 <= wall_s < 2**37:
        return None
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_s))


def _span(seconds: float | None) -> str | None:
    return None if seconds is None else show_seconds(seconds)
