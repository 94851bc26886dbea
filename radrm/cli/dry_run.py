"""What `radrm submit --dry-run` says: what would be submitted, and what is known of it.

Nothing is written and no job is made. The checks are those of a real submission.
"""

from __future__ import annotations

import shlex

from radrm.client.preview import preview
from radrm.client.submitting import remarks_on
from radrm.client.text import print_json, say, warn
from radrm.errors import RadrmError
from radrm.jobfile.confirmation import understood
from radrm.jobfile.sweeps import array_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from radrm.client.connection import Client
    from radrm.jobfile.radfile import JobFile


def show_dry_run(results: Sequence[dict[str, Any]], client: Client | None, as_json: bool) -> int:
    """Print what would be submitted. Returns the exit code.

    `results`: as `radrm submit` has read and checked them. `client`: of a running daemon;
    None without one.
    """
    documents = [preview(result, client) for result in results]
    if as_json:
        print_json(documents)
    for result, document in zip(results, documents, strict=True):
        if result["error"] is not None:
            warn(result["error"])
        elif not as_json:
            say(*_lines(result, document))
    if not as_json:
        say(*_server(client))
    return max((result["code"] for result in results), default=0)


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
    yield (
        f"Would submit {document['name']}{many}, {gpus} GPU{'' if gpus == 1 else 's'}{asked}{held}"
    )
    for kind, text in remarks_on(result):
        yield (f"  {kind}: {text}")
    if document["estimate_source"] not in (None, "declared"):
        yield (f"  estimate: {_memory(document)} per GPU (from {document['estimate_source']})")
    before = -1
    for one in document["first"]:
        if one["index"] > before + 1:
            yield "  ..."
        before = one["index"]
        values = " ".join(f"{name}={value}" for name, value in one["params"].items())
        command = f": {shlex.join(one['command'])}" if one["command"] else ""
        yield (f"  element {one['index']}  {values}{command}")


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
    yield (f"Nothing was submitted. The server now: {now}")
