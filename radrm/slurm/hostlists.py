"""Lists of hosts as Slurm writes them: `node[1-3,07],login`. Source: scontrol(1)."""

from __future__ import annotations

import re

from radrm.errors import UsageError
from radrm.jobfile.values import shown

MOST_HOSTS = 65_536
_PART = re.compile(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)*")


def expanded(text: str) -> list[str]:
    """Return the hosts of a list, in its order. Raises `UsageError`."""
    found: list[str] = []
    for part in _parts(text):
        hosts = [""]
        for piece in re.split(r"(\[[^\]]*\])", part):
            ends = _numbers(piece[1:-1], part) if piece.startswith("[") else [piece]
            if len(hosts) * len(ends) + len(found) > MOST_HOSTS:
                raise UsageError(f"{shown(part)} has more than {MOST_HOSTS} hosts")
            hosts = [host + end for host in hosts for end in ends]
        found += hosts
    return found


def _parts(text: str) -> list[str]:
    """The parts of a list, between commas that stand in no brackets."""
    found, at = [], 0
    while at <= len(text):
        match = _PART.match(text, at)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            raise UsageError(f"{shown(text)} is no list of hosts, as node[1-3,5]")
        found.append(match[0])
        at = match.end() + 1
    return [part for part in found if part]


def _numbers(text: str, part: str) -> list[str]:
    """`1-3,07` in full, with the zeros at its head."""
    found: list[str] = []
    for span in text.split(","):
        ends = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", span)
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise UsageError(f"{shown(part)} is no list of hosts, as node[1-3,5]")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last - first + len(found) >= MOST_HOSTS:
            raise UsageError(f"{shown(part)} has more than {MOST_HOSTS} hosts")
        found += [str(number).zfill(len(ends[1])) for number in range(first, last + 1)]
    return found


def compressed(hosts: list[str]) -> str:
    """Return these hosts as a list: neighbours with one name and the next numbers are one range."""
    groups: list[tuple[str, int, list[str]]] = []
    for host in hosts:
        found = re.fullmatch(r"(.*?)([0-9]{1,9})", host)
        name, digits = (found[1], found[2]) if found else (host, "")
        width = len(digits) if digits.startswith("0") else 0
        last = groups[-1] if groups else None
        if last and digits and last[2] and last[:2] == (name, width):
            last[2].append(digits)
        else:
            groups.append((name, width, [digits] if digits else []))
    return ",".join(name + _ranges(digits) for name, _, digits in groups)


def _ranges(digits: list[str]) -> str:
    if len(digits) < 2:
        return "".join(digits)
    spans: list[list[str]] = []
    for each in digits:
        if spans and int(each) == int(spans[-1][-1]) + 1:
            spans[-1] = [spans[-1][0], each]
        else:
            spans.append([each])
    return f"[{','.join('-'.join(span) for span in spans)}]"
