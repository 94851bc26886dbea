"""Find what ended a failed program in the last lines of its output.

Theory of operation:

- A text at the end of the output proves something only if the program ended by it. A text elsewhere
  proves nothing: programs catch errors and continue, and libraries log what did no harm.
- Other processes may print tracebacks after the one that matters. So the output is read
  backwards, one traceback after another, until one explains the exit.
- Some exceptions say only that a step failed: a model was not loaded, a worker exited, a result is
  None. Then what stands right before them, within `NEAR_LINES`, says why.
- The result depends on the arguments alone, so a daemon that restarts before it has
  judged gets the same one. No file is read here: the caller passes the last `TAIL_BYTES`
  of the attempt's output, decoded with replacement characters.

The time is linear in these characters, as long as the caller's `find` is: the output may come from
any program. What to look for is the business of `oom.py` and `hints.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

TAIL_BYTES = 64 * 1024

LAST_LINES = 20
"""Without a traceback, the number of lines at the end that are searched."""
AFTERMATH_LINES = 100
"""The most lines that launchers, loggers and other ranks print after the fatal traceback. Neither
counts what `_QUIET` has: the message's own lines, and the long endings of launchers and loggers."""

HOST_MEMORY = re.compile(
    r"(?i:cpu_?allocator|(?<!gpu or )\bcpu memory\b|\bnot enough memory: you tried"
    r"|\bby allocator (?:mkl_?)?cpu"
    r"|cannot allocate memory\b(?! on GPU)|errno 12\b|\benomem\b"
    r"|oom[-_ ]?kill|killed process|\bcgroup"
    # Memory of the host that a GPU's driver hands out.
    r"|\bpinned|page-?locked|cuda_?host|hostalloc|mallochost|allochost|hostmalloc|hostregister"
    r"|(?<!and shared )\bhost memory|out_of_host|outofhost|host_mem"
    # Shared memory: the host's (/dev/shm), PostgreSQL's, or that of a kernel on the GPU.
    r"|shared memory|/dev/shm|\bshm\b|no space left|\bquota\b"
    r"|java\.lang\.outofmemory|java heap|javascript heap|gc overhead|\bobject store\b|low on memory"
    r"|\bsystem[ _](?:memory|mem|ram)\b|\bmain memory\b|virtual memory|\bswap\b|(?<!gpu )\bram\b)"
    r"|device:CPU:\d{1,4} by|SIGKILL|killed by signal: Killed|ArrayMemoryError"
    r"|for an array with shape|MemoryError: Unable to allocate"
)
"""Another memory ran out, not a GPU's."""

_Found = TypeVar("_Found")

# Log lines of TensorFlow, XLA, glog and ONNX Runtime below FATAL: their allocators report and
# retry.
_NATIVE_LOG = re.compile(
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: [IWE] |[IWE]\d{4} \d\d:\d\d:"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9} \[[VIWE]:onnxruntime)"
)
_UNCAUGHT = re.compile(r"Exception in thread \"main\" ")
"""What ended a program of Java. Its causes are in the lines after it."""
_GAVE_UP = re.compile(r"error: creating server: ")
"""What Triton's server says when it ends. Then what its log calls an error was one."""
_MILD = re.compile(
    r"\b(?:DEBUG|INFO|WARNING|(?<!NCCL )WARN)\b|(?i:warning: )|^(?i:debug|info|warn(?:ing)?)\b"
    r"|^(?i:note|hint|tip)\b|[-|] ?(?i:debug|info|warn(?:ing)?) {0,8}[-|:]"
    r"|\[(?i:debug|info|warn(?:ing)?)\]|\blevel=(?:debug|info|warn)"
)
_WENT_ON = re.compile(
    # It makes its work smaller. "Try reducing ..." is advice.
    r"(?<!try )(?<!consider )(?<!\bby )(?<!suggest )(?<!recommend )(?<!please )"
    r"\b(?:retrying|reduc(?:ing|ed)|halv(?:ing|ed)|lower(?:ing|ed)|decreas(?:ing|ed)|shrinking"
    r"|trying|skip(?:ping|ped|s)?|continuing|switching|dropping|splitting|using(?: default)?)"
    r"\b.{0,60}\b(?:\w{0,6}batch|batch_?size|chunk\w{0,3}|til(?:e|es|ed|ing)|sequence|sample"
    r"|resolution)"
    r"|\b(?:batch[ _]?size|batch|chunks?|tiles?|resolution) (?:(?:is|was|now) ){0,2}"
    r"(?:reduced|halved|lowered|decreased)\b"
    # Or does it another way.
    r"|\bretrying (?:with|without|on|using)\b|\btrying again\b|\bwill retry\b"
    r"|\bretrying\.{0,3}$|\bfall(?:ing|s)? back (?:to|on)\b|(?<!set )\bfallback to\b"
    r"|\b(?:continuing|proceeding|carrying on) (?:with|without|on)\b"
    r"|\bswitching to\b|\bmoving (?:it )?to (?:the )?cpu\b"
    r"|\brecover(?:ed|ing)? from (?:\w{1,9} )?(?:oom|out)|\bignoring\b|\bsurvived\b"
    r"|(?<!Exception )(?<!errors )\bignored\b(?! in)|\bwill be (?:decreased|reduced|halved)"
    r"|\busing (?:the )?cpu\b|\band continuing\b"
    # Or it came as far as to serve.
    r"|\baddress already in use\b|\b(?:couldn't|could not|failed to|cannot) bind\b"
    r"|\bport \d{1,5} is (?:already )?in use\b",
    re.IGNORECASE,
)
_QUIET = re.compile(
    # Of XLA's message: a buffer has seven lines.
    r"\t|\s{0,40}(?:parameter|constant|maybe_live_out|preallocated temp|total)\b.{0,20}"
    r"(?:allocation|fragmentation)"
    # Loggers of runs print a line for each metric.
    r"|wandb:|COMET \w|\[?neptune|(?i:clearml)\b"
    # Of launchers: a paragraph for each rank.
    r"|srun:|slurmstepd:|\s{2}(?:time|host|rank|exitcode|error_file|traceback) {1,9}:"
    r"|\s{0,4}[-=*_#~]{4,}|\s{0,20}\^"
)
"""What begins a line that does not count as printed since."""
_BAR = re.compile(r"\d{1,3}%\||\d[\d.]{0,9} ?(?:it/s|s/it)\b|\d{1,9}/\d{1,9} \[")
"""A bar of progress, which is drawn again and again."""
_TOLD_INFO = re.compile(
    r".{0,100}\b(?i:ok|works|worked|succeeded)[.!]?$"
    r"|(?:.{0,60}\bINFO\b|.{0,40}\[info\]|info: |I\d{4} |[\d.:]{1,20} I )"
    r"(?!.{0,200}(?i:\b(?:shut|exit|clean|stop|finish|terminat|clos|free[di]|releas|end(?:ed|ing)?\b)))"
)
_ERROR = re.compile(
    r"(?i:\b(?:\w{0,40}error|fatal|failed|failure|couldn't|could not|cannot|\w{0,40}exception)\b)"
)
_OF_MEMORY = re.compile(
    r"(?i:memor|alloc|buffer|cuda|gpu|\boom\b|load\w{0,3} (?:all )?model|context)"
)

_COUNT = re.compile(
    r"(?i:\b(attempt|trial|step|epoch|iter(?:ation)?|request|batch|run|job|sample)s?[ #:=]{1,3}"
    r"(\d{1,9})\b)"
)
_COUNTS_BEFORE = 5
_OF_WORK = re.compile(r"(?i:\b(step|epoch|iter(?:ation)?|batch)s?[ #:=]{1,3}(\d{1,9})\b)")
_RISES = 3
"""So often a count of work rises if the program works on. Another rank comes less far."""

_LINE_ENDS = re.compile(r"[\r\n]+")
_COLOUR = re.compile(r"\x1b(?:\[[0-9;?]{0,30}[A-Za-z]|\][^\x07\x1b]{0,200}\x07)|[\0\ufeff]")
# What `ts`, journald or a container's log puts before every line.
_STAMP = re.compile(
    r"\[?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d(?:\.\d{1,6})?)\]?:? "
)
# The prefix that torch, mpirun, Ray, vLLM or srun puts before each line of a process.
_SOURCE = re.compile(
    r"(?:\[[\w,:]{1,40}\](?:<std(?:err|out)>)?: ?|\[[\w.-]{1,60}:\d{1,9}\] (?=\[|\*)"
    r"|\((?:\w{1,60} )?(?:rank=\d{1,6} )?pid=\d{1,9}[^)\n]{0,60}\) ?|\s{0,3}\d{1,4}: )"
)
# vLLM logs a traceback as one line of its log for each of its lines.
_LOGGED_ERROR = re.compile(r"ERROR \d\d-\d\d \d\d:\d\d:\d\d \[[^\]\n]{1,100}\] ?")
_FRAME = re.compile(
    r"\s*(?:frame #\d+: |#\d+ |@ +0x|\[ ?\d{1,4}\] (?:/|0x|\.))|\s+(?:File \"|\[\d{1,4}\] |@ )"
    # Of glibc, Kokkos, MXNet and TensorRT-LLM.
    r"|\s*[^\s(]{1,300}\(.{0,1000}\+0x[\da-f]{1,16}\) ?\[0x|\[0x[\da-f]{4,16}\] "
    r"|\s*\[bt\] \(\d|\d{1,3} {2,10}0x[\da-f]"
    # Of Rust: a number and a path, and where that is.
    r"|\s{1,5}\d{1,4}: {1,20}(?:0x[\da-f]{1,16} - )?(?:<[\w&*\[(]"
    r"|\w{1,60}(?:::\w{1,60}){0,20}::(?:<.{0,500}|\S{1,300})$"
    r"|(?:main|_start|__libc_start\w{0,20}|start_thread|clone3?|__clone)$)"
    r"|\s{4,20}at [/.\w-]{1,300}:\d{1,6}(?::\d{1,6})?$"
    # Of Java and .NET.
    r"|\s{1,8}at [\w.$<>`+/]{1,300}\("
    # Of Go: a function with addresses, and the registers.
    r"|[\w./*()-]{1,200}\((?:\{?0x[^)]{0,300}|\.{3})\)$|goroutine \d{1,9} |created by [\w./]"
    r"|[a-z]{1,2}\w{1,5} {1,6}0x[\da-f]{1,16}$"
)
_HALF_LINE = 4096
"""Characters at each end of a long line that are read: as a traceback in a line of JSON."""
_MOST_PREFIX = 200
_DIGITS = str.maketrans("123456789", "000000000")

HEADER = "Traceback (most recent call last)"
"""What begins a traceback of Python."""
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
    # Ray Tune; and Hydra 1.1 on Python 3.10, which cannot print what it caught.
    r"|[\w.]*TuneError: \('Trials did not complete'"
    r"|TypeError: print_exception\(\) got an unexpected keyword argument 'etype'"
    r"|[\w.]*ValidationError: \d{1,4} validation errors? for ModelConfig"
)
# Exceptions that a program meets because a step before it failed. What that printed says why.
_CONSEQUENCE = re.compile(
    r"(?:Attribute|Type)Error: .{0,200}\bNoneType\b"
    r"|[\w.]{0,100}\b(?:Runtime|Value|Validation|System|ActorDied|WorkerCrashed)Error\b"
    # Of TensorFlow and JAX, whose log says in a line before why a library of CUDA failed.
    r"|[\w.]{0,100}\b(?:Internal|Unknown|FailedPrecondition|XlaRuntime|JaxRuntime)Error\b"
    r"|(?:[\w.]{1,100}\.)?Exception\b"
)
_STEP_FAILED = re.compile(
    r"\bNoneType\b|(?i:\b(?:failed|failure|unable|could not|couldn't|cannot)(?: to)? "
    r"(?:load|creat|init|build|start|launch|allocat|instantiat|construct|execut)"
    r"|\b(?:exited|died|terminated|crashed|no longer alive|non-zero|exit (?:code|status))\b"
    r"|\berror[.!]?$"
    r"|\bDNN library init|\bcuDNN failed to init|\bwithout BLAS support|\bBlas \w{1,20} launch)"
)
_OTHER_STEP = re.compile(
    r"(?i:\b(?:data ?sets?|config\w{0,10}|tokenizers?|plugins?|extensions?|(?<!DNN )librar(?:y|ies)"
    r"|modules?|images?|folders?|director(?:y|ies)|checkpoints?|sockets?|connections?)\b)"
)
NEAR_LINES = 10
"""What a failed step printed stands right before the exception that it led to."""
_PLAIN_ERROR = re.compile(
    r"(?:Key|Index|Value|Type|Attribute|Name|Import|ModuleNotFound|FileNotFound|FileExists|OS"
    r"|Permission|ConnectionRefused|Timeout|Assertion|ZeroDivision|NotImplemented|UnicodeDecode)Error\b"
)
# Exceptions with long messages, which name the cause only after many lines.
_LONG_MESSAGE = re.compile(r"[\w.]*(?:ResourceExhaustedError|DistBackendError)\b")


class _Traceback(Struct, frozen=True):
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
    stamp = ""
    for line in _unstamped(_LINE_ENDS.split(tail[-TAIL_BYTES:])):
        for prefix in (_SOURCE, _SOURCE, _LOGGED_ERROR):
            if _FRAME.match(line):
                break  # its number is no rank
            if found := prefix.match(line):
                line = line[found.end() :]
        at = line.find(HEADER, 0, _MOST_PREFIX + len(HEADER))
        if at >= 0:
            stamp = line[:at].translate(_DIGITS)
        if stamp and line[: len(stamp)].translate(_DIGITS) == stamp:
            line = line[len(stamp) :]  # a time or a name, as `ts`, journald and containers add
        if line.strip() and not _FRAME.match(line):
            lines.append(line.rstrip())
    return lines


def _unstamped(lines: list[str]) -> list[str]:
    """Return the lines, none longer than it is read, without colours, and without the time if all
    but the first, which may be cut, begin with it."""
    plain = []
    for line in lines:
        if len(line) > 2 * _HALF_LINE:
            line = line[:_HALF_LINE] + line[-_HALF_LINE:]
        if line := _COLOUR.sub("", line):
            plain.append(line)
    stamps = [None if _NATIVE_LOG.match(line) else _STAMP.match(line) for line in plain]
    if len(plain) < 2 or not all(stamps[1:]):
        return plain
    return [line[stamp.end() if stamp else 0 :] for line, stamp in zip(plain, stamps, strict=True)]


def _printed(lines: list[str]) -> int:
    """Return how many of the lines count as printed since."""
    return sum(not _QUIET.match(line) and not _BAR.search(line) for line in lines)


def search(lines: list[str], find: Callable[[str], _Found | None]) -> _Found | None:
    """Return what `find` says of the line that explains the end; None: no line does.

    `find` gets one line and answers None for one that says nothing.
    """
    tracebacks = _tracebacks(lines)
    printed_since = 0
    last, most = AFTERMATH_LINES, LAST_LINES
    for traceback in reversed(tracebacks):
        message = lines[traceback.raised : traceback.end]
        printed_since += _printed(message[1:])
        found = _in_exception(message, find) if printed_since <= last else None
        if found is not None:
            return found
        messenger = _MESSENGER.match(message[0]) and not HOST_MEMORY.search(message[0])
        if traceback.aside or traceback.wrapper or messenger:
            continue
        if not _follows(message):
            return None
        last, most = min(last, printed_since + NEAR_LINES), NEAR_LINES
    before = tracebacks[0].start if tracebacks else len(lines)
    return _in_last_lines(lines[:before], find, most, gave_up=most == NEAR_LINES)


def _follows(message: list[str]) -> bool:
    """Return whether an exception says only that a step before it failed."""
    text = message[0]
    if len(message) > 1 and message[1].startswith("  "):
        text += message[1]
    other = _OTHER_STEP.search(text) or HOST_MEMORY.search(text)
    return bool(_CONSEQUENCE.match(text) and _STEP_FAILED.search(text) and not other)


def ends_otherwise(lines: list[str]) -> bool:
    """Return whether the output ends with an exception of a kind that says what it is: a wrong key,
    a missing file, a port in use. Then another log does not say why the program ended."""
    tracebacks = _tracebacks(lines)
    if not tracebacks:
        return False
    last = tracebacks[-1]
    plain = _PLAIN_ERROR.match(lines[last.raised]) and not (last.aside or last.wrapper)
    return bool(plain) and _printed(lines[last.raised + 1 :]) <= AFTERMATH_LINES


def _tracebacks(lines: list[str]) -> list[_Traceback]:
    """Return Python's tracebacks in order, except those that end before their exception."""
    starts = [i for i, line in enumerate(lines) if HEADER in line]
    found = []
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        raised = next((i for i in range(start + 1, end) if _EXCEPTION.match(lines[i])), None)
        if raised is not None:
            before = lines[start - 1] if start else ""
            aside = any(mark in before for mark in _ASIDES)
            found.append(_Traceback(start, raised, end, aside, before.startswith(_DIRECT_CAUSE)))
    return found


def _went_further(lines: list[str], at: int) -> bool:
    """Return whether a count of steps, trials or the like is higher after a line than before it."""
    before: dict[str, int] = {}
    for line in lines[max(0, at - _COUNTS_BEFORE) : at + 1]:
        before |= {found[1].lower(): int(found[2]) for found in _COUNT.finditer(line)}
    if not before:
        return False
    later = (found for line in lines[at + 1 :] for found in _COUNT.finditer(line))
    return any(int(found[2]) > before.get(found[1].lower(), 10**9) for found in later)


def _works(lines: list[str]) -> bool:
    """Return whether a count of steps, epochs or the like rises again and again."""
    last: dict[str, int] = {}
    rises: dict[str, int] = {}
    for line in lines:
        for found in () if _QUIET.match(line) else _OF_WORK.finditer(line):
            word, count = found[1].lower(), int(found[2])
            rises[word] = rises.get(word, 0) + (count > last.get(word, count))
            last[word] = count
    return any(number >= _RISES for number in rises.values())


def _in_exception(message: list[str], find: Callable[[str], _Found | None]) -> _Found | None:
    """Return what an exception or the lines after it say; `message` begins with it."""
    own = find(message[0])
    if own is None and not _LONG_MESSAGE.match(message[0]):
        return _in_last_lines(message[1:], find)
    if any(map(_WENT_ON.search, message[1:])) or _works(message[1:]):
        return None
    return own or next(filter(None, map(find, message)), None)


def _in_last_lines(
    lines: list[str],
    find: Callable[[str], _Found | None],
    most: int = LAST_LINES,
    gave_up: bool = False,
) -> _Found | None:
    """Return what the last lines say, unless a later line shows that the program went on.

    `gave_up`: it ended by a step that failed, so the errors of its log before that were some.
    """
    printed = 0
    told = other_end = False
    for at in reversed(range(len(lines))):
        line = lines[at]
        if _WENT_ON.search(line):
            return None
        gave_up = gave_up or bool(_GAVE_UP.match(line))
        found = find(line)
        logged = _NATIVE_LOG.match(line)
        passing = logged and not (gave_up and "E" in logged[0])
        if found is not None and not passing and not _MILD.search(line):
            went_on = told or _went_further(lines, at) or _works(lines[at + 1 :])
            return None if went_on else found
        if _UNCAUGHT.match(line):
            return None
        # An error of another kind, and before it a word of a program that works: it went on.
        other_end = other_end or bool(_ERROR.search(line) and not _OF_MEMORY.search(line))
        told = told or bool(other_end and not gave_up and _TOLD_INFO.match(line))
        printed += _printed([line])
        if printed >= most:
            return None
    return None
