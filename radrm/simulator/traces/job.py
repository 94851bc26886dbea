"""One job of a trace: its submission, its needs, and its behaviour alone on a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from radrm.core.records import Estimate, Profiled


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A line of a trace (design: `submit_s,name,gpus,duration_s,memory_mib,smact`).

    - `duration_s`: its duration alone on the server, with the start-up.
    - `memory_mib`: its peak per GPU. `smact`: its mean SM activity (0..1) alone.
    - `estimates`: estimates of its memory in MiB per GPU, by estimator. `declared`: they are
      the submitter's figures.
    - `weight`: the weight of its tardiness. `family` and `batch_size` give its share weight
      (`interference.model.share_weight`).
    - `line`: its line in the source.
    - `after`: the lines of jobs that must end first; `after_arrays`: the arrays that must.
      Unknown lines and arrays are ignored.
    - `array`: the name of its array, of which `at_once` jobs run at a time.
    - `cpus`: the CPUs that it can use at once; None: it needs hardly any. Not booked. Of an elastic
      job: those of each worker at its start, which are booked.
    - `loss_k`: its loss falls as exp(-loss_k x work done). `report_s`: the seconds between its
      reports of progress. `saves`: it can save its state; `checkpoint_s`: the seconds that it
      stands still for that; None: those of the scenario.
    - `profile`: its run times alone on kinds and numbers of GPUs, by a word of the kind's name;
      `duration_s` holds for the others.
    - `gpus` 0 and `cpus_max`: it has parameter servers and workers, which are not on GPUs.
    - `gpus_max`: it may run on as many GPUs, one worker each; `gpus` are the fewest. `cpus_max`:
      the most CPUs that a worker can use. `io_s`, `compute_s`, `sync_s`: its step (see `steps`).
    - `predicted`: what was known of its SM activity and duration when it really ran.
    """

    submit_s: float
    name: str
    gpus: int
    duration_s: float
    memory_mib: float
    smact: float
    estimates: Mapping[str, float] = field(default_factory=dict)
    declared: bool = False
    user: str = "user"
    priority: int = 0
    due_s: float | None = None
    weight: float = 1.0
    batch_size: int | None = None
    family: str | None = None
    steady_mib: float | None = None
    """Its memory after the peak. None: the simulator draws it as a part of the peak."""
    line: int = 0
    after: tuple[int, ...] = ()
    after_arrays: tuple[str, ...] = ()
    array: str | None = None
    at_once: int | None = None
    cpus: float | None = None
    loss_k: float | None = None
    report_s: float | None = None
    saves: bool = False
    checkpoint_s: float | None = None
    profile: tuple[Profiled, ...] = ()
    predicted: tuple[Estimate, ...] = ()
    gpus_max: int | None = None
    cpus_max: float | None = None
    io_s: float | None = None
    compute_s: float | None = None
    sync_s: float | None = None
    command: str | None = None
    """Its command line, for `radrm trace run` on real GPUs. The simulator does not read it."""

    @property
    def can_save(self) -> bool:
        """Whether it can save its state and go on from it."""
        return self.saves or bool(self.checkpoint_s)

    @property
    def elastic(self) -> bool:
        """Whether it may run with more GPUs, or more CPUs, than at its start."""
        return self.gpus_max is not None or self.cpus_max is not None
