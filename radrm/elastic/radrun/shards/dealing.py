"""How a generation of workers begins, and how each gets its data from the shard server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from radrm.elastic.radrun.shards import messages
from radrm.elastic.radrun.shards.book import Book, BookError, Part, Terms, Worker
from radrm.elastic.radrun.shards.messages import Message
from radrm.elastic.radrun.shards.store import BadState, Store

# ------------------------------------------------------------------
# Who speaks with the shard server: the workers on one side, `radrun` on the other.


class Listener(Protocol):
    """Who hears of what the workers do."""

    def boundary(self, step: int) -> None:
        """All workers pause at this step."""

    def saved(self, step: int, checkpoint: str) -> None:
        """A checkpoint is complete."""

    def progress(
        self, step: int, total: float | None, loss: float | None, data_wait: float | None
    ) -> None:
        """Some steps are done, by all workers together."""

    def lost(self, role: str, number: int) -> None:
        """A worker's connection has ended."""

    def broken(self, reason: str) -> None:
        """The job must fail."""

    def modules(self, names: list[str]) -> None:
        """The modules that the workers' program has loaded."""


class Member(Struct, eq=False):
    """A connected worker. `send` gives it an answer or a push."""

    worker: Worker
    send: Callable[[Message], None]
    passed: int = 0
    """The last step that it has reported."""
    trains: bool = False
    waits_to: Message | None = None
    """The `open`, `restore`, `take` or `save` that has no answer yet."""

    def answer(self, message: Message) -> None:
        self.waits_to = None
        self.send(message)


# ------------------------------------------------------------------
# How a generation of workers begins, and how each gets its data.
#
# The first worker of a role decides with which checkpoint the generation begins: by its first
# `restore`, or by `open` without one, which is the beginning. The requests of others wait for that,
# and another worker must then name the same checkpoint. A newer one is refused as not usable. So no
# two ranks begin with different states. Rounds are dealt when all ranks have opened the dataset, so
# all have loaded before the first step.
#
# A method that returns None leaves its request waiting.


MOST_BEHIND = 1000
"""Steps by which a rank's last report may be behind another's; ranks that train together have 1."""


class Dealing:
    """The data of one generation."""

    def __init__(self, book: Book, store: Store, tasks: Sequence[Worker]) -> None:
        self._book = book
        self._store = store
        self._tasks = tasks
        self._decided = False
        self._checkpoint: str | None = None
        self._opened: set[Worker] = set()
        self.asynchronous = False
        """Whether a dataset is read by shards."""
        self.step = self.base = 0
        """The steps that all have done together; `base`, before this generation."""
        book.begin(None)

    def leads(self, worker: Worker) -> bool:
        """Whether a worker is the first of its role. (Numbers of tasks can have gaps.)"""
        return worker == next((each for each in self._tasks if each[0] == worker[0]), None)

    def begin(self, member: Member, message: Message) -> Message | None:
        """Answer `restore` and `open`. Raises BookError."""
        restores = message["do"] == "restore"
        if not self._decided:
            if not self.leads(member.worker):
                return None
            if restores:
                try:
                    self._restore(message.get("id"))
                except BadState as error:
                    return {"unusable": str(error)}
            self._decided = True
        member.passed = max(member.passed, self.base)
        if not restores:
            return self._open(member, message)
        wanted = message.get("id")
        if wanted != self._checkpoint and not self.asynchronous:
            if member.worker in self._opened:
                raise BookError("call elastic.load() before the first batch: data was read since")
            if wanted is not None and (self._checkpoint is None or str(wanted) > self._checkpoint):
                return {"unusable": "another worker could not use it"}
            raise BookError(
                f"this worker loads checkpoint {str(wanted)[:40]}, another loads"
                f" {self._checkpoint}; all must be able to read the same files"
            )
        step = self.step if self.asynchronous else self.base
        return {"step": step, "samples": self._book.saved_samples}

    def _restore(self, identity: Any) -> None:
        """Go back to the state of a checkpoint; None is the beginning. Raises BadState."""
        if identity is None:
            return
        state = self._store.read(str(identity)[:40])
        self._book.begin(state)
        self._checkpoint = str(identity)
        self.step = self.base = state["step"]

    def _open(self, member: Member, message: Message) -> Message:
        terms = Terms(
            messages.whole(message, "samples"),
            messages.whole(message, "shard"),
            messages.whole(message, "epochs"),
            message.get("seed"),
        )
        way = "rounds" if message.get("way") == "rounds" else "shards"
        batch = max(1, messages.whole(message, "batch"))
        self._book.open(messages.name(message, "dataset"), terms, way, batch)
        self.asynchronous = self.asynchronous or way == "shards"
        self._opened.add(member.worker)
        member.trains = True
        return {}

    def round(self, member: Member, message: Message) -> Message | None:
        """Answer `round`. Raises BookError."""
        ranks = [worker for worker in self._tasks if worker[0] == member.worker[0]]
        if self.step - member.passed > MOST_BEHIND and not self.asynchronous:
            raise BookError("call elastic.step() after each batch on all workers, not on some")
        if member.worker not in self._opened:
            raise BookError("the worker has not opened a dataset")
        if not self._opened.issuperset(ranks):
            return None
        name, number = messages.name(message, "dataset"), messages.whole(message, "number")
        part = self._book.take_round(member.worker, ranks, name, number)
        return {"end": True} if part is None else _shown(part, len(ranks))

    def take(self, member: Member, message: Message, deals: bool) -> Message | None:
        """Answer `take`; `deals`: new shards are given out now. Raises BookError."""
        name, wait = messages.name(message, "dataset"), bool(message.get("wait"))
        if wait:
            self._book.consume_all(member.worker, name)
        found = self._book.take_shard(member.worker, name) if deals else []
        if found:
            return {"shard": found}
        if self._book.over(name):
            return {"end": True}
        return None if wait else {}


def _shown(part: Part, world: int) -> Message:
    return {
        "round": part.round,
        "slice": part.slice,
        "samples": part.samples,
        "last": part.last,
        "world": world,
    }
