"""Tests run in forks of the one process that has collected them: `pytest -n 4`.

Theory of operation. Collecting takes ten seconds of processor time and 400 MiB: it is done once,
and all workers share the pages. The parent keeps the list of what is left and runs no test. It
hands each worker one test after the other, always one ahead: what a fixture of a module has made
stays while the next test of that module goes to the same worker. So the list is cut into shares, a
module each. A worker whose share is empty takes the next, or half of another worker's if there is
none left. The workers take shares from the front, where tests of daemons are, which mostly wait.
The last one takes them from the end, where tests are that only compute.

A worker sends each report; the parent gives it to pytest's plugins as if the test had run here.
The test during which a worker dies has failed. The rest of its share goes on in a new one, as the
parent is still as it was after collecting. A worker whose parent has gone finds its pipe closed,
and ends.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest import runner

_MOST = 100
"""Tests of one share: a module with more is cut, so that no worker runs alone at the end."""


class Worker:
    """A fork as the parent sees it."""

    def __init__(self, pid: int, pipe: Connection, from_end: bool) -> None:
        self.pid, self.pipe, self.from_end = pid, pipe, from_end
        self.ended = os.pidfd_open(pid)
        self.share: deque[int] = deque()
        """Tests that it gets next, as indexes of the session's."""
        self.given: deque[int] = deque()
        """Tests that it has, and has not finished."""

    def end(self) -> int:
        """Let it end, and wait for that; its exit code."""
        self.pipe.close()
        os.close(self.ended)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Crew:
    """The workers of a session, and the tests that none of them has yet."""

    def __init__(self, session: pytest.Session, count: int) -> None:
        self.session = session
        self.left = deque(shares(session.items))
        self.workers: list[Worker] = []
        # The parent makes the folder of this run: one lock keeps it, and one process prunes.
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        for number in range(count):
            self._begin(from_end=number == count - 1)

    def run(self) -> None:
        """Return when all tests have run, or the session shall stop."""
        try:
            while self.workers:
                ready = wait([each for w in self.workers for each in (w.pipe, w.ended)])
                for worker in [w for w in self.workers if w.pipe in ready or w.ended in ready]:
                    self._hear(worker)
        finally:
            for worker in self.workers:
                worker.pipe.close()  # all of them stop now, whichever takes longest
            for worker in self.workers:
                worker.end()

    def _begin(self, from_end: bool, share: Iterable[int] = ()) -> None:
        ours, theirs = Pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        pid = os.fork()
        if pid == 0:
            for other in (ours, *(worker.pipe for worker in self.workers)):
                other.close()
            _become_worker(self.session, theirs)
        theirs.close()
        self.workers.append(Worker(pid, ours, from_end))
        self.workers[-1].share.extend(share)

    def _hear(self, worker: Worker) -> None:
        """Act on one message, or on the worker's end."""
        try:
            # Its children may hold the other end of the pipe.
            kind, content = worker.pipe.recv() if worker.pipe.poll() else ("end", None)
            if kind == "next":
                worker.pipe.send(self._next_of(worker))
        except (EOFError, OSError):
            kind = "end"
        hook = self.session.config.hook
        if kind == "report":
            found = hook.pytest_report_from_serializable(config=self.session.config, data=content)
            hook.pytest_runtest_logreport(report=found)
        elif kind == "warning":
            hook.pytest_warning_recorded.call_historic(kwargs=content)
        elif kind == "done":
            item = self.session.items[worker.given.popleft()]
            hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        elif kind == "end":
            self._end(worker)

    def _next_of(self, worker: Worker) -> int | None:
        """The test that this worker runs next."""
        if self.session.shouldfail or self.session.shouldstop:
            return None
        if not worker.share and self.left:
            worker.share = self.left.pop() if worker.from_end else self.left.popleft()
        if not worker.share:
            fullest = max(self.workers, key=lambda each: len(each.share))
            half = [fullest.share.pop() for _ in range(len(fullest.share) // 2)]
            worker.share.extend(reversed(half))
        if not worker.share:
            return None
        worker.given.append(worker.share.popleft())
        return worker.given[-1]

    def _end(self, worker: Worker) -> None:
        self.workers.remove(worker)
        code = worker.end()
        if not worker.given:
            if code:
                raise RuntimeError(f"a worker of the tests ended with {code} without a test")
            return
        item = self.session.items[worker.given.popleft()]
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "failed", f"its worker ended with {code}", "call"
        )
        item.ihook.pytest_runtest_logreport(report=report)
        if not (self.session.shouldfail or self.session.shouldstop):
            self._begin(worker.from_end, [*worker.given, *worker.share])


def shares(items: list[pytest.Item]) -> Iterator[deque[int]]:
    """The indexes of the tests of each module, in their order, at most `_MOST` together."""
    for _, group in groupby(range(len(items)), lambda index: items[index].path):
        indexes = list(group)
        for begin in range(0, len(indexes), _MOST):
            yield deque(indexes[begin : begin + _MOST])


class Sender:
    """In a worker, takes the place of what writes on the terminal."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self._config, self._pipe = config, pipe

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        warning_message.source = None
        given = {"when": when, "nodeid": nodeid, "location": location}
        with suppress(Exception):  # its arguments may be of any kind
            self._pipe.send(("warning", {**given, "warning_message": warning_message}))


def _become_worker(session: pytest.Session, pipe: Connection) -> NoReturn:
    """Run what the parent gives, and exit."""
    code = 1
    try:
        _prepare(session.config, pipe)
        _run(session.items, pipe)
        code = 0
    except (EOFError, ConnectionError, KeyboardInterrupt):
        runner.pytest_sessionfinish(session)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _prepare(config: pytest.Config, pipe: Connection) -> None:
    """Undo what a fork may not share: the files of captured output, and a folder's numbers."""
    plugins = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    plugins.register(Sender(config, pipe))
    capture: Any = plugins.get_plugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = Path(factory.getbasetemp(), f"worker-{os.getpid()}")
    factory._basetemp.mkdir(mode=0o700)


def _run(items: list[pytest.Item], pipe: Connection) -> None:
    def ask() -> int | None:
        pipe.send(("next", None))
        found: int | None = pipe.recv()
        return found

    now = ask()
    while now is not None:
        item, then = items[now], ask()
        following = None if then is None else items[then]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        pipe.send(("done", None))
        now = then


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("workers")  # where plugins have put `-n` for long: pytest has none
    group._addoption("-n", type=int, default=0, metavar="N", dest="workers", help="forks; 0: none")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    option = session.config.option
    count = min(option.workers, len(session.items))
    if count < 2 or option.collectonly or option.usepdb or session.testsfailed:
        return None  # pytest's own loop
    Crew(session, count).run()
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True
