"""Did an attempt die for want of GPU memory? Judged once, after its exit.

Two things must agree: an exit that is not success, and a fatal signature in what
the program said last. "Last" is the hard part. Programs catch such errors and go
on, other processes print their own tracebacks over the one that matters, and
libraries log failed allocations that did no harm. So the tail of the output is read
backwards, traceback by traceback, until one explains the exit. No file is read here:
the caller passes the last `TAIL_BYTES` of the attempt's output, decoded with
replacement characters.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from radrm.core.records import Exit, OutOfMemory

TAIL_BYTES = 64 * 1024

LAST_LINES = 20
"""Lines that count as a program's last words, where no traceback is to be had."""
AFTERMATH_LINES = 100
"""Lines that launchers, loggers and other ranks may still print after the fatal traceback."""

# A crash by abort, fault, trap or illegal instruction follows an error that nobody caught.
# Other signals come from outside; SIGKILL is how the host's own OOM killer works.
_CRASH_SIGNALS = frozenset({4, 5, 6, 11})

# --------------------------------------------------------------------------- what is said

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
_WEAK = frozenset({"CUBLAS_STATUS_ALLOC_FAILED"})

# What explains a weak signature better: an index outside its table.
_BAD_INDEX = re.compile(
    r"device-side assert|Assertion `[^`]{0,200}` failed|index out of (?:range|bounds)|IndexError:"
    r"|indexSelect(?:Large|Small)Index"
)
# The memory that ran out was the host's.
_HOST_MEMORY = re.compile(
    r"DefaultCPUAllocator|device:CPU|by allocator (?:mkl_?)?cpu|SIGKILL|killed by signal: Killed"
    r"|[Cc]annot allocate memory"
)
# TensorFlow's, XLA's and glog's own log lines below FATAL: allocators report and try again.
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

# --------------------------------------------------------------------------- its shape

_LINE_ENDS = re.compile(r"[\r\n]+")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,30}m")
# What torch, mpirun, Ray and srun put before each line of one process.
_SOURCE = re.compile(
    r"(?:\[[\w,:]{1,40}\](?:<std(?:err|out)>)?: ?|\(\w{1,60} pid=\d{1,9}[^)\n]{0,60}\) ?|\d{1,4}: )"
)
_FRAME = re.compile(r"\s*(?:frame #\d+: |#\d+ |@ +0x)|\s+File \"")

_HEADER = "Traceback (most recent call last)"
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,200}(?:\([\w.]{1,100}\))?(?:: |:?$)")
# After "During handling of ..." instead, the program had caught the error and failed of another.
_DIRECT_CAUSE = "The above exception was the direct cause"
_ASIDES = (
    "Exception ignored in",
    "Exception in thread",
    "--- Logging error ---",
    "Error in atexit",
    "Error in sys.excepthook",
    "exception was never retrieved",
)
# Exceptions that only pass on that another process, or this one from outside, came to its end.
_MESSENGER = re.compile(
    r"[\w.]*(?:ChildFailedError|CalledProcessError|ProcessRaisedException|ProcessExitedException"
    r"|DistBackendError|DistNetworkError|SignalException|BrokenPipeError|ConnectionResetError"
    r"|EOFError|KeyboardInterrupt|SystemExit)\b|RuntimeError: NCCL [Ee]rror"
)
# Exceptions whose message goes on over many lines before it says what ran out.
_LONG_MESSAGE = re.compile(r"[\w.]*(?:ResourceExhaustedError|DistBackendError)\b")


@dataclass(frozen=True, slots=True)
class _Traceback:
    """Lines `start..end` of a tail; its exception stands at `raised`.

    `aside` ones did not end anything; a `wrapper` was raised from the one before it.
    """

    start: int
    raised: int
    end: int
    aside: bool
    wrapper: bool


# --------------------------------------------------------------------------- judging


def classify(exit: Exit, tail: str) -> OutOfMemory | None:
    """Evidence that GPU memory ran out, or None: another cause, success, or not known.

    `tail` is the end of the program's output, of which the last `TAIL_BYTES`
    characters are looked at. Never raises; takes time linear in what it looks at.
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
        said = lines[traceback.raised : traceback.end]
        printed_since += len(said) - 1
        found = _in_exception(said) if printed_since <= AFTERMATH_LINES else None
        if found is not None:
            return found
        messenger = _MESSENGER.match(said[0]) and not _HOST_MEMORY.search(said[0])
        if not (traceback.aside or traceback.wrapper or messenger):
            return None
    before = tracebacks[0].start if tracebacks else len(lines)
    return _last_words(lines[:before])


def _may_be_oom(exit: Exit) -> bool:
    """A shell passes a signal on as 128+n, so both ways of saying it are read."""
    code = exit.shell_code
    if code is None:
        return False
    return code - 128 in _CRASH_SIGNALS or not 128 < code <= 128 + 64


def _lines(tail: str) -> list[str]:
    """The lines that say something, without colours, prefixes and native stack frames."""
    lines = []
    for line in _LINE_ENDS.split(tail):
        line = _COLOUR.sub("", line)
        if source := _SOURCE.match(line):
            line = line[source.end() :]
        if line.strip() and not _FRAME.match(line):
            lines.append(line.rstrip())
    return lines


def _tracebacks(lines: list[str]) -> list[_Traceback]:
    """Python's tracebacks in order. One that was cut off before its exception is none."""
    starts = [i for i, line in enumerate(lines) if _HEADER in line]
    found = []
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        raised = next((i for i in range(start + 1, end) if _EXCEPTION.match(lines[i])), None)
        if raised is not None:
            before = lines[start - 1] if start else ""
            aside = any(mark in before for mark in _ASIDES)
            found.append(_Traceback(start, raised, end, aside, before.startswith(_DIRECT_CAUSE)))
    return found


def _in_exception(said: list[str]) -> OutOfMemory | None:
    """Evidence in an exception, or in the last words after it. `said` begins with it."""
    own = _signature(said[0])
    if own is None and not _LONG_MESSAGE.match(said[0]):
        return _last_words(said[1:])
    if any(map(_WENT_ON.search, said[1:])):
        return None
    return own or next(filter(None, map(_signature, said)), None)


def _last_words(lines: list[str]) -> OutOfMemory | None:
    """Evidence in the last lines, unless a later one tells that the program went on."""
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
    """The request that failed, rounded up; None where the line names none."""
    found = _REQUEST.search(line)
    if found is None:
        return None
    try:
        amount = float(found[1].replace(",", ""))
    except ValueError:
        return None
    mib = math.ceil(amount * _MIB_PER[found[2][0].lower()])
    return mib if 0 < mib <= _MAX_REQUEST_MIB else None
