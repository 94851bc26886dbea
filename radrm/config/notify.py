"""Check the table `[notify]`: targets, addresses and texts with fields."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from radrm.config import values as v
from radrm.errors import BadConfig
from radrm.jobfile.targets import KINDS, Target, target_of

FIELDS = frozenset(
    {
        *("what", "warning", "event", "host", "job", "name", "user", "comment", "state"),
        *("exit_code", "reason", "elements", "params", "submitted", "started", "ended", "waited"),
        *("ran", "gpus", "peak", "attempts", "ooms"),
    }
)
"""What `{...}` may name in a subject or text."""
FIELD = re.compile(r"\{([^{}\n]*)\}")
_MOST_TARGETS = 8
_SUBJECT, _TEXT = 200, 4000


def _targets(value: Any, place: v.Place) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MOST_TARGETS:
        raise v.wrong(place, f'a list of at most {_MOST_TARGETS} targets, as in ["mail"]', value)
    for word in value:
        if _read(word) is None:
            raise v.wrong(place, 'targets as --notify takes them, as in ["mail:fail"]', word)
    return tuple(value)


def _read(word: Any) -> Target | None:
    try:
        return target_of(word) if isinstance(word, str) else None
    except ValueError:
        return None


def _kinds(value: Any, place: v.Place) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(word in KINDS for word in value):
        raise v.wrong(place, f"a list of {', '.join(KINDS)}", value)
    return tuple(dict.fromkeys(value))


def _sender(value: Any, place: v.Place) -> str:
    target = _read(value)
    if value != "" and (target is None or target.kind != "mail" or target.address != value):
        raise v.wrong(place, 'a mail address, or ""', value)
    return str(value)


def _domain(value: Any, place: v.Place) -> str:
    target = _read(f"user@{value}") if isinstance(value, str) else None
    if value != "" and (target is None or target.address != f"user@{value}"):
        raise v.wrong(place, 'a domain such as example.org, or ""', value)
    return str(value)


def _program(value: Any, place: v.Place) -> str:
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        raise v.wrong(place, "the absolute path of a program", value)
    return value


def _template(most: int, lines: bool) -> Callable[[Any, v.Place], str]:
    def check(value: Any, place: v.Place) -> str:
        text = value.replace("\n", "") if isinstance(value, str) and lines else value
        if not isinstance(text, str) or len(value) > most or not (text.isprintable() or not text):
            what = "text" if lines else "one line"
            raise v.wrong(place, f"{what} of at most {most} printable characters", value)
        for name in FIELD.findall(value):
            if name not in FIELDS:
                near = v.nearest(name, sorted(FIELDS))
                raise BadConfig(f"{place} has the unknown field {v.shown(name)}; {near}")
        return str(value)

    return check


NOTIFY: dict[str, v.Check] = {
    "default": _targets,
    "kinds": _kinds,
    "per_hour": v.whole(1, 1000),
    "mail_from": _sender,
    "mail_domain": _domain,
    "sendmail": _program,
    "subject": _template(_SUBJECT, lines=False),
    "text": _template(_TEXT, lines=True),
}
