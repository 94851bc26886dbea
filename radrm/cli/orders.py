"""Orders about jobs and devices: give them, say of each what came of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any

import typer

from radrm.cli.options import REFERENCES
from radrm.client.connection import Client
from radrm.client.text import Document, label, print_json, warn
from radrm.errors import UsageError, plain

_MANY = 20
"""More elements of one array than this are told of in one line."""
_BATCH = 1000
"""References in one request, so that no request grows beyond what the daemon reads."""
_GLOBS = 100
"""Globs in one request, as many as the daemon takes."""


Jobs = Annotated[
    list[str] | None,
    typer.Argument(metavar="JOB", help=f"Jobs: {REFERENCES}; or choose by --user, --state."),
]
User = Annotated[
    str,
    typer.Option(metavar="NAME", help="Only this user's; without any JOB, your own if left out."),
]
State = Annotated[
    str, typer.Option(metavar="STATE,...", help="Only those in these states, as running,pending.")
]


def order_jobs(
    op: str,
    jobs: Sequence[str] | None,
    done: Callable[[Document], str],
    as_json: bool,
    user: str = "",
    state: str = "",
    **more: Any,
) -> None:
    """Give the order `op` about jobs; `done` words the line of each that was carried out.

    Without `jobs`, about those of a user or in some states; `more` goes with the order. Raises
    `typer.Exit(1)` when any of them was refused, `UsageError` where nothing says which are
    meant.
    """
    words = {"user": user, "state": state.replace(" ", "")}
    words = {name: word for name, word in words.items() if word}
    if not jobs and not words:
        raise UsageError(f"radrm {op}: no job is named; name some, or choose by --user or --state")
    with Client() as client:
        batches = _batches(jobs) if jobs else [[]]
        results = [
            result for batch in batches for result in client.ask(op, jobs=batch, **words, **more)
        ]
    tell(results, done, as_json)
    if not results and not as_json:
        print(plain(f"No such jobs: {_choice(words)}."))


def _choice(words: dict[str, str]) -> str:
    """As `those of ada that are pending`."""
    whose = f"those of {words['user']}" if "user" in words else "yours"
    return f"{whose} that are {words['state'].lower()}" if "state" in words else whose


def order_devices(
    op: str, devices: Sequence[str], done: Callable[[Document], str], as_json: bool, **words: Any
) -> None:
    """Give the order `op` about devices; none named are all of them."""
    with Client() as client:
        results = client.ask(op, devices=list(devices), **words)
    tell(results, done, as_json)


def tell(results: Sequence[Document], done: Callable[[Document], str], as_json: bool) -> None:
    """A line for each result, or the document; errors go to standard error."""
    if as_json:
        print_json(results)
    for group in _together(results):
        if group[0]["error"] is not None:
            sys.stdout.flush()
            warn(group[0]["error"])
        elif not as_json:
            last = f" ... {label(group[-1])}, {len(group)} in all" if len(group) > 1 else ""
            print(plain(done(group[0])) + plain(last))
    if any(result["error"] is not None for result in results):
        raise typer.Exit(1)


def _together(results: Sequence[Document]) -> Iterator[list[Document]]:
    """Results one by one; but many elements of one array, of which the same is to be said,
    in one group."""
    for _, found in groupby(results, _kind):
        group = list(found)
        many = len(group) > _MANY and group[0]["error"] is None and "_" in str(label(group[0]))
        yield from ([group] if many else ([result] for result in group))


def _kind(result: Document) -> tuple[object, ...]:
    array = str(result.get("label") or "").partition("_")[0]
    return array, result.get("name"), result.get("state"), result["error"]


def called(result: Document) -> str:
    """As `job 12_3 (resnet50)`."""
    name = result.get("name")
    return f"job {label(result)} ({name})" if name else f"job {label(result)}"


def _batches(jobs: Sequence[str]) -> Iterator[list[str]]:
    """As many references as one request may have, and as many globs among them."""
    batch: list[str] = []
    globs = 0
    for job in jobs:
        glob = any(character in job for character in "*?[")
        if len(batch) == _BATCH or (glob and globs == _GLOBS):
            yield batch
            batch, globs = [], 0
        batch.append(job)
        globs += glob
    if batch:
        yield batch
