"""Defects of the planner `elastic`."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_GIVING = "../planners/elasticity/giving.py"
_GROWING = "../planners/elasticity/growing.py"
_NOTES = "../planners/elasticity/notes.py"
_RULE = "../planners/elastic.py"

MUTANTS = (
    Mutant(
        "the oldest growth goes first",
        _GIVING,
        "key=lambda giver: (-giver.grown_s, -giver.job.id)",
        "key=lambda giver: (giver.grown_s, giver.job.id)",
    ),
    Mutant(
        "growth is given back that lets nobody start",
        _GIVING,
        "            found[giver.job.id] = workers\n    return found if lacking <= 0 else None",
        "            found[giver.job.id] = workers\n    return found",
    ),
    Mutant(
        "a change need not pay",
        _GROWING,
        "if saved_s >= wanted_s:",
        "if saved_s > 0:",
    ),
    Mutant(
        "idle GPUs go to the job that gains least",
        _GROWING,
        "max(found, key=lambda each: each[:2])",
        "min(found, key=lambda each: each[:2])",
    ),
    Mutant(
        "what is not worth it is kept",
        _RULE,
        "if added <= 0 or faster * before / added >= self.rule.least_gain:",
        "if added <= 0 or faster >= 0:",
    ),
    Mutant(
        "jobs grow while others wait",
        _RULE,
        "            if view.any_waiting:\n                head",
        "            if False:\n                head",
    ),
    Mutant(
        "GPUs come before CPUs",
        _RULE,
        "            if more is not None:\n                yield",
        "            if more is not None and False:\n                yield",
    ),
    Mutant(
        "the steps before a change count as its cost",
        _NOTES,
        "max(0.0, gap_s - gap_steps * self.sizes[self.workers])",
        "gap_s",
    ),
    Mutant(
        "sizes measured with other CPUs count",
        _NOTES,
        "            self.sizes = {}  # measured with other CPUs",
        "            pass",
    ),
)
