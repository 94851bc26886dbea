"""Defects of the planners that change running jobs: SpecOn, FlowCon, time slots, idle jobs."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_SPECON, _CONVERGENCE = (f"../planners/{name}.py" for name in ("specon", "convergence"))

_SLOTS = "../planners/slots.py"

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
        _SPECON,
        "if save_s is None or save_s < 0:",
        "if True:",
    ),
    Mutant(
        "a job gives way although it would be the first again",
        _SLOTS,
        " and self.view.precedes(job, slot.job)}",
        "}",
    ),
    Mutant(
        "a job that gave way stops the next one at once",
        _SLOTS,
        "in_turn = self._turn_s(view, job) <= view.now.boot_s",
        "in_turn = True",
    ),
    Mutant(
        "a move begins a new slot",
        _SLOTS,
        "used_s = job.used_s - (job.requeued.used_s if job.requeued is not None else 0.0)",
        "used_s = 0.0",
    ),
    Mutant(
        "a slot counts from the job's first start",
        _SLOTS,
        "used_s = job.used_s - (job.requeued.used_s if job.requeued is not None else 0.0)",
        "used_s = job.used_s",
    ),
    Mutant(
        "a job is asked only at the end of its slot",
        _SLOTS,
        "ask_s = end_s - self.warn_s",
        "ask_s = end_s",
    ),
    Mutant(
        "a job that did not save is asked again at once",
        _SLOTS,
        "ask_s = max(ask_s, attempt.checkpoint_asked.boot_s + self._again_s)",
        "pass",
    ),
    Mutant(
        "a job gives way and keeps its place",
        _SLOTS,
        "yield Preempt(job_id=job_id, behind=True)",
        "yield Preempt(job_id=job_id)",
    ),
    Mutant(
        "two jobs wait for one device",
        _SLOTS,
        "        self.taken.update(chosen)\n",
        "",
    ),
    Mutant(
        "a job gives way to one that still cannot start",
        _SLOTS,
        "                if not found:\n                    return None\n",
        "                if not found:\n                    break\n",
    ),
    Mutant(
        "a device that others stay on always does",
        _SLOTS,
        "return self.policy.refuse(ask, then) is None",
        "return True",
    ),
    Mutant(
        "a restart keeps the slots of other settings",
        _SLOTS,
        "    ev.AttemptEnded,\n    ev.AttemptsAdopted,\n    ev.CheckpointTaken,",
        "    ev.AttemptEnded,\n    ev.CheckpointTaken,",
    ),
    Mutant(
        "a user's rank counts the job that gives way",
        "state/use.py",
        "own=_less(found.own, gpus * mine),",
        "own=found.own,",
    ),
    Mutant(
        "a slow job moves to the completing list at once",
        "../planners/flowcon.py",
        "return WATCHING if which == NEW else COMPLETING",
        "return COMPLETING",
    ),
    Mutant(
        "a job without a new report is judged",
        "../planners/flowcon.py",
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
