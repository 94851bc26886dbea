"""Defects of the planners that change running jobs."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_SPECON, _CONVERGENCE, _MOVING = (
    f"../planners/{name}.py" for name in ("specon", "convergence", "moving")
)

MUTANTS = (
    Mutant(
        "a job looks converged between two reports",
        _CONVERGENCE,
        "    if since_s == 0:\n        return None\n",
        "",
    ),
    Mutant(
        "a gain counts whatever time lies between two reports",
        _CONVERGENCE,
        "/ note.fall * interval_s / passed_s",
        "/ note.fall",
    ),
    Mutant(
        "a loss counts in its own unit",
        _CONVERGENCE,
        "abs(note.loss - before) / note.fall *",
        "abs(note.loss - before) *",
    ),
    Mutant(
        "a job converges in one step",
        _CONVERGENCE,
        "_SLOWER = {PROGRESSING: WATCHING,",
        "_SLOWER = {PROGRESSING: CONVERGED,",
    ),
    Mutant(
        "a job is moved again by Algorithm 4",
        _SPECON,
        "return asks and not note.moved and _can_move(job, attempt)",
        "return asks and _can_move(job, attempt)",
    ),
    Mutant(
        "a job is moved again by Algorithm 5",
        _SPECON,
        "if note is None or note.rebalanced or note.category",
        "if note is None or note.category",
    ),
    Mutant(
        "one that improves is enough beside a converged job",
        _SPECON,
        "if len(growing) <= 1:",
        "if len(growing) < 1:",
    ),
    Mutant(
        "a move that wins too little is made",
        _SPECON,
        "return own_s >= 0 and all_s >= self.rule.min_gain * cost_s",
        "return own_s >= 0",
    ),
    Mutant(
        "a GPU of another type is a target",
        _SPECON,
        "if less or other or (offer.idle",
        "if less or (offer.idle",
    ),
    Mutant(
        "the idle device that a waiting job needs is a target",
        _SPECON,
        "if less or other or (offer.idle and view.head() is not None):",
        "if less or other:",
    ),
    Mutant(
        "two jobs of one run go to the same device",
        _SPECON,
        "        self.there[here].remove(job_id)\n        self.there[there].append(job_id)\n",
        "",
    ),
    Mutant(
        "the cost of a save is not what was measured",
        _MOVING,
        "if save_s is None or save_s < 0:",
        "if True:",
    ),
)
