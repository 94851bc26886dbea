"""Start the workers of a generation: their program, environment and ports."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable, Mapping, Sequence

from radrm.elastic.radrun.arguments import Options
from radrm.elastic.radrun.placement import Task
from radrm.elastic.radrun.workers import environment
from radrm.elastic.radrun.workers.environment import Ports
from radrm.elastic.radrun.workers.members import Generation
from radrm.elastic.radrun.workers.process import Program, Worker
from radrm.jobfile.inherited import SET_FOR_WORKER, set_listed


class Launcher:
    """Starts workers. `common` is the environment that all of them have."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        options: Options,
        common: Mapping[str, str],
        place: str,
        on_change: Callable[[], None],
    ) -> None:
        self._selector = selector
        self._options = options
        self._common = dict(common)
        self._place = place
        self._on_change = on_change
        if options.no_python:
            self._common["PYTHONPATH"] = environment.python_path(common, place)

    @property
    def can_stand_by(self) -> bool:
        """Whether a worker can be started before it may run its program."""
        return not self._options.no_python

    def fill(
        self,
        generation: Generation,
        restarts: int,
        imports: Sequence[str] = (),
        goes: bool = False,
    ) -> None:
        """Start all workers of a generation. Raises `UsageError`.

        They wait; those that cannot wait need `goes`: then the generation has its ports now.
        """
        if goes:
            generation.ports = Ports(generation.placement)
        for task in generation.placement.tasks:
            self.start(generation, task, restarts, imports)

    def start(
        self, generation: Generation, task: Task, restarts: int, imports: Sequence[str] = ()
    ) -> None:
        """Start the worker of one task, in the place of the one before. Raises `UsageError`."""
        options, placement = self._options, generation.placement
        found = environment.variables(
            task, placement, generation.number, restarts, options.max_restarts
        )
        program = Program(
            script=options.script_of(task.role),
            arguments=options.arguments,
            module=options.module,
            no_python=options.no_python,
            place=self._place,
        )
        its = dict(self._common)
        set_listed(its, SET_FOR_WORKER, found)
        if generation.ports is not None:
            its |= generation.ports.variables(task, placement)
        generation.add(Worker(self._selector, task, program, its, imports, self._on_change))

    def let_go(self, generation: Generation) -> None:
        """Let all workers of a generation run their program that wait for it."""
        ports = generation.ports = generation.ports or Ports(generation.placement)
        for worker in generation.workers.values():
            if not worker.begun:
                worker.go(ports.variables(worker.task, generation.placement))


def common_environment(hub_path: str, checkpoints: str) -> dict[str, str]:
    """What all workers have beside radrun's own environment."""
    found = dict(os.environ)
    own = {"RADRM_ELASTIC_SOCKET": hub_path, "RADRM_CHECKPOINT_DIR": checkpoints}
    set_listed(found, SET_FOR_WORKER, own)
    # These are of a whole attempt; each worker has its own.
    for name in ("RADRM_ELASTIC_DIR", "RANK", "LOCAL_RANK", "WORLD_SIZE"):
        found.pop(name, None)
    return found
