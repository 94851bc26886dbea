"""Who speaks with the shard server: the workers on one side, `radrun` on the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from radrm.radrun.shards.book import Worker
from radrm.radrun.shards.messages import Message


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


@dataclass(eq=False)
class Member:
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
