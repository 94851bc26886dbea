"""The generations of workers: start, watch, replace, restart and end them.

Theory of operation. A generation is one set of workers, one per task of a placement, that train
together. At most one may hold GPUs. A resize replaces the generation as a whole (DLRover 5.3):

    PREPARING   the new workers start as standbys: they import libraries and wait. They touch no
                GPU. The old ones work undisturbed; if a standby fails, they go on and the resize
                has failed.
    BEGUN       all standbys wait, the daemon's deadline has not come, and we have made `begun-G`:
                its first maker decides, so from here on the daemon cannot withdraw the resize.
                The hub stops the old workers together at a step boundary; they save and leave. A
                worker that has not left after the grace time is killed: work goes on from the
                last checkpoint.
                The hub deals no data to a worker that is late.
    the switch  no process of the old generation lives. Only now the standbys may go, and the
                daemon gets its answer, `resized-G.json`.

A resize that is not begun can always be forgotten; one that is begun is always finished. If
standbys have died meanwhile, their generation is started afresh.

A failure. If a worker of a synchronous job ends with an error, its whole generation is replaced by
one at the same placement, from the last checkpoint, at most `max_restarts` times without a
save in between. Its GPUs are free of the old workers before the new ones go. If standbys of a
resize are on their way, they come instead. In a job with roles, a worker is started again alone;
a server (role `ps`) has state that no other task has, so all go back to the last checkpoint (5.4).
A worker that the kernel kills for its memory ends the job's attempt: another start would end
alike, and the daemon gives the next attempt more.

The end. The job is complete when all workers but servers have ended with 0. The first failure
that is not repaired gives the exit code. Nothing of any generation outlives this process.

Every method here is called from one thread, and `advance` may be called at any time: it looks at
what is true now and takes the next step.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence

from radrm.elastic.radrun.folder import Folder
from radrm.elastic.radrun.hub import Hub
from radrm.elastic.radrun.placement import Placement, is_server
from radrm.elastic.radrun.resizing import (
    Answers,
    Resize,
    asked,
    begin_limit,
    refuse,
    waiting_for,
)
from radrm.elastic.radrun.workers.launching import Launcher
from radrm.elastic.radrun.workers.members import Generation, MemoryKills, Stop, reap_orphans
from radrm.elastic.radrun.workers.process import Worker
from radrm.errors import RadrmError, Refused

LOOK_S = 0.2
"""Seconds between two looks at the folder."""
_QUICK_LOOK_S = 0.01
"""Seconds between two looks at processes that are about to end: their GPUs wait for it."""
_PATIENCE_S = 5.0
"""Seconds from TERM to KILL for workers whose generation has failed or ended."""
_MOST_IMPORTS = 5000


class Supervisor:
    """Runs the workers of one job to their end.

    `exit_code` is None until nothing is left of them. `say` prints a line for users; `resized` is
    called with the number of each placement that has been answered.
    """

    def __init__(
        self,
        launcher: Launcher,
        hub: Hub,
        placement: Placement,
        folder: Folder | None = None,
        max_restarts: int = 3,
        say: Callable[[str], None] = print,
        resized: Callable[[int], None] = lambda number: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.exit_code: int | None = None
        self._launcher = launcher
        self._hub = hub
        self._folder = folder
        self._max_restarts = max_restarts
        self._say = say
        self._clock = clock
        self._count = 1
        self._answered = placement.number
        self._looked_s = 0.0
        self._restarts = 0
        """Restarts since the last save."""
        self._all_restarts = 0
        self._imports: Sequence[str] = ()
        self._stopped_together = False
        """Whether all workers have reached the boundary at which they leave."""
        self._code: int | None = None
        """The exit code of the first failure."""
        self._resize: Resize | None = None
        self._dropped: list[Generation] = []
        """Standbys that are not needed any more, until they have ended."""
        self._answers = Answers(folder, resized)
        self._memory = MemoryKills()
        self._present = Generation(1, placement)

    # ---------------------------------------------------------------- what is now

    @property
    def present(self) -> Generation:
        """The generation that works, or is being stopped."""
        return self._present

    @property
    def _all(self) -> list[Generation]:
        coming = [self._resize.generation] if self._resize is not None else []
        return [self._present, *coming, *self._dropped]

    def _others(self, generation: Generation) -> set[int]:
        others = [each.leaders for each in self._all if each is not generation]
        return set().union(*others)

    @property
    def _tasks(self) -> list[tuple[str, int]]:
        return [task.key for task in self._present.placement.tasks]

    # ---------------------------------------------------------------- what happens

    def start(self) -> None:
        """Start the first generation. Raises `RadrmError`."""
        self._hub.begin(self._present.number, self._tasks)
        try:
            self._run(self._present)
        except RadrmError:
            self._present.sweep(set())
            raise

    def advance(self) -> float:
        """Take all steps that are due. Returns the seconds until the next call."""
        reap_orphans({pid for each in self._all for pid in each.leaders})
        if self._present.stop is None:
            self._judge()
        if self._resize is not None:
            self._prepare(self._resize)
        elif self._present.stop is None and self._folder is not None:
            self._look(self._folder)
        if self._present.stop is not None:
            self._finish_stop()
        self._dropped = [each for each in self._dropped if not self._gone(each)]
        self._answers.write(self._present)
        stopping = self._present.stop is not None or self._dropped
        return _QUICK_LOOK_S if stopping else LOOK_S

    def end(self, number: int, code: int | None = None) -> None:
        """End the job: signal all workers. What is left after the grace time is killed."""
        self._hub.halt()
        self._present.send(number)
        self._stop(Stop.END, self._present.placement.grace_s)
        if code is not None and self._code is None:
            self._code = code

    def leave(self) -> None:
        """End the job: all workers save at one step boundary, and leave."""
        grace_s = self._present.placement.grace_s
        self._hub.stop_together()
        self._stop(Stop.END, grace_s)

    def kill(self) -> None:
        """End the job at once."""
        self._hub.halt()
        self._stop(Stop.END, 0.0)

    def broken(self, reason: str) -> None:
        """End the job with an error that another start would not repair."""
        self._say(reason)
        self.end(signal.SIGTERM, 1)

    def boundary(self, step: int) -> None:
        """All workers have reached the step at which they leave."""
        self._stopped_together = True

    def saved(self, step: int, checkpoint_id: str) -> None:
        """A checkpoint is complete: from here on, restarts are counted anew."""
        self._restarts = 0

    def modules(self, names: Sequence[str]) -> None:
        """These modules are loaded in a worker that works."""
        self._imports = tuple(names[:_MOST_IMPORTS])

    # ---------------------------------------------------------------- the present generation

    def _judge(self) -> None:
        """Look at the workers that have ended."""
        present = self._present
        self._memory.judge(self._present.workers.values())
        for worker in present.failed():
            if present.stop is None:
                self._repair(worker)
        if present.stop is None and present.complete:
            self._stop(Stop.END, _PATIENCE_S)
            self._present.sweep(self._others(present), signal.SIGTERM)

    def _repair(self, worker: Worker) -> None:
        """Start a failed worker again, or its generation, or end the job."""
        present, task = self._present, worker.task
        what = f"{task} (pid {worker.pid}) {worker.status()}"
        self._answers.tasks_changed()
        for_memory = worker.out_of_memory and self._folder is not None
        if for_memory or self._restarts >= self._max_restarts:
            used = f"; {self._restarts} of {self._max_restarts} restarts are used"
            self._say(what if for_memory else what + (used if self._max_restarts else ""))
            self._code = worker.exit_code() if self._code is None else self._code
            self._hub.halt()
            present.send(signal.SIGTERM)
            self._stop(Stop.END, _PATIENCE_S)
            return
        self._restarts += 1
        self._all_restarts += 1
        counts = present.placement.roles()
        number = f"restart {self._restarts} of {self._max_restarts}"
        if len(counts) > 1 and not is_server(task.role, counts):
            self._say(f"{what}; it starts again ({number})")
            self._launcher.start(present, task, self._all_restarts)
            self._launcher.let_go(present)
            return
        self._say(f"{what}; all workers start again from the last checkpoint ({number})")
        self._hub.halt()
        present.send(signal.SIGTERM)
        self._stop(Stop.FAILURE, _PATIENCE_S)

    def _stop(self, reason: Stop, seconds: float) -> None:
        """Begin a stop. An END is never taken back, and its time only gets shorter."""
        present = self._present
        kill_s = self._clock() + seconds
        if present.stop is reason or present.stop is None:
            present.kill_s = min(present.kill_s, kill_s)
        elif reason is Stop.END:
            present.kill_s = kill_s
        if present.stop is not Stop.END:
            present.stop = reason
        if reason is Stop.END and self._resize is not None:
            self._drop("the job has ended")

    def _finish_stop(self) -> None:
        """Kill what is late; when nothing lives any more, do what the stop was for."""
        present = self._present
        if present.only_servers_left and not present.servers_asked:
            present.servers_asked = True  # they serve until somebody ends them
            present.send(signal.SIGTERM)
            present.kill_s = min(present.kill_s, self._clock() + _PATIENCE_S)
        late = self._clock() >= present.kill_s
        if late and not present.ended:
            self._hub.halt()
        if (late or present.ended) and not self._gone(present, late):
            return
        if not present.ended:
            return
        resize = self._resize
        if present.stop is Stop.RESIZE and self._program_is_over():
            present.stop = Stop.END
            self._drop("the program has ended")
        if present.stop is Stop.END:
            self._finish()
        elif resize is not None and resize.begun:
            self._switch(resize)
        elif resize is None:
            self._restart(present.placement)

    def _gone(self, generation: Generation, late: bool = True) -> bool:
        """Whether nothing lives of a generation. What is left after its workers is killed."""
        if not late and generation.stop is Stop.END and generation.complete:
            return not generation.sweep(self._others(generation), 0)  # they have TERM
        return not generation.sweep(self._others(generation)) and generation.ended

    def _program_is_over(self) -> bool:
        """Whether the old workers ended because their work was done, before they could stop."""
        return not self._stopped_together and self._present.complete

    def _finish(self) -> None:
        if self._dropped:
            return
        self._memory.judge(self._present.workers.values())
        codes = [each.exit_code() for each in self._present.failed()]
        if self._code is not None:
            self.exit_code = self._code
        elif self._present.complete:
            self.exit_code = 0  # servers never end by themselves
        else:
            self.exit_code = codes[0] if codes else 0
        self._answers.tasks_changed()

    # ---------------------------------------------------------------- the next generation

    def _look(self, folder: Folder) -> None:
        """Begin a resize if the daemon has asked for one."""
        now = self._clock()
        if now - self._looked_s < LOOK_S:
            return
        self._looked_s = now
        number, found = asked(folder, self._answered)
        if found is None:
            return
        if isinstance(found, Refused):
            self._answer(number, str(found))
            return
        begin_s = begin_limit(found, now)
        if not self._hub.stepped:
            if found.due_boot_s is None or now > begin_s:
                self._answer(
                    number, "the program has not called elastic.step: it cannot stop there"
                )
            return  # it may be about to
        try:
            refuse(self._hub.hooks, self._present.placement.roles(), found.roles())
        except Refused as error:
            self._answer(number, str(error))
            return
        self._count += 1
        self._resize = Resize(Generation(self._count, found), begin_s)
        if not self._launcher.can_stand_by:
            return
        try:
            self._launcher.fill(self._resize.generation, self._all_restarts, self._imports)
        except RadrmError as error:
            self._drop(str(error))

    def _prepare(self, resize: Resize) -> None:
        """Begin the resize when all standbys wait; forget it if it cannot begin."""
        assert self._folder is not None
        if resize.begun or self._present.stop is Stop.END:
            return
        number = resize.placement.number
        if self._folder.begun(number):
            self._drop("radrm has withdrawn it")
        elif failed := resize.generation.failed():
            worker = failed[0]
            self._drop(f"{worker.task} {worker.status()} before it could begin")
        elif self._clock() > resize.begin_s:
            self._drop(f"not ready in time: {waiting_for(resize)}")
        elif resize.generation.ready:
            try:
                resize.begun = self._folder.begin(number)
            except OSError as error:
                self._drop(f"begun-{number} cannot be made: {error.strerror}")
                return
            if not resize.begun:
                self._drop("radrm has withdrawn it")
            elif self._present.stop is None:
                self._stopped_together = False
                grace_s = self._present.placement.grace_s
                self._hub.stop_together()
                self._stop(Stop.RESIZE, grace_s)

    def _drop(self, reason: str) -> None:
        """Forget a resize: its standbys end, and the present workers go on."""
        resize = self._resize
        assert resize is not None
        self._resize = None
        self._dropped.append(resize.generation)
        self._answer(resize.placement.number, reason)

    def _switch(self, resize: Resize) -> None:
        """Let the new generation go: nothing of the old one lives."""
        self._resize = None
        new = resize.generation
        if new.failed() or not self._launcher.can_stand_by:
            self._dropped.append(new)
            self._restart(new.placement)
        else:
            self._present = new
            self._hub.begin(new.number, self._tasks)
            self._launcher.let_go(new)
            self._answers.tasks_changed()
        self._answer(resize.placement.number)

    def _restart(self, placement: Placement) -> None:
        """Start a fresh generation."""
        self._count += 1
        self._present = Generation(self._count, placement)
        self._hub.begin(self._count, self._tasks)
        try:
            self._run(self._present)
        except RadrmError as error:
            self.broken(str(error))

    def _run(self, generation: Generation) -> None:
        """Start a generation that goes at once. Raises `RadrmError`."""
        self._launcher.fill(generation, self._all_restarts, goes=True)
        self._launcher.let_go(generation)
        self._answers.tasks_changed()

    def _answer(self, number: int, failed: str | None = None) -> None:
        """Tell the daemon how the resize to placement `number` went."""
        self._answered = max(self._answered, number)
        if failed is not None:
            self._say(f"the job keeps its size: {failed}")
        self._answers.answer(number, failed, self._tasks)

    def note_change(self) -> None:
        """A worker has ended, or is ready."""
        self._answers.tasks_changed()
