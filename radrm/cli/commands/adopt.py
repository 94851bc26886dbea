"""`radrm adopt`: book a process that runs already as a job."""

from __future__ import annotations

import os

from radrm.cli.parameters import JSON, TEXT, TEXTS, WORD, Parameter
from radrm.client.connection import Client
from radrm.client.submitting import check, put
from radrm.client.text import print_json
from radrm.core.units import show_mib
from radrm.errors import Refused, UsageError, plain
from radrm.host.processes.procfs import read_stat
from radrm.jobfile.command_line import SubmitRequest
from radrm.jobfile.relations import adoption_s
from radrm.jobfile.values import seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.client.text import Document
    from radrm.jobfile.options import RawOptions

PARAMETERS = (
    Parameter("pid", WORD, "The number of the process (see radrm gpus).", "PID", least=1),
    Parameter(
        *("span", TEXT, "Book it for so long at most: 4h, 90m; by default until its end.", "SPAN"),
        flags=("--for",),
    ),
    Parameter(
        *("memory", TEXT, "Memory to reserve per GPU; by default what it uses, and some more."),
        *("SIZE", ("--gpu-memory",)),
    ),
    Parameter("name", TEXT, "The job's name; by default adopted-PID.", "NAME", ("--name",)),
    Parameter(
        *("notify", TEXTS, "Mail address, URL or program to tell of its end (repeatable)."),
        *("TARGET[:EVENT,...]", ("--notify",)),
    ),
    Parameter("comment", TEXT, "A note kept with the job.", "TEXT", ("--comment",)),
    JSON,
)
_LONGEST_PID = 10


def adopt(
    pid: str, span: str, memory: str, name: str, notify: list[str], comment: str, as_json: bool
) -> int:
    """Book a process that runs on a GPU already as a job.

    It must be yours; root may book any. The process and its descendants get a reservation, a card
    and a notice at the end. Nothing happens to them. Their exit status stays unknown. `radrm
    cancel` ends them.

    \b
    Examples:
      radrm adopt 4711
      radrm adopt 4711 --for 4h --gpu-memory 20G --notify mail
    """
    number, for_s = _number(pid), _span(span)
    given = {"name": name, "gpu-memory": memory, "comment": comment}
    raw: RawOptions = {key: word for key, word in given.items() if word}
    if notify:
        raw["notify"] = notify
    stat = read_stat(number)
    if stat is None:
        raise Refused(f"there is no process {number}")
    with Client() as client:
        found = client.ask("adoptable", pid=number, start=stat.start_ticks, memory=memory or None)
        process = found["process"] + ("" if for_s is None else f":{for_s:.3f}")
        request = SubmitRequest(
            {
                "name": f"adopted-{number}",
                "output": os.devnull,
                "chdir": "/",
                "expect-idle": True,
                "gpus": str(len(found["gpus"])),
                "adopt": process,
                **raw,
            },
            command=("radrm", "adopt", str(number)),
        )
        results, paths, up = check(client, request)
        put(client, results, paths, up)
    (result,) = results
    if as_json:
        wanted = ("ticket", "id", "name", "file", "error")
        print_json([{key: result[key] for key in wanted}])
    if result["error"] is not None:
        raise result.get("cause") or Refused(result["error"])
    if not as_json:
        print(plain(_told(number, found, result)))
    return 0


def _told(number: int, found: Document, result: Document) -> str:
    """As `Adopted process 4711 as job 12 (adopted-4711): GPU 0, 20.5G reserved`."""
    job = f"job {result['id']}" if result["id"] is not None else str(result["ticket"])
    gpus = ", ".join(f"GPU {each['index']}" for each in found["gpus"])
    most = max(each["reserved_mib"] for each in found["gpus"])
    held = f"{show_mib(most)} reserved" + (" on each" if len(found["gpus"]) > 1 else "")
    return f"Adopted process {number} as {job} ({result['name']}): {gpus}, {held}"


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _LONGEST_PID or int(text) < 1:
        raise UsageError(f"radrm adopt: {text[:40]!r} is no process number; see radrm gpus")
    return int(text)


def _span(text: str) -> float | None:
    try:
        return adoption_s(seconds(text)) if text else None
    except ValueError as error:
        raise UsageError(f"radrm adopt: --for: {error}") from None
