"""`radrun`: start the workers of a job, and give them their data.

    radrun [OPTION]... SCRIPT [ARGUMENT]...

One thread serves everything that happens: the workers' processes and channels, the connections of
the hub, signals, and each 0.2 s a look into the daemon's folder.

    SIGTERM     to all workers; they have the grace time. With `--checkpoint=exit` it asks them to
                save together, and to leave
    SIGINT      to all workers; the second one kills them
    $RADRM_CHECKPOINT_SIGNAL
                all workers save at the same step, and go on
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from radrm.elastic.radrun import arguments
from radrm.elastic.radrun.arguments import Options
from radrm.elastic.radrun.folder import Folder
from radrm.elastic.radrun.generations import Supervisor
from radrm.elastic.radrun.hub import Hub
from radrm.elastic.radrun.placement import Placement, alone
from radrm.elastic.radrun.reports import USE_EVERY_S, Reports, Usage
from radrm.elastic.radrun.workers import environment, proc
from radrm.elastic.radrun.workers.cpus import Cpus
from radrm.elastic.radrun.workers.launching import Launcher, common_environment
from radrm.errors import RadrmError, Refused, UsageError
from radrm.host.processes.tree import become_subreaper, has_signal
from radrm.host.storage.files import take_lock

_LONGEST_SOCKET = 90
"""Bytes of a socket's path that surely fit into an address, with its name."""
_CHECKPOINTS = "elastic-checkpoints"


def main(argv: list[str] | None = None) -> int:
    """Run the command line. Returns the exit code."""
    try:
        options = arguments.parse(sys.argv[1:] if argv is None else argv)
        if options.help:
            return arguments.exit_with_usage()
        return Run(options).run()
    except RadrmError as error:
        print(f"radrun: {error}", file=sys.stderr)
        return error.exit_code


class Run:
    """One run of a program, from its first worker to its last."""

    def __init__(self, options: Options) -> None:
        self._options = options
        path = os.environ.get("RADRM_ELASTIC_DIR")
        self._folder = Folder(path) if path else None
        self._selector = selectors.DefaultSelector()
        self._reports = Reports(os.environ.get("RADRM_PROGRESS") or None)
        self._usage = Usage()
        self._used_s = 0.0
        job = os.environ.get("RADRM_JOB_ID", "")
        self._cpus = Cpus(int(job) if job.isdigit() else 0)
        self._save_signal = _save_signal()
        self._interrupts = 0
        self._present = 0
        self._supervisor: Supervisor
        self._hub: Hub

    def run(self) -> int:
        """Run the program to its end. Returns its exit code. Raises `RadrmError`."""
        _check(self._options)
        with self._lock(), self._private_folder() as private:
            placement = self._placement()
            checkpoints = os.path.abspath(os.environ.get("RADRM_CHECKPOINT_DIR") or _CHECKPOINTS)
            path = os.path.join(private, "hub")
            become_subreaper()
            self._hub = Hub(self._selector, path, os.path.join(checkpoints, "shards"), self)
            launcher = Launcher(
                self._selector,
                self._options,
                common_environment(path, checkpoints),
                environment.make_package(private, _elastic()),
                self._changed,
            )
            self._supervisor = Supervisor(
                launcher,
                self._hub,
                placement,
                self._folder,
                self._options.max_restarts,
                _say,
                self._reports.resized,
            )
            with _signals(self._selector, self._save_signal, self._signalled):
                try:
                    self._supervisor.start()
                    return self._serve()
                finally:
                    self._end_all()
                    self._hub.close()
                    self._reports.close()

    def _serve(self) -> int:
        wait_s = 0.0
        while self._supervisor.exit_code is None:
            for key, mask in self._selector.select(wait_s):
                key.data(mask)
            wait_s = self._supervisor.advance()
            self._look_at_tasks(time.monotonic())
        return self._supervisor.exit_code

    def _end_all(self) -> None:
        """Leave no process behind, also after an error of our own."""
        me = os.getpid()
        everything = proc.census()
        children = {pid for pid, each in everything.items() if each.parent == me}
        proc.kill(everything, proc.tree(everything, children), signal.SIGKILL)

    # ---------------------------------------------------------------- the tasks

    def _placement(self) -> Placement:
        """The placement to start with: the newest that the job has already got."""
        if self._folder is None:
            return alone(self._options.counts())
        try:
            return self._folder.placement(self._folder.present())
        except (OSError, ValueError) as error:
            cause = error.strerror if isinstance(error, OSError) else error
            raise Refused(
                f"the job's placement in {self._folder.path} cannot be used: {cause}; "
                "ask the administrator"
            ) from None

    def _look_at_tasks(self, now_s: float) -> None:
        """Do what is due for the tasks that run: their CPUs, reports, and use."""
        present = self._supervisor.present
        shares = None
        if self._folder is not None:
            with contextlib.suppress(OSError, ValueError, TypeError):
                shares = self._folder.new_shares()
        if present.number != self._present:
            self._present = present.number
            self._cpus.place(present.placement.tasks)
            self._cpus.apply(present.workers)
        if shares is not None:
            self._cpus.set(shares)
            self._cpus.apply(present.workers)
            for (role, number), cpus in shares.items():
                if cpus is not None and (role, number) in present.workers:
                    self._hub.cpus((role, number), cpus)
        self._reports.send_due(now_s)
        if now_s - self._used_s >= USE_EVERY_S:
            self._used_s = now_s
            if "RADRM_PROGRESS" in os.environ:
                self._reports.use(self._usage.look(present.workers))

    def _changed(self) -> None:
        self._supervisor.note_change()

    # ---------------------------------------------------------------- the hub's news

    def boundary(self, step: int) -> None:
        self._supervisor.boundary(step)

    def saved(self, step: int, checkpoint_id: str) -> None:
        self._supervisor.saved(step, checkpoint_id)

    def progress(
        self, step: float, total: float | None, loss: float | None, data_wait: float | None
    ) -> None:
        self._reports.progress(step, total, loss, data_wait)

    def modules(self, names: list[str]) -> None:
        self._supervisor.modules(names)

    def lost(self, role: str, number: int) -> None:
        """Its process tells how it has ended."""

    def broken(self, reason: str) -> None:
        self._supervisor.broken(reason)

    # ---------------------------------------------------------------- signals

    def _signalled(self, number: int) -> None:
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._interrupts > 1:
                self._supervisor.kill()
            else:
                self._supervisor.end(number)
        elif number == self._save_signal and self._hub.stepped:
            if number == signal.SIGTERM:
                self._supervisor.leave()
            else:
                self._hub.save()
        elif number == self._save_signal and number != signal.SIGTERM:
            # Programs that do not use `elastic` have handlers of their own.
            for worker in self._supervisor.present.workers.values():
                if not worker.ended and has_signal(worker.pid, number, b"SigCgt"):
                    worker.send(number)
        else:
            self._supervisor.end(number)

    # ---------------------------------------------------------------- places

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Two at once would both run the job's tasks."""
        if self._folder is None:
            yield
            return
        try:
            lock = take_lock(os.path.join(self._folder.path, "radrun.lock"))
        except OSError as error:
            raise Refused(
                f"the job's folder {self._folder.path} cannot be used: {error.strerror}"
            ) from None
        if lock is None:
            raise Refused("another radrun runs the tasks of this job; wait for its end")
        try:
            yield
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def _private_folder(self) -> Iterator[str]:
        """A folder for the hub's socket: the attempt's, which the daemon removes, or our own."""
        if self._folder is not None and len(os.fsencode(self._folder.path)) <= _LONGEST_SOCKET:
            yield self._folder.path
            return
        path = tempfile.mkdtemp(prefix="radrun-")
        if len(os.fsencode(path)) > _LONGEST_SOCKET:
            os.rmdir(path)
            path = tempfile.mkdtemp(prefix="radrun-", dir="/tmp")
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def _check(options: Options) -> None:
    """Raise `UsageError` if a script is not there."""
    if options.module or options.no_python:
        return
    scripts = [each.script for each in options.roles if each.script]
    for script in [*scripts, *([options.script] if options.script else [])]:
        if not os.path.isfile(script):
            raise UsageError(f"there is no file {script}; name a script, or a module with -m")


def _save_signal() -> int | None:
    """The signal by which radrm asks this job to save."""
    text = os.environ.get("RADRM_CHECKPOINT_SIGNAL", "")
    return int(text) if text.isdigit() and len(text) < 3 and int(text) > 0 else None


def _elastic() -> str:
    """The path of `radrm/elastic/__init__.py`."""
    return os.environ.get("RADRM_ELASTIC_PY") or os.path.join(
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__init__.py"
    )


def _say(line: str) -> None:
    print(f"radrun: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _signals(
    selector: selectors.BaseSelector, save: int | None, received: Callable[[int], None]
) -> Iterator[None]:
    """Have signals call `received` from the loop. SIGCHLD only wakes it."""
    numbers = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
    numbers |= {signal.Signals(save)} if save is not None else set()
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def read(mask: int) -> None:
        for number in os.read(reading, 4096):
            if number != signal.SIGCHLD:
                received(number)

    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    selector.register(reading, selectors.EVENT_READ, read)
    try:
        yield
    finally:
        selector.unregister(reading)
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


if __name__ == "__main__":
    sys.exit(main())
