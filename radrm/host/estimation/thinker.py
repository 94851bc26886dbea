"""The daemon's side of the estimators' worker (`host/workers`)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

import msgspec

from radrm.config import Config
from radrm.errors import RadrmError
from radrm.host.estimation.asking import Answer
from radrm.host.estimation.worker import Question
from radrm.host.workers.messages import packed
from radrm.host.workers.parent import Worker

MAX_ANSWER = 1 << 20
COMMAND = (sys.executable, "-m", "radrm.host.estimation.worker")


class NoAnswer(RadrmError):
    """The estimators gave no answer about a job; the line gives the reason."""


class Thinker:
    """One worker at a time. One thread uses it; any thread may call `close`."""

    def __init__(self, config: Config, command: Sequence[str] = COMMAND) -> None:
        self._limit_s = config.estimation.time_limit_s
        self.worker = Worker(
            command, lambda: packed(config.to_table()), MAX_ANSWER, "their", _decoded
        )

    def ask(self, question: Question) -> Answer:
        """The worker's answer. Raises `NoAnswer`; the next question then gets a new worker."""
        try:
            sent = packed(question)
        except UnicodeEncodeError:  # an envelope can hold such a summary
            raise NoAnswer("the estimators were not asked: a text is not UTF-8") from None
        try:
            return _decoded(self.worker.ask(sent, self._limit_s))
        except TimeoutError:
            raise NoAnswer(f"the estimators took longer than {self._limit_s:g} s") from None
        except (OSError, EOFError, msgspec.MsgspecError) as error:
            self.worker.end()
            what = str(error) or "their process ended"
            raise NoAnswer(f"the estimators failed: {what}") from None

    def close(self) -> None:
        """End the worker; safe from another thread."""
        self.worker.close()

    def prepare(self) -> None:
        """Start a worker, so that the first question does not wait for its start."""
        with contextlib.suppress(OSError, EOFError, msgspec.MsgspecError):
            self.worker.prepare()


def _decoded(answer: bytes) -> Answer:
    return msgspec.msgpack.decode(answer, type=Answer)
