"""Defects of FlowCon: of how growth is measured, and of the shares that follow."""

from __future__ import annotations

from tools.defects.mutant import Mutant

MUTANTS = (
    Mutant(
        "a slow job moves to the completing list at once",
        "../planners/growth.py",
        "return WATCHING if which == NEW else COMPLETING",
        "return COMPLETING",
    ),
    Mutant(
        "a job without a new report is judged",
        "../planners/growth.py",
        "    if passed_s == 0:\n        return False\n    note.at_s = progress.at.boot_s",
        "    note.at_s = progress.at.boot_s",
    ),
    Mutant(
        "the interval doubles once for each job",
        "../planners/flowcon.py",
        "return min(2 * interval_s, _MOST_INTERVAL_S)",
        "return min(2 ** len(running) * interval_s, _MOST_INTERVAL_S)",
    ),
    Mutant(
        "a job that comes or goes leaves the interval",
        "../planners/flowcon.py",
        "interval_s = self.interval_s  # Algorithm 2",
        "pass",
    ),
    Mutant(
        "a completing job gets less than its floor",
        "../planners/flowcon.py",
        "note.limit = max(part, 1 / (self.beta * len(running)))",
        "note.limit = part",
    ),
)
