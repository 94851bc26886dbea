"""The process that runs the daemon's estimators (`host/workers`).

    python -m radrm.host.estimation.worker     (requests on standard input, answers on output)

The first message is the configuration, and every later one a question; each gets one message as its
answer.

Any user can write what an estimator reads. So this process gives up the rights of a root daemon
before the first question, and has limited memory. It ends with its input, with its parent, and when
an answer takes twice the daemon's time limit.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

from radrm.config import Config, parse_table
from radrm.estimators.interface import Description
from radrm.host.estimation.asking import Answer, Asking
from radrm.host.workers.child import end_after, give_up_rights, take_pipes
from radrm.host.workers.messages import packed, read, write


@dataclass(frozen=True, slots=True)
class Question:
    """A job, and the tracer's document about it, None if it was not traced."""

    job: Description
    events: bytes | None = None


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
        answer = asking.ask(question.job, question.events)
        end_after(0)
        write(target, packed(answer))
    return 0


def _empty_spec() -> Any:
    from radrm.core.records import JobSpec

    return JobSpec(name="nothing", user="", uid=-1)


if __name__ == "__main__":
    sys.exit(main())
