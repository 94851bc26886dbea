"""The threads that ask slow planners, one planner each, and post their plans.

Theory of operation:

- The daemon's loop calls `ask` and goes on. The planner's thread encodes the snapshot, asks the
  process and posts the plan. The core has at most one thought of a planner under way; after its
  deadline there can be a second one, which waits here for the first.
- A process is started at the first question, and ended by any error, so that its next question
  gets a new one. The core pauses a planner after an error, longer each time.
- After `close` has returned, no thread posts and no process runs. The next daemon begins anew.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from radrm.config import Config
from radrm.core.actions import Think
from radrm.core.planning.thinking import Thought
from radrm.core.seen import StateData
from radrm.core.snapshot import Snapshot
from radrm.deadlines import UTC, Zone
from radrm.errors import plain
from radrm.host.planning.worker import First, Question, thought_of
from radrm.host.workers import MAX_MESSAGE, Worker, packed

log = logging.getLogger("radrm")

MAX_ANSWER = 16 << 20
COMMAND = (sys.executable, "-m", "radrm.host.planning.worker")


class Planned(Struct, frozen=True):
    """A planner's thought, for the question and the version of the snapshot that it answers."""

    action: Think
    version: int
    thought: Thought


class PlanningService:
    """Used by the loop's thread. `post` receives each plan in the planner's own thread."""

    def __init__(
        self,
        config: Config,
        post: Callable[[Planned], None],
        zone: Zone = UTC,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._config = config
        self._zone = zone
        self._post = post
        self._command = command
        self._closed = threading.Event()
        self._workers: dict[str, Worker] = {}
        self._threads: dict[str, ThreadPoolExecutor] = {}

    def ask(self, action: Think, snapshot: Snapshot, limit_s: float) -> None:
        """Have a planner think about a snapshot, for at most `limit_s` real seconds."""
        name = action.planner
        if name not in self._workers:
            first = First(name, self._config.to_table(), self._zone)
            self._workers[name] = Worker(
                self._command, lambda: packed(first), MAX_ANSWER, "its", _check_ready
            )
            self._threads[name] = ThreadPoolExecutor(1, f"planner {name}")
        data = snapshot.data()
        self._threads[name].submit(self._think, self._workers[name], action, data, limit_s)

    def close(self) -> None:
        """End all processes and threads."""
        self._closed.set()
        for worker in self._workers.values():
            worker.close()
        for name, thread in self._threads.items():
            thread.shutdown(wait=True, cancel_futures=True)
            self._workers[name].end()

    def _think(self, worker: Worker, action: Think, data: StateData, limit_s: float) -> None:
        try:
            question = packed(Question(data, action.state, limit_s))
            if len(question) > MAX_MESSAGE:
                limit = MAX_MESSAGE >> 20
                raise EOFError(f"the snapshot has {len(question) >> 20} MiB, the limit is {limit}")
            thought = thought_of(worker.ask(question, limit_s))
        except TimeoutError:
            thought = Thought(error=f"it took longer than {limit_s:g} s")
        except (OSError, EOFError) as error:
            worker.end()
            thought = Thought(error=plain(str(error)))
        except Exception as error:  # without an answer the planner would wait for its deadline
            log.exception("the planner %s cannot be asked", action.planner)
            worker.end()
            thought = Thought(error=plain(f"{type(error).__name__}: {error}")[:300])
        if not self._closed.is_set():
            self._post(Planned(action, data.version, thought))


def _check_ready(answer: bytes) -> None:
    error = thought_of(answer).error
    if error is not None:
        raise EOFError(error)
