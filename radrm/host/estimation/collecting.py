"""Runs what is traced, as its user, and hands over the one document that counts.

Theory of operation:

- Time is processor time, of all processes of the trace: a trace gets as much on a busy machine as
  on an idle one. A command that waits for something is given up by the clock (`CLOCK_TIMES`).
  Before the end the file `OVER` tells the programs to write what they have seen.
- This is the process in the trace that is ours. It has become the user, is within all limits, and
  imports nothing any more: the user may not be allowed to read radrm's Python.
- It starts the command with the code that starts jobs (`attempts/job_process.py`), reads what it
  prints, and waits for its end. When the first program of it has told a training step, the rest
  gets `MORE_S`: another program may need more.
- Every traced program writes a document into the folder `RADRM_TRACE_FOLDER`. Whatever lies there
  is a user's: names, kinds and sizes are checked, and links are not followed.
- The answer is the document with the highest sum of what lives at one time, in bytes. Errors count
  where no program trained.
- When this process ends, all that it started is ended by others: the kernel (it is the first of a
  pid namespace), or the parent.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import select
import stat
import time

from radrm.host.attempts.job_process import CannotStart, enter, execute
from radrm.host.estimation.sandbox import FOLDER, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from radrm.host.attempts.folder import Fields

    Found = dict[str, Any]

VERSION = 1
"""Of a document (`estimators/traces.py`)."""
MAX_DOCUMENT = 64 << 20
CLOCK_TIMES = 4.0
"""On the clock a trace may take so many times its limit."""
WRITING_S = 8.0
"""Of the limit, what is left for the end: writing, reading and sending the document."""
OVER = "over"
"""The file in the folder of documents that ends the programs (`tracer/program.py`)."""
LOADED_S = 20.0
"""Seconds of the limit until a program of the command must have loaded PyTorch or JAX. Else it is
most likely no training: a server, a data set, another language. It would take a core for all."""
MORE_S = 10.0
"""Seconds of the limit that a command may go on after its first training step is traced."""
SCRIPT = "script"
"""The name of the job's script in the folder."""
SAVED = "/tmp/radrm-checkpoint"
"""The folder in which a job finds its saved state: none, in a trace."""
MOST_SKIPPED = 12
_LOOK_S = 0.2
_MOST_DOCUMENTS = 64
_NAME = re.compile(r"[0-9a-z]{1,20}\.json")
_TAIL = 4096
_MOST_LINE = 200
_MOST_FAILED = 4
_MOST_REAPED = 1000
_PAGE, _TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
_TIMES = slice(11, 15)
"""In /proc/PID/stat behind the name: the process's own time, and that of its ended children."""
_MOST_EVENTS = 4_000_000
_MOST_MAPS = 4 << 20
_FRAMEWORK = re.compile(rb"/libtorch|/torch/_C|/jaxlib/")


def run(launch: Fields, output: int, alive: int, until: float) -> None:
    """Run the command of `launch`, and write one document to `output`.

    `alive` is a pipe whose end is the end of those who wait for the document. `until` is the moment
    of `time.monotonic()` at which the command is given up by the clock.
    """
    try:
        document = _Running(launch, alive, until).outcome()
    except CannotStart as error:
        document = failure(str(error))
    if document is not None:
        write_document(output, document)


def failure(line: str) -> Found:
    """The document that says why there is no trace."""
    return {"version": VERSION, "error": line}


def write_document(output: int, document: Found) -> None:
    """Write the document to a pipe. Its reader may be gone."""
    data = memoryview(json.dumps(document, separators=(",", ":")).encode())
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[os.write(output, data) :]


class _Running:
    """A command under way."""

    def __init__(self, launch: Fields, alive: int, until: float) -> None:
        self._launch = launch
        self._alive = alive
        self._until, self._started = until, time.monotonic()
        self._folder = Documents(FOLDER)
        self._code: int | None = None
        self._tail = b""
        self._printed, printing = os.pipe()
        refused, refusing = os.pipe()
        os.makedirs(SAVED, 0o700, exist_ok=True)
        script = _write_script(launch)
        self._command = _start(launch, script, printing, refusing)
        os.close(printing)
        os.close(refusing)
        line = os.read(refused, _TAIL)  # nothing comes from a program that has begun
        os.close(refused)
        if line:
            raise CannotStart(line.decode("utf-8", "replace"))

    def outcome(self) -> Found | None:
        """What is known of the command when it ends, or is given up; None: nobody waits for it."""
        poll = select.poll()
        poll.register(self._alive, select.POLLIN)
        poll.register(self._printed, select.POLLIN)
        poll.register(os.pidfd_open(self._command), select.POLLIN)
        limit_s = self._launch["limit_s"]
        until_s, why = limit_s, f"it took longer than {limit_s:g} s"
        looked_s, ending_s = LOADED_S, max(limit_s - WRITING_S, 1.0)
        while (left := self._until - time.monotonic()) > 0:
            ready = [fd for fd, _ in poll.poll(min(left, _LOOK_S) * 1000)]
            if self._alive in ready:
                return None
            if self._printed in ready and not self._read():
                poll.unregister(self._printed)
            if self._reaped():
                break
            memory_bytes, processor_s = usage()
            spent_s = max(processor_s, (time.monotonic() - self._started) / CLOCK_TIMES)
            if memory_bytes > self._launch["memory_mib"] << 20:
                why = f"it used more than {self._launch['memory_mib']} MiB of host memory"
                break
            if self._folder.look() and until_s == limit_s:
                until_s = min(limit_s, spent_s + MORE_S)
            if spent_s >= until_s:
                break
            if spent_s >= ending_s:
                ending_s = math.inf
                with contextlib.suppress(OSError):  # the user's programs may have made it
                    write_file(os.path.join(FOLDER, OVER), b"", 0o600)
            if spent_s >= looked_s:
                looked_s = math.inf
                if self._folder.empty and not has_framework():
                    why = f"no program of it loaded PyTorch within {LOADED_S:g} s"
                    break
        self._folder.look()
        return self._document(why)

    def _read(self) -> bool:
        """Keep the end of what the command prints. False: nothing will come any more."""
        part = os.read(self._printed, 1 << 16)
        if self._launch["loud"]:
            with contextlib.suppress(OSError):
                os.write(2, part)
        self._tail = (self._tail + part)[-_TAIL:]
        return bool(part)

    def _reaped(self) -> bool:
        """Whether the command has ended. All orphans of the trace are this process's to reap."""
        with contextlib.suppress(ChildProcessError):
            for _ in range(_MOST_REAPED):
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                if pid == self._command:
                    self._code = os.waitstatus_to_exitcode(status)
        return self._code is not None

    def _document(self, why: str) -> Found:
        ended = self._code is not None
        best = self._folder.best
        if best is not None:
            return self._with_failed(best if ended else _cut(best))
        if self._folder.error is not None:
            return _explained(self._folder.error, self._launch)
        if not ended:
            return failure(f"{why}; {_STEP[self._launch['factory']]}")
        os.set_blocking(self._printed, False)
        with contextlib.suppress(BlockingIOError):
            while self._read():
                pass
        line = _ended(self._launch["factory"], self._code or 0, self._tail)
        return _explained(failure(line), self._launch)

    def _with_failed(self, document: Found) -> Found:
        """The document, with the places that could not be covered among its guesses."""
        guesses = document.get("guesses")
        guesses = guesses if isinstance(guesses, list) else []
        return {**document, "guesses": [*guesses, *_of_failed(self._launch)]}


def _explained(document: Found, launch: Fields) -> Found:
    """The document of an error, with what the sandbox has to do with it."""
    error = str(document["error"])
    more = _of_failed(launch) if os.strerror(errno.EROFS) in error else []
    if os.strerror(errno.EOVERFLOW) in error:
        more.append("a trace by a user's own daemon cannot change files of other groups")
    return {**document, "error": "; ".join([error, *more])} if more else document


def _of_failed(launch: Fields) -> list[str]:
    failed = ", ".join(launch["failed"][:_MOST_FAILED])
    return [f"files: nothing can be written in a trace to {failed}"] if failed else []


def has_framework() -> bool:
    """Whether a process of the trace has loaded what trains on GPUs. A user can feign that."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/maps", "rb") as file:
                if _FRAMEWORK.search(file.read(_MOST_MAPS)):
                    return True
    return False


def usage() -> tuple[int, float]:
    """The memory that all processes of the trace use, without what lies in files, and the seconds
    of processor time that these and all that have ended took."""
    pages = ticks = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/statm", "rb") as file:
                    numbers = file.read(_TAIL).split()
                pages += int(numbers[1]) - int(numbers[2])
                with open(f"/proc/{name}/stat", "rb") as file:
                    words = file.read(_TAIL).rpartition(b")")[2].split()
                ticks += sum(map(int, words[_TIMES]))
    files = os.statvfs("/tmp")
    return pages * _PAGE + (files.f_blocks - files.f_bfree) * files.f_frsize, ticks / _TICKS


_STEP = {
    True: "a factory should build the model and return",
    False: "declare --gpu-memory, or raise estimation.trace_limit_s",
}


def _ended(factory: bool, code: int, tail: bytes) -> str:
    """Why a command that has ended left no document, as far as it is known."""
    how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
    if factory:
        return (
            f"the tracer {how} and sent no trace; to see what it prints, run `radrm summarize` "
            "with this factory"
        )
    if code == 0:
        return "the command ended, and no Python program of it ran a training step on a GPU"
    lines = tail.decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"the command {how} before a training step" + (f": {last[:_MOST_LINE]}" if last else "")


def _cut(document: Found) -> Found:
    """The document of a command that went on after it was written."""
    script = document.get("script")
    script = dict(script) if isinstance(script, dict) else {}
    skipped = script.get("skipped")
    skipped = list(skipped)[: MOST_SKIPPED - 1] if isinstance(skipped, list) else []
    program = script.get("program")
    rest = f"what follows {program}" if isinstance(program, str) else "what follows"
    return {**document, "script": {**script, "skipped": [*skipped, rest[:_MOST_LINE]]}}


# ------------------------------------------------------------------ the command


def _write_script(launch: Fields) -> str | None:
    """The path of the job's script, which no file of the user has; None for a command."""
    if launch["script"] is None:
        return None
    path = os.path.join(FOLDER, SCRIPT)
    write_file(path, launch["script"].encode("utf-8", "surrogateescape"), 0o700)
    return path


def _start(launch: Fields, script: str | None, printing: int, refusing: int) -> int:
    """Fork the command's process. Why it cannot start comes in one line from `refusing`."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for fd in (1, 2):
            os.dup2(printing, fd)
        os.umask(launch["umask"])
        enter(launch)
        execute(launch, script)
    except Exception as error:
        os.write(refusing, str(error).replace("\n", " ").encode("utf-8", "replace")[:_TAIL])
    finally:
        os._exit(CannotStart.code)


# ------------------------------------------------------------------ the documents


class Documents:
    """The documents in a folder that the user's programs write to.

    `best` is that of the program that needs most, `error` the most telling of the others.
    """

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._seen: set[str] = set()
        self._most = -1
        self.best: Found | None = None
        self.error: Found | None = None

    @property
    def empty(self) -> bool:
        """Whether no program has written anything yet."""
        return not self._seen

    def look(self) -> bool:
        """Read what is new. True once a program has trained."""
        for name in self._new():
            document = self._read(name)
            if document is not None:
                self._take(document)
        return self.best is not None

    def _new(self) -> Sequence[str]:
        if len(self._seen) >= _MOST_DOCUMENTS:
            return ()
        with os.scandir(self._fd) as entries:
            names = [each.name for each, _ in zip(entries, range(1000), strict=False)]
        new = sorted(name for name in names if _NAME.fullmatch(name) and name not in self._seen)
        new = new[: _MOST_DOCUMENTS - len(self._seen)]
        self._seen.update(new)
        return new

    def _read(self, name: str) -> Found | None:
        """A document, or one that says what is wrong with the file; None if it is no file."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(name, flags, dir_fd=self._fd)
        except OSError:
            return None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            return None
        with os.fdopen(fd, "rb") as file:
            data = file.read(MAX_DOCUMENT + 1)
        if len(data) > MAX_DOCUMENT:
            return failure("the trace is longer than 64 MiB; trace a smaller model")
        try:
            document = json.loads(data)
        except (ValueError, RecursionError, MemoryError):
            document = None
        return document if isinstance(document, dict) else failure("its trace cannot be read")

    def _take(self, document: Found) -> None:
        if document.get("error") is None:
            most = peak(document)
            if most > self._most:
                self.best, self._most = document, most
        elif self.error is None or ("line" in document and "line" not in self.error):
            self.error = document


def peak(document: Mapping[str, object]) -> int:
    """The most bytes that live at one time by a document's events; 0 for events that are wrong."""
    events = document.get("events")
    if not isinstance(events, list) or len(events) > _MOST_EVENTS:
        return 0
    sizes: list[int] = []
    alive = most = 0
    for event in events:
        if type(event) is not int or not event:
            return 0
        if event > 0:
            sizes.append(event)
            alive += event
            most = max(most, alive)
        elif -event <= len(sizes):
            alive -= sizes[-event - 1]
    return most
