"""`Client`: submit jobs, watch them and command them from a program.

Theory of operation. A client has one connection, which carries one request at a time. A daemon that
restarts is found again by the next request. `wait`, `events` and `follow_logs` survive its absence
once it has answered; all others raise `Unreachable`. A submission is on disk before `submit`
returns, also without a daemon.
"""

from __future__ import annotations

import codecs
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from radrm.api.options import raw_options
from radrm.api.records import (
    Estimate,
    Explanation,
    Gpu,
    Job,
    Preview,
    Reference,
    Result,
    Submission,
    record,
    reference_of,
)
from radrm.client import submitting
from radrm.client.awaiting import wait_for
from radrm.client.connection import Client as Connection
from radrm.client.connection import batches, changes_of, every_job
from radrm.client.follow import LogFollower, Patient, changes
from radrm.client.preview import preview
from radrm.client.tail import Tail, owner_of
from radrm.errors import Refused, UsageError, plain
from radrm.host.storage.paths import paths_for
from radrm.jobfile.command_line import STDIN, SubmitRequest
from radrm.jobfile.confirmation import notes_on
from radrm.jobfile.options import RawOptions
from radrm.jobfile.values import shown

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from radrm.api.option_types import JobOptions

log = logging.getLogger("radrm")


def follow(
    connection: Connection, job: str, stream: str, attempt: int | None, lines: int | None
) -> Iterator[str]:
    """Yield a job's log until the job ends, or `attempt` of it. Raises `RadrmError`."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    pieces: list[bytes] = []
    ask = Patient(connection, log.info, time.sleep).ask
    follower = LogFollower(ask, job, {stream: pieces.append}, log.info)
    for seconds in follower.steps(attempt, lines):
        if text := decode(b"".join(pieces)):
            yield text
        pieces.clear()
        time.sleep(seconds)
    if rest := decode(b"", final=True):
        yield rest


Stream = Literal["stdout", "stderr"]
JobFileOrCommand = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

MAX_LOG_BYTES = 1 << 20
"""What `Client.logs` returns at most, by default."""


class _Connection(Connection):
    """A connection that several threads share. Not for other processes."""

    def __init__(self, home: str | os.PathLike[str] | None) -> None:
        folder = None if home is None else os.fspath(home)
        if folder is not None and "\0" in folder:
            raise UsageError(f"home: {shown(folder)} holds a NUL; name a folder")
        environ = {"RADRM_HOME": folder} if folder is not None else None
        super().__init__(None if environ is None else (paths_for(environ, os.getuid()),))
        self.home = folder
        self._lock = threading.RLock()
        self._pid = os.getpid()

    @property
    def lock(self) -> threading.RLock:
        """The lock of all uses. Raises `UsageError` in another process: there nobody may ever
        release it."""
        if self._pid != os.getpid():
            raise UsageError(
                f"this radrm.Client belongs to process {self._pid}; make one in each process"
            )
        return self._lock

    def ask(self, op: str, **words: Any) -> Any:
        with self.lock:
            return super().ask(op, **words)

    def close(self) -> None:
        with self._lock if self._pid == os.getpid() else contextlib.nullcontext():
            super().close()


class Client:
    """A client of the user's own daemon, else of the system's; of `home`, as in RADRM_HOME.

    It connects at the first request. Use it as a context manager, or call `close`. Several
    threads can share it. After a fork, make another one.

    Every error is a `radrm.errors.RadrmError` with one line of text: `UsageError` for what is
    asked wrongly, `BadFile` for a job file, `Refused` for what the daemon does not do, and
    `Unreachable` without a daemon. Jobs are named by a number, a label (`12_3`), a
    ticket, a name, a glob (`sweep-*`) or by a record that a method returned.
    """

    def __init__(self, home: str | os.PathLike[str] | None = None) -> None:
        self.connection = _Connection(home)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The next request opens another one."""
        self.connection.close()

    # -------------------------------------------------------------- submitting

    @overload
    def submit(
        self,
        job: JobFileOrCommand,
        *,
        dry_run: Literal[False] = False,
        **options: Unpack[JobOptions],
    ) -> Submission: ...

    @overload
    def submit(
        self, job: JobFileOrCommand, *, dry_run: Literal[True], **options: Unpack[JobOptions]
    ) -> Preview: ...

    def submit(
        self, job: JobFileOrCommand, *, dry_run: bool = False, **options: Unpack[JobOptions]
    ) -> Submission | Preview:
        """Submit a job file (a path), or a command (a list of words), with the options of
        `radrm submit`: `gpus=1, gpu_memory="8G", time="2h"`.

        Of a job file, options override those in the file. The job gets the present environment
        and folder. Without a daemon, it waits on disk until there is one. `dry_run`: check the
        job, return what would be submitted, and submit nothing. Raises `UsageError`, `BadFile`,
        and `Refused` for a job that can never run here.
        """
        request = request_of(job, raw_options(options, "submit"), "submit")
        return self._preview(request) if dry_run else self.submit_request(request)

    def _preview(self, request: SubmitRequest) -> Preview:
        with self.connection.lock:
            (result,), _, up = submitting.check(self.connection, request)
            _raise_error(result)
            found = preview(result, self.connection if up else None)
        return record(Preview, found)

    def estimate(
        self, job: JobFileOrCommand, estimator: str | None = None, **options: Unpack[JobOptions]
    ) -> Estimate:
        """Estimate the GPU memory, SM activity and run time of a job, as `radrm estimate` does.

        `job`, `options`: as for `submit`. `estimator`: one by name, by default the configured one.
        A model (`model_factory`) or the command is traced, which takes seconds. A daemon adds what
        it has learned; none is needed. Raises `UsageError`, and `BadFile`.
        """
        request = request_of(job, raw_options(options, "estimate"), "estimate")
        if estimator == "all":
            raise UsageError("estimate: name one estimator, not all")
        from radrm.client import estimates  # few programs estimate, and it imports the estimators

        config = estimates.config_of(self.connection)
        (name,) = estimates.names_of(estimator or config.estimator, config)
        file = request.files[0] if request.files else ""
        asked, mark, ways = estimates.read(file, request.raw_options, request.command)
        estimates.one_shape(asked)
        with self.connection.lock:
            found = estimates.answers(asked, mark, ways, (name,), config, self.connection)[1]
        return record(Estimate, estimates.estimate_document(asked.file, name, found[name]))

    def submit_request(self, request: SubmitRequest) -> Submission:
        """Submit the one job of a command line that was read already. Raises as `submit`."""
        with self.connection.lock:
            results, paths, up = submitting.check(self.connection, request)
            submitting.put(self.connection, results, paths, up)
        (result,) = results
        _raise_error(result)
        job_file = result["job_file"]
        return Submission(
            ticket=result["ticket"],
            id=result["id"],
            name=job_file.name,
            count=max(1, submitting.count_of(job_file)),
            notes=tuple(notes_on(job_file)),
        )

    # -------------------------------------------------------------- watching

    def jobs(
        self,
        *jobs: Reference,
        all: bool = False,
        user: str | None = None,
        state: str | None = None,
    ) -> list[Job]:
        """These jobs; without a name, those that have not ended, in queue order.

        `all`: also those that have ended, the latest 10,000. `user`, `state`: only those of a
        user, or in some states (`running,pending`). Raises `Refused` for a job that is not there.
        """
        words = _words(jobs, all, user, state)
        return [record(Job, document) for document in every_job(self.connection.ask, **words)]

    def job(self, job: Reference) -> Job:
        """One job. Raises `Refused` if the name means none, or several."""
        return self.explain(job).job

    def explain(self, job: Reference) -> Explanation:
        """Why a job waits, GPU by GPU, or where and how it ran. Raises `Refused`."""
        return record(Explanation, self.connection.ask("explain", jobs=[reference_of(job)]))

    def gpus(self) -> list[Gpu]:
        """The GPUs and MIG instances, with their memory and jobs."""
        return [record(Gpu, document) for document in self.connection.ask("gpus")]

    def wait(self, *jobs: Reference, timeout: float | None = None) -> list[Job]:
        """Wait until these jobs have ended. Returns them, as they ended; all elements of arrays.

        A job that failed is no error: see `Job.completed`. After the first answer, the wait
        survives a restart of the daemon. Raises `TimeoutError` after `timeout` seconds; the jobs
        run on.
        """
        if not jobs:
            return []
        words = [reference_of(job) for job in jobs]
        found = wait_for(self.connection, words, _pause_until(timeout))
        return [record(Job, document) for document in found]

    def events(
        self,
        *jobs: Reference,
        all: bool = False,
        user: str | None = None,
        state: str | None = None,
    ) -> Iterator[Job]:
        """Yield each of these jobs once, then at each new state or attempt, until all have ended.

        Without a name: the jobs that have not ended, also later ones, until none is left. The
        daemon is asked twice a second at most, so a state that a job leaves at once can be
        missed. It survives a restart of the daemon.
        """
        patient = Patient(self.connection, log.info, time.sleep)
        for changed in changes(patient, _words(jobs, all, user, state), time.sleep):
            yield from (record(Job, document) for document in changed)

    # -------------------------------------------------------------- logs

    def logs(
        self,
        job: Reference,
        stream: Stream = "stdout",
        *,
        attempt: int | None = None,
        lines: int | None = None,
        max_bytes: int = MAX_LOG_BYTES,
    ) -> str:
        """The end of a job's log, as the job wrote it: at most `max_bytes`, and `lines` lines.

        Both streams are one file, unless the job has `error`.
        This process opens the file, with the rights of its user. `attempt`: by default the last.
        Raises `Refused` if the job has no such attempt or log.
        """
        place = self.connection.ask("logs", jobs=[reference_of(job)], attempt=attempt)
        tail = Tail(_path(place, stream), owner_of(place), log.info)
        most, kept = max(0, max_bytes), bytearray()

        def keep(data: bytes) -> None:  # the log may grow meanwhile, or be replaced
            kept.extend(data)
            del kept[: max(0, len(kept) - most)]

        try:
            tail.skip_to_end(most)
            if not tail.copy_new(keep):
                when = " yet" if place["live"] else ""
                raise Refused(f"the log {plain(tail.path)} does not exist{when}")
        finally:
            tail.close()
        text = kept.decode("utf-8", "replace")
        if lines is None:
            return text
        return "".join(text.splitlines(keepends=True)[-lines:]) if lines > 0 else ""

    def follow_logs(
        self,
        job: Reference,
        stream: Stream = "stdout",
        *,
        attempt: int | None = None,
        lines: int | None = None,
    ) -> Iterator[str]:
        """Yield a job's log in pieces as it grows, through all attempts, until the job ends.

        It waits for the job's start. `lines`: how many lines of the present log come first.
        Raises `Refused` if the job ends before its start.
        """
        _path({}, stream)
        return follow(self.connection, reference_of(job), stream, attempt, lines)

    # -------------------------------------------------------------- commands

    def cancel(
        self, *jobs: Reference, user: str | None = None, state: str | None = None,
        check: bool = True,
    ) -> list[Result]:  # fmt: skip
        """End jobs, waiting or running: these, or those of a `user` or in a `state`.

        Every job is tried. Then, with `check`, `Refused` is raised if one could not be
        cancelled; else `Result.error` says why. So do the other commands.
        """
        return self._command("cancel", jobs, user, state, check)

    def hold(
        self, *jobs: Reference, user: str | None = None, state: str | None = None,
        check: bool = True,
    ) -> list[Result]:  # fmt: skip
        """Keep waiting jobs from starting, until they are released."""
        return self._command("hold", jobs, user, state, check)

    def release(
        self, *jobs: Reference, user: str | None = None, state: str | None = None,
        check: bool = True,
    ) -> list[Result]:  # fmt: skip
        """Let held jobs start."""
        return self._command("release", jobs, user, state, check)

    def requeue(
        self, *jobs: Reference, user: str | None = None, state: str | None = None,
        check: bool = True, **options: Unpack[JobOptions],
    ) -> list[Result]:  # fmt: skip
        """Put jobs back into the queue: a running one saves if it can, and is stopped; an ended one
        runs again, with changed options such as `gpu_memory="16G"`."""
        more = {"options": self._changes(options, "requeue")} if options else {}
        return self._command("requeue", jobs, user, state, check, **more)

    def edit(
        self, *jobs: Reference, check: bool = True, **options: Unpack[JobOptions]
    ) -> list[Result]:
        """Change options of jobs, such as `priority=10`. Raises `UsageError` for an option that
        cannot change."""
        return self._command(
            "edit", jobs, None, None, check, options=self._changes(options, "edit")
        )

    def _changes(self, options: JobOptions, where: str) -> RawOptions:
        """Return options that change jobs as a request has them. Raises `UsageError`."""
        return changes_of(raw_options(options, where), where, self.connection.ask)

    def _command(
        self,
        command: str,
        jobs: Sequence[Reference],
        user: str | None,
        state: str | None,
        check: bool,
        **words: Any,
    ) -> list[Result]:
        choice = {"user": user, "state": state and state.replace(" ", "")}
        words |= {name: word for name, word in choice.items() if word}
        if not jobs and not any(choice.values()):
            raise UsageError(f"{command}: no job is named; name jobs, or choose by user or state")
        named = [reference_of(job) for job in jobs]
        results = [
            record(Result, document)
            for batch in (batches(named) if named else ([],))
            for document in self.connection.ask(command, jobs=batch, **words)
        ]
        failed = [result.error for result in results if result.error is not None]
        if failed and check:
            more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            raise Refused(plain(f"{failed[0]}{more}"))
        return results


def request_of(job: JobFileOrCommand, raw: RawOptions, where: str) -> SubmitRequest:
    """The request for a job file (a path) or a command (a list). Raises `UsageError`."""
    if raw.get("params") == STDIN:
        raise UsageError(f"{where}: params cannot be standard input; name a file")
    if not isinstance(job, (str, os.PathLike)):
        return SubmitRequest(raw, command=_command(job, where))
    file = os.fspath(job)
    _refuse_odd(file, where)
    if file in (STDIN, ""):
        raise UsageError(f"{where}: {file!r} is not a job file; name a file, or a list")
    if " " in file and not os.path.exists(file):
        raise UsageError(
            f"{where}: there is no job file {plain(file)!r}; write a command as a list of "
            'words: ["python", "train.py"]'
        )
    return SubmitRequest(raw, files=(file,))


def _raise_error(result: submitting.Submission) -> None:
    """Raise the error of a submission, if it has one."""
    if result["error"] is not None:
        raise result.get("cause") or Refused(result["error"])


def _command(job: object, where: str) -> tuple[str, ...]:
    """The words of a command. Raises `UsageError`."""
    example = 'write a path, or a command as ["python", "train.py"]'
    if not isinstance(job, (list, tuple)):
        raise UsageError(f"{where}: a {type(job).__name__} is no job; {example}")
    words = tuple(os.fspath(word) if isinstance(word, os.PathLike) else word for word in job)
    if not words:
        raise UsageError(f"{where}: no command; {example}")
    for word in words:
        if not isinstance(word, str):
            kind = type(word).__name__
            raise UsageError(
                f"{where}: {shown(repr(word))} is a {kind}; words of a command are str"
            )
        _refuse_odd(word, where)
    return words


def _refuse_odd(text: str, where: str) -> None:
    """Raise `UsageError` for text that no file name or argument can hold."""
    if "\0" in text or text != text.encode("utf-8", "ignore").decode():
        raise UsageError(f"{where}: {shown(text)} holds a NUL, or is not UTF-8")


def _words(
    jobs: Sequence[Reference], all: bool, user: str | None, state: str | None
) -> dict[str, Any]:
    named = [reference_of(job) for job in jobs]
    return {"jobs": named, "all": all, "user": user, "state": state and state.replace(" ", "")}


def _path(place: dict[str, Any], stream: str) -> str:
    if stream not in ("stdout", "stderr"):
        raise UsageError(f"there is no stream {stream!r}; name stdout or stderr")
    return str(place.get(stream))


def _pause_until(timeout: float | None) -> Callable[[float], object]:
    """How to pause until a deadline. Then it raises `TimeoutError`."""
    if timeout is None:
        return time.sleep
    deadline = time.monotonic() + timeout

    def pause(seconds: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the jobs have not ended within {timeout:g} s; they run on")
        time.sleep(min(seconds, left))

    return pause
