"""Damaged records of an attempt: the next daemon can always tell what became of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.errors import StoreError
from radrm.host.attempts import folder as attempts
from radrm.host.attempts.evidence import Ended, Evidence, Lost, Running
from radrm.host.attempts.launcher import Launcher
from radrm.host.clock import Clock
from radrm.host.processes.identity import Identity
from tests.examples import some
from tests.host.attempts.host import SERIAL, SLEEPER, Host, next_of, remove_group, write_start
from tests.waiting import wait_until

NO_TIMES = [(word, value) for word in ("boot_s", "wall_s") for value in ("NaN", "-1", "1e400")]


@pytest.mark.parametrize("word, value", NO_TIMES)
def test_a_time_that_is_none_is_damage(tmp_path: Path, word: str, value: str) -> None:
    attempts.write_record(str(tmp_path), attempts.EXIT, {**attempts.NO_END, **attempts.now()})
    path = tmp_path / attempts.EXIT
    record = json.loads(path.read_text())
    path.write_text(path.read_text().replace(f'"{word}": {record[word]}', f'"{word}": {value}'))
    found, damage = attempts.read_record(str(tmp_path), attempts.EXIT)
    assert found is None and damage == f"exit.json is damaged: no usable '{word}'"


def test_an_exit_of_another_boot_has_its_own_time(host: Host) -> None:
    host.prepare()
    who = Identity(1, 1, "another-boot")
    write_start(host, who, boot_id="another-boot", boot_s=500.0, wall_s=1000.0)
    end = {**attempts.NO_END, "code": 0, "boot_id": "another-boot", "boot_s": 530.0}
    end["itself_ago_s"] = 2.0
    attempts.write_record(str(host.folder), attempts.EXIT, {**end, "wall_s": 1030.5})
    ended = host.daemon().adopt(SERIAL, 3)
    assert isinstance(ended, Ended) and ended.started is not None
    assert ended.at.wall_s == 1030.5 and ended.at.since(ended.started.at) == 30.0
    assert ended.itself is not None and ended.at.since(ended.itself) == 2.0


@pytest.mark.parametrize(
    ("fields", "no_room", "killed"),
    [
        ({}, False, False),
        ({"no_room": True, "memory_kills": 2}, True, True),
        ({"no_room": False, "memory_kills": 0}, False, False),
        ({"no_room": 1, "memory_kills": True}, False, False),
    ],
)
def test_what_the_server_lacked_at_the_end(
    tmp_path: Path, fields: dict[str, object], no_room: bool, killed: bool
) -> None:
    record = {**attempts.NO_END, "signal": 9, **fields, **attempts.now()}
    attempts.write_record(str(tmp_path), attempts.EXIT, record)
    ended = Evidence(str(tmp_path), Clock()).ended()
    assert (ended.no_room, ended.memory_killed) == (no_room, killed)


@pytest.mark.parametrize("text", ["", '{"version": 1, "code": "0"}'])
def test_a_damaged_exit_record_is_not_an_exit(host: Host, text: str) -> None:
    host.daemon().launch(host.plan("true"))
    wait_until((host.folder / "exit.json").exists)
    (host.folder / "exit.json").write_text(text)
    second = host.daemon()
    found = second.adopt(SERIAL, 3)
    lost = next_of(second) if isinstance(found, Running) else found
    assert isinstance(lost, Lost) and lost.began and "exit.json" in lost.reason


RECORDS: dict[str, dict[str, Any]] = {
    "launch.json": {
        "job_id": 3,
        "attempt": 2,
        "token": "of an attempt that has ended",
        "argv": ["true"],
        "script": None,
        "interpreter": None,
        "cwd": "/",
        "environment": {"A": "1"},
        "stdout": "/o",
        "stderr": "/e",
        "umask": 18,
        "uid": None,
        "gid": None,
        "user": "ann",
        "grace_s": 30.0,
        "kill_grace_s": 2.0,
        "cgroup": None,
    },
    "start.json": {
        "pid": 2**22 - 1,
        "start_ticks": 1,
        "runner_pid": 2**22 - 2,
        "runner_start_ticks": 1,
        **attempts.now(),
    },
    "exit.json": {**attempts.NO_END, "code": 0, "itself_ago_s": 0.5, **attempts.now()},
    "claim": {"by": "runner", "pid": 2**22 - 2, "start_ticks": 1, "boot_id": "of another boot"},
}
NUMBERS = [True, -1, 0, 2**31, 2**63, 10**400, -1e308, float("nan"), float("inf")]
ODD = st.sampled_from([None, "", "\0", "x", [], [None], {}, {"A": 1}, *NUMBERS])


@settings(max_examples=some(100))
@given(
    damage=st.sampled_from([(n, key) for n, fields in RECORDS.items() for key in fields]),
    value=ODD,
    missing=st.sets(st.sampled_from(list(RECORDS)), max_size=2),
    version=st.sampled_from([1, 1, 1, True, 2, None]),
)
def test_whatever_stands_in_an_attempts_records_the_daemon_can_tell(
    tmp_path_factory: pytest.TempPathFactory,
    damage: tuple[str, str],
    value: object,
    missing: set[str],
    version: object,
) -> None:
    """Every answer can be stored, or it is one line."""
    state = tmp_path_factory.mktemp("state")
    folder = state / "attempts" / str(SERIAL)
    folder.mkdir(parents=True)
    for name, fields in RECORDS.items():
        if name not in missing:
            changed = {**fields, damage[1]: value} if name == damage[0] else fields
            given_version = version if name == damage[0] else 1
            (folder / name).write_text(json.dumps({"version": given_version, **changed}))
    daemon = Launcher(state, Clock())
    try:
        found = daemon.adopt(SERIAL, 3)
        msgspec.json.encode(found)
    except StoreError as error:
        assert "\n" not in str(error)
    daemon.close()
    daemon.forget(SERIAL)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["start.json", "exit.json", "claim", "lock"])
def test_a_folder_in_the_place_of_a_record_is_said(host: Host, name: str) -> None:
    host.prepare()
    (host.folder / name).unlink(missing_ok=True)
    (host.folder / name).mkdir()
    try:
        host.daemon().adopt(SERIAL, 3)
    except StoreError as error:
        assert "\n" not in str(error)


def test_a_record_without_end_is_not_read_whole(host: Host) -> None:
    host.prepare()
    (host.folder / "exit.json").touch()
    os.truncate(host.folder / "exit.json", 2**40)
    record, wrong = attempts.read_record(str(host.folder), "exit.json")
    assert record is None and wrong == "exit.json is damaged: it is longer than 64 MiB"


def test_damaged_start_and_claim_are_lost_never_void(host: Host) -> None:
    host.daemon().launch(host.plan(*SLEEPER))
    host.ready()
    host.kill_runner()
    for name in ("start.json", "claim"):
        (host.folder / name).write_text("{")
    lost = host.daemon().adopt(SERIAL, 3)
    assert isinstance(lost, Lost) and lost.began and "start.json is damaged" in lost.reason
    assert not host.processes()


def test_without_a_launch_record_the_tree_is_found_by_its_main_process(host: Host) -> None:
    first = host.daemon()
    first.launch(host.plan("sh", "-c", "sleep 1000 & touch ready; sleep 1000"))
    host.ready()
    host.kill_runner()
    launch, _ = attempts.read_record(str(host.folder), "launch.json")
    (host.folder / "launch.json").write_text("{")
    assert isinstance(host.daemon().adopt(SERIAL, 3), Lost)
    assert not host.processes()
    assert launch is not None
    remove_group(launch)
