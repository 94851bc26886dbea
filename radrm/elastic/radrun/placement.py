"""What `radrun` is to run: the tasks of one placement, and where each may run.

Under the daemon a placement comes from the file `placement-G.json`; elsewhere it is made from the
options. It may hold anything, because the job's user owns the folder: every field is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

VERSION = 1
NEAR = "RADRM_CPU_LIST"
"""The variable of a task that has the CPUs near its GPUs, as the kernel lists them: `0-15,32`."""
_SPAN = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_MOST_CPUS = 8192
MOST_TASKS = 256
USUAL_GRACE_S = 30.0
_LONGEST_GRACE_S = 24 * 3600.0
_MOST = 1e15
_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")


class Task(Struct, frozen=True):
    """One task: task `number` of its role, on these GPUs. `cpus` None: no limit of its own.

    `environment` holds only what differs from task to task.
    """

    role: str
    number: int
    gpus: tuple[str, ...] = ()
    cpus: float | None = None
    environment: dict[str, str] = field(default_factory=dict)

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

    number: int
    tasks: tuple[Task, ...]
    grace_s: float = USUAL_GRACE_S
    due_boot_s: float | None = None
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


def parse(text: bytes, number: int) -> Placement:
    """The placement with this number. Raises `ValueError` with one line about what is wrong."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(fields, dict):
        raise ValueError("it is not a JSON object")
    if fields.get("version") != VERSION:
        shown = ascii(fields.get("version"))[:20]
        raise ValueError(f"its version is {shown}, and this radrun reads version {VERSION}")
    if fields.get("generation") != number:
        raise ValueError(f"its generation is not {number}, as its name says")
    given = fields.get("tasks")
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_TASKS:
        raise ValueError(f"it has no list of 1 to {MOST_TASKS} tasks")
    tasks = tuple(_task(each) for each in given)
    if len({task.key for task in tasks}) != len(tasks):
        raise ValueError("it names a task twice")
    return Placement(
        number,
        tasks,
        grace_s=_number(fields.get("grace_s", USUAL_GRACE_S), "grace_s", _LONGEST_GRACE_S),
        due_boot_s=_optional(fields.get("due_boot_s"), "due_boot_s"),
        boot_id=str(fields.get("boot_id", "")),
    )


def _task(given: Any) -> Task:
    if not isinstance(given, dict):
        raise ValueError("a task is not a JSON object")
    role, number = given.get("role"), given.get("task")
    if not isinstance(role, str) or not _ROLE.fullmatch(role):
        raise ValueError("a task has no role")
    if type(number) is not int or not 0 <= number < MOST_TASKS:
        raise ValueError(f"a task of role {role} has no number from 0 to {MOST_TASKS - 1}")
    gpus, environment = given.get("gpus", []), given.get("environment", {})
    if not isinstance(gpus, list) or not all(isinstance(each, str) for each in gpus):
        raise ValueError(f"the GPUs of task {number} ({role}) are not a list of names")
    if not isinstance(environment, dict) or not all(
        isinstance(value, str) and _VARIABLE.fullmatch(name) and "\0" not in value
        for name, value in environment.items()
    ):
        raise ValueError(
            f"the environment of task {number} ({role}) has an entry that is not a variable"
        )
    return Task(role, number, tuple(gpus), cpus_of(given), environment)


def cpus_of(given: dict[str, Any]) -> float | None:
    """The CPUs of a task in a file; None: no limit. Raises `ValueError`."""
    return _optional(given.get("cpus"), "cpus")


def _optional(value: Any, name: str) -> float | None:
    return None if value is None else _number(value, name, _MOST)


def _number(value: Any, name: str, most: float) -> float:
    if type(value) not in (int, float) or not 0 <= value <= most:  # NaN is not, either
        raise ValueError(f"its {name} is not a number from 0 on")
    return float(value)
