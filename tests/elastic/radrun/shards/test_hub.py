"""The hub's socket: who is let in, and what a program cannot do to it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from radrm.elastic import LONGEST_LINE
from radrm.elastic.radrun import hub as hubs
from radrm.elastic.radrun.hub import Hub
from radrm.elastic.radrun.shards.store import BadState, Store
from radrm.host.sockets import Peer
from tests.elastic.radrun.shards.farm import Heard
from tests.waiting import wait_until

TERMS = {"dataset": "train", "samples": 1000, "shard": 10, "epochs": 3, "seed": 1}


class Job:
    """A hub, run by the test itself, and clients that speak JSON."""

    def __init__(self, folder: Path) -> None:
        self.selector = selectors.DefaultSelector()
        self.heard = Heard()
        self.path = folder / ("long-" * 30) / "hub"
        self.path.parent.mkdir()
        self.states = folder / "states"
        self.hub = Hub(self.selector, self.path, self.states, self.heard)
        self.hub.begin(1, [("main", 0), ("main", 1)])

    def turn(self) -> None:
        for key, mask in self.selector.select(0):
            key.data(mask)

    def close(self) -> None:
        self.hub.close()
        self.selector.close()


class Client:
    def __init__(self, job: Job, number: int | None = 0, generation: int = 1) -> None:
        self.job = job
        self.socket = socket.socket(socket.AF_UNIX)
        folder = os.open(job.path.parent, os.O_RDONLY)
        self.socket.connect(f"/proc/self/fd/{folder}/hub")
        os.close(folder)
        self.socket.setblocking(False)
        self.data = b""
        if number is not None:
            hello = {"do": "hello", "version": 1, "role": "main", "task": number}
            self.first = self.ask({**hello, "generation": generation})

    def tell(self, message: Any) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")
        self.job.turn()

    def read(self) -> list[Any]:
        """The messages that are there; None at the end of the connection."""
        self.job.turn()
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            data = b""
        *lines, self.data = (self.data + data).split(b"\n")
        return [json.loads(line) for line in lines] + ([] if data else [None])

    def ask(self, message: Any) -> Any:
        self.tell(message)
        return wait_until(self.read, "an answer")[0]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    found = Job(tmp_path)
    yield found
    found.close()


def test_the_socket_is_its_users_alone_at_any_depth(job: Job) -> None:
    assert len(str(job.path)) > 107
    assert stat.S_IMODE(job.path.stat().st_mode) == 0o600
    assert Client(job).first == {"cpus": None, "step": 0}
    job.hub.close()
    assert not job.path.exists()
    job.hub = Hub(job.selector, job.path, job.states, job.heard)


def test_another_user_is_not_let_in(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "peer", lambda sock: Peer(0, os.geteuid() + 1, 0))
    client = Client(job, None)
    assert wait_until(client.read) == [None]


@pytest.mark.parametrize(
    ("number", "generation", "words"),
    [(0, 2, "is not of generation 1"), (2, 1, "main 2 is not of generation 1")],
)
def test_workers_of_other_generations_are_refused(
    job: Job, number: int, generation: int, words: str
) -> None:
    client = Client(job, number, generation)
    assert words in client.first["error"]
    assert wait_until(client.read) == [None]


def test_begin_closes_the_connections_of_the_generation_before(job: Job) -> None:
    client = Client(job)
    job.hub.begin(2, [("main", 0)])
    assert wait_until(client.read) == [None]
    assert Client(job, 0, 2).first["step"] == 0
    assert not job.heard.of("lost")


def test_a_worker_that_starts_again_takes_the_place_of_the_one_before(job: Job) -> None:
    job.hub.begin(1, [("main", 0)])
    one = Client(job)
    one.ask({"do": "open", "way": "shards", "batch": 5, **TERMS})
    assert one.ask({"do": "take", "dataset": "train"}) == {"shard": [[0, 10]]}
    two = Client(job)
    two.ask({"do": "open", "way": "shards", "batch": 5, **TERMS})
    assert two.ask({"do": "take", "dataset": "train"}) == {"shard": [[0, 10]]}
    one.socket.close()
    job.turn()
    assert two.ask({"do": "take", "dataset": "train"}) == {"shard": [[10, 20]]}
    assert job.heard.of("lost") == [("main", 0)]


@pytest.mark.parametrize(
    "bad",
    [b"x\n", b"[]\n", b"[" * 60000 + b"\n", b"x" * (LONGEST_LINE + 2), b"\xff\xfe\n", b"1e999\n"],
)
def test_what_is_no_message_ends_the_connection_only(job: Job, bad: bytes) -> None:
    client, other = Client(job, 0), Client(job, 1)
    client.socket.setblocking(True)
    client.socket.sendall(bad)
    client.socket.setblocking(False)
    assert wait_until(client.read) == [None]
    assert other.ask({"do": "hook"}) == {}
    assert "main" in job.hub.hooks


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"do": []},
        {"do": "x" * 5000},
        {"do": "open"},
        {"do": "open", "way": "rounds", "batch": 10, **TERMS, "samples": -1},
        {"do": "open", "way": "rounds", "batch": 10, **TERMS, "samples": 1 << 60},
        {"do": "open", "way": "rounds", "batch": 10, **TERMS, "seed": "x"},
        {"do": "open", "way": "rounds", "batch": 10, **TERMS, "dataset": "a\nb"},
        {"do": "round", "dataset": "other", "number": 0},
        {"do": "take", "dataset": ["x"]},
        {"do": "take", "dataset": "train", "wait": True},
        {"do": "step", "step": -1},
        {"do": "step", "step": True},
        {"do": "step", "step": 1, "read": {"train": [[5, 1]]}},
        {"do": "step", "step": 1, "read": {"train": [["a", 1]]}},
        {"do": "step", "step": 1, "read": []},
        {"do": "step", "step": 1, "read": {"a\nb": [[0, 1]]}},
        {"do": "open", "way": "rounds", "batch": 10, **TERMS, "seed": {"x": "y" * 5000}},
        {"do": "store", "id": "../../x"},
        {"do": "saved", "id": None, "keep": ["x"]},
    ],
)
def test_a_senseless_message_is_refused_in_one_line(job: Job, message: Any) -> None:
    job.hub.begin(1, [("main", 0)])
    client = Client(job)
    answer = client.ask(message)
    assert "\n" not in answer["error"] and len(answer["error"]) < 400
    assert client.ask({"do": "hook"}) == {}
    assert not job.states.exists()


def test_all_begin_with_the_checkpoint_of_the_first(job: Job) -> None:
    """The first could use an older one only; a third sees neither, and is told so."""
    old, new = "000001-0000aaaa", "000002-0000bbbb"
    state = {"step": 7, "datasets": {}, "failures": []}
    Store(job.states).write(old, state)
    job.hub.begin(1, [("main", i) for i in range(3)])
    one, two, three = (Client(job, i) for i in (1, 0, 2))
    one.tell({"do": "restore", "id": new})
    three.tell({"do": "restore", "id": None})
    assert one.read() == three.read() == []
    assert "cannot use" in two.ask({"do": "restore", "id": new})["unusable"]
    assert one.read() == []
    assert two.ask({"do": "restore", "id": old})["step"] == 7
    assert "unusable" in wait_until(one.read)[0]
    assert one.ask({"do": "restore", "id": old})["step"] == 7
    assert "another loads 000001" in wait_until(three.read)[0]["error"]


def test_a_rank_that_never_steps_is_told(job: Job) -> None:
    """Else all would wait for it at the first save."""
    one, two = Client(job, 0), Client(job, 1)
    for client in (one, two):
        client.tell({"do": "open", "way": "rounds", "batch": 1, **TERMS})
    for client in (one, two):
        assert wait_until(client.read) == [{}]
    for step in range(1001):
        one.tell({"do": "step", "step": step + 1})
    answer = two.ask({"do": "round", "dataset": "train", "number": 0})
    assert "on all workers, not on some" in answer["error"]


def test_an_id_is_greater_than_that_of_every_checkpoint(job: Job) -> None:
    """Also if the states are lost: else an older checkpoint would be the newest."""
    store = Store(job.states)
    assert store.new_id("000009-0000aaaa").startswith("000010-")
    store.write("000012-0000aaaa", {"step": 1, "datasets": {}, "failures": []})
    assert store.new_id("000009-0000aaaa").startswith("000013-")
    assert store.new_id("../../9").startswith("000013-")


@pytest.mark.parametrize(
    "change",
    [{"datasets": 7}, {"datasets": {"a": {}}}, {"datasets": {"a": {"samples": 1, "epochs": [[]]}}}],
)
def test_a_state_that_somebody_has_changed_is_not_used(job: Job, change: dict[str, Any]) -> None:
    Store(job.states).write(
        "000001-0000aaaa", {"step": 1, "datasets": {}, "failures": [], **change}
    )
    with pytest.raises(BadState, match="it is damaged") as told:
        Store(job.states).read("000001-0000aaaa")
    assert len(str(told.value)) < 500


def test_restore_takes_no_path(job: Job) -> None:
    client = Client(job)
    for identity in ("../../etc/passwd", "x" * 1000, 7, {}):
        assert "unusable" in client.ask({"do": "restore", "id": identity})
    assert client.ask({"do": "restore", "id": None})["step"] == 0


def test_one_that_does_not_read_its_answers_is_closed(job: Job) -> None:
    client = Client(job)
    client.socket.setblocking(True)
    lines = (json.dumps({"do": "x" * 40}).encode() + b"\n") * 100
    for _ in range(1000):
        with contextlib.suppress(BrokenPipeError):
            client.socket.sendall(lines)
        job.turn()
        if job.heard.of("lost"):
            break
    assert job.heard.of("lost") == [("main", 0)]


def test_cpus_are_told_also_to_one_that_starts_later(job: Job) -> None:
    job.hub.cpus(("main", 0), 3.5)
    client = Client(job)
    assert client.first["cpus"] == 3.5
    job.hub.cpus(("main", 0), 6.0)
    assert wait_until(client.read) == [{"push": "cpus", "cpus": 6.0}]


def test_a_request_costs_the_server_far_less_than_a_millisecond(job: Job) -> None:
    """The median, so that a busy machine does not decide; `benchmarks.elastic` measures p99."""
    job.hub.begin(1, [("main", 0)])
    client = Client(job)
    client.ask({"do": "open", "way": "shards", "batch": 5, **TERMS, "samples": 100_000})
    costs = []
    for _ in range(300):
        client.socket.sendall(b'{"do": "take", "dataset": "train"}\n')
        begun = time.thread_time()
        job.turn()
        costs.append(time.thread_time() - begun)
        client.read()
    assert sorted(costs)[len(costs) // 2] < 0.001
