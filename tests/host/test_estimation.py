"""Asking estimators: their process, the tracer's, and the threads that wait for both.

Every process here is a real one; those that misbehave are small scripts.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from radrm.config import Config, EstimationConfig
from radrm.core.records import Estimate, JobSpec
from radrm.core.rules import Description, PastRun
from radrm.core.words import Quantity
from radrm.host.attempts.procfs import TOKEN_VARIABLE, read_stat
from radrm.host.estimation import confine, leftovers, start_tracer
from radrm.host.estimation.asking import Answer, Asking
from radrm.host.estimation.leftovers import Leftovers
from radrm.host.estimation.service import Estimated, EstimationService, Wanted
from radrm.host.estimation.thinker import COMMAND, NoAnswer, Thinker
from radrm.host.estimation.tracing import NotTraced, TraceRequest, trace, tracer_arguments
from radrm.host.estimation.worker import MAX_MESSAGE, Question, packed
from radrm.jobfile.options import typed
from tests.host.test_processes import wait_until

HASTY = Config(estimation=EstimationConfig(time_limit_s=0.3, trace_limit_s=20.0))
TABLE = (
    "Layer (type)  Output Shape  Param #\n====\n"
    "Linear-1  [-1, 1024]  1024\n====\nTotal params: 1,024\n"
)


def description(**told: object) -> Description:
    return Description(spec=JobSpec(name="a", user="ann", uid=1000), **told)  # type: ignore[arg-type]


def sources(answer: Answer) -> list[str]:
    return [e.source for e in answer.estimates if e.quantity is Quantity.MEMORY]


# ------------------------------------------------------------------ asking


def test_every_answer_says_how_long_it_took() -> None:
    answer = Asking(Config()).ask(description(summary=TABLE, batch_size=8))
    assert sources(answer)[-1] == "horus"
    assert all(e.seconds is not None and e.seconds >= 0 for e in answer.estimates)


def test_a_trace_that_cannot_be_used_is_a_note_and_the_next_route_takes_over() -> None:
    for events in (b"", b"[" * 100_000, b"{}", b'{"error": "the factory raised\\u001b[31m"}'):
        answer = Asking(Config()).ask(description(summary=TABLE, batch_size=8), events)
        assert sources(answer)[-1] == "horus"
        (note,) = answer.notes
        assert note.startswith("trace: ") and note.isprintable() and len(note) <= 300


# ------------------------------------------------------------------ the worker


def test_the_worker_answers_as_the_estimators_themselves_do() -> None:
    past = (PastRun(4000, "A100", told={"horus": 3000.0}),)
    job = description(summary=TABLE, batch_size=8, recent_runs=past, input_shape=(3, 4))
    thinker = Thinker(Config())
    try:
        found = thinker.ask(Question(job))
        again = thinker.ask(Question(job, b"{}"))
    finally:
        thinker.close()
    expected = Asking(Config()).ask(job)
    assert [untimed(e) for e in found.estimates] == [untimed(e) for e in expected.estimates]
    assert [note[:6] for note in again.notes] == ["trace:"]


def untimed(estimate: Estimate) -> Estimate:
    return replace(estimate, seconds=None)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ("import time; time.sleep(600)", "took longer than 0.3 s"),
        ("sys.stdin.buffer.read(10); sys.exit(3)", "broke"),
        ("sys.stdin.buffer.read(10); os.write(1, b'\\xff' * 100)", "broke"),
    ],
)
def test_a_worker_that_hangs_dies_or_babbles_costs_one_answer(
    tmp_path: Path, after: str, why: str
) -> None:
    ready = b"\x82\xa9estimates\x90\xa5notes\x90"
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, sys\n"
        f"ready = {ready!r}\n"
        "os.write(1, len(ready).to_bytes(4, 'big') + ready)\n"
        f"{after}\n"
    )
    thinker = Thinker(HASTY, [sys.executable, str(script)])
    for _ in range(2):
        with pytest.raises(NoAnswer, match=why):
            thinker.ask(Question(description()))
    thinker.close()


def test_the_worker_dies_with_its_daemon_even_while_it_thinks(tmp_path: Path) -> None:
    """It would not see the end of its input."""
    code = (
        "import os, sys, time\n"
        "from radrm.config import Config\n"
        "from radrm.host.estimation.thinker import Thinker\n"
        "thinker = Thinker(Config()); thinker.prepare()\n"
        "pid = thinker._worker.pid; os.kill(pid, 19)\n"
        "os.dup2(thinker._worker.stdin.fileno(), 200, True)\n"
        "if not os.fork(): os.write(1, b'%d\\n' % pid); time.sleep(600)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code]
    daemon = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert daemon.stdout is not None
        worker = int(daemon.stdout.readline())
        daemon.kill()
        wait_until(lambda: (found := read_stat(worker)) is None or found.dead)
    finally:
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.communicate()


def test_a_thought_without_end_is_ended_by_the_kernel() -> None:
    """Should there be no daemon any more that does."""
    code = (
        "import sys, time\n"
        "from radrm.host.estimation import worker\n"
        "class Asking(worker.Asking):\n"
        "    def ask(self, job, events=None):\n"
        "        while job.batch_size == 13: pass\n"
        "        return super().ask(job, events)\n"
        "worker.Asking = Asking\n"
        "sys.exit(worker.main())\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    config = Config(estimation=EstimationConfig(time_limit_s=0.1)).to_table()
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as worker:  # type: ignore[call-overload]
        worker.stdin.write(packed(config) + packed(Question(description(batch_size=13))))
        worker.stdin.flush()
        assert worker.wait() == -signal.SIGALRM


def test_a_question_that_is_too_long_is_not_read() -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        _, said = worker.communicate((MAX_MESSAGE + 1).to_bytes(4, "big"))
    assert worker.returncode == 1 and b"128 MiB are read" in said


# ------------------------------------------------------------------ the tracer


@pytest.fixture
def python3(tmp_path: Path) -> Iterator[Path]:
    """A file to write a program into that is the user's `python3`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "python3"
    yield program


def request(program: Path, text: str, cwd: Path | None = None) -> TraceRequest:
    program.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{text}\n")
    program.chmod(0o755)
    options = typed({"model-factory": "nets:make", "batch-size": "8", "input-shape": "3x4"})
    return TraceRequest(
        arguments=tracer_arguments(options),
        cwd=str(cwd or program.parent),
        environment={"PATH": str(program.parent), "THEIRS": "1"},
        umask=0o022,
    )


SAY = "out = int(sys.argv[2].removeprefix('--output='))\n"


def test_the_tracer_runs_in_the_users_python_with_their_environment_and_no_gpu(
    python3: Path,
) -> None:
    text = SAY + (
        "seen = {k: os.environ.get(k) for k in ('THEIRS', 'CUDA_VISIBLE_DEVICES')}\n"
        "print('chatter'); sys.stderr.write('more')\n"
        "os.write(out, json.dumps([os.getcwd(), sys.argv[1][-7:], sys.argv[3:], seen]).encode())"
    )
    cwd, program, arguments, seen = json.loads(trace(request(python3, text), EstimationConfig()))
    assert (cwd, program) == (str(python3.parent), "/tracer")
    assert arguments == ["--batch-size=8", "--input-shape=3x4", "--", "nets:make"]
    assert seen == {"THEIRS": "1", "CUDA_VISIBLE_DEVICES": ""}


def test_the_command_reaches_the_tracer_and_nobody_else(python3: Path) -> None:
    text = SAY + (
        "arguments = open('/proc/self/cmdline').read()\n"
        "os.write(out, json.dumps([os.environ['RADRM_TRACED_COMMAND'], arguments]).encode())"
    )
    secret = "TOKEN=abc torchrun train.py é" + "x" * 200_000
    wanted = replace(request(python3, text), command=secret)
    command, arguments = json.loads(trace(wanted, EstimationConfig()))
    assert secret.startswith(command[:1000]) and len(command.encode()) == 1 << 16
    assert "TOKEN" not in arguments and "--gpus" not in arguments
    two = typed({"model-factory": "nets:make", "gpus": "2"})
    assert tracer_arguments(two) == ("--gpus=2", "--parallel=auto", "--", "nets:make")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("os.abort()", "signal 6"),
        ("time.sleep(600)", "longer than 0.2 s"),
        (SAY + "for _ in range(70): os.write(out, b'x' * 2**20)", "longer than 64 MiB"),
        ("bytearray(2**30)", "exit code 1"),
    ],
)
def test_a_tracer_that_goes_wrong_is_one_line(python3: Path, text: str, why: str) -> None:
    hangs = "sleep" in text
    limits = EstimationConfig(trace_limit_s=0.2 if hangs else 60.0, trace_memory_mib=512)
    with pytest.raises(NotTraced, match=why) as caught:
        trace(request(python3, text), limits)
    assert "\n" not in str(caught.value)


def test_nothing_that_a_tracer_started_outlives_it(python3: Path, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    text = SAY + (
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.setsid(); os.close(out)\n"
        f"    open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)\n"
        f"while not os.path.exists({str(pid_file)!r}) or not open({str(pid_file)!r}).read(): pass\n"
        "os.write(out, b'done')"
    )
    assert trace(request(python3, text), EstimationConfig()) == b"done"
    stat = read_stat(int(pid_file.read_text()))
    assert stat is None or stat.dead, "killed, if not yet reaped"


def test_a_missing_python_and_a_missing_folder_are_told(python3: Path, tmp_path: Path) -> None:
    nowhere = replace(request(python3, ""), environment={"PATH": str(tmp_path)})
    assert "no such program" in json.loads(trace(nowhere, EstimationConfig()))["error"]
    gone = replace(request(python3, ""), cwd=str(tmp_path / "gone"))
    assert "cannot enter the folder" in json.loads(trace(gone, EstimationConfig()))["error"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_root_daemon_traces_as_the_user(python3: Path, tmp_path: Path) -> None:
    for folder in (python3.parent, tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o055 != 0o055:
            folder.chmod(folder.stat().st_mode | 0o055)
    asked = replace(request(python3, "", Path("/")), user="nobody", uid=65534, gid=65534)
    # No Python of ours: nobody may be allowed to read it.
    python3.write_text(
        '#!/bin/bash\neval "exec 3>&${2#--output=}"\nprintf "[%s, %s]" $(id -u) $(id -g) >&3\n'
    )
    asked = replace(asked, environment={"PATH": f"{python3.parent}:/usr/bin:/bin"})
    assert json.loads(trace(asked, EstimationConfig())) == [65534, 65534]


# ------------------------------------------------------------------ the service


class Inbox:
    """What the service posts."""

    def __init__(self) -> None:
        self.posted: queue.Queue[Estimated] = queue.Queue()

    def next(self) -> Estimated:
        return self.posted.get(timeout=60)


class Answers(Thinker):
    """Instead of a worker: answers when it may, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(Config())
        self.may = threading.Event()
        self.asked: list[Question] = []

    def ask(self, question: Question) -> Answer:
        assert self.may.wait(60)
        self.asked.append(question)
        if question.job.batch_size == 13:
            raise NoAnswer("the estimators broke: 13")
        return Answer((Estimate(Quantity.MEMORY, 1.0, 2.0, "theirs"),), ("a note",))


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def thinker() -> Answers:
    return Answers()


@pytest.fixture
def service(inbox: Inbox, thinker: Answers) -> Iterator[EstimationService]:
    service = EstimationService(HASTY, inbox.posted.put, thinker)
    yield service
    thinker.may.set()
    service.close()


def test_all_jobs_of_a_submission_share_one_answer(
    service: EstimationService, inbox: Inbox, thinker: Answers
) -> None:
    assert not service.join("T1", 1)
    service.ask("T1", 1, Wanted(description()))
    assert service.join("T1", 2) and service.join("T1", 3)
    thinker.may.set()
    found = inbox.next()
    assert found.job_ids == (1, 2, 3) and found.answer.notes == ("a note",)
    assert service.join("T1", 4), "an array's later elements find it remembered"
    assert inbox.next().job_ids == (4,)
    assert len(thinker.asked) == 1


def test_a_question_without_an_answer_is_answered_by_its_reason(
    service: EstimationService, inbox: Inbox, thinker: Answers
) -> None:
    thinker.may.set()
    service.ask("T1", 1, Wanted(description(batch_size=13)))
    assert inbox.next().answer == Answer((), ("the estimators broke: 13",))


def test_a_trace_is_handed_on_and_a_failed_one_is_a_note_beside_the_answer(
    service: EstimationService, inbox: Inbox, thinker: Answers, python3: Path
) -> None:
    thinker.may.set()
    service.ask("T1", 1, Wanted(description(), request(python3, SAY + "os.write(out, b'events')")))
    assert inbox.next().answer.notes == ("a note",)
    assert thinker.asked[-1].events == b"events"
    service.ask("T2", 2, Wanted(description(), request(python3, "sys.exit(4)")))
    notes = inbox.next().answer.notes
    assert notes[0].startswith("trace: the tracer ended with exit code 4") and len(notes) == 2
    assert thinker.asked[-1].events is None


def test_a_trace_that_hangs_keeps_no_other_job_waiting(
    service: EstimationService, inbox: Inbox, thinker: Answers, python3: Path
) -> None:
    thinker.may.set()
    service.ask("T1", 1, Wanted(description(), request(python3, "time.sleep(600)")))
    service.ask("T2", 2, Wanted(description()))
    assert inbox.next().job_ids == (2,)


def test_a_long_line_of_traces_is_cut_short(inbox: Inbox, thinker: Answers, python3: Path) -> None:
    hasty = Config(estimation=EstimationConfig(trace_limit_s=1.0))
    service = EstimationService(hasty, inbox.posted.put, thinker)
    thinker.may.set()
    hangs = request(python3, "time.sleep(600)")
    for number in range(20):
        service.ask(f"T{number}", number, Wanted(description(), hangs))
    notes = [note for _ in range(20) for note in inbox.next().answer.notes]
    service.close()
    late = [note for note in notes if "went by before it could begin" in note]
    assert len(late) >= 14, "two at once, one second each, and no further than that"


# ------------------------------------------------------------------ what outlives its daemon


CLINGING = """
pid = os.fork()
if pid == 0:  # a daemon's child as they should be: own session, no parent, nothing open
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 1024)
{before}
with open({pids!r}, "a") as file:
    file.write(f"{{os.getpid()}}\\n")
time.sleep(600)
"""
SERVER = """
import json, sys
from radrm.config import EstimationConfig
from radrm.host.estimation.leftovers import Leftovers
from radrm.host.estimation.tracing import TraceRequest, trace
request = TraceRequest(**json.loads(sys.argv[1]))
trace(request, EstimationConfig(), leftovers=Leftovers(sys.argv[2]))
"""


class Traced:
    """A process that traces as a daemon does; what it traces clings to life."""

    def __init__(self, python3: Path, tmp_path: Path, before: str = "") -> None:
        self._pids = tmp_path / "pids"
        self.notes = tmp_path / "traces"
        asked = request(python3, CLINGING.format(pids=str(self._pids), before=before))
        words = json.dumps(asdict(asked))
        command = [sys.executable, "-c", SERVER, words, str(self.notes)]
        self.daemon = subprocess.Popen(command, cwd=Path(__file__).parents[2])
        wait_until(lambda: len(self.pids()) == 2)
        (self.parent,) = children_of(self.daemon.pid)

    def pids(self) -> list[int]:
        return list(map(int, self._pids.read_text().split())) if self._pids.exists() else []

    def running(self) -> list[int]:
        stats = {pid: read_stat(pid) for pid in (*self.pids(), self.parent)}
        return [pid for pid, stat in stats.items() if stat is not None and not stat.dead]

    def close(self) -> None:
        self.daemon.kill()
        self.daemon.wait()
        for pid in self.running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return list(map(int, file.read().split()))


@pytest.fixture
def traced(python3: Path, tmp_path: Path) -> Iterator[Callable[..., Traced]]:
    made: list[Traced] = []

    def make(before: str = "") -> Traced:
        made.append(Traced(python3, tmp_path, before))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_trace_ends_with_its_killed_daemon(traced: Callable[..., Traced]) -> None:
    under_way = traced()
    under_way.daemon.kill()
    wait_until(lambda: not under_way.running())


def test_a_tracer_ends_with_its_parent(traced: Callable[..., Traced]) -> None:
    under_way = traced()
    tracer, _ = sorted(under_way.pids(), key=lambda pid: read_stat(pid).session != pid)  # type: ignore[union-attr]
    under_way.daemon.kill()
    os.kill(under_way.parent, signal.SIGKILL)
    wait_until(lambda: tracer not in under_way.running())


def test_what_both_have_left_is_ended_by_the_next_daemon(traced: Callable[..., Traced]) -> None:
    spared = "import ctypes; ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)"
    under_way = traced(spared)
    os.kill(under_way.parent, signal.SIGSTOP)  # so that it ends nothing before it is killed
    under_way.daemon.kill()
    under_way.daemon.wait()
    os.kill(under_way.parent, signal.SIGKILL)
    wait_until(lambda: under_way.parent not in under_way.running())
    assert len(under_way.running()) == 2
    stranger = subprocess.Popen(["sleep", "600"], env={TOKEN_VARIABLE: "f" * 32})
    try:
        assert Leftovers(str(under_way.notes)).end() == 1
        assert not under_way.running()
        assert stranger.poll() is None
        assert Leftovers(str(under_way.notes)).end() == 0
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize(
    "told",
    [
        {"boot_id": "another"},
        {"token": "0" * 32},
        {"cgroup": 7},
        {"uid": "0"},
        {"token": None},
    ],
)
def test_a_note_that_is_not_of_this_boot_or_damaged_ends_nobody(
    tmp_path: Path, told: dict[str, object]
) -> None:
    token = "e" * 32
    notes = Leftovers(str(tmp_path))
    notes.note(token, None, None)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(json.dumps({**json.loads(file.read_text()), **told}))
    marked = subprocess.Popen(["sleep", "600"], env={TOKEN_VARIABLE: token})
    harmless = not {"cgroup", "uid"} & set(told)
    try:
        assert notes.end() == (0 if harmless else 1)
        assert (marked.poll() is None) == harmless
        assert not list(tmp_path.iterdir())
    finally:
        marked.kill()
        marked.wait()


def test_nobody_elses_group_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[object] = []
    monkeypatch.setattr(leftovers, "kill_tree", lambda *words, **_: killed.append(words[3]))
    for token, group in (
        ("a" * 32, "/sys/fs/cgroup/system.slice"),
        ("b" * 32, "/g/radrm-trace-bbbbbbbb"),
    ):
        Leftovers(str(tmp_path)).note(token, group, 0)
    assert Leftovers(str(tmp_path)).end() == 2
    assert killed == [None, "/g/radrm-trace-bbbbbbbb"]


def test_files_that_others_left_there_are_no_notes(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / ("c" * 32 + ".json")).symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / ("d" * 32 + ".json"))
    assert Leftovers(str(tmp_path)).end() == 0
    assert Leftovers(str(tmp_path / "missing")).end() == 0
    assert (tmp_path / "x.json").exists()


# ------------------------------------------------------------------ what a trace is kept from


def possible() -> int:
    return int(subprocess.run(start_tracer.PROBE, capture_output=True, check=True).stdout)


LIMITS = (
    SAY
    + """
import resource, signal, socket
names = {"RLIMIT_CPU", "RLIMIT_NPROC", "RLIMIT_CORE"}
found = {name: resource.getrlimit(getattr(resource, name)) for name in names}
found["alarm"] = signal.getitimer(signal.ITIMER_REAL)[0]
found["networks"] = [name for _, name in socket.if_nameindex()]
with socket.create_server(("127.0.0.1", 0)) as server:
    found["itself"] = bool(socket.create_connection(server.getsockname()))
found["ids"] = os.getuid(), os.getgid(), sorted(os.getgroups())
os.write(out, json.dumps(found).encode())
"""
)


def test_the_limits_are_the_tracers_own(python3: Path) -> None:
    found = json.loads(trace(request(python3, LIMITS), EstimationConfig(trace_limit_s=30.0)))
    assert found["RLIMIT_CPU"] == [4 * 34] * 2 and found["RLIMIT_CORE"] == [0, 0]
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    assert found["RLIMIT_NPROC"][0] <= (most if most >= 0 else 1 << 22)
    if possible() & confine.NEW_USER:
        assert found["RLIMIT_NPROC"] == [confine.MOST_PROCESSES] * 2
    assert 0 < found["alarm"] <= 34
    assert found["itself"], "it can talk to itself"
    assert found["ids"] == [os.getuid(), os.getgid(), sorted(os.getgroups())]
    if possible() & confine.NEW_NET:
        assert found["networks"] == ["lo"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_an_unprivileged_daemons_traces_have_no_network_either() -> None:
    """As a user who may make user namespaces."""
    code = (
        f"import ctypes, os, sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from radrm.host.estimation import start_tracer\n"
        "os.setgroups([]); os.setgid(61234); os.setuid(61234)\n"
        "ctypes.CDLL(None).prctl(4, 1)  # as after execve\n"
        "start_tracer.probe()"
    )
    allowed = subprocess.run(
        ["setpriv", "--reuid=61234", "--clear-groups", "unshare", "-Un", "true"]
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    expected = confine.NEW_USER | confine.NEW_NET if allowed.returncode == 0 else 0
    assert done.stdout.strip() == str(expected), done.stderr


def test_where_processes_are_counted_together_what_the_user_has_is_no_obstacle() -> None:
    child = os.fork()
    if child == 0:
        confine.limit(os.getuid(), 512, 60.0, apart=False)
        most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        signal.setitimer(signal.ITIMER_REAL, 0)
        os._exit(0 if most > confine.MOST_PROCESSES else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert confine.tasks_of(os.getuid()) >= 1 and confine.tasks_of(61234) == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_trace_that_forks_without_end_meets_its_limit(python3: Path, tmp_path: Path) -> None:
    for folder in (python3.parent, tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o055 != 0o055:
            folder.chmod(folder.stat().st_mode | 0o055)
    if not possible() & confine.NEW_USER or not shutil.which("perl"):
        pytest.skip("processes are not counted apart here")
    asked = replace(request(python3, "", Path("/")), user="nobody", uid=61234, gid=61234)
    python3.write_text(
        "#!/usr/bin/perl\n"
        "$ARGV[1] =~ /=(\\d+)/; open(my $out, '>&=', $1);\n"
        "my $n = 0; while ($n < 5000) { my $p = fork(); last unless defined $p;\n"
        "if (!$p) { sleep 600; exit } $n++ } print $out $n; close $out;\n"
    )
    asked = replace(asked, environment={"PATH": f"{python3.parent}:/usr/bin:/bin"})
    made = int(trace(asked, EstimationConfig()))
    assert made == confine.MOST_PROCESSES - 1
    wait_until(lambda: confine.tasks_of(61234) == 0)
