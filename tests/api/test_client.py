"""`Client` with a real daemon: submit, watch, command, read."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from radrm import Client
from radrm.errors import BadFile, RadrmError, Refused, Unreachable, UsageError
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

pytestmark = pytest.mark.daemon


@pytest.fixture
def client(shared_daemon: DaemonHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.chdir(shared_daemon.work)
    with Client(shared_daemon.folder / "home") as client:
        yield client


def test_a_command_and_its_end(client: Client) -> None:
    asked = client.submit(
        ["sh", "-c", "echo out; echo err >&2; exit 3"], gpus=0, name="three", error="%x.err"
    )
    assert (asked.name, asked.count) == ("three", 1) and asked.id is not None
    (job,) = client.wait(asked, timeout=60)
    assert (job.state, job.exit_code, job.code, job.ended) == ("FAILED", 3, 3, True)
    assert job.document["label"] == job.label and job.ticket == asked.ticket
    assert client.logs(job) == "out\n" and client.logs(job, "stderr") == "err\n"
    assert client.job(asked.ticket) == client.job("three")
    assert client.wait() == []


def test_a_job_file_with_options_on_a_gpu(client: Client, shared_daemon: DaemonHome) -> None:
    file = shared_daemon.file("train.rad", "#RAD --gpu-memory=2G --priority=1\nsleep 100\n")
    held = client.submit(file, priority=5, hold=True, comment="why")
    job = client.job(held)
    assert (job.priority, job.held, job.comment, job.state) == (5, True, "why", "PENDING")
    assert client.edit(held, priority=-3, due="+4h")[0].error is None
    assert client.job(held).priority == -3
    assert client.explain(held).reasons and len(client.gpus()) == 2
    client.release(held)
    running = wait_until(lambda: next((j for j in client.jobs(held) if j.running), None))
    wait_until(lambda: client.job(held).state == "RUNNING")
    (gpu,) = [gpu for gpu in client.gpus() if running.label in gpu.labels]
    assert gpu.uuid in client.job(held).devices and gpu.reserved_mib >= 2048
    assert client.requeue(held, time="3h")[0].state == "RUNNING"
    assert client.hold(held, check=False)[0].id == held.id
    client.cancel(held)
    (ended,) = client.wait(held, timeout=60)
    assert (ended.state, ended.completed) == ("CANCELLED", False) and ended.code


def test_a_dry_run_says_what_would_be_and_submits_nothing(client: Client) -> None:
    before = [job.id for job in client.jobs(all=True)]
    found = client.submit(
        ["echo", "{lr}"],
        dry_run=True,
        name="sweep",
        gpu_memory="2G",
        time="1h",
        param={"lr": [1, 2]},
    )
    assert (found.name, found.elements, found.gpus) == ("sweep", 2, 1)
    assert (found.gpu_memory_mib, found.time_limit_s) == (2048, 3600)
    assert [each.command for each in found.first] == [("echo", "1"), ("echo", "2")]
    assert found.document["error"] is None and isinstance(found.notes, tuple)
    with pytest.raises(Refused, match="can never run"):
        client.submit(["true"], dry_run=True, gpus=99)
    assert [job.id for job in client.jobs(all=True)] == before


def test_an_estimate_is_that_of_the_command(client: Client, shared_daemon: DaemonHome) -> None:
    file = shared_daemon.file("sized.rad", "#RAD --gpu-memory=3G\nsleep 1\n")
    (said,) = shared_daemon.json("estimate", str(file))
    found = client.estimate(file)
    assert found.document | {"seconds": None} == said | {
        "seconds": None, "guesses": tuple(said["guesses"]), "notes": tuple(said["notes"]),
        "changes": (),
    }  # fmt: skip
    assert found.memory_mib == 3072
    assert client.estimate(["python3", "train.py"], "declared", gpu_memory="1G").upper_mib == 1024
    for wrong in ("all", "nobody"):
        with pytest.raises(UsageError if wrong == "all" else RadrmError):
            client.estimate(file, wrong)
    with pytest.raises(BadFile, match="no GPU"):
        client.estimate(["true"], gpus=0)


def test_arrays(client: Client) -> None:
    array = client.submit(["sh", "-c", "echo {lr}"], gpus=0, param={"lr": [0.1, 0.01]})
    assert array.count == 2
    first, second = client.wait(array, timeout=60)
    assert first.label == f"{array.id}_0" and second.array_id == array.id
    assert first.params == {"lr": "0.1"} and client.logs(second) == "0.01\n"
    assert client.job(first).label == first.label
    with pytest.raises(Refused, match="2 jobs; name one"):
        client.job(array)


def test_events_until_the_end(client: Client) -> None:
    job = client.submit(["sleep", "0.2"], gpus=0)
    states = [each.state for each in client.events(job)]
    assert states[-1] == "COMPLETED" and len(states) == len(set(states))


def test_logs_are_bounded_and_followed(client: Client) -> None:
    line = "x" * 79
    job = client.submit(["sh", "-c", f"yes {line} | head -n 5000; printf '\\377ä'"], gpus=0)
    whole = "".join(client.follow_logs(job))
    assert whole == f"{line}\n" * 5000 + "\ufffdä"
    assert client.logs(job, max_bytes=83) == f"{line}\n\ufffdä"
    assert client.logs(job, lines=2) == f"{line}\n\ufffdä"
    assert client.logs(job, max_bytes=0) == client.logs(job, lines=0) == ""
    with open(f"radrm-{job.id}.out", "ab") as log:  # its last line is not found for hours
        log.truncate(1 << 40)
    assert client.logs(job, lines=2) == "\0" * (1 << 20)
    os.truncate(log.name, 80 * 5000)
    assert len(client.logs(job, max_bytes=1 << 30)) == 80 * 5000


def test_a_follower_that_is_closed_ends(client: Client) -> None:
    job = client.submit(["sh", "-c", "echo one; sleep 100"], gpus=0)
    pieces = client.follow_logs(job)
    assert next(pieces) == "one\n"
    pieces.close()
    with pytest.raises(TimeoutError, match=r"within 0\.01 s; they run on"):
        client.wait(job, timeout=0.01)
    client.cancel(job)
    with pytest.raises(UsageError, match="no stream"):
        client.follow_logs(job, "both")


def test_errors(client: Client, shared_daemon: DaemonHome) -> None:
    with pytest.raises(UsageError, match="a command as a list of words"):
        client.submit("python train.py")
    with pytest.raises(UsageError, match="no command"):
        client.submit([])
    for odd in (None, [1], [b"x"], ["a\0b"], "a\0b", "\udc80", b"x"):
        with pytest.raises(UsageError, match=r"^submit: "):
            client.submit(odd)
    with pytest.raises(BadFile, match="cannot read the job file x\ufffdy"):
        client.submit("x\ny")
    with pytest.raises(UsageError, match="holds a NUL"):
        Client("a\0b")
    with pytest.raises(UsageError, match="not a job file"):
        client.submit("-")
    with pytest.raises(BadFile, match="cannot read the job file missing"):
        client.submit("missing")
    with pytest.raises(Refused, match="can never run"):
        client.submit(["true"], gpus=3)
    with pytest.raises(UsageError, match="standard input"):
        client.submit(["true"], params="-")
    with pytest.raises(UsageError, match="nothing to change"):
        client.edit(1)
    with pytest.raises(UsageError, match="no job is named"):
        client.cancel()
    with pytest.raises(Refused, match="there is no job 999"):
        client.job(999)
    (result,) = client.cancel("no\nsuch", check=False)
    assert "there is no job" in result.error
    with pytest.raises(Refused) as caught:
        client.cancel("no\nsuch", 998)
    assert "\n" not in str(caught.value) and "(and 1 more)" in str(caught.value)
    with pytest.raises(Unreachable), Client(shared_daemon.work) as nobody:
        nobody.jobs()


def test_threads_share_a_client(client: Client) -> None:
    found: list[int] = []

    def ask() -> None:
        for _ in range(20):
            found.append(len(client.gpus()))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2] * 80


def test_another_process_does_not_share_it(client: Client) -> None:
    client.gpus()
    held, over = threading.Event(), threading.Event()

    def hold() -> None:  # as a request under way, in a thread that the new process does not have
        with client.connection.lock:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        for use in (client.gpus, lambda: client.submit(["true"])):
            with contextlib.suppress(UsageError):
                use()
                os._exit(2)
        client.close()
        os._exit(0)
    over.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_without_a_daemon_then_with_one_that_dies(home: DaemonHome, tmp_path: Path) -> None:
    with Client(tmp_path / "home") as client:
        early = client.submit(["true"], gpus=0, chdir=home.work)
        assert early.id is None and early.ticket
        with pytest.raises(Unreachable):
            client.wait(early)
        home.start()
        long = client.submit(["sleep", "1000"], gpus=0, chdir=home.work)
        seen = []
        for job in client.events(early, long):
            seen.append((job.name, job.state))
            if seen[-1] == ("sleep", "RUNNING") and home.process is not None:
                home.kill()
                threading.Thread(target=lambda: (home.start(), client.cancel(long))).start()
        assert ("sleep", "CANCELLED") in seen and client.job(early).completed
