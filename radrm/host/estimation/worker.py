"""The process that runs the daemon's estimators (`host/workers`).

    python -m radrm.host.estimation.worker     (requests on standard input, answers on output)

The first message is the configuration, and every later one a question; each gets one message as its
answer.

Any user can write what an estimator reads. So this process gives up the rights of a root daemon
before the first question, and has limited memory. It ends with its input, with its parent, and when
an answer takes twice the daemon's time limit.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from radrm.config import Config, parse_table
from radrm.errors import RadrmError
from radrm.estimators.interface import Description
from radrm.host.estimation.asking import TRACE, Answer, Asking
from radrm.host.workers import Worker, end_after, give_up_rights, packed, read, take_pipes, write


class Question(Struct, frozen=True):
    """A job, and the tracer's document about it, None if it was not traced; `source` is the
    estimator for which it was."""

    job: Description
    events: bytes | None = None
    source: str = TRACE


def main() -> int:
    parent = os.getppid()
    source, target = take_pipes()
    config: Config = parse_table(read(source, dict[str, Any]), "the daemon's configuration")
    asking = Asking(config)
    # This loads the estimators' files now. Without root's rights they may be unreadable later, and
    # the first question would wait for them.
    asking.ask(Description(spec=_empty_spec()))
    give_up_rights(parent)
    write(target, packed(Answer()))
    limit_s = 2 * config.estimation.time_limit_s
    while (question := read(source, Question)) is not None:
        # The daemon ends this process earlier. If the daemon is dead, SIGALRM ends it.
        end_after(limit_s)
        answer = asking.ask(question.job, question.events, question.source)
        end_after(0)
        write(target, packed(answer))
    return 0


def _empty_spec() -> Any:
    from radrm.core.records import JobSpec

    return JobSpec(name="nothing", user="", uid=-1)


if __name__ == "__main__":
    sys.exit(main())


# ------------------------------------------------------------------
# The daemon's side of the estimators' worker (`host/workers`).


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
