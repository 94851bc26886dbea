"""Calls of functions as jobs, with the interface of `concurrent.futures`.

Theory of operation. A call is a file; its job makes the call and writes the answer as a file
(`radrm.api.run_call`). `map` submits one array. One thread waits for all futures: it lists the
folder of the answers, and asks the daemon about some of the jobs in turn: one question, at most
twice a second. The thread ends when nothing is left to wait for.

A value counts as soon as its file is there. An exception counts once its job has ended, because
radrm may run the job again: after a GPU out-of-memory with more memory, or for `--retries`.

Files are named through the open folder, so nobody can put another folder in its place. What does
not belong to this user, or what others can write, is never unpickled (`radrm.api.run_call`).
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeVar

from radrm.api import run_call
from radrm.api.client import Client, log
from radrm.api.options import raw_options
from radrm.api.records import Job, JobFailed
from radrm.api.run_call import ANSWER, CALL, open_folder, open_private, remove, write_private
from radrm.client.connection import find_spool
from radrm.client.follow import ASK_S
from radrm.errors import RadrmError, Refused, StoreError, Unreachable, UsageError, message_of, plain
from radrm.host.storage.paths import own_state
from radrm.host.storage.spool import has_envelope
from radrm.host.storage.tickets import new_ticket
from radrm.jobfile.command_line import SubmitRequest
from radrm.jobfile.options import OF_ARRAYS
from radrm.jobfile.radfile import name_from
from radrm.jobfile.relations import MAX_ARRAY

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from radrm.api.option_types import JobOptions


class Answer:
    """What came of a call: a value, or an exception and the traceback where it was raised.

    `text`: the exception in words. Its `value` is None if this program cannot raise it.
    """

    def __init__(self, returned: bool, value: Any, text: str, trace: str) -> None:
        self.returned, self.value, self.text, self.trace = returned, value, text, trace


def _value_in(file: IO[bytes], returned: bool) -> Any:
    """Unpickle a value, or an exception; None for an exception that cannot be raised here."""
    try:
        value = pickle.load(file)
    except BaseException:  # whatever its own methods raise
        if returned:
            raise
        return None
    # The others would end this program, or mean something else to it.
    return value if returned or isinstance(value, Exception) else None


class Calls:
    """A new folder below `parent`, for calls and answers by number. Raises `StoreError`."""

    def __init__(self, parent: str) -> None:
        self.path = os.path.join(os.path.abspath(parent), new_ticket())
        try:
            os.makedirs(parent, 0o700, exist_ok=True)
            os.mkdir(self.path, 0o700)
            self._folder = open_folder(self.path)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise StoreError(
                f"cannot make the folder {plain(self.path)}: "
                f"{getattr(error, 'strerror', None) or error}; name another one: "
                "Executor(folder=...)"
            ) from error

    def put(
        self, number: int, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Write a call. Raises `UsageError` if it cannot be pickled, `StoreError`."""
        try:
            import cloudpickle
        except ImportError:
            from radrm.extras import lacks

            raise UsageError(lacks("radrm.Executor", "cloudpickle", "executor")) from None
        try:
            data = pickle.dumps(sys.path) + cloudpickle.dumps((function, tuple(args), kwargs))
        except Exception as error:  # whatever the objects' own methods raise
            raise UsageError(f"the call cannot be pickled: {message_of(error)}") from error
        try:
            write_private(f"{number}.{CALL}", data, self._folder)
        except OSError as error:
            raise StoreError(f"cannot write a call in {self.path}: {error.strerror}") from error

    def answered(self) -> set[int]:
        """The numbers of the calls that have an answer."""
        names = (name.partition(".") for name in os.listdir(self._folder))
        return {int(number) for number, _, kind in names if kind == ANSWER and number.isdigit()}

    def answer(self, number: int) -> Answer | None:
        """The answer to a call; None before it is written. Raises `StoreError` for one that cannot
        be read, or that another user could have written."""
        try:
            with open_private(f"{number}.{ANSWER}", self._folder) as file:
                returned, text, trace = pickle.load(file)
                return Answer(returned, _value_in(file, returned), text, trace)
        except FileNotFoundError:
            return None
        except BaseException as error:  # whatever the objects' own methods raise
            what = f"the answer of the job, {self.path}/{number}.{ANSWER}, cannot be read"
            raise StoreError(f"{what}: {message_of(error)}") from error

    def forget(self, number: int, logs: str = "") -> None:
        """Remove a call, its answer, and the logs that begin with these characters."""
        names = [f"{number}.{CALL}", f"{number}.{ANSWER}"]
        if logs:
            names += [name for name in os.listdir(self._folder) if name.startswith(logs)]
        for name in names:
            with contextlib.suppress(OSError):  # it is only tidying up
                remove(name, self._folder)

    def close(self) -> None:
        """Close the folder, and remove it if nothing is left in it."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1
            with contextlib.suppress(OSError):  # logs of calls that failed stay
                os.rmdir(self.path)


T = TypeVar("T")
_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5
_ASKED = 200
"""Jobs in one question."""
_MOST_MISSED = 30
"""Questions in which the daemon does not know a job before it counts as gone."""


class RemoteTraceback(Exception):
    """The cause of an exception that a call raised in its job: where, and how the job ended."""


class JobFuture(concurrent.futures.Future[T]):
    """A call that a job makes. `job` is the job as it was seen last; None: not yet."""

    def __init__(self, executor: Executor, number: int, first: int) -> None:
        super().__init__()
        self._executor, self._number, self._first = executor, number, first
        self._ticket, self._reference, self._missed = "", "", 0
        self.job: Job | None = None

    @property
    def reference(self) -> str:
        """What names the job in commands, as `radrm logs REFERENCE`."""
        return self.job.label if self.job is not None else self._reference

    def running(self) -> bool:
        """Whether the job had started when it was seen last."""
        return not self.done() and self.job is not None and self.job.running

    def cancel(self) -> bool:
        """Cancel the job, also one that runs. Returns whether the future is cancelled: not if it
        is done. Raises `Unreachable` without a daemon; then the job stays."""
        if not self.done():
            self._executor._cancel([self])
        return self.cancelled()

    def _cancelled(self) -> None:
        if super().cancel():
            self.set_running_or_notify_cancel()


class Executor(concurrent.futures.Executor):
    """Runs functions as jobs: `Executor(gpus=1, gpu_memory="8G", time="1h")`.

    The options are those of `Client.submit`; arrays are the executor's own. A job runs in
    `sys.executable`, with the present `sys.path`, folder and environment. Functions, arguments
    and results are pickled by cloudpickle. They lie in a new folder below `folder`
    (`~/.local/state/radrm/calls`), which only this user can read. Logs of calls that failed stay
    there.

    Raises `UsageError` for an option or for what cannot be pickled, `Refused` for jobs that can
    never run here. `result()` raises what the call raised; `JobFailed` for what cannot be raised
    here (its text says what it was), and for a job that died (out of memory, time limit, lost);
    `CancelledError` for a job that somebody cancelled. The cause has the traceback.
    """

    def __init__(
        self,
        client: Client | None = None,
        folder: str | os.PathLike[str] | None = None,
        **options: Unpack[JobOptions],
    ) -> None:
        self._raw = raw_options(options, "Executor")
        for name in sorted(self._raw.keys() & {*OF_ARRAYS, "interactive"}):
            raise UsageError(f"Executor: {name} is not for calls; use map for many of them")
        self._own = client is None
        self._client = client or Client()
        if folder is None:
            paths, _ = find_spool(self._client.connection)
            folder = os.path.join(own_state(paths, os.environ), "calls")
        self._calls = Calls(os.fspath(folder))
        self._lock = threading.Lock()
        self._open: dict[int, JobFuture[Any]] = {}
        """The futures that are not done, by number: the next ones to ask about come first."""
        self._next, self._closed = 0, False
        self._thread: threading.Thread | None = None

    # -------------------------------------------------------------- submitting

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> JobFuture[T]:
        """Submit a call as one job. The job is safe on disk when this returns."""
        (future,) = self._start(fn, [(fn, args, kwargs)])
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **_: Any,
    ) -> Iterator[T]:
        """The results of calls with these arguments, in order. The jobs are one array.

        `chunksize`: calls that one job makes. `timeout`: seconds from now within which the
        results must be there, else `TimeoutError`. Jobs whose results nobody reads any more are
        cancelled when the iterator is closed.
        """
        if chunksize < 1:
            raise UsageError(f"map: chunksize is at least 1, not {chunksize}")
        end_s = None if timeout is None else time.monotonic() + timeout
        each = list(zip(*iterables, strict=False))
        chunks = [each[i : i + chunksize] for i in range(0, len(each), chunksize)]
        calls: list[_Call] = [(_each, (fn, chunk), {}) for chunk in chunks]
        return _results(self, self._start(fn, calls), end_s)

    def _start(self, fn: Callable[..., Any], calls: Sequence[_Call]) -> list[JobFuture[Any]]:
        """Write the calls and submit their jobs; several are an array."""
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            begin, self._next = self._next, self._next + len(calls)
        futures: list[JobFuture[Any]] = []
        for i in range(0, len(calls), MAX_ARRAY):
            part = calls[i : i + MAX_ARRAY]
            first = begin + i
            made: list[JobFuture[Any]] = [
                JobFuture(self, first + k, first) for k in range(len(part))
            ]
            try:
                for future, call in zip(made, part, strict=True):
                    self._calls.put(future._number, *call)
                self._submit(fn, made, first)
            except BaseException:
                for future in made:
                    self._calls.forget(future._number)
                raise
            futures += made
        return futures

    def _submit(self, fn: Callable[..., Any], made: list[JobFuture[Any]], first: int) -> None:
        log = self._calls.path.replace("%", "%%") + f"/{first}.%a.log"
        raw = {"name": _name_of(fn), "output": log, **self._raw}
        if len(made) > 1:
            raw["array"] = f"0-{len(made) - 1}"
        words = (sys.executable, os.path.abspath(run_call.__file__), self._calls.path, str(first))
        asked = self._client.submit_request(SubmitRequest(raw, command=words))
        for i, future in enumerate(made):
            element = f"{asked.id}_{i}" if len(made) > 1 else str(asked.id)
            future._ticket = asked.ticket
            future._reference = asked.ticket if asked.id is None else element
        with self._lock:
            self._open |= {future._number: future for future in made}
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="radrm futures", daemon=True
                )
                self._thread.start()

    # -------------------------------------------------------------- waiting

    def _watch(self) -> None:
        """Settle futures until none is left."""
        pause_s, asked_s = _FIRST_PAUSE_S, 0.0
        while True:
            before = len(self._open)
            try:
                self._collect()
                if time.monotonic() - asked_s >= ASK_S:
                    self._ask()
                    asked_s = time.monotonic()
            except Unreachable:
                pass  # the daemon is back some time, and its jobs run on
            except Exception as error:  # else all futures would wait for ever
                self._give_up(error)
            with self._lock:
                if not self._open:
                    self._thread = None
                    break
                pause_s = _FIRST_PAUSE_S if len(self._open) != before else pause_s * 1.5
            time.sleep(min(_LONGEST_PAUSE_S, pause_s))
        self._clean()

    def _collect(self) -> None:
        """Settle the futures whose calls have returned."""
        for number in self._calls.answered():
            future = self._open.get(number)
            # An exception is read again when the job has ended.
            if future is not None:
                self._settle(future, None)

    def _ask(self) -> None:
        """Ask about the next jobs, and settle the futures of those that have ended."""
        with self._lock:
            asked = list(self._open.values())[:_ASKED]
            for future in asked:  # the others come first next time
                self._open[future._number] = self._open.pop(future._number)
        if not asked:
            return
        try:
            found = self._client.jobs(*dict.fromkeys(future._reference for future in asked))
        except Refused:
            found = self._one_by_one(asked)
        jobs = {(job.ticket, job.array_index or 0): job for job in found}
        for future in asked:
            job = jobs.get((future._ticket, future._number - future._first))
            if job is not None:
                future.job, future._reference = job, job.label
                if job.ended:
                    self._settle(future, job)

    def _one_by_one(self, asked: list[JobFuture[Any]]) -> list[Job]:
        """The jobs that the daemon knows. One that it does not know may be on its way."""
        found: list[Job] = []
        for reference in dict.fromkeys(future._reference for future in asked):
            try:
                found += self._client.jobs(reference)
            except Refused as error:
                for future in asked:
                    if future._reference != reference or self._is_spooled(future):
                        continue
                    future._missed += 1
                    if future._missed >= _MOST_MISSED:
                        self._settle(future, None, JobFailed(str(error), None))
        return found

    def _is_spooled(self, future: JobFuture[Any]) -> bool:
        """Whether the daemon has not taken in the job yet."""
        paths = self._client.connection.paths
        return paths is not None and has_envelope(paths.spool, future._ticket)

    def _settle(
        self, future: JobFuture[Any], job: Job | None, gone: JobFailed | None = None
    ) -> None:
        """Give a future its result. `job`: as it ended; None if that is not known. `gone`: why
        it is not known."""
        final = job is not None or gone is not None
        try:
            answer = self._calls.answer(future._number)
        except RadrmError as error:
            if final:
                self._finish(future, error)
            return
        if answer is not None and answer.returned:
            self._finish(future, None, answer.value)
        elif not final:
            return
        elif job is not None and job.state == "CANCELLED":
            self._finish(future, concurrent.futures.CancelledError())
        elif answer is None or job is None or job.outcome in ("lost", "timeout"):
            self._finish(future, gone or JobFailed.of(job) if job else gone)
        else:
            how = JobFailed.of(job)
            raised = answer.value
            if raised is None:
                raised = JobFailed(f"the call raised {answer.text}; {how}", job)
            # Not as an attribute: some exceptions allow no change.
            BaseException.__dict__["__cause__"].__set__(
                raised, RemoteTraceback(f"\n{answer.trace}\n{how}")
            )
            self._finish(future, raised)

    def _finish(
        self, future: JobFuture[Any], error: BaseException | None, value: Any = None
    ) -> None:
        with self._lock:
            if self._open.pop(future._number, None) is None:
                return
        kept = "" if error is not None else f"{future._first}.{future._number - future._first}."
        self._calls.forget(future._number, kept)
        if isinstance(error, concurrent.futures.CancelledError):
            future._cancelled()
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    def _give_up(self, error: Exception) -> None:
        why = JobFailed(f"cannot wait for the jobs: {message_of(error)}", None)
        for future in list(self._open.values()):
            self._finish(future, why)

    # -------------------------------------------------------------- ending

    def _cancel(self, futures: Sequence[JobFuture[Any]], state: str | None = None) -> None:
        """Cancel jobs. Without a `state`, their futures are cancelled at once."""
        named = [future._reference for future in futures if not future.done()]
        if not named:
            return
        self._client.cancel(*dict.fromkeys(named), state=state, check=False)
        if state is None:
            for future in futures:
                self._finish(future, concurrent.futures.CancelledError())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. `wait`: until all futures are done. `cancel_futures`: cancel the
        jobs that have not started. Jobs that run go on, also after the program's end."""
        with self._lock:
            self._closed = True
            left, thread = list(self._open.values()), self._thread
        if cancel_futures:
            self._cancel(left, "pending,recovering")
        if wait and thread is not None:
            thread.join()
        if thread is None:
            self._clean()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Wait for all futures. After Ctrl-C, cancel all jobs instead."""
        wait = True
        if kind is not None and not issubclass(kind, Exception):
            try:
                self._cancel(list(self._open.values()))
            except RadrmError as problem:  # the program ends all the same
                log.warning("the jobs run on: %s", problem)
                wait = False
        self.shutdown(wait)
        return None

    def _clean(self) -> None:
        with self._lock:
            if not self._closed or self._thread is not None:
                return
            self._calls.close()
            if self._own:
                self._client.close()


def _each(fn: Callable[..., T], chunk: Sequence[tuple[Any, ...]]) -> list[T]:
    """The calls of one job of `map`."""
    return [fn(*args) for args in chunk]


def _results(
    executor: Executor, futures: list[JobFuture[Any]], end_s: float | None
) -> Iterator[Any]:
    """The results of `map`, in order."""
    futures.reverse()
    try:
        while futures:
            left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            result = futures[-1].result(left_s)
            futures.pop()
            yield from result
    finally:
        executor._cancel([future for future in futures if not future.done()])


def _name_of(fn: Callable[..., Any]) -> str:
    """The job's name: the function's."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return name_from(str(getattr(fn, "__name__", type(fn).__name__)))
