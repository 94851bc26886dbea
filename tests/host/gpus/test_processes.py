"""Who is on a device: what /proc tells, cut short and cleaned."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from radrm.core.records import DeviceProcess
from radrm.host.gpus import processes
from radrm.host.gpus.processes import LONGEST, MOST, Processes, clean

NOBODY = 4_194_304  # no pid is as high as this
WAIT = "import sys; print(flush=True); sys.stdin.read()"


@contextmanager
def running(*arguments: str) -> Iterator[int]:
    """A process of ours with these words in its command line."""
    command = [sys.executable, "-c", WAIT, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


def test_whose_it_is_and_what_it_runs() -> None:
    with running("train.py", "--lr=0.1") as pid:
        (found,) = Processes().describe({pid: 700})
    assert (found.pid, found.used_mib) == (pid, 700)
    assert found.user == pwd.getpwuid(os.getuid()).pw_name
    assert found.command.startswith(sys.executable)
    assert found.command.endswith("train.py --lr=0.1")


def test_a_hostile_command_line() -> None:
    with running("\x1b[2J\x1b]0;root\x07\nGPU 0: idle\r", "\u202eabc", "x" * 100_000) as pid:
        (found,) = Processes().describe({pid: None})
    assert found.used_mib is None
    assert found.command.isprintable()
    assert len(found.command) == LONGEST
    assert found.command.endswith("…")


def test_a_process_that_is_not_to_be_seen() -> None:
    assert Processes().describe({NOBODY: 5, 0: 6, -1: None}) == (
        DeviceProcess(0, 6),
        DeviceProcess(NOBODY, 5),
        DeviceProcess(-1, None),
    )


def test_a_process_without_a_command_line_has_a_name() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    (found,) = Processes().describe({child.pid: 1})
    child.wait()
    assert found.command.startswith("[python")


def test_a_user_without_a_name(mocker: MockerFixture) -> None:
    mocker.patch.object(pwd, "getpwuid", side_effect=KeyError)
    (found,) = Processes().describe({os.getpid(): 1})
    assert found.user == str(os.getuid())


def test_each_process_and_each_user_is_looked_at_once(mocker: MockerFixture) -> None:
    files = mocker.spy(processes, "start_of")
    users = mocker.spy(pwd, "getpwuid")
    known = Processes()
    with running() as pid:
        first = [known.describe({os.getpid(): 1, pid: 2}) for _ in range(5)]
    assert len(set(first)) == 1
    assert files.call_count == 4  # two files of each
    assert users.call_count == 1


def test_a_pid_that_was_given_out_again_is_another_process(mocker: MockerFixture) -> None:
    known = Processes()
    (before,) = known.describe({os.getpid(): 1})
    stat = mocker.patch.object(processes, "read_stat").return_value
    stat.start_ticks = 7
    mocker.patch.object(processes, "start_of", return_value=b"other")
    (after,) = known.describe({os.getpid(): 1})
    assert (before.command != after.command, after.command) == (True, "other")


def test_what_is_remembered_is_bounded(mocker: MockerFixture) -> None:
    stat = mocker.patch.object(processes, "read_stat").return_value
    known = Processes()
    for ticks in range(1100):
        stat.start_ticks = ticks
        known.describe({1: 1})
    assert len(known._known) <= 1024


def test_the_largest_are_told() -> None:
    held: dict[int, int | None] = {NOBODY + n: n for n in range(100)}
    held[NOBODY + 500] = None
    found = Processes().describe(held)
    assert len(found) == MOST
    assert [s.used_mib for s in found] == list(range(99, 99 - MOST, -1))


def test_many_processes_of_others_hide_none_of_a_job() -> None:
    held: dict[int, int | None] = {NOBODY + n: 1000 + n for n in range(100)}
    held |= {NOBODY + 200: 7, NOBODY + 201: None}
    job = {NOBODY + 200: (3, 4), NOBODY + 201: (3, 4)}
    found = Processes().describe(held, job, {NOBODY + 200: 0.25})
    assert len(found) == MOST + 2
    assert found[-2:] == (
        DeviceProcess(NOBODY + 200, 7, attempt=(3, 4), smact=0.25),
        DeviceProcess(NOBODY + 201, attempt=(3, 4)),
    )


@given(st.text())
def test_clean_text_is_one_printable_line(text: str) -> None:
    shown = clean(text)
    assert shown.isprintable()
    assert len(shown) == min(len(text), LONGEST)


@pytest.mark.parametrize("text", ["", "python train.py", "größe=5 日本"])
def test_harmless_text_stays(text: str) -> None:
    assert clean(text) == text
