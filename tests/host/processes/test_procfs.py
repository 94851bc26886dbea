"""What is read of other processes has a bound, whatever they make of themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.host.attempts import folder as attempts
from radrm.host.attempts.owners import LiveAttempt, PidOwners
from radrm.host.processes import procfs
from radrm.host.processes.procfs import LONGEST_ENVIRON, is_of, read_stat, token_of, uid_of
from radrm.host.processes.tree import attempt_processes, has_signal, kill_tree
from tests.paths import STANDINS
from tests.waiting import wait_until

PROGRAM = STANDINS / "long_environ.py"
TOKEN = f"long-{os.getpid()}"
GIB = 1 << 30
MOST_TAKEN = 8 << 20
"""Bytes of memory that any look may take here."""
SOMEBODY = 61234
"""A user who has no other process here."""

Moved = Callable[..., int]


@pytest.fixture
def moved() -> Iterator[Moved]:
    """Start a process whose environment is that long; its pid."""
    started: list[subprocess.Popen[bytes]] = []

    def start(size: int, *words: object) -> int:
        command = [sys.executable, "-I", "-S", str(PROGRAM), str(size), *map(str, words)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env={})
        started.append(process)
        assert process.stdout is not None
        if process.stdout.readline() != b"moved\n":
            pytest.skip("this kernel lets nobody move an environment")
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def taken() -> Iterator[Callable[[], int]]:
    """The most memory that was taken since the test began."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


# ------------------------------------------------------------------ one environment


@pytest.mark.parametrize(
    ("at", "found"),
    [(0, True), (LONGEST_ENVIRON // 2, True), (LONGEST_ENVIRON, False), (GIB // 2, False)],
)
def test_no_more_of_an_environment_is_read_than_a_program_can_be_started_with(
    moved: Moved, taken: Callable[[], int], at: int, found: bool
) -> None:
    pid = moved(GIB, TOKEN, at)
    assert token_of(pid) == (TOKEN if found else None)
    assert taken() < MOST_TAKEN


def test_whose_process_it_is_costs_no_more_than_that(
    moved: Moved, taken: Callable[[], int]
) -> None:
    hidden = moved(GIB, TOKEN, GIB // 2)
    marked = moved(GIB, TOKEN)
    owners = PidOwners()
    owners.update([LiveAttempt(1, 1, TOKEN, None)])
    assert owners.owner_of(hidden) is None
    assert owners.owner_of(marked) == (1, 1)
    assert attempt_processes(TOKEN, None) == {marked}
    assert kill_tree(TOKEN, None) == set()
    assert read_stat(hidden) is not None
    assert taken() < MOST_TAKEN


@given(
    st.lists(st.binary(max_size=30).filter(lambda b: b"\0" not in b), max_size=6),
    st.integers(0, 300),
    st.integers(1, 40),
)
def test_a_token_is_found_wherever_reads_end(before: list[bytes], room: int, chunk: int) -> None:
    """Reads of any length, and any bound."""
    mark = b"RADRM_TOKEN="
    text = b"".join(each + b"\0" for each in before) + mark + b"secret\0AFTER=1\0"
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        Path(folder, "7").mkdir()
        Path(folder, "7", "environ").write_bytes(text)
        patch.setattr(procfs, "_CHUNK", chunk)
        found = token_of(7, folder, most=room)
    whole = (b"\0" + text).partition(b"\0" + mark)[2].partition(b"\0")[0].decode()
    position = (b"\0" + text).find(b"\0" + mark) + len(mark)
    if room >= len(text):
        assert found == whole
    elif room <= position:
        assert found is None
    else:
        assert found is not None and whole.startswith(found)


# ------------------------------------------------------------------ whose


def test_an_environment_is_read_of_the_attempts_user_alone(
    moved: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    pid = moved(GIB, TOKEN, 0, SOMEBODY)
    read: list[int] = []

    def noted(pid: int, *args: object, **more: object) -> str | None:
        read.append(pid)
        return token_of(pid, *args, **more)

    monkeypatch.setattr("radrm.host.processes.tree.token_of", noted)
    monkeypatch.setattr("radrm.host.attempts.owners.token_of", noted)
    owners = PidOwners()
    owners.update([LiveAttempt(1, 1, TOKEN, None, uid=1)])
    assert owners.owner_of(pid) is None
    assert attempt_processes(TOKEN, None, users=[1]) == set()
    assert pid not in read
    owners.update([LiveAttempt(1, 1, TOKEN, None, uid=SOMEBODY)])
    assert owners.owner_of(pid) == (1, 1)
    assert attempt_processes(TOKEN, None, users=[SOMEBODY]) == {pid}
    assert pid in read


@pytest.mark.parametrize(
    "name", [b"\rUid:\t0", b"\rUid:", b"\rSigCgt: zz", b"SigCgt:ffff", b")(\n"]
)
def test_a_process_cannot_name_itself_another_users(name: bytes) -> None:
    code = f"import ctypes, sys; ctypes.CDLL(None).prctl(15, {name!r}); print(flush=True); input()"
    command = [sys.executable, "-I", "-S", "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"\n"
        assert uid_of(process.pid) == os.getuid()
        assert read_stat(process.pid).parent == os.getpid()
        for number in (signal.SIGINT, signal.SIGUSR2):  # Python handles the first one only
            caught = number == signal.SIGINT
            assert has_signal(process.pid, number, b"SigCgt") is caught
        process.kill()


def test_a_program_with_roots_rights_is_known_by_who_started_it() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    code = f"import os, sys; os.setresuid({SOMEBODY}, 0, 0); os.write(1, b'now'); sys.stdin.read()"
    command = [sys.executable, "-I", "-S", "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout.read(3) == b"now"
        assert os.stat(f"/proc/{process.pid}").st_uid == 0
        assert uid_of(process.pid) == SOMEBODY
        assert is_of(process.pid, {SOMEBODY}) and not is_of(process.pid, {1})


def test_an_environment_is_read_once_and_again_after_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os; os.read(0, 1); os.execve('/bin/cat', ['cat'], {'RADRM_TOKEN': %r})"
    owners = PidOwners()
    read: list[int] = []

    def noted(pid: int) -> str | None:
        read.append(pid)
        return token_of(pid)

    monkeypatch.setattr("radrm.host.attempts.owners.token_of", noted)
    command = [sys.executable, "-I", "-S", "-c", code % TOKEN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={}, bufsize=0) as process:
        assert process.stdin is not None
        # Popen returns within the execve, before the kernel has put the environment in place.
        wait_until(lambda: (stat := read_stat(process.pid)) and stat.environ != (0, 0))
        for attempt in range(3):
            owners.update([LiveAttempt(1, attempt, TOKEN, None)])
            assert owners.owner_of(process.pid) is None
        assert len(read) == 1
        process.stdin.write(b"x")
        wait_until(lambda: token_of(process.pid) == TOKEN)
        owners.update([LiveAttempt(1, 4, TOKEN, None)])
        assert owners.owner_of(process.pid) == (1, 4)
        assert len(read) == 2


# ------------------------------------------------------------------ all together


def test_many_long_environments_have_one_budget_and_short_ones_come_first(
    moved: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("radrm.host.processes.tree.ENVIRONS_BYTES", 3 * LONGEST_ENVIRON)
    long = {moved(GIB + i, TOKEN, GIB // 2) for i in range(6)}
    short = moved(4096, TOKEN)
    looked_at: list[int] = []

    def noted(pid: int, most: int) -> str | None:
        looked_at.append(pid)
        return token_of(pid, most=most)

    monkeypatch.setattr("radrm.host.processes.tree.token_of", noted)
    assert attempt_processes(TOKEN, None) == {short}
    assert 1 <= len(long & set(looked_at)) <= 3


def test_a_record_that_is_too_long_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a daemon of one's own a job can write into its attempt's folder."""
    monkeypatch.setattr(attempts, "MOST_READ", 1 << 20)
    (tmp_path / attempts.EXIT).write_bytes(b'{"version": 1, "code": 0}' + b" " * (1 << 20))
    record, reason = attempts.read_record(str(tmp_path), attempts.EXIT)
    assert record is None and reason is not None and "longer than 1 MiB" in reason


@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        (["rw"], False),
        (["rw,hidepid=0"], False),
        (["rw,gid=5,hidepid=off"], False),
        (["rw,hidepid=2"], True),
        (["rw,hidepid=invisible"], True),
        (["rw,hidepid=ptraceable,subset=pid"], True),
        (["rw,hidepid=2", "rw"], False),
        (["rw", "rw,hidepid=1"], True),
        ([], True),
    ],
)
def test_where_users_see_no_command_line_of_others(
    tmp_path: Path, options: list[str], hidden: bool
) -> None:
    """The last mount covers the others. What cannot be read is hidden."""
    mounts = [
        "20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw",
        *(f"2{n} 20 0:21 / /proc rw shared:5 - proc proc {o}" for n, o in enumerate(options)),
        "30 20 0:30 / /srv/x/proc rw - proc proc rw,hidepid=2",
    ]
    (tmp_path / "mountinfo").write_text("\n".join(mounts) + "\n")
    assert procfs.hides_processes(str(tmp_path)) is hidden
