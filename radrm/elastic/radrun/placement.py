"""What `radrun` is to run: the tasks of one placement, and where each may run.

Under the daemon a placement comes from the file `placement-G.json`; elsewhere it is made from the
options. It may hold anything, because the job's user owns the folder: every field is checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct, field

VERSION = 1
NEAR = "RADRM_CPU_LIST"
"""The variable of a task that has the CPUs near its GPUs, as the kernel lists them: `0-15,32`."""
_SPAN = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_MOST_CPUS = 8192
MOST_TASKS = 256
USUAL_GRACE_S = 30.0


Number = Annotated[float, Meta(ge=0, le=1e15)]
Name = Annotated[str, Meta(pattern=r"\A[A-Za-z][A-Za-z0-9_-]{0,31}\Z")]
Variable = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,255}\Z")]
Value = Annotated[str, Meta(pattern=r"\A[^\0]*\Z")]


class Task(Struct, frozen=True):
    """One task: task `number` of its role, on these GPUs. `cpus` None: no limit of its own.

    `environment` holds only what differs from task to task.
    """

    role: Name
    number: Annotated[int, Meta(ge=0, lt=MOST_TASKS)] = field(name="task")
    gpus: tuple[str, ...] = ()
    cpus: Number | None = None
    environment: dict[Variable, Value] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        return self.role, self.number

    @property
    def near_cpus(self) -> tuple[int, ...]:
        """The CPUs near its GPUs; none if they are not known."""
        spans = self.environment.get(NEAR, "").split(",")[:_MOST_CPUS]
        found: set[int] = set()
        for first, last in (span.groups() for span in map(_SPAN.fullmatch, spans) if span):
            found.update(range(int(first), min(int(last or first) + 1, _MOST_CPUS)))
        return tuple(sorted(found))

    def __str__(self) -> str:
        return f"task {self.number} ({self.role})"


class Placement(Struct, frozen=True):
    """The tasks of placement `number`, in the order of their ranks.

    `due_boot_s` is the boot time at which the daemon gives a resize to it up; None: never.
    `grace_s`: seconds that the old workers have to save and leave.
    """

    number: int = field(name="generation")
    tasks: Annotated[tuple[Task, ...], Meta(min_length=1, max_length=MOST_TASKS)]
    grace_s: Annotated[float, Meta(ge=0, le=24 * 3600)] = USUAL_GRACE_S
    due_boot_s: Number | None = None
    boot_id: str = ""

    def roles(self) -> dict[str, int]:
        """The number of tasks of each role, in order."""
        counts: dict[str, int] = {}
        for task in self.tasks:
            counts[task.role] = counts.get(task.role, 0) + 1
        return counts


def is_server(role: str, counts: Mapping[str, int]) -> bool:
    """Whether tasks of a role hold state for the others, as parameter servers do.

    Those are all roles before the last one, but `worker`.
    """
    return len(counts) > 1 and role != "worker" and role != list(counts)[-1]


def alone(counts: dict[str, int]) -> Placement:
    """The placement of a program that no daemon has placed: so many tasks of each role."""
    tasks = [Task(role, number) for role, count in counts.items() for number in range(count)]
    return Placement(1, tuple(tasks))


class _Head(Struct):
    version: int = 0
    generation: int = 0


T = TypeVar("T")


def decoded(text: bytes, kind: type[T]) -> T:
    """The document of a file. Raises `ValueError` with one line about what is wrong."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise ValueError("it is not JSON") from None


def parse(text: bytes, number: int) -> Placement:
    """The placement with this number. Raises `ValueError` as `decoded`."""
    head = decoded(text, _Head)
    if head.version != VERSION:
        raise ValueError(f"its version is {head.version}, and this radrun reads version {VERSION}")
    if head.generation != number:
        raise ValueError(f"its generation is not {number}, as its name says")
    found = decoded(text, Placement)
    if len({task.key for task in found.tasks}) != len(found.tasks):
        raise ValueError("it names a task twice")
    return found
