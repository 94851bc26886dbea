"""What `radrm submit --dry-run` says: what would be submitted, and what is known of it.

Nothing is written and no job is made. The checks are those of a real submission.
"""

from __future__ import annotations

import json
import shlex
import sys

from radrm.client.submitting import remarks_on
from radrm.errors import RadrmError, plain
from radrm.jobfile.confirmation import understood
from radrm.jobfile.sweeps import array_of, sweep_of, with_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from radrm.client.connection import Client
    from radrm.jobfile.radfile import JobFile

_SHOWN = 3
"""Elements of a sweep that are shown, and the last one."""


def show_dry_run(results: Sequence[dict[str, Any]], client: Client | None, as_json: bool) -> int:
    """Print what would be submitted. Returns the exit code.

    `results`: as `radrm submit` has read and checked them. `client`: of a running daemon;
    None without one.
    """
    documents = [_document(result, client) for result in results]
    if as_json:
        print(json.dumps(documents, indent=2))
    for result, document in zip(results, documents, strict=True):
        if result["error"] is not None:
            sys.stdout.flush()
            print(f"radrm: {result['error']}", file=sys.stderr)
        elif not as_json:
            print(*_lines(result, document), sep="\n")
    if not as_json:
        print(*_server(client), sep="\n")
    return max((result["code"] for result in results), default=0)


def _document(result: dict[str, Any], client: Client | None) -> dict[str, Any]:
    document = {key: result[key] for key in ("name", "file", "error")}
    if result["error"] is not None:
        return document
    job_file: JobFile = result["job_file"]
    asked, array = job_file.options, array_of(job_file)
    return document | {
        "elements": 1 if array is None else len(array.indices),
        "at_once": None if array is None else array.at_once,
        "gpus": asked.least_gpus,
        "gpu_memory_mib": asked.gpu_memory_mib,
        "gpu_memory_max_mib": asked.gpu_memory_max_mib,
        "memory_mib": asked.memory_mib,
        "time_limit_s": asked.time_s,
        **_estimate(result, client),
        "first": _elements(job_file),
    }


def _estimate(result: dict[str, Any], client: Client | None) -> dict[str, Any]:
    """What earlier runs tell of the memory at once; None for nothing, and without a daemon."""
    nothing = {"estimate_mib": None, "estimate_upper_mib": None, "estimate_source": None}
    job_file: JobFile = result["job_file"]
    if client is None or job_file.options.least_gpus == 0:
        return nothing
    from radrm.client.estimates import known

    memory = known(job_file, result["envelope"])
    if memory is None:
        return nothing
    return {
        "estimate_mib": int(memory.value),
        "estimate_upper_mib": int(max(memory.upper, memory.value)),
        "estimate_source": memory.source,
    }


def _elements(job_file: JobFile) -> list[dict[str, Any]]:
    """The first elements of a sweep and the last one: number, name, values and command."""
    sweep = sweep_of(job_file)
    if sweep is None:
        return []
    numbers = sorted({*range(min(_SHOWN, len(sweep))), len(sweep) - 1})
    found = []
    for number in numbers:
        values = sweep.values(number)
        one = with_values(job_file, values)
        command = list(one.argv) or None
        found.append(
            {"index": number, "name": one.name, "params": dict(values), "command": command}
        )
    return found


def _lines(result: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    job_file: JobFile = result["job_file"]
    asked = understood(job_file.options, job_file.raw)
    count, at_once = document["elements"], document["at_once"]
    many = ""
    if array_of(job_file) is not None:
        many = f", an array of {count}"
        many += f", {at_once} at once" if at_once is not None else ""
    gpus = document["gpus"]
    held = ", held" if job_file.options.hold else ""
    yield plain(
        f"Would submit {document['name']}{many}, {gpus} GPU{'' if gpus == 1 else 's'}{asked}{held}"
    )
    for kind, text in remarks_on(result):
        yield plain(f"  {kind}: {text}")
    if document["estimate_source"] not in (None, "declared"):
        yield plain(f"  estimate: {_memory(document)} per GPU (from {document['estimate_source']})")
    before = -1
    for one in document["first"]:
        if one["index"] > before + 1:
            yield "  ..."
        before = one["index"]
        values = " ".join(f"{name}={value}" for name, value in one["params"].items())
        command = f": {shlex.join(one['command'])}" if one["command"] else ""
        yield plain(f"  element {one['index']}  {values}{command}")


def _memory(document: dict[str, Any]) -> str:
    from radrm.core.units import show_mib

    value, upper = document["estimate_mib"], document["estimate_upper_mib"]
    most = f", at most {show_mib(upper)}" if upper > value else ""
    return f"{show_mib(value)}{most}"


def _server(client: Client | None) -> Iterator[str]:
    if client is None:
        yield "Nothing was submitted. No daemon runs, so nothing was checked against a server."
        return
    try:
        now = client.ask("ping")["summary"]
    except RadrmError:
        yield "Nothing was submitted."
        return
    yield plain(f"Nothing was submitted. The server now: {now}")
