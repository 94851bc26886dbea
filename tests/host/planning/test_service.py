"""The processes of slow planners: what one does costs its own answer and nothing else."""

from __future__ import annotations

import os
import queue
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radrm.config import Config
from radrm.core import proposals
from radrm.core.actions import Think
from radrm.core.planning.thinking import Thought
from radrm.core.proposals import Cancel, Preempt, Proposal, Start
from radrm.core.records import Placement, Share
from radrm.core.snapshot import Snapshot
from radrm.core.words import Collocation
from radrm.host.planning import service as service_module
from radrm.host.planning.service import Planned, PlanningService
from radrm.host.planning.worker import Answer, answer_of, thought_of
from radrm.host.processes.procfs import read_stat
from radrm.host.workers import LENGTH, Worker, packed
from tests.packages import install
from tests.paths import REPOSITORY
from tests.waiting import PATIENCE_S, wait_until
from tests.world import GIB, World, gpus

MINE = """
import os, time
from radrm.rules import Cancel, Plan

class Mine:
    name, version, starts_jobs, listens = "mine", 1, False, frozenset()

    def explain(self, view, job):
        return ()

    def think(self, view, state):
        do = (state or {}).get("do")
        if do == "spin":
            while True:
                pass
        if do == "leave a child":
            child = os.fork()
            if not child:
                os.close(1)
                time.sleep(1000)
            return Plan(state={"child": child, "pid": os.getpid(), "uid": os.getuid()})
        if do == "write a file":
            os.write(os.memfd_create("x"), b"x")
        waiting = [job.id for job in view.waiting()]
        return Plan((Cancel(job_id=i, reason="no") for i in waiting), state={"saw": waiting})
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A planner of a third party, installed for this process and for its children."""
    place = tmp_path_factory.mktemp("mine")
    install(place, {"radrm.planners": {"mine": "mine:Mine"}}, mine=MINE)
    place.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{place}:{REPOSITORY}")
        yield


Ask = Callable[..., Planned]


@pytest.fixture(scope="module")
def ask(mine: None) -> Iterator[Ask]:
    """Asks the service of all tests, and waits for the answer."""
    posted: queue.Queue[Planned] = queue.Queue()
    service = PlanningService(Config(), posted.put)

    def ask(state: Any = None, limit_s: float = 30.0, planner: str = "mine") -> Planned:
        think = Think(planner=planner, number=1, state=state, limit_s=1.0)
        service.ask(think, snapshot(), limit_s)
        return posted.get(timeout=PATIENCE_S)

    yield ask
    service.close()


def snapshot() -> Snapshot:
    world = World(gpus(1))
    for _ in range(3):
        world.submit(30 * GIB)
    return world.scheduler.snapshot


def test_a_plan_comes_back_with_its_version_and_the_process_stays(ask: Ask) -> None:
    found = ask()
    assert found.thought.proposals == tuple(Cancel(job_id=i, reason="no") for i in (2, 3))
    assert found.thought.state == {"saw": [2, 3]} and found.thought.error is None
    assert found.version == snapshot().version and found.action.number == 1


def test_what_takes_too_long_is_killed_and_the_next_question_gets_a_new_process(ask: Ask) -> None:
    first = ask({"do": "leave a child"}).thought.state
    assert ask({"do": "spin"}, 0.3).thought.error == "it took longer than 0.3 s"
    for pid in (first["pid"], first["child"]):
        wait_until(lambda pid=pid: (found := read_stat(pid)) is None or found.dead)
    again = ask({"do": "leave a child"}).thought.state
    assert again["pid"] != first["pid"]


def test_it_has_no_rights_of_the_daemon(ask: Ask) -> None:
    assert ask({"do": "leave a child"}).thought.state["uid"] == (os.getuid() or 65534)
    assert "OSError: [Errno 27]" in ask({"do": "write a file"}).thought.error


def test_a_planner_that_is_not_there_is_said(ask: Ask) -> None:
    assert "there is no rule 'nobody' among planners" in ask(planner="nobody").thought.error


def test_a_snapshot_that_is_too_large_is_not_sent(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "MAX_MESSAGE", 1000)
    assert "the snapshot has 0 MiB" in ask().thought.error


ANSWERS = {
    "no message": b"\xc1",
    "not an answer": msgspec.msgpack.encode([1, 2]),
    "an unknown kind": msgspec.msgpack.encode({"proposals": [["Exec", {"job_id": 1}]]}),
    "a proposal of words": msgspec.msgpack.encode({"proposals": [["Preempt", {"job_id": "1"}]]}),
    "an abyss": msgspec.msgpack.encode({"state": None})[:-1] + b"\x91" * 100_000,
    "a time of words": msgspec.msgpack.encode({"wake_at": "soon"}),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_nonsense_of_a_process_is_refused(what: str) -> None:
    with pytest.raises(EOFError, match="its process answered nonsense"):
        thought_of(ANSWERS[what])


EACH = st.one_of(
    *(
        st.from_type(kind)
        for kind in vars(proposals).values()
        if isinstance(kind, type) and issubclass(kind, Proposal) and kind is not Proposal
    )
)


@given(st.lists(EACH, max_size=3))
def test_every_kind_of_proposal_survives_the_way(found: list[Proposal]) -> None:
    thought = thought_of(answer_of(Thought(tuple(found)))[LENGTH:])
    # As texts: NaN is not equal to itself. The core refuses it later.
    assert thought.error or repr(thought.proposals) == repr(tuple(found))


def test_a_thought_survives_the_way() -> None:
    share = Share(device="GPU-0", reserved_mib=GIB, cpus=2.0)
    placement = Placement((share,), Collocation.TIMESLICE)
    thought = Thought((Start(job_id=1, placement=placement), Preempt(job_id=2)), {"a": [1]}, 2.5)
    assert thought_of(answer_of(thought)[LENGTH:]) == thought
    for unsound in (Preempt(job_id=2**70), Cancel(job_id=1, reason="\udcff")):
        said = thought_of(answer_of(Thought((unsound,)))[LENGTH:])
        assert said.proposals == () and "cannot be sent" in str(said.error)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("import os; os.write(1, b'\\0\\0\\0\\1\\xc1')", "answered nonsense"),
        ("raise SystemExit(3)", "its process ended"),
        (
            "import os, sys; d = {ready!r}; os.write(1, d); sys.stdin.buffer.read(10)\n"
            "while True: os.write(1, b'\\x7f' * 65536)",
            "its answer is longer than 16 MiB|answered nonsense",
        ),
    ],
)
def test_a_process_that_babbles_or_ends_costs_one_answer(
    script: str, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "worker.py"
    file.write_text(script.replace("{ready!r}", repr(packed(Answer()))))
    posted: queue.Queue[Planned] = queue.Queue()
    service = PlanningService(Config(), posted.put, command=[sys.executable, str(file)])
    for number in (1, 2):
        service.ask(Think(planner="x", number=number, limit_s=1.0), snapshot(), 30.0)
        error = posted.get(timeout=PATIENCE_S).thought.error
        assert error is not None and re.search(why, error)
    service.close()


def test_what_a_process_said_before_it_ended_counts() -> None:
    """Not that the question cannot be written any more."""
    said: list[bytes] = []

    def ended_before_the_question(script: str) -> Worker:
        def question() -> bytes:
            worker.process.wait(PATIENCE_S)
            return b"what now?"

        command = [sys.executable, "-c", script]
        worker = Worker(command, question, 1 << 20, "its", said.append)
        return worker

    speaks = ended_before_the_question("import os; os.write(1, b'\\0\\0\\0\\2ok')")
    speaks.prepare()
    assert said == [b"ok"]
    speaks.end()
    with pytest.raises(EOFError, match="its process ended"):
        ended_before_the_question("").prepare()


@pytest.mark.usefixtures("mine")
def test_after_close_nothing_runs_and_nothing_is_posted() -> None:
    posted: queue.Queue[Planned] = queue.Queue()
    service = PlanningService(Config(), posted.put)
    service.ask(Think(planner="mine", number=1, limit_s=1.0), snapshot(), 30.0)
    pid = posted.get(timeout=PATIENCE_S) and service._workers["mine"].process.pid
    service.ask(
        Think(planner="mine", number=2, state={"do": "spin"}, limit_s=1.0), snapshot(), 90.0
    )
    service.close()
    assert posted.empty()
    assert (found := read_stat(pid)) is None or found.dead
