"""What `radrun` reads: placements, shares, messages of workers, states of shards."""

from __future__ import annotations

import json
import socket
from typing import Any

from proofs.fuzz import scratch
from proofs.fuzz.judging import Target
from radrm.elastic.radrun.folder import Folder
from radrm.elastic.radrun.placement import parse
from radrm.elastic.radrun.shards.book import Book, BookError
from radrm.elastic.radrun.shards.dealing import Member
from radrm.elastic.radrun.shards.messages import Gone, Lines
from radrm.elastic.radrun.shards.service import Service
from radrm.elastic.radrun.shards.store import BadState, Store

_ID = "000003-0123abcd"
_PLACEMENT: dict[str, Any] = {
    "version": 1, "generation": 2, "grace_s": 30.0, "due_boot_s": None, "boot_id": "b",
    "tasks": [
        {"role": "worker", "task": 0, "gpus": ["GPU-0"], "cpus": 2.5, "environment": {"A": "1"}},
        {"role": "worker", "task": 1, "gpus": ["GPU-1"], "cpus": None, "environment": {}},
    ],
}  # fmt: skip
_SHARES = {"version": 1, "tasks": [{"role": "worker", "task": 0, "cpus": 2.0}]}
_STATE: dict[str, Any] = {
    "version": 1, "id": _ID, "step": 12, "failures": [["train", 0, 1]],
    "datasets": {
        "train": {
            "samples": 100, "shard": 10, "epochs": 2, "seed": 7, "consumed": [[0, 30], [40, 50]],
        }
    },
}  # fmt: skip
_HELLO = {"do": "hello", "version": 1, "role": "worker", "task": 0, "generation": 1}
_OPEN = {
    "do": "open",
    "dataset": "train",
    "samples": 100,
    "shard": 10,
    "epochs": 2,
    "seed": 7,
    "way": "rounds",
    "batch": 8,
}
_SHARDS = {**_OPEN, "way": "shards"}
_STEP = {
    "do": "step",
    "step": 1,
    "read": {"train": [[0, 4]]},
    "seen": False,
    "ask": True,
    "loss": 0.5,
    "total": 10,
    "data_wait": 0.1,
    "modules": ["torch"],
}
_ROUNDS = [
    [0, _HELLO], [1, {**_HELLO, "task": 1}], [0, {"do": "restore", "id": None}],
    [1, {"do": "restore", "id": None}], [0, _OPEN], [1, _OPEN],
    [0, {"do": "round", "dataset": "train", "number": 0}],
    [1, {"do": "round", "dataset": "train", "number": 0}], [0, _STEP],
    [1, {**_STEP, "read": {"train": [[4, 8]]}}], [0, {"do": "hook"}], [0, {"do": "ask-save"}],
    [0, {**_STEP, "step": 2, "seen": True, "read": {}}],
    [1, {**_STEP, "step": 2, "seen": True, "read": {}}],
    [0, {"do": "save", "newest": None}], [1, {"do": "save"}],
    [0, {"do": "store", "id": "000001-00000000"}],
    [0, {"do": "saved", "id": "000001-00000000", "keep": []}], [1, None],
]  # fmt: skip
_ASYNCHRONOUS = [
    [0, _HELLO], [1, {**_HELLO, "task": 1}], [0, _SHARDS], [1, _SHARDS],
    [0, {"do": "take", "dataset": "train", "wait": False}],
    [1, {"do": "take", "dataset": "train", "wait": True}],
    [0, {**_STEP, "read": {"train": [[0, 10]]}}], [1, None],
    [0, {"do": "take", "dataset": "train", "wait": True}], ["stop", None],
    [0, {**_STEP, "step": 2, "seen": True, "read": {}}], [0, {"do": "save", "newest": _ID}],
]  # fmt: skip


class _Listener:
    """Hears what the workers do, and checks it."""

    def boundary(self, step: int) -> None:
        assert step >= 0

    def saved(self, step: int, checkpoint: str) -> None:
        assert step >= 0 and checkpoint

    def progress(
        self, step: int, total: float | None, loss: float | None, data_wait: float | None
    ) -> None:
        assert step >= 0

    def lost(self, role: str, number: int) -> None:
        pass

    def broken(self, reason: str) -> None:
        assert len(reason.splitlines()) == 1

    def modules(self, names: list[str]) -> None:
        assert all(map(str.isprintable, names))


def _placement(data: bytes) -> None:
    found = parse(data, 2)
    assert 1 <= len(found.tasks) <= 256
    found.roles()


def _shares(data: bytes) -> None:
    scratch.file("elastic/shares.json", data)
    scratch.file("elastic/resized-1.json", data)
    folder = Folder(str(scratch.place("elastic")))
    folder.present()
    folder.new_shares()


def _line(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        theirs.send(data[: 1 << 16] + b"\n")
        lines = Lines(ours)
        for message in lines.read():
            lines.send(message)


def _state(data: bytes) -> None:
    scratch.file(f"shards/state-{_ID}.json", data)
    state = Store(scratch.place("shards")).read(_ID)
    book = Book()
    book.begin(state)


def _messages(text: str) -> None:
    """Workers send these messages, each as it comes; None: a worker's connection ends."""
    try:
        sent = json.loads(text)
    except (ValueError, RecursionError):
        return
    service = Service(Store(scratch.place("hub")), _Listener())
    service.begin(1, [("worker", 0), ("worker", 1)])
    members: dict[object, Member] = {}
    for each in sent if isinstance(sent, list) else []:
        if not isinstance(each, list) or len(each) != 2 or isinstance(each[0], (list, dict)):
            continue
        who, message = each
        if who == "stop":
            service.stop_together()
        elif message is None and who in members:
            service.leave(members.pop(who))
        elif isinstance(message, dict):
            _say(service, members, who, _with_id(service, message))


def _with_id(service: Service, message: dict[str, Any]) -> dict[str, Any]:
    """Put the id of the checkpoint that is being written in the place of the example's."""
    known = message.get("id") == "000001-00000000"
    return {**message, "id": service._id} if known else message


def _say(
    service: Service, members: dict[object, Member], who: object, message: dict[str, Any]
) -> None:
    def send(answer: dict[str, Any]) -> None:
        error = answer.get("error")
        assert error is None or (len(error.splitlines()) == 1 and len(error) <= 600), error
        json.dumps(answer)

    if who in members:
        service.handle(members[who], message)
        return
    try:
        members[who] = service.join(message, send)
    except BookError as error:
        send({"error": str(error)})


TARGETS = (
    Target(
        "placement", (_PLACEMENT,), _placement, (ValueError,), bytes=True, most=(256 << 10) + 64
    ),
    Target("shares", (_SHARES,), _shares, (ValueError,), bytes=True, most=(256 << 10) + 64),
    Target("hub-lines", (_HELLO, _STEP), _line, (Gone,), bytes=True, most=1 << 16),
    Target("shards-state", (_STATE,), _state, (BadState, BookError), bytes=True),
    Target("hub-messages", (_ROUNDS, _ASYNCHRONOUS), _messages, (), part=0.4),
)
