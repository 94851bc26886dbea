"""Answer the workers' requests: datasets, steps, checkpoints, and the step at which all pause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from radrm.elastic.radrun.shards import messages
from radrm.elastic.radrun.shards.book import Book, BookError, Worker
from radrm.elastic.radrun.shards.dealing import Dealing, Listener, Member
from radrm.elastic.radrun.shards.messages import Message
from radrm.elastic.radrun.shards.store import Store

# ------------------------------------------------------------------
# At which step all workers pause together: to save, or to stop. Pure.
#
# Theory of operation. The server pushes "hold" to every worker. A worker reports each of its steps
# and says whether it had seen the hold before; one that has waits at that step for an answer. One
# that has not goes on, so it will report at the next step.
#
# In **lockstep** (synchronous training) no worker ends step k+1 before all have begun it: they need
# each other's gradients. So workers must not wait at different steps. The step at which all pause
# is at least `k` for one that waits at k, and `k + 1` for one whose last report was k. The largest
# of these is known to be safe: every worker that waits before it is told to go on (`release`), and
# the others reach it without help of those that wait there. It grows by one at most, by a report
# that was under way when the hold was sent.
#
# **Out of lockstep** (asynchronous training) each worker pauses where it is.


class Boundary:
    """One pause."""

    def __init__(self, lockstep: bool) -> None:
        self._lockstep = lockstep
        self._passed: dict[Worker, int] = {}
        self.waiting: dict[Worker, int] = {}
        """The workers that wait, and at which step."""

    def expect(self, worker: Worker, passed: int) -> None:
        """Wait for this worker too, which has reported `passed` steps."""
        self._passed.setdefault(worker, passed)

    def report(self, worker: Worker, step: int, seen: bool) -> list[Worker]:
        """Note a worker's report. Return the workers that have to go on by one step."""
        self._passed.setdefault(worker, step)
        self._passed[worker] = max(step, self._passed[worker])
        if seen:
            self.waiting[worker] = step
        return self.release()

    def release(self) -> list[Worker]:
        """Take out and return the workers that wait before the step at which all pause."""
        if not self._lockstep:
            return []
        target = self.step
        behind = [worker for worker, step in self.waiting.items() if step < target]
        for worker in behind:
            del self.waiting[worker]
        return behind

    def forget(self, worker: Worker) -> None:
        """A worker is gone: the others do not wait for it."""
        self._passed.pop(worker, None)
        self.waiting.pop(worker, None)

    @property
    def step(self) -> int:
        """The step at which all pause, as far as it is known."""
        steps = [
            step if worker in self.waiting else step + 1 for worker, step in self._passed.items()
        ]
        return max(steps, default=0)

    def complete(self, idle: Iterable[Worker] = ()) -> bool:
        """Whether every worker waits, or is one of `idle`, which do no step."""
        return all(worker in self.waiting for worker in self._passed.keys() - set(idle))


# ------------------------------------------------------------------
# Answers the workers' requests: datasets, steps, checkpoints. It knows no sockets and no clock.
#
# Theory of operation. A worker's request is answered at once, or later: by `_settle`, which runs
# after every event and answers all requests whose condition has come true. Requests that wait:
#
# - `open`, `restore` and `round`, until it is decided how the generation begins (`dealing.py`).
# - `take`, while other workers still hold leases that may return.
# - `step` that has seen a hold, until all workers wait (below).
# - `save` of all but the writer, until the checkpoint is complete.
#
# **Save.** One worker writes: the first of those that pause, or who saves by itself. It asks for an
# id (`save`), writes the model to a draft, has the shards' state stored under the id (`store`),
# renames the draft and reports (`saved`). So a checkpoint with a name always has its state. In
# asynchronous training everybody pauses for a save, or the model could hold samples that the state
# does not.
#
# **Stop.** It is a save after which nobody goes on.
#
# **A lost worker.** Asynchronous workers go on without it. Synchronous ones cannot: they may wait
# here for its step for ever, until `radrun` ends them and begins another generation.


MOST_KEPT = 16
"""Checkpoints whose states a worker may ask to keep."""


class Service:
    """The present generation of workers, and the datasets."""

    def __init__(self, store: Store, listener: Listener) -> None:
        self._store = store
        self._listener = listener
        self._cpus: dict[Worker, float] = {}
        self.book = Book()
        self.hooks: set[str] = set()
        """The roles whose programs can load a checkpoint of another number of tasks."""
        self.begin(0, [])

    # ---------------------------------------------------------------- for radrun

    def begin(self, generation: int, tasks: Sequence[Worker]) -> None:
        """From now on only these workers of this generation count."""
        self.generation = generation
        self.tasks = list(tasks)
        self.members: dict[Worker, Member] = {}
        self.stepped = False
        """Whether a worker of this generation has called `elastic.step`: it can stop together."""
        self._halted = False
        self._dealing = Dealing(self.book, self._store, self.tasks)
        self._boundary: Boundary | None = None
        self._granted: list[Worker] = []
        self._writer: Worker | None = None
        self._id = ""
        self._saved_at = -1
        self._stop_wanted = self._leaves = self._left = False
        """Whether a stop was asked for; whether the pause under way is it; whether it is over."""

    def halt(self) -> None:
        """Workers that end from now until `begin` have not failed: radrun ends them."""
        self._halted = True

    def save(self) -> None:
        """Ask for a checkpoint: `elastic.step` returns True at one step, and all go on."""
        self._hold()
        self._settle()

    def stop_together(self) -> None:
        """Ask all workers to save at one step and to end. The caller keeps a deadline.

        `listener.boundary` comes when all wait, `saved` when the checkpoint is complete; then they
        end with 0. Neither comes if the program has finished by itself.
        """
        self._stop_wanted = True
        self._hold()
        self._settle()

    def cpus(self, worker: Worker, cpus: float) -> None:
        """Tell a worker, also one that starts later, how many CPUs it has."""
        self._cpus[worker] = cpus
        member = self.members.get(worker)
        if member is not None:
            member.send({"push": "cpus", "cpus": cpus})

    # ---------------------------------------------------------------- connections

    def join(self, message: Message, send: Callable[[Message], None]) -> Member:
        """Take in a worker by its first message. Raises BookError."""
        if message.get("do") != "hello" or message.get("version") != 1:
            raise BookError("this elastic.py does not fit this radrun; use $RADRM_ELASTIC_PY")
        worker = (messages.name(message, "role"), messages.whole(message, "task"))
        if messages.whole(message, "generation") != self.generation or worker not in self.tasks:
            raise BookError(
                f"{worker[0]} {worker[1]} is not of generation {self.generation} of the workers"
            )
        if worker in self.members:  # it has started again, and the end of the other comes late
            self.leave(self.members[worker])
        member = Member(worker, send, passed=self._dealing.base)
        self.members[worker] = member
        send({"cpus": self._cpus.get(worker), "step": self._dealing.step})
        if self._boundary is not None:
            send({"push": "hold"})
        return member

    def leave(self, member: Member) -> None:
        """A worker's connection has ended."""
        worker = member.worker
        if self.members.get(worker) is not member:
            return
        del self.members[worker]
        reason = self.book.lose(worker, failed=not (self._halted or self._leaving))
        if self._boundary is not None:
            self._boundary.forget(worker)
        if worker == self._writer:
            self._finish({"error": "the worker that wrote the checkpoint has ended"})
        self._listener.lost(*worker)
        if reason is not None:
            self._listener.broken(reason)
        self._settle()

    def handle(self, member: Member, message: Message) -> None:
        """Answer one message, now or later."""
        if self.members.get(member.worker) is not member:
            return
        try:
            self._handle(member, message)
        except BookError as error:
            member.answer({"error": str(error)})
        self._settle()

    def _handle(self, member: Member, message: Message) -> None:
        what = message.get("do")
        if what == "step":
            self._report(member, message)
        elif what == "store":
            member.answer(self._written(member, message))
        elif what == "saved":
            self._complete(member, message)
        elif what == "hook":
            self.hooks.add(member.worker[0])
            member.answer({})
        elif what == "ask-save":
            self.save()
        elif what in ("open", "restore", "round", "take", "save"):
            member.waits_to = message
        else:
            raise BookError(f"radrun does not know the request {str(what)[:40]!r}")

    def _take(self, member: Member, message: Message) -> Message | None:
        if self._left:
            return {"leave": True}
        deals = self._boundary is None or self._between_shards
        return self._dealing.take(member, message, deals=deals)

    @property
    def _between_shards(self) -> bool:
        """Whether a pause finds all workers between two shards: one has to step, and so to save."""
        boundary = self._boundary
        return (
            boundary is not None
            and not boundary.waiting
            and not self._granted
            and not any(self.book.busy(worker) for worker in self.members)
            and all(
                (member.waits_to or {}).get("do") == "take"
                for member in self.members.values()
                if member.trains
            )
        )

    # ---------------------------------------------------------------- steps

    def _report(self, member: Member, message: Message) -> None:
        worker, step = member.worker, messages.whole(message, "step")
        for name, ranges in messages.reads(message).items():
            self.book.consume(worker, name, ranges)
        done = self._dealing.step
        self._dealing.step = done + 1 if self._dealing.asynchronous else max(done, step)
        member.passed, member.trains, self.stepped = step, True, True
        if self._dealing.leads(worker):
            names = messages.modules(message)
            if names:
                self._listener.modules(names)
            if "loss" in message:
                figures = [messages.number(message, key) for key in ("total", "loss", "data_wait")]
                self._listener.progress(self._dealing.step, *figures)
        seen = bool(message.get("seen"))
        if self._boundary is None:
            if seen:
                member.answer({"go": True, "over": True})
        else:
            self._go_on(self._boundary.report(worker, step, seen))
        if message.get("ask") and not seen:
            member.answer({"last": self.book.over()})

    def _go_on(self, workers: list[Worker]) -> None:
        for worker in workers:
            if worker in self.members:
                self.members[worker].answer({"go": True})

    def _hold(self) -> None:
        """Begin a pause, unless one is under way."""
        if self._boundary is not None or self._writer is not None:
            return
        self._boundary = Boundary(lockstep=not self._dealing.asynchronous)
        for member in self.members.values():
            member.send({"push": "hold"})

    def _expect(self, boundary: Boundary) -> None:
        """Tell a pause for which workers it waits: of a synchronous job also those that start."""
        roles = {member.worker[0] for member in self.members.values() if member.trains}
        for worker in self.tasks:
            member = self.members.get(worker)
            if worker[0] in roles and (member or not self._dealing.asynchronous):
                boundary.expect(worker, member.passed if member else self._dealing.base)

    # ---------------------------------------------------------------- checkpoints

    def _save(self, member: Member, message: Message) -> Message | None:
        """Answer `save`: the writer's id, or that the save is complete."""
        worker = member.worker
        if self._left:
            return {"leave": True}
        if self._granted:
            if worker not in self._granted:
                return None
            if self._writer is None:
                self._writer = self._granted[0]
        elif self._dealing.asynchronous:
            self._hold()
            if self._boundary is not None:
                self._boundary.report(worker, member.passed, seen=True)
            return None
        elif self._boundary is not None and self._boundary.waiting.keys() & {worker}:
            return None
        elif not self._dealing.leads(worker):
            return self._answer_follower(member)
        elif self._writer is None:
            self._writer = worker
        if worker != self._writer or self._id:
            return None
        self._id = self._store.new_id(message.get("newest"))
        step = self._step_of(member)
        return {"write": self._id, "step": step}

    def _answer_follower(self, member: Member) -> Message | None:
        """Answer `save` of a rank that does not write, where no pause has asked for it."""
        if self._saved_at >= member.passed:
            return {"leave": False}
        leaders = [other for other in self.members.values() if self._dealing.leads(other.worker)]
        if not leaders:
            raise BookError("the checkpoint was not saved: the first worker has ended")
        late = any(other.passed > member.passed for other in leaders)
        return {"leave": False} if late else None

    def _step_of(self, member: Member) -> int:
        """The step that a checkpoint holds if this worker writes it."""
        return self._dealing.step if self._dealing.asynchronous else member.passed

    def _written(self, member: Member, message: Message) -> Message:
        """Store the shards' state under the id of the checkpoint that is being written."""
        self._check_writer(member, message)
        step = self._step_of(member)
        try:
            self._store.write(self._id, {**self.book.state(member.worker), "step": step})
        except OSError as error:
            return {"error": f"the state of the shards cannot be saved: {error.strerror}"}
        return {}

    def _complete(self, member: Member, message: Message) -> None:
        """The checkpoint has its name, or cannot be written."""
        self._check_writer(member, message)
        if message.get("error"):
            text = f"the checkpoint was not saved: {str(message['error'])[:300]}"
            self._finish({"error": text})
            return
        step = self._step_of(member)
        self._saved_at = member.passed
        keep = message.get("keep")
        if isinstance(keep, list):
            self._store.keep([str(each) for each in keep[:MOST_KEPT]] + [self._id])
        self._listener.saved(step, self._id)
        self._finish({"leave": self._leaving})

    @property
    def _leaving(self) -> bool:
        return self._leaves and bool(self._granted)

    def _check_writer(self, member: Member, message: Message) -> None:
        if member.worker != self._writer or not self._id or message.get("id") != self._id:
            raise BookError("this worker does not write a checkpoint now")

    def _finish(self, answer: Message) -> None:
        """End a save: answer all that wait for it, and let them go on unless this is a stop."""
        writer, granted, leaving = self._writer, self._granted, bool(answer.get("leave"))
        self._writer, self._id = None, ""
        for worker in {*granted, *([writer] if writer else [])}:
            member = self.members.get(worker)
            if member is None:
                continue
            if worker == writer or (member.waits_to or {}).get("do") == "save":
                member.answer(answer)
            elif self._dealing.asynchronous and not leaving:
                # It waits in its step, and has nothing to save.
                member.answer({"go": True, "over": True, "last": self.book.over()})
        if leaving:
            self._left = True
            for member in self.members.values():
                if (member.waits_to or {}).get("do") == "take":
                    member.answer({"leave": True})
            return
        if granted:
            self._granted, self._boundary = [], None
        if self._stop_wanted:
            self._hold()

    def _grant(self, boundary: Boundary) -> None:
        """All wait: tell them to save."""
        self._granted = [worker for worker in self.tasks if worker in boundary.waiting]
        asked = [
            worker
            for worker in self._granted
            if (self.members[worker].waits_to or {}).get("do") == "save"
        ]
        self._writer = (asked or self._granted)[0]
        # A stop that is asked for from now on comes at the next boundary: this one is not told.
        self._leaves = self._stop_wanted
        if self._leaves:
            self._listener.boundary(self._dealing.step)
        for worker in self._granted:
            member = self.members[worker]
            if worker in asked:
                continue  # `_save` answers it
            if worker == self._writer or not self._dealing.asynchronous or self._leaves:
                member.answer({"save": True, "last": self.book.over()})

    # ---------------------------------------------------------------- what waits

    def _settle(self) -> None:
        """Answer every request whose condition has come true; an answer can make others true."""
        while True:
            self._pause()
            paused = self._paused
            waiting = [member for member in self.members.values() if member.waits_to is not None]
            answered = [member for member in waiting if self._answered(member)]
            if not answered and self._paused == paused:
                return

    @property
    def _paused(self) -> tuple[Boundary | None, int]:
        """The pause under way, and how many wait in it; an asynchronous `save` can begin one."""
        boundary = self._boundary
        return boundary, len(boundary.waiting) if boundary is not None else 0

    def _pause(self) -> None:
        """Let go those that wait too early; tell all to save when all wait."""
        boundary = self._boundary
        if boundary is None or self._granted:
            return
        self._expect(boundary)
        self._go_on(boundary.release())
        idle = [
            worker
            for worker in self.members
            if self._dealing.asynchronous and not self.book.busy(worker)
        ]
        if boundary.waiting and boundary.complete(idle):
            self._grant(boundary)

    def _answered(self, member: Member) -> bool:
        """Answer the request that a worker waits with, if that is possible now."""
        message = member.waits_to
        if message is None:
            return False
        answers = {"round": self._dealing.round, "take": self._take, "save": self._save}
        try:
            found = answers.get(message["do"], self._dealing.begin)(member, message)
        except BookError as error:
            found = {"error": str(error)}
        if found is not None:
            member.answer(found)
        return found is not None
