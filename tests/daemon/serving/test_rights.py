"""Who may do what: by the kernel's word, whatever a client says."""

from __future__ import annotations

import dataclasses
import json
import os
import pwd
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import UNSET

from radrm.config import NO_LIMITS, NOBODY, UserLimits
from radrm.core.events import ReadingsTaken
from radrm.core.records import AttemptMemory, DeviceProcess, Reading
from radrm.core.words import JobState
from radrm.daemon.answers import questions
from radrm.daemon.answers.questions import limits
from radrm.daemon.answers.requests import Requests
from radrm.daemon.serving.replies import encoded
from radrm.daemon.serving.server import Request
from radrm.daemon.serving.turns import finish
from radrm.daemon.views.expected import Foresight
from radrm.daemon.views.references import References
from radrm.daemon.views.tables import Tables
from radrm.daemon.watching import Watching
from radrm.errors import Refused, plain
from radrm.host.clock import Clock
from radrm.host.processes.controllers import Controllers
from radrm.host.sockets import Peer
from radrm.host.storage.paths import Paths
from radrm.host.storage.store import Store
from radrm.structs import replace
from tests.host.storage.stores import submission_of
from tests.world import World, gpus

OWNER, OTHER_USER = 1000, 1001


def asked(
    tmp_path: Path, client_uid: int, users: UserLimits = NOBODY, waiting: int = 0, **words: Any
) -> tuple[dict[str, Any], World]:
    """The answer to a client of this uid, in a world where job 1 is OWNER's and runs.

    `waiting`: so many further jobs of OWNER wait.
    """
    world = World(gpus(1))
    world.submit(1000)
    for _ in range(waiting):
        world.hold(world.submit(1000))
    store = Store(str(tmp_path / "radrm.sqlite"))
    store.save(world.decisions, [submission_of(job) for job in world.jobs.values()])
    loop = SimpleNamespace(
        scheduler=world.scheduler,
        store=store,
        clock=Clock(),
        process=lambda events, edits=(): [world.step(event) for event in events],
        broken=False,
        scan=lambda names=(), first=None: None,
        intake=SimpleNamespace(fills=lambda uid: False),
        tables=Tables(),
        reports=None,
        launcher=SimpleNamespace(controllers=Controllers()),
        parts=SimpleNamespace(
            users=users,
            foresight=Foresight(world.scheduler),
        ),
    )
    request = Request(json.dumps(words).encode(), Peer(os.getpid(), client_uid, client_uid))
    finish(Requests({}).answer(loop, request))
    answer = request.wait(0)
    assert answer is not None
    return json.loads(b"".join(encoded(answer))), world


@pytest.mark.parametrize("uid", [OWNER, 0, os.getuid()])
def test_its_owner_root_and_the_daemons_user_may_cancel_a_job(tmp_path: Path, uid: int) -> None:
    answer, world = asked(tmp_path, uid, op="cancel", jobs=["1"])
    told = {"id": 1, "label": "1", "name": world.jobs[1].spec.name, "state": "RUNNING"}
    told["error"] = None
    assert answer == {"ok": True, "result": [told]}
    assert world.state(1) is JobState.CANCELLED


@pytest.mark.parametrize(
    ("op", "waiting", "limits", "said"),
    [
        (
            *("requeue", 0, {"priority_max": -1}),
            "job 1: limits.priority_max: its priority is 0, the limit is -1; "
            "lower it: radrm edit 1 --priority=N, or ask an administrator",
        ),
        (
            *("requeue", 2, {"queued_jobs": 2}),
            "limits.queued_jobs: you have 2 queued jobs, 1 more would exceed the limit of 2; "
            "wait until some have started, or cancel some",
        ),
        (
            *("release", 1, {"priority_max": -1}),
            "job 2: limits.priority_max: its priority is 0, the limit is -1; "
            "lower it: radrm edit 2 --priority=N, or ask an administrator",
        ),
    ],
)
def test_a_command_puts_nothing_beyond_a_limit_into_the_queue(
    tmp_path: Path, op: str, waiting: int, limits: dict[str, int], said: str
) -> None:
    users = UserLimits(dataclasses.replace(NO_LIMITS, **limits), frozenset({0}))
    words = {"op": op, "jobs": ["2" if op == "release" else "1"]}
    answer, world = asked(tmp_path, OWNER, users, waiting, **words)
    (result,) = answer["result"]
    assert result["error"] == said
    assert world.state(1) is JobState.RUNNING
    (tmp_path / "root").mkdir()
    answer, _ = asked(tmp_path / "root", 0, users, waiting, **words)
    assert answer["result"][0]["error"] is None


@pytest.mark.parametrize("system", [False, True])
def test_a_folder_for_job_files_is_given_to_whom_the_kernel_names(
    tmp_path: Path, system: bool
) -> None:
    if system and os.getuid() != 0:
        pytest.skip("only root gives folders away")
    paths = Paths(str(tmp_path), str(tmp_path / "run"))
    (tmp_path / "spool").mkdir()
    watching = Watching(paths, system)
    words = {"op": "spool", "uid": 0, "user": "root"}
    request = Request(json.dumps(words).encode(), Peer(os.getpid(), OTHER_USER, OTHER_USER))
    loop = SimpleNamespace(broken=False, store=SimpleNamespace(path=""))
    finish(Requests({}, watching.folder_of).answer(loop, request))
    answer = request.wait(0.0)
    assert answer is not None
    if system:
        assert answer == {"ok": True, "result": f"{paths.users}/{OTHER_USER}"}
        assert os.stat(answer["result"]).st_uid == OTHER_USER
    else:
        assert "takes no files of others" in answer["error"]


@pytest.mark.parametrize("words", [{"op": "cancel"}, {"op": "resize", "gpus": 1}])
def test_nobody_else_may_whatever_he_says_he_is(tmp_path: Path, words: dict[str, Any]) -> None:
    answer, world = asked(tmp_path, OTHER_USER, **words, jobs=["1"], uid=0, user="root")
    (result,) = answer["result"]
    assert result["error"] == "job 1 is ann's, not yours"
    assert world.state(1) is JobState.RUNNING


@pytest.mark.parametrize("name", ["root", "0", "nobody-has-this-name", ["root"], 7])
def test_no_name_of_another_user_is_looked_up_for_a_client(
    name: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory service that does not answer would keep the loop waiting for each of them."""
    monkeypatch.setattr(pwd, "getpwnam", Mock(side_effect=AssertionError))
    with pytest.raises(Refused, match="only root may see the limits of another user"):
        limits(Mock(), {"user": name}, OTHER_USER)


@pytest.mark.parametrize(
    ("uid", "hidden", "seen"),
    [
        (OWNER, True, True),
        (0, True, True),
        (os.getuid(), True, True),
        (OTHER_USER, True, False),
        (OTHER_USER, False, True),
    ],
)
def test_others_see_the_command_line_of_a_job_as_in_ps(
    monkeypatch: pytest.MonkeyPatch, uid: int, hidden: bool, seen: bool
) -> None:
    monkeypatch.setattr(questions, "hides_processes", lambda: hidden)
    world = World(gpus(1))
    world.submit(1000, uid=OWNER)
    held, mine = (AttemptMemory(1, 1, 900),), DeviceProcess(7, 900, "x", "train --key=K", (1, 1))
    reading = Reading("GPU-0", world.now, 900, held, processes=(mine,))
    world.step(ReadingsTaken(at=world.now, readings=(reading,)))
    watch = SimpleNamespace(action_taken=lambda pid, now_s: {})
    loop: Any = SimpleNamespace(
        scheduler=world.scheduler,
        clock=Clock(),
        parts=SimpleNamespace(attempts=SimpleNamespace(unmanaged=watch)),
    )
    (gpu,) = questions.gpus(loop, {"processes": True}, uid)
    (process,) = gpu.processes or ()
    assert (process.user, process.used_mib) == ("ann", 900)
    assert process.command == ("train --key=K" if seen else None)
    assert questions.gpus(loop, {}, uid)[0].processes is UNSET


def test_everybody_sees_the_queue_but_no_environment(tmp_path: Path) -> None:
    answer, _ = asked(tmp_path, OTHER_USER, op="status")
    (job,) = answer["result"]
    assert job["user"] == "ann"
    assert "environment" not in str(answer) and "PATH" not in str(answer)
    given = {"command", "script", "folder", "options", "submit_host", "environment"}
    for number, uid in enumerate((OWNER, 0, OTHER_USER)):
        (tmp_path / str(number)).mkdir()
        words = {"op": "status", "jobs": ["1"], "given": True, "uid": 0}
        (job,) = asked(tmp_path / str(number), uid, **words)[0]["result"]
        assert bool(given & job.keys()) == (uid != OTHER_USER)


def test_what_others_wrote_does_not_steer_the_terminal() -> None:
    assert plain("a\x1b[31mb\x07c\rd\u202e") == "a�[31mb�c�d�"


def test_a_name_means_ones_own_jobs_first(tmp_path: Path) -> None:
    world = World(gpus(1))
    own = world.submit(1000, name="nightly", uid=OTHER_USER, user="bob")
    world.end(own, 3)
    others = world.submit(1000, name="nightly")
    store = Store(str(tmp_path / "radrm.sqlite"))
    sent = [replace(submission_of(job), uid=job.spec.uid) for job in world.jobs.values()]
    store.save(world.decisions, sent)
    for uid, expected in ((OTHER_USER, own.id), (OWNER, others.id), (4711, others.id)):
        found = finish(References(world.scheduler, store, uid).one("nightly"))
        assert found.id == expected
