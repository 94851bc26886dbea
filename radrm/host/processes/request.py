"""Send a signal that asks a running job to save its work.

It goes to the topmost processes of the attempt that handle it, in the sense of `stop.topmost`: a
data loader inherits the handler of its trainer, and must not act on it. One thread does this,
because to look at every process of a full server takes long.
"""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable, Mapping

from radrm.host.processes.identity import send_signal
from radrm.host.processes.procfs import Stat
from radrm.host.processes.stop import is_shell, topmost
from radrm.host.processes.tree import has_signal


def signal_topmost(members: Mapping[int, Stat], number: int) -> int:
    """Send a signal to the topmost of these processes that handle it. Returns how many got it."""
    parents = {pid: stat.parent for pid, stat in members.items()}
    handling = {pid for pid in members if has_signal(pid, number, b"SigCgt")}
    asked, _ = topmost(parents, handling, set(filter(is_shell, members)))
    return sum(send_signal(pid, members[pid].start_ticks, number) for pid in asked)


class Asker:
    """Asks the processes of attempts, one attempt at a time, in a thread of its own."""

    def __init__(self) -> None:
        self._questions: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(
        self,
        find: Callable[[], Mapping[int, Stat]],
        number: int,
        failed: Callable[[str], None],
    ) -> None:
        """Signal what `find` finds. `failed` is called, in the thread, with the reason why not."""

        def work() -> None:
            try:
                count = signal_topmost(find(), number)
                ended = not count and not find()
            except Exception as error:  # an answer is owed in any case
                failed(f"its processes could not be asked: {error}")
                return
            if ended:
                failed("it has just ended")
            elif not count:
                name = signal.Signals(number).name.removeprefix("SIG")
                failed(f"none of its processes handles {name}")

        self._questions.put(work)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ask", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            self._questions.get()()
