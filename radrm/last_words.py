"""Find what ended a failed program in the last lines of its output.

Theory of operation:

- A text at the end of the output proves something only if the program ended by it. A text elsewhere
  proves nothing: programs catch errors and continue, and libraries log what did no harm.
- Other processes may print tracebacks after the one that matters. So the output is read
  backwards, one traceback after another, until one explains the exit.
- The result depends on the arguments alone, so a daemon that restarts before it has
  judged gets the same one. No file is read here: the caller passes the last `TAIL_BYTES`
  of the attempt's output, decoded with replacement characters.

The time is linear in these characters, as long as the caller's `find` is: the output may come from
any program. What to look for is the business of `oom.py` and `hints.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

TAIL_BYTES = 64 * 1024

LAST_LINES = 20
"""Without a traceback, the number of lines at the end that are searched."""
AFTERMATH_LINES = 100
"""The most lines that launchers, loggers and other ranks print after the fatal traceback."""

HOST_MEMORY = re.compile(
    r"DefaultCPUAllocator|device:CPU:\d{1,4} by|by allocator (?:mkl_?)?cpu|SIGKILL"
    r"|killed by signal: Killed|[Cc]annot allocate memory"
)
"""The host's memory ran out, not a GPU's."""

_Found = TypeVar("_Found")

# Log lines of TensorFlow, XLA, glog and ONNX Runtime below FATAL: their allocators report and
# retry.
_NATIVE_LOG = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: [IWE] |[IWE]\d{4} \d\d:\d\d:"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9} \[[VIWE]:onnxruntime)"
)
_MILD = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b", re.IGNORECASE)
_WENT_ON = re.compile(
    r"\b(?:retry|retrying|reducing|halving|lowering|decreasing|trying|skipping|skipped|continuing)"
    r"\b.{0,60}\bbatch|\bretrying with\b|\bfalling back to\b",
    re.IGNORECASE,
)

_LINE_ENDS = re.compile(r"[\r\n]+")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,30}m")
# The prefix that torch, mpirun, Ray, vLLM or srun puts before each line of a process.
_SOURCE = re.compile(
    r"(?:\[[\w,:]{1,40}\](?:<std(?:err|out)>)?: ?"
    r"|\(\w{1,60} (?:rank=\d{1,6} )?pid=\d{1,9}[^)\n]{0,60}\) ?|\d{1,4}: )"
)
# vLLM logs a traceback as one line of its log for each of its lines.
_LOGGED_ERROR = re.compile(r"ERROR \d\d-\d\d \d\d:\d\d:\d\d \[[^\]\n]{1,100}\] ?")
_FRAME = re.compile(r"\s*(?:frame #\d+: |#\d+ |@ +0x)|\s+(?:File \"|\[\d{1,4}\] |@ )")

_HEADER = "Traceback (most recent call last)"
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,200}(?:\([\w.]{1,100}\))?(?:: |:?$)")
# "During handling of ..." is not here: there the program caught the error and failed later.
_DIRECT_CAUSE = "The above exception was the direct cause"
_ASIDES = (
    "Exception ignored in",
    "Exception in thread",
    "--- Logging error ---",
    "Error in atexit",
    "Error in sys.excepthook",
    "exception was never retrieved",
)
# Exceptions that only report how another process ended, or a stop from outside.
_MESSENGER = re.compile(
    r"[\w.]*(?:ChildFailedError|CalledProcessError|ProcessRaisedException|ProcessExitedException"
    r"|DistBackendError|DistNetworkError|SignalException|BrokenPipeError|ConnectionResetError"
    r"|EOFError|KeyboardInterrupt|SystemExit|EngineDeadError)\b|RuntimeError: NCCL [Ee]rror"
    r"|RuntimeError: Engine (?:core initialization|process) failed"
    r"|Exception: WorkerProc initialization failed"
    r"|[\w.]*ValidationError: \d{1,4} validation errors? for ModelConfig"
)
# Exceptions with long messages, which name the cause only after many lines.
_LONG_MESSAGE = re.compile(r"[\w.]*(?:ResourceExhaustedError|DistBackendError)\b")


@dataclass(frozen=True, slots=True)
class _Traceback:
    """The lines `start..end`, with the exception at `raised`.

    One that is `aside` did not end the program. A `wrapper` was raised from the one before.
    """

    start: int
    raised: int
    end: int
    aside: bool
    wrapper: bool


def lines_of(tail: str) -> list[str]:
    """Return the lines that are not empty, without colours, prefixes and native frames."""
    lines = []
    for line in _LINE_ENDS.split(tail[-TAIL_BYTES:]):
        line = _COLOUR.sub("", line)
        for prefix in (_SOURCE, _LOGGED_ERROR):
            if found := prefix.match(line):
                line = line[found.end() :]
        if line.strip() and not _FRAME.match(line):
            lines.append(line.rstrip())
    return lines


def search(lines: list[str], find: Callable[[str], _Found | None]) -> _Found | None:
    """Return what `find` says of the line that explains the end; None: no line does.

    `find` gets one line and answers None for one that says nothing.
    """
    tracebacks = _tracebacks(lines)
    printed_since = 0
    for traceback in reversed(tracebacks):
        message = lines[traceback.raised : traceback.end]
        printed_since += len(message) - 1
        found = _in_exception(message, find) if printed_since <= AFTERMATH_LINES else None
        if found is not None:
            return found
        messenger = _MESSENGER.match(message[0]) and not HOST_MEMORY.search(message[0])
        if not (traceback.aside or traceback.wrapper or messenger):
            return None
    before = tracebacks[0].start if tracebacks else len(lines)
    return _in_last_lines(lines[:before], find)


def _tracebacks(lines: list[str]) -> list[_Traceback]:
    """Return Python's tracebacks in order, except those that end before their exception."""
    starts = [i for i, line in enumerate(lines) if _HEADER in line]
    found = []
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        raised = next((i for i in range(start + 1, end) if _EXCEPTION.match(lines[i])), None)
        if raised is not None:
            before = lines[start - 1] if start else ""
            aside = any(mark in before for mark in _ASIDES)
            found.append(_Traceback(start, raised, end, aside, before.startswith(_DIRECT_CAUSE)))
    return found


def _in_exception(message: list[str], find: Callable[[str], _Found | None]) -> _Found | None:
    """Return what an exception or the lines after it say; `message` begins with it."""
    own = find(message[0])
    if own is None and not _LONG_MESSAGE.match(message[0]):
        return _in_last_lines(message[1:], find)
    if any(map(_WENT_ON.search, message[1:])):
        return None
    return own or next(filter(None, map(find, message)), None)


def _in_last_lines(lines: list[str], find: Callable[[str], _Found | None]) -> _Found | None:
    """Return what the last lines say, unless a later line shows that the program went on."""
    for line in reversed(lines[-LAST_LINES:]):
        if _WENT_ON.search(line):
            return None
        found = find(line)
        if found is not None and not _NATIVE_LOG.match(line) and not _MILD.search(line):
            return found
    return None
