"""What a submission would do, and what it would need. Nothing is written."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from radrm.agents.answers import Estimated, Fit, Preview
from radrm.agents.bounded import cleaned, daemon, maybe, moment, name, text, texts
from radrm.agents.machine import OUT_OF_SERVICE
from radrm.api.options import raw_options
from radrm.client.connection import Client
from radrm.client.estimates import (
    answer,
    config_of,
    estimate_document,
    one_shape,
    read,
    to_trace,
    with_history,
)
from radrm.client.preview import preview
from radrm.client.submitting import check
from radrm.client.text import Document
from radrm.core.units import show_mib
from radrm.errors import UsageError
from radrm.jobfile.command_line import STDIN, SubmitRequest
from radrm.jobfile.confirmation import understood
from radrm.jobfile.options import RawOptions

Command = Annotated[
    list[str] | None,
    Field(max_length=4096, description="The program and its arguments; or name a `file`."),
]
File = Annotated[str | None, Field(description="A job file; or give a `command`.")]
Value = str | bool | int | float | list[str] | dict[str, Any] | None
Options = Annotated[
    dict[str, Value] | None,
    Field(
        description="Options of `radrm submit`, as radrm.Client takes them: "
        '{"gpus": 2, "gpu_memory": "12G", "time": "2:00:00", "env": {"LR": 0.1}}; '
        "true for an option without a value, a list for one that may be repeated."
    ),
]

_ROWS = 200
"""Waiting jobs whose expected starts are looked at."""


def preview_submit(command: Command = None, file: File = None, options: Options = None) -> Preview:
    """Say what a submission would do, and submit nothing: the options as radrm understands them,
    notes, the memory estimate, whether the job could ever run, and whether it could start now."""
    request = request_of(command, file, options)
    with daemon() as client:
        (found,), _, _ = check(client, request)
        if found["error"] is not None:
            return Preview(
                name=maybe(found["name"]),
                error=text(found["error"]),
                understood=None,
                notes=[],
                options=cleaned(request.raw_options),
            )
        return _preview(client, request, found)


def _preview(client: Client, request: SubmitRequest, found: Document) -> Preview:
    job_file, document = found["job_file"], preview(found, client)
    gpus, upper = document["gpus"], document["estimate_upper_mib"]
    said = understood(job_file.options, job_file.raw)
    return Preview(
        name=name(document["name"]),
        error=None,
        understood=text(f"{gpus} GPU{'' if gpus == 1 else 's'}{said}"),
        notes=texts(document["notes"]),
        options=cleaned(job_file.raw),
        jobs=document["elements"],
        estimate_mib=document["estimate_mib"],
        estimate_upper_mib=upper,
        estimate_source=maybe(document["estimate_source"]),
        could_start=_fit(client, gpus, document["gpu_memory_mib"] or upper),
        command=maybe(_command(request), 2000),
    )


def _fit(client: Client, gpus: int, needs_mib: int | None) -> Fit:
    page = client.ask("page", state="pending,recovering", limit=_ROWS)
    devices = [each for each in client.ask("gpus") if each["state"] not in OUT_OF_SERVICE]
    waiting = sum(page["counts"].get(state, 0) for state in ("PENDING", "RECOVERING"))
    starts = [job.get("expected_start_at") for job in page["jobs"]]
    # One that is unknown may be the last.
    last_s = None if None in starts else max(starts, default=None)
    return fit(gpus, needs_mib, devices, waiting, last_s)


def fit(
    gpus: int,
    needs_mib: int | None,
    devices: Sequence[Document],
    waiting: int,
    last_s: float | None,
) -> Fit:
    """Whether a job could start at once, by memory alone.

    `waiting`: the jobs that wait now. `last_s`: when the last of them is expected to start.
    """
    room = [d["index"] for d in devices if (d["free_mib"] or 0) >= max(needs_mib or 0, 1)]
    largest = max((d["free_mib"] or 0 for d in devices), default=0)
    queue = (
        "no job waits"
        if not waiting
        else f"{waiting} {'job waits' if waiting == 1 else 'jobs wait'}"
    )
    if waiting and last_s is not None:
        queue += f", the last of them is expected to start at {moment(last_s)}"
    if gpus == 0:
        says = f"it needs no GPU; {queue}"
    elif needs_mib is None:
        says = f"its GPU memory is neither declared nor known, so this cannot be said; {queue}"
    elif len(room) < gpus:
        says = (
            f"it needs {show_mib(needs_mib)} on {gpus} GPU(s), and {len(room)} have that free now "
            f"(the largest {show_mib(largest)}); {queue}"
        )
    else:
        says = f"{len(room)} GPU(s) have {show_mib(needs_mib)} free now; {queue}"
    return Fit(
        known=gpus == 0 or needs_mib is not None,
        needs_mib=needs_mib,
        gpus_with_room=room[:64] if gpus and needs_mib is not None else [],
        waiting_before=waiting,
        says=says,
    )


def estimate_job(
    file: Annotated[str, Field(description="A job file.")], options: Options = None
) -> Estimated:
    """Estimate the GPU memory, SM activity and run time of a job file with the configured
    estimator. No code of the job runs, so nothing is traced here."""
    _refuse_special(file)
    config = config_of()
    with daemon():
        asked, mark, ways = read(file, raw_of(options))
        one_shape(asked)
        asked = with_history(asked, mark)
        found = estimate_document(file, config.estimator, answer(asked, config, config.estimator))
        request = to_trace(asked, ways, (config.estimator,), config)
    traced = ["not traced: radrm estimate FILE traces it"] if request is not None else []
    return Estimated.of(
        found,
        file=text(file),
        estimator=config.estimator,
        guesses=texts(found["guesses"]),
        notes=[*texts(found["notes"]), *traced],
    )


# ------------------------------------------------------------------ requests


def request_of(command: Command, file: File, options: Options) -> SubmitRequest:
    """The request of a tool's arguments. Raises `UsageError`."""
    if bool(command) == bool(file):
        raise UsageError("name either a command or a job file, and not both")
    raw = raw_of(options)
    if file:
        _refuse_special(file)
        return SubmitRequest(raw, files=(file,))
    return SubmitRequest(raw, command=tuple(command or ()))


def raw_of(options: Options) -> RawOptions:
    """Options as the command line has them. Raises `UsageError` for one that does not exist."""
    raw = raw_options(options or {}, "options")
    for key in ("params", "model-summary"):
        if isinstance(named := raw.get(key), str):
            _refuse_special(named)
    return raw


def _refuse_special(path: str) -> None:
    """Refuse standard input, which is the agent's, and pipes, on which a read could wait."""
    if path == STDIN:
        raise UsageError("`-` is standard input, which an agent does not have; name a file")
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except ValueError:
        raise UsageError(f"{text(path)} holds a NUL, or is not UTF-8; name a file") from None
    except OSError:
        return  # who reads it says why it cannot be read
    if not regular:
        raise UsageError(f"{text(path)} is not a regular file; name a file")


def _command(request: SubmitRequest) -> str:
    """The request as a shell command."""
    words: list[Any] = ["radrm", "submit"]
    for key, value in request.raw_options.items():
        for each in value if isinstance(value, list) else [value]:
            words.append(f"--{key}" if each is True else f"--{key}={each}")
    tail = [*request.files] if request.files else ["--", *request.command]
    return shlex.join(map(str, (*words, *tail)))
