"""`Executor` with a real daemon: results, exceptions, deaths, cancels, and foreign files."""

from __future__ import annotations

import concurrent.futures
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("cloudpickle", reason="pip install 'radrm[executor]'")

from radrm import Client, Executor, JobFailed
from radrm.api.executor import Calls
from radrm.api.run_call import open_folder, open_private, write_private
from radrm.errors import RadrmError, Refused, StoreError, UsageError
from tests.daemon.harness import DaemonHome
from tests.paths import REPOSITORY
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.daemon


@pytest.fixture
def executor(shared_daemon: DaemonHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[Executor]:
    monkeypatch.chdir(shared_daemon.work)
    with Client(shared_daemon.folder / "home") as client:
        with Executor(client, gpus=0) as executor:
            yield executor
        # Only the logs of calls that failed are left.
        if os.path.exists(executor._calls.path):
            left = os.listdir(executor._calls.path)
            assert left and all(name.endswith(".log") for name in left)


def test_values_and_exceptions(executor: Executor) -> None:
    class Odd(Exception):
        pass

    def divide(a: int, b: int) -> float:
        if b < 0:
            raise Odd("below\nzero")
        return a / b

    assert executor.submit(divide, 6, b=3).result(PATIENCE_S) == 2
    odd, zero = executor.submit(divide, 1, -1), executor.submit(divide, 1, 0)
    with pytest.raises(Odd, match="below\nzero") as caught:
        odd.result(PATIENCE_S)
    assert "in divide" in str(caught.value.__cause__)
    assert f"job {odd.reference} (divide) FAILED" in str(caught.value.__cause__)
    assert isinstance(zero.exception(PATIENCE_S), ZeroDivisionError)
    assert zero.job.code == 1 and not zero.running()


def test_what_cannot_be_pickled(executor: Executor) -> None:
    with pytest.raises(UsageError, match="cannot be pickled"):
        executor.submit(print, threading.Lock())
    wrong = executor.submit(threading.Lock).exception(PATIENCE_S)
    assert isinstance(wrong, TypeError) and "what the call returned" in str(wrong)

    class Lost(Exception):
        def __init__(self, lock: object) -> None:
            super().__init__(lock)

    def fail(leave: bool) -> None:
        if leave:
            raise SystemExit(7)
        raise Lost(threading.Lock())

    lost = executor.submit(fail, False)
    with pytest.raises(JobFailed, match=r"the call raised Lost: <unlocked .*; job .* FAILED") as it:
        lost.result(PATIENCE_S)
    assert "in fail" in str(it.value.__cause__)
    left = executor.submit(fail, True)
    with pytest.raises(JobFailed, match="the call raised SystemExit: 7"):
        left.result(PATIENCE_S)
    assert left.job.code == 7


def test_a_map_is_one_array(executor: Executor) -> None:
    assert list(executor.map(pow, [2, 3], [5, 2], timeout=PATIENCE_S)) == [32, 9]
    assert list(executor.map(len, [])) == []
    assert list(executor.map(abs, range(-3, 0), chunksize=2)) == [3, 2, 1]
    names = {job.name: job.array_id for job in executor._client.jobs(all=True)}
    assert names["pow"] is not None and names["abs"] is not None
    with pytest.raises(UsageError, match="chunksize"):
        executor.map(abs, [1], chunksize=0)


def test_results_that_nobody_reads_are_cancelled(executor: Executor) -> None:
    results = executor.map(time.sleep, [0, 1000, 1001])
    assert next(results) is None
    slow = list(executor._open.values())
    results.close()
    assert [future.cancelled() for future in slow] == [True, True]
    with pytest.raises(concurrent.futures.TimeoutError):
        next(executor.map(time.sleep, [1000], timeout=0.01))


def test_deaths_have_a_verdict(executor: Executor) -> None:
    killed = executor.submit(os.kill, 0, signal.SIGKILL)
    left = executor.submit(sys.exit, 3)
    for future, said in ((killed, "killed by signal 9"), (left, "exit code 3")):
        error = future.exception(PATIENCE_S)
        assert isinstance(error, JobFailed) and said in str(error) and "\n" not in str(error)
        assert error.job.state == "FAILED"
        assert pickle.loads(pickle.dumps(error)).job == error.job


def test_cancelled_futures(executor: Executor) -> None:
    mine, theirs = executor.submit(time.sleep, 1000), executor.submit(time.sleep, 1000)
    wait_until(mine.running)
    assert mine.cancel() and mine.cancel() and mine.cancelled() and not mine.running()
    executor._client.cancel(theirs.reference)
    with pytest.raises(concurrent.futures.CancelledError):
        theirs.result(PATIENCE_S)
    assert concurrent.futures.wait([mine, theirs], 0).done == {mine, theirs}
    done = executor.submit(int)
    assert done.result(PATIENCE_S) == 0 and not done.cancel()


def test_a_retry_may_still_return(shared_daemon: DaemonHome) -> None:
    def second_time(mark: str) -> str:
        if not os.path.exists(mark):
            open(mark, "w").close()
            raise OSError("the first attempt")
        return "the second"

    client = Client(shared_daemon.folder / "home")
    with client, Executor(client, gpus=0, retries=1, chdir=shared_daemon.work) as executor:
        future = executor.submit(second_time, str(shared_daemon.work / "mark"))
        assert future.result(PATIENCE_S) == "the second"


def test_what_is_asked_wrongly(shared_daemon: DaemonHome, tmp_path: Path) -> None:
    client = Client(shared_daemon.folder / "home")
    with pytest.raises(UsageError, match="array is not for calls"):
        Executor(client, array="0-9")
    with pytest.raises(StoreError, match="cannot make the folder"):
        Executor(client, folder=os.devnull)
    with pytest.raises(StoreError, match="cannot make the folder"):
        Executor(client, folder="a\0b")
    with client, Executor(client, tmp_path / "own", gpus=9) as executor:
        with pytest.raises(Refused, match="can never run"):
            executor.submit(int)
        assert os.listdir(executor._calls.path) == []
        executor.shutdown(wait=False)
        with pytest.raises(RuntimeError, match="after shutdown"):
            executor.submit(int)
    assert os.listdir(tmp_path / "own") == []


def test_shutdown_cancels_what_has_not_started(shared_daemon: DaemonHome) -> None:
    client = Client(shared_daemon.folder / "home")
    with client, Executor(client, gpus=0, hold=True) as executor:
        held = executor.submit(int)
        executor.shutdown(cancel_futures=True)
        assert held.cancelled()


def test_a_map_outlives_its_daemon_and_ctrl_c_cancels(shared_daemon: DaemonHome) -> None:
    program = shared_daemon.file(
        "program.py",
        "import time\nfrom radrm import Executor\n"
        "def work(n):\n    return n * n\n"
        "with Executor(gpus=0) as executor:\n"
        "    held = executor.map(work, range(3))\n"
        "    print('submitted', flush=True); input()\n"
        "    print(sum(held), flush=True)\n"
        "    waits = executor.submit(time.sleep, 1000)\n"
        "    print(waits.reference, flush=True)\n"
        "    waits.result()\n",
    )
    with subprocess.Popen(
        [sys.executable, str(program)],
        env={**shared_daemon.environment, "PYTHONPATH": str(REPOSITORY)},
        cwd=shared_daemon.work,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdin is not None and running.stdout is not None
        assert running.stdout.readline() == "submitted\n"
        shared_daemon.kill()
        print(file=running.stdin, flush=True)
        shared_daemon.start()
        assert int(running.stdout.readline()) == sum(n * n for n in range(3))
        waits = running.stdout.readline().strip()
        shared_daemon.wait_state(waits, "RUNNING")
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) != 0
        assert "KeyboardInterrupt" in (running.stderr.read() if running.stderr else "")
    assert shared_daemon.wait_end(waits)["state"] == "CANCELLED"


# ------------------------------------------------------------------ whose files


def test_only_own_files_are_unpickled(tmp_path: Path) -> None:
    calls = Calls(str(tmp_path))
    folder = open_folder(calls.path)
    data = pickle.dumps((True, "", "")) + pickle.dumps(1)
    write_private("0.answer", data, folder)
    assert calls.answer(0).value == 1 and calls.answered() == {0}
    path = Path(calls.path)
    assert (path.stat().st_mode & 0o777, (path / "0.answer").stat().st_mode & 0o777) == (
        *(0o700, 0o600),
    )
    (path / "0.answer").chmod(0o620)
    with pytest.raises(RadrmError, match="another user owns it or can write it"):
        calls.answer(0)
    (path / "1.answer").symlink_to("0.answer")
    with pytest.raises(RadrmError, match="cannot be read"):
        calls.answer(1)
    os.mkfifo(path / "2.answer")
    with pytest.raises(RadrmError, match="not a regular file"):
        calls.answer(2)
    (path / "3.answer").write_bytes(b"no pickle")
    with pytest.raises(RadrmError, match="cannot be read"):
        calls.answer(3)
    assert calls.answer(4) is None
    os.close(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_another_user_are_refused(tmp_path: Path) -> None:
    calls = Calls(str(tmp_path))
    theirs = Path(calls.path) / "0.answer"
    theirs.write_bytes(pickle.dumps((True, 1, "")))
    os.chown(theirs, 65534, 65534)
    with pytest.raises(StoreError, match="another user owns it"):
        calls.answer(0)
    folder = open_folder(calls.path)
    with pytest.raises(PermissionError):
        open_private("0.answer", folder)
    os.chown(calls.path, 65534, 65534)
    with pytest.raises(PermissionError):
        open_folder(calls.path)
