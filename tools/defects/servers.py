"""Defects of the planners `dlrover` and `nearchus`."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_METERING = "../planners/servers/notes.py"
_NOTES = "../planners/servers/notes.py"
_PLACING = "../planners/servers/layout.py"
_STEERING = "../planners/servers/steering.py"
_STAGES = "../planners/dlrover.py"
_DLROVER = "../planners/dlrover.py"
_NEARCHUS = "../planners/nearchus.py"
_DECISIONS = "../planners/nearchus.py"

MUTANTS = (
    Mutant(
        "a count begins with reports of earlier processes",
        _METERING,
        "if use.tasks_measured.boot_s <= after_s or progress.measured.boot_s <= after_s:",
        "if False:",
    ),
    Mutant(
        "a change of size that failed is tried again at once",
        _NOTES,
        "self.retry_s = now_s + interval_s * 2 ** min(self.failures - 1, _MOST_DOUBLINGS)",
        "self.retry_s = now_s",
    ),
    Mutant(
        "servers grow on a node without room",
        _PLACING,
        "if sum(here.values()) <= most + _ROUNDING:",
        "if True:",
    ),
    Mutant(
        "jobs with servers grow while another waits for CPUs",
        _STEERING,
        "room = 0.0 if waits else free_cpus(view)",
        "room = free_cpus(view)",
    ),
    Mutant(
        "a program without load hook is asked for other servers again",
        _STEERING,
        "if failed is not None and FIXED in event.reason:",
        "if False:",
    ),
    Mutant(
        "servers that are all busy are hot",
        _STAGES,
        "return hot if len(hot) < len(given) else []",
        "return hot",
    ),
    Mutant(
        "workers are scaled without enough servers",
        _STAGES,
        "    if not enough:\n",
        "    if False:\n",
    ),
    Mutant(
        "a job changes twice within a minute",
        _DLROVER,
        "if note.changes and look.now_s - note.changed_s < self.interval_s:",
        "if False:",
    ),
    Mutant(
        "workers beyond the quota go although that helps nobody",
        _DLROVER,
        "if waits and most < wanted:",
        "if False:",
    ),
    Mutant(
        "workers within the quota go, too",
        _DLROVER,
        "while keep > first and freed < wanted - 0.001:",
        "while keep > 1 and freed < wanted - 0.001:",
    ),
    Mutant(
        "a job that was planned for little stays small",
        _DLROVER,
        "if note.stage == ADJUST and quota >= _GROWN * note.quota:",
        "if False:",
    ),
    Mutant(
        "unstable samples count",
        _NEARCHUS,
        "if not all(is_stable(of, self.samples, self.most_variation) for of in (speeds, uses)):",
        "if len(speeds) < self.samples:",
    ),
    Mutant(
        "a job keeps its last layout",
        _NEARCHUS,
        "return self._allowed(look.has, from_lists(note.best), look.room)",
        "return None",
    ),
    Mutant(
        "a job grows beyond its budget",
        _NEARCHUS,
        "room = max(0.0, min(look.room, self.budget - has.total))",
        "room = look.room",
    ),
    Mutant(
        "servers get no room above their use",
        _DECISIONS,
        "sum(used.servers) * (1 + headroom)",
        "sum(used.servers)",
    ),
)
