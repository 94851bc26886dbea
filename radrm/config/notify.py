"""Check the table `[notify]`: targets and addresses."""

from __future__ import annotations

from typing import Any

from radrm.config import values as v
from radrm.jobfile.targets import KINDS, Target, target_of

_MOST_TARGETS = 8


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


NOTIFY: dict[str, v.Check] = {
    "default": _targets,
    "kinds": _kinds,
    "mail_from": _sender,
    "mail_domain": _domain,
}
