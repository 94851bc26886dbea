"""What the daemon asks for, and when and why it is refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from msgspec import Struct

from radrm.elastic.radrun.folder import Folder
from radrm.elastic.radrun.placement import Placement, is_server
from radrm.elastic.radrun.workers.members import Generation
from radrm.errors import Refused

_LONGEST_PREPARING_S = 600.0
"""Seconds for standbys if the daemon names no deadline."""


class Resize(Struct):
    """A resize under way. `begin_s`: the monotonic time until which it may begin."""

    generation: Generation
    begin_s: float
    begun: bool = False

    @property
    def placement(self) -> Placement:
        return self.generation.placement


def asked(folder: Folder, answered: int) -> tuple[int, Placement | Refused | None]:
    """The number of the newest placement, and what it is; None if there is no new one."""
    try:
        number = folder.newest()
    except OSError:
        return answered, None  # the daemon has removed the folder: the attempt is over
    if number <= answered or folder.is_answered(number):
        return answered, None  # an earlier radrun of this attempt may have answered it
    try:
        return number, folder.placement(number)
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        return number, Refused(f"placement-{number}.json cannot be used: {cause}")


def begin_limit(placement: Placement, now_s: float) -> float:
    """The monotonic time until which a resize to a placement may begin.

    The old workers' grace time must fit in before the daemon's deadline, if that is far enough.
    """
    if placement.due_boot_s is None:
        return now_s + _LONGEST_PREPARING_S
    left_s = placement.due_boot_s - time.clock_gettime(time.CLOCK_BOOTTIME)
    return now_s + left_s - min(placement.grace_s, max(left_s, 0.0) / 2)


def refuse(hooks: Collection[str], before: dict[str, int], after: dict[str, int]) -> None:
    """Raise `Refused` if the program cannot go on with these numbers of tasks.

    `hooks`: the roles that can load a checkpoint of another number of tasks.
    """
    for role in {**before, **after}:
        changes = before.get(role) != after.get(role)
        server = is_server(role, before) or is_server(role, after)
        if changes and server and role not in hooks:
            raise Refused(f"role {role} has no load hook; call elastic.on_load in its program")


def waiting_for(resize: Resize) -> str:
    """The tasks whose standbys are not ready."""
    late = [str(each.task) for each in resize.generation.workers.values() if not each.ready]
    return ", ".join(late[:4]) + (" ..." if len(late) > 4 else "")


class Answers:
    """What the daemon is owed in the folder. What cannot be written now is written later."""

    def __init__(self, folder: Folder | None, resized: Callable[[int], None]) -> None:
        self._folder = folder
        self._resized = resized
        self._tasks = True
        self._answers: list[tuple[int, str | None, list[tuple[str, int]]]] = []

    def tasks_changed(self) -> None:
        """A task has started, or ended."""
        self._tasks = True

    def answer(self, number: int, failed: str | None, tasks: list[tuple[str, int]]) -> None:
        """Tell how the resize to placement `number` went: these tasks run, or why it failed."""
        self._answers.append((number, failed, tasks))
        self._tasks = True

    def write(self, present: Generation) -> None:
        folder = self._folder
        if folder is None:
            return
        try:
            if self._tasks:
                folder.write_tasks(present.placement.number, present.described())
                self._tasks = False
            while self._answers:
                number, failed, tasks = self._answers[0]
                if failed is None:
                    folder.resized(number, tasks)
                else:
                    folder.failed(number, failed)
                del self._answers[0]
                self._resized(number)
        except OSError:
            return  # a full disk, or a folder that the daemon has removed
