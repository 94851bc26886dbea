"""Show the results of a command about jobs or devices: one line each, errors on standard error."""

from __future__ import annotations

import sys
from itertools import groupby

from radrm.client.connection import Client, command_jobs, every_job
from radrm.client.text import label, print_json, say, warn
from radrm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from radrm.client.connection import Ask
    from radrm.client.text import Document

    Describe = Callable[[Document], str]
    Wait = Callable[[Ask, Document], Document]
    """Waits for what comes of a request; is given the job's document from before it."""

_MANY = 20
"""Elements of one array above which all with the same result share one line."""


def run_on_jobs(
    command: str,
    jobs: Sequence[str],
    describe: Describe,
    as_json: bool,
    user: str,
    state: str,
    more: Document | None = None,
) -> int:
    """Run a command on jobs, or on those of a user or in some states. Show the results.

    `more`: more words of the request. Returns the exit code. Raises `UsageError` if neither jobs
    nor a choice is given.
    """
    choice = {"user": user, "state": state.replace(" ", "")}
    choice = {name: word for name, word in choice.items() if word}
    if not jobs and not choice:
        raise UsageError(
            f"no job to {command.removeprefix('would-')} is named; name jobs, or choose them by "
            "--user or --state"
        )
    results = command_jobs(command, jobs, **choice, **(more or {}))
    code = show_results(results, describe, as_json)
    if not results and not as_json:
        say(f"No such jobs: {_chosen(choice)}.")
    return code


def run_and_wait(
    command: str,
    jobs: Sequence[str],
    words: Document,
    wait: Wait,
    describe: Describe,
    no_wait: bool,
    as_json: bool,
) -> int:
    """Ask running jobs for something, wait for what comes of it, and show that.

    `words`: more words of the request. Returns the exit code.
    """
    from radrm.client.follow import Patient  # most commands follow nothing

    with Client() as client:
        patient = Patient(client, warn)
        befores = {d["id"]: d for d in every_job(client.ask, jobs=list(jobs))}
        results = client.ask(command, jobs=list(jobs), **words)
        asked = [i for i, each in enumerate(results) if each["error"] is None and not no_wait]
        for i in asked:
            before = befores.get(results[i]["id"])
            if before is not None:
                results[i] = wait(patient.ask, before)
    return show_results(results, describe, as_json)


def _chosen(choice: dict[str, str]) -> str:
    """As `jobs of ada that are pending`."""
    whose = f"jobs of {choice['user']}" if "user" in choice else "your jobs"
    return f"{whose} that are {choice['state'].lower()}" if "state" in choice else whose


def show_results(results: Sequence[Document], describe: Describe, as_json: bool) -> int:
    """Print one line for each result, or the document; errors on standard error. Returns the exit
    code: 1 if a result is an error."""
    if as_json:
        print_json(results)
    for group in _together(results):
        if group[0]["error"] is not None:
            sys.stdout.flush()
            warn(group[0]["error"])
        elif not as_json:
            last = f" ... {label(group[-1])}, {len(group)} in all" if len(group) > 1 else ""
            say(describe(group[0]) + last)
    return 1 if any(result["error"] is not None for result in results) else 0


def _together(results: Sequence[Document]) -> Iterator[list[Document]]:
    """The results in groups. Many elements of one array with the same result are one group; each
    other result is a group of its own."""
    for _, found in groupby(results, _kind):
        group = list(found)
        many = len(group) > _MANY and group[0]["error"] is None and "_" in str(label(group[0]))
        yield from ([group] if many else ([result] for result in group))


def _kind(result: Document) -> tuple[object, ...]:
    array = str(result.get("label") or "").partition("_")[0]
    return array, result.get("name"), result.get("state"), result["error"]


def job_name(result: Document) -> str:
    """As `job 12_3 (resnet50)`."""
    name = result.get("name")
    return f"job {label(result)} ({name})" if name else f"job {label(result)}"
