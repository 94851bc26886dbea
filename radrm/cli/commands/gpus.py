"""`radrm gpus`: the devices, who is on them, what is free, what people should know besides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.text import Text

from radrm.cli.options import Json
from radrm.cli.show.columns import Field
from radrm.cli.show.render import devices_table, out
from radrm.client.connection import Client
from radrm.client.text import Document, print_json
from radrm.core.units import show_mib, show_seconds
from radrm.errors import plain

_MOST_STRANGERS = 5
"""Told of one device; the largest. `--json` has more."""
_MOST_NOTES = 5
_INDENT = 10


def gpus(as_json: Json = False) -> None:
    """Show the devices: memory, SM activity, power, jobs.

    Below stand notes on their health (ECC errors, heat), and the processes on them that
    radrm did not start.

    \b
    Examples:
      radrm gpus
      radrm gpus --json
    """
    with Client() as client:
        found = client.ask("gpus")
    if as_json:
        print_json(found)
    else:
        out().print(page(found))


def page(devices: Sequence[Document]) -> Group:
    """The table, and below it what does not fit into a row."""
    below = [Field(name, Text(words), _INDENT) for name, words in remarks(devices)]
    return Group(devices_table(devices), *([Text("")] if below else []), *below)


def remarks(devices: Sequence[Document]) -> list[tuple[str, str]]:
    """Lines on devices, with the device that each is of; one that holds for all instances of
    a GPU is said once."""
    lines = ((_name(device), line) for device in devices for line in _of(device))
    return list(dict.fromkeys(lines))


def _name(device: Document) -> str:
    return f"GPU {device['index']}"


def _of(device: Document) -> Iterator[str]:
    notes, strangers = device.get("notes") or [], device.get("strangers") or []
    yield from map(plain, notes[:_MOST_NOTES])
    if len(notes) > _MOST_NOTES:
        yield f"... and {len(notes) - _MOST_NOTES} more notes (--json has all)"
    yield from map(_stranger, strangers[:_MOST_STRANGERS])
    if len(strangers) > _MOST_STRANGERS:
        left = len(strangers) - _MOST_STRANGERS
        yield f"... and {left} more processes that are not radrm's (--json)"


def _stranger(found: Document) -> str:
    """As `not radrm's: process 4711 of bob, 19.5G, python train.py`."""
    words = [f"process {found['pid']}"]
    if found.get("user"):
        words[0] += f" of {found['user']}"
    if found.get("used_mib") is not None:
        words.append(show_mib(found["used_mib"]))
    if found.get("step"):
        words.append(_step(found))
    if found.get("command"):
        words.append(found["command"])
    return plain(f"not radrm's: {', '.join(words)}")


def _step(found: Document) -> str:
    step, seen = found["step"], show_seconds(found.get("seen_s"))
    done = f"there for {seen}" if step == "warned" else f"{step} sent after {seen}"
    return f"{done}, left alone since {found['left']}" if found.get("left") else done
