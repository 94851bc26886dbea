"""The process that runs one slow planner (`host/workers`).

    python -m radrm.host.planning.worker     (questions on standard input, answers on output)

The first message names the planner, and every later one is a question; each gets one message as
its answer. The daemon trusts no answer: it is plain data of limited size, and the core checks it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec
from msgspec import Struct

from radrm.config import parse_table
from radrm.core import proposals
from radrm.core.planning.thinking import Thought, think
from radrm.core.seen import StateData
from radrm.core.snapshot import Snapshot
from radrm.deadlines import UTC, Zone
from radrm.errors import RadrmError, one_line
from radrm.host.workers import end_after, give_up_rights, packed, read, take_pipes, write
from radrm.wiring import make_order, make_planner

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Libraries take address space for each thread, which is limited here."""

_KINDS: dict[str, type[proposals.Proposal]] = {
    name: kind
    for name, kind in vars(proposals).items()
    if isinstance(kind, type) and issubclass(kind, proposals.Proposal)
}


class First(Struct, frozen=True):
    """The planner to run, the daemon's configuration, and the zone of its local times."""

    planner: str
    config: dict[str, Any]
    zone: Zone = UTC


class Question(Struct, frozen=True):
    """What a planner may know, and its own state.

    The process ends after twice `limit_s` (real seconds).
    """

    known: StateData
    state: Any
    limit_s: float


class Answer(Struct, frozen=True):
    """A `Thought`, with each proposal as its kind and its fields."""

    proposals: tuple[tuple[str, msgspec.Raw], ...] = ()
    state: Any = None
    wake_at: float | None = None
    error: str | None = None


def answer_of(thought: Thought) -> bytes:
    """A thought as a packed message, or the reason why it cannot be sent."""
    try:
        found = tuple(
            (type(each).__name__, msgspec.Raw(msgspec.msgpack.encode(each)))
            for each in thought.proposals
        )
        return packed(Answer(found, thought.state, thought.wake_at, thought.error))
    except (OverflowError, UnicodeError) as error:
        return packed(Answer(error=f"its answer cannot be sent: {error}"[:300]))


def thought_of(data: bytes) -> Thought:
    """The thought in a message of the process. Raises `EOFError` for anything else."""
    try:
        answer = msgspec.msgpack.decode(data, type=Answer)
        found = tuple(
            msgspec.msgpack.decode(fields, type=_KINDS[kind]) for kind, fields in answer.proposals
        )
    except (msgspec.MsgspecError, KeyError, ValueError, RecursionError) as error:
        raise EOFError(f"its process answered nonsense ({error})"[:300]) from None
    return Thought(found, answer.state, answer.wake_at, answer.error)


def main() -> int:
    own, parent = os.getpid(), os.getppid()
    source, target = take_pipes()
    first: First = read(source, First)
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    try:
        config = parse_table(first.config, "the daemon's configuration")
        order = make_order(config)
        planner: Any = make_planner(config, first.planner, first.zone)
        if hasattr(planner, "get_ready"):
            planner.get_ready()
    except RadrmError as error:
        write(target, packed(Answer(error=str(error))))
        return 1
    except Exception as error:  # a library that is there and cannot be loaded
        write(target, packed(Answer(error=one_line(error)[:300])))
        return 1
    give_up_rights(parent)
    write(target, packed(Answer()))
    while (question := read(source, Question)) is not None:
        # The daemon ends this process earlier. If the daemon is dead, SIGALRM ends it.
        end_after(2 * question.limit_s)
        thought = think(planner, Snapshot.of(question.known, order), question.state)
        if os.getpid() != own:
            os._exit(0)  # a child that the planner forked, and that came back here
        end_after(0)
        write(target, answer_of(thought))
    return 0


if __name__ == "__main__":
    sys.exit(main())
