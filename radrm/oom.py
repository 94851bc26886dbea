"""Judge whether an attempt ran out of GPU memory. The daemon asks after its exit.

Theory of operation:

- Two things must agree: a failed exit, and a fatal signature at the end of the output. A
  signature elsewhere proves nothing: programs catch such errors and continue, and
  libraries log failed allocations that did no harm.
- Other processes may print tracebacks after the one that matters. So the output is read
  backwards, one traceback after another, until one explains the exit.
- The result depends on the arguments alone, so a daemon that restarts before it has
  judged gets the same one. No file is read here: the caller passes the last `TAIL_BYTES`
  of the attempt's output, decoded with replacement characters.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from radrm.core.records import Exit, OutOfMemory

TAIL_BYTES = 64 * 1024

LAST_LINES = 20
"""Without a traceback, the number of lines at the end that are searched for a signature."""
AFTERMATH_LINES = 100
"""The most lines that launchers, loggers and other ranks print after the fatal traceback."""

# An abort, fault, trap or illegal instruction can follow an uncaught error. Other signals come
# from outside; the host's own OOM killer uses SIGKILL.
_CRASH_SIGNALS = frozenset({4, 5, 6, 11})

# --------------------------------------------------------------------------- signatures

_SIGNATURES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "CUDA out of memory",
            r"(?:Error: |Error\(['\"])CUDA out of memory|CUDA out of memory\. Tried to allocate",
        ),
        (
            "OutOfMemoryError",
            r"(?<!except )\b(?:torch|torch\.cuda|cupy\.cuda\.memory)\.OutOfMemoryError:?(?: |$)",
        ),
        ("CUDA error: out of memory", r"CUDA error: out of memory"),
        ("cudaErrorMemoryAllocation", r"\bcudaErrorMemoryAllocation\b"),
        ("cudaMalloc out of memory", r"\bcu(?:da)?(?:Mem)?(?:Alloc|Malloc) failed: out of memory"),
        ("CUDA_ERROR_OUT_OF_MEMORY", r"results in CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuDNN allocation failed", r"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        (
            "ResourceExhaustedError",
            r"\bOOM when allocating tensor with shape\[|\bfailed to allocate memory \[Op:",
        ),
        (
            "RESOURCE_EXHAUSTED",
            r"RESOURCE_EXHAUSTED: (?:Out of memory (?:while trying to allocate|allocating)"
            r"|Failed to allocate request for)",
        ),
        ("NCCL out of memory", r"Cuda failure (?:\d{1,4} )?'out of memory'|Failed to CUDA calloc"),
        ("CUBLAS_STATUS_ALLOC_FAILED", r"CUBLAS_STATUS_ALLOC_FAILED when calling"),
    )
)
# A weak signature has a more common cause: an index outside its table.
_WEAK = frozenset({"CUBLAS_STATUS_ALLOC_FAILED"})
_BAD_INDEX = re.compile(
    r"device-side assert|Assertion `[^`]{0,200}` failed|index out of (?:range|bounds)|IndexError:"
    r"|indexSelect(?:Large|Small)Index"
)
# The host's memory ran out, not a GPU's.
_HOST_MEMORY = re.compile(
    r"DefaultCPUAllocator|device:CPU|by allocator (?:mkl_?)?cpu|SIGKILL|killed by signal: Killed"
    r"|[Cc]annot allocate memory"
)
# Log lines of TensorFlow, XLA and glog below FATAL: their allocators report and retry.
_NATIVE_LOG = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: [IWE] |[IWE]\d{4} \d\d:\d\d:)"
)
_MILD = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b", re.IGNORECASE)
_WENT_ON = re.compile(
    r"\b(?:retry|retrying|reducing|halving|lowering|decreasing|trying|skipping|skipped|continuing)"
    r"\b.{0,60}\bbatch|\bretrying with\b|\bfalling back to\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"(?:allocat(?:e|ing)|calloc|calloc async|request for) ([\d,]{1,24}(?:\.\d{1,6})?) ?"
    r"(bytes|[KMGT]i?B|B)\b",
    re.IGNORECASE,
)
_MIB_PER = {"b": 2.0**-20, "k": 2.0**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20}
_MAX_REQUEST_MIB = 2**30

# --------------------------------------------------------------------------- output

_LINE_ENDS = re.compile(r"[\r\n]+")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,30}m")
# The prefix that torch, mpirun, Ray or srun puts before each line of a process.
_SOURCE = re.compile(
    r"(?:\[[\w,:]{1,40}\](?:<std(?:err|out)>)?: ?|\(\w{1,60} pid=\d{1,9}[^)\n]{0,60}\) ?|\d{1,4}: )"
)
_FRAME = re.compile(r"\s*(?:frame #\d+: |#\d+ |@ +0x)|\s+File \"")

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
    r"|EOFError|KeyboardInterrupt|SystemExit)\b|RuntimeError: NCCL [Ee]rror"
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


# --------------------------------------------------------------------------- judging


def classify(exit: Exit, tail: str) -> OutOfMemory | None:
    """Return the evidence that GPU memory ran out. None: success, or no such evidence.

    Only the last `TAIL_BYTES` characters of `tail` count. This function never raises, and
    its time is linear in these characters: the output may come from any program.
    """
    if exit.ok or not _may_be_oom(exit):
        return None
    lines = _lines(tail[-TAIL_BYTES:])
    found = _search(lines)
    if found is not None and found.signature in _WEAK and any(map(_BAD_INDEX.search, lines)):
        return None
    return found


def _search(lines: list[str]) -> OutOfMemory | None:
    tracebacks = _tracebacks(lines)
    printed_since = 0
    for traceback in reversed(tracebacks):
        message = lines[traceback.raised : traceback.end]
        printed_since += len(message) - 1
        found = _in_exception(message) if printed_since <= AFTERMATH_LINES else None
        if found is not None:
            return found
        messenger = _MESSENGER.match(message[0]) and not _HOST_MEMORY.search(message[0])
        if not (traceback.aside or traceback.wrapper or messenger):
            return None
    before = tracebacks[0].start if tracebacks else len(lines)
    return _in_last_lines(lines[:before])


def _may_be_oom(exit: Exit) -> bool:
    """Return whether the exit fits: no signal, or a crash. A shell reports signal n as 128 + n."""
    code = exit.shell_code
    if code is None:
        return False
    return code - 128 in _CRASH_SIGNALS or not 128 < code <= 128 + 64


def _lines(tail: str) -> list[str]:
    """Return the lines that are not empty, without colours, prefixes and native frames."""
    lines = []
    for line in _LINE_ENDS.split(tail):
        line = _COLOUR.sub("", line)
        if source := _SOURCE.match(line):
            line = line[source.end() :]
        if line.strip() and not _FRAME.match(line):
            lines.append(line.rstrip())
    return lines


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


def _in_exception(message: list[str]) -> OutOfMemory | None:
    """Return the evidence in an exception or in the lines after it; `message` begins with it."""
    own = _signature(message[0])
    if own is None and not _LONG_MESSAGE.match(message[0]):
        return _in_last_lines(message[1:])
    if any(map(_WENT_ON.search, message[1:])):
        return None
    return own or next(filter(None, map(_signature, message)), None)


def _in_last_lines(lines: list[str]) -> OutOfMemory | None:
    """Return the evidence in the last lines, unless a later line shows that the program went on."""
    for line in reversed(lines[-LAST_LINES:]):
        if _WENT_ON.search(line):
            return None
        found = _signature(line)
        if found is not None and not _NATIVE_LOG.match(line) and not _MILD.search(line):
            return found
    return None


def _signature(line: str) -> OutOfMemory | None:
    if _HOST_MEMORY.search(line):
        return None
    for name, pattern in _SIGNATURES:
        if pattern.search(line):
            return OutOfMemory(name, _requested_mib(line))
    return None


def _requested_mib(line: str) -> int | None:
    """Return the size of the request that failed, rounded up. None: the line has no size."""
    found = _REQUEST.search(line)
    if found is None:
        return None
    try:
        amount = float(found[1].replace(",", ""))
    except ValueError:
        return None
    mib = math.ceil(amount * _MIB_PER[found[2][0].lower()])
    return mib if 0 < mib <= _MAX_REQUEST_MIB else None
