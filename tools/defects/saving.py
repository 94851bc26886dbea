"""Defects of requests to save, of migrations, and of the shard server of `radrun`."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_BOOK = "../radrun/shards/book.py"
_BOUNDARY = "../radrun/shards/service.py"

MUTANTS = (
    Mutant(
        "a job that saves and leaves has completed",
        "lifecycle/outcomes.py",
        "    (CheckpointKind.EXIT, _How.OK): (set(),),\n",
        "",
    ),
    Mutant(
        "an exit code counts more than a save",
        "lifecycle/outcomes.py",
        "({_Known.IN_TIME, _Known.SAVED},)",
        "()",
    ),
    Mutant(
        "a job that has done all its work has left",
        "lifecycle/outcomes.py",
        "if how is _How.OK and _work_done(job, event) >= 1.0:",
        "if False:",
    ),
    Mutant(
        "a request lasts for ever",
        "lifecycle/outcomes.py",
        "if late_s is None or late_s <= patience_s:",
        "if True:",
    ),
    Mutant(
        "a proven save and exit 0 is an end",
        "lifecycle/outcomes.py",
        "is not None and (saved or event.saved_since_asked):",
        "is not None and False:",
    ),
    Mutant(
        "the time after the last report does not count",
        "lifecycle/outcomes.py",
        "return progress.work_done + did * FASTER * after_s / took_s < 1.0",
        "return progress.work_done < 1.0",
    ),
    Mutant(
        "an older file replaces what was saved",
        "lifecycle/outcomes.py",
        "if event.saved is not None and is_newer(event.saved.at, job.saved_at):",
        "if event.saved is not None:",
    ),
    Mutant(
        "a file of a killed job is a proof",
        "lifecycle/outcomes.py",
        "if asked is None or not whole or has_saved(job, asked):",
        "if asked is None or has_saved(job, asked):",
    ),
    Mutant(
        "each attempt gets a fresh time limit",
        "lifecycle/outcomes.py",
        "return job.used_s + (attempt.ran_s or 0.0)",
        "return job.used_s",
    ),
    Mutant(
        "lost work uses up the time limit",
        "lifecycle/outcomes.py",
        "if not saves and not has_saved(job, began):",
        "if False:",
    ),
    Mutant(
        "an old report of a save counts",
        "applying.py",
        "if event.happened is not None and not is_newer(event.happened, job.saved_at):",
        "if False:",
    ),
    Mutant(
        "a job that leaves by itself is stopped",
        "applying.py",
        "if job.spec.checkpoint.kind is CheckpointKind.EXIT:",
        "if False:",
    ),
    Mutant(
        "a request that nobody heard counts",
        "applying.py",
        "replace(attempt, checkpoint_asked=pending.before)",
        "replace(attempt, checkpoint_asked=pending.asked)",
    ),
    Mutant(
        "a save without leaving is no save",
        "applying.py",
        "and has_saved(state.jobs[job.id], pending.asked):",
        "and False:",
    ),
    Mutant(
        "a new attempt begins at the last save that said how far it was",
        "lifecycle/launching.py",
        "and (job.saved is None or job.saved_at.is_after(job.saved.at)):",
        "and job.saved is None:",
    ),
    Mutant(
        "a user's moves count as attempts that came to nothing",
        "lifecycle/returning.py",
        "if attempt.outcome is Outcome.PREEMPTED and asked is not None and asked.user is not None:",
        "if False:",
    ),
    Mutant(
        "a preempted job is stopped before it has saved",
        "applying.py",
        "if job.spec.checkpoint.kind is CheckpointKind.NONE:\n        stop(",
        "if True:\n        stop(",
    ),
    Mutant(
        "a preempted job that has saved runs on",
        "applying.py",
        "ask(state, job, attempt, ActionKind.CHECKPOINT, stops=True)",
        "ask(state, job, attempt, ActionKind.CHECKPOINT)",
    ),
    Mutant(
        "a preemption that was called off puts a later one behind all",
        "applying.py",
        "behind = attempt.goes_behind and late",
        "behind = attempt.goes_behind",
    ),
    Mutant(
        "one that leaves late keeps its place",
        "applying.py",
        "late = leaves and attempt.checkpoint_asked == asked.asked",
        "late = False",
    ),
    Mutant(
        "a later request puts a job behind all",
        "applying.py",
        "attempt = replace(state.attempts[job.id], goes_behind=False)",
        "attempt = state.attempts[job.id]",
    ),
    Mutant(
        "the pause after a preemption is that of a checkpoint",
        "applying.py",
        "proposed = stopping if asked.stops or job.target is not None else TakeCheckpointNow",
        "proposed = TakeCheckpointNow",
    ),
    Mutant(
        "a lost job goes behind all",
        "lifecycle/ending.py",
        "if attempt.goes_behind and (requeued or attempt.outcome is Outcome.PREEMPTED):",
        "if attempt.goes_behind:",
    ),
    Mutant(
        "a job that goes behind all stays in the recovery queue",
        "state/state.py",
        "return changed(job, requeued=behind, queue=Queue.MAIN)",
        "return changed(job, requeued=behind)",
    ),
    Mutant(
        "two requests to save at a time",
        "constraints/proposal.py",
        "    Preempt: (ActionKind.CHECKPOINT,),\n",
        "",
    ),
    Mutant(
        "a lone early report tells the speed",
        "lifecycle/outcomes.py",
        " or after_s > REACH * took_s:",
        ":",
    ),
    Mutant(
        "what earlier attempts have done counts as speed",
        "lifecycle/outcomes.py",
        "did = max(0.0, progress.work_done - (attempt.work_begun or 0.0))",
        "did = progress.work_done",
    ),
    Mutant(
        "a half-read shard returns as a whole",
        _BOOK,
        "data.doing[worker] = _without(data.doing.get(worker, []), ranges)",
        "_without(data.doing.get(worker, []), ranges)",
    ),
    Mutant(
        "what a dead worker held is dropped",
        _BOOK,
        "data.deal.give_back(data.doing.pop(worker, []))",
        "data.doing.pop(worker, [])",
    ),
    Mutant(
        "a checkpoint forgets the rounds of its generation",
        _BOOK,
        "consumed = merged([*data.base, *data.read.get(writer, [])])",
        "consumed = data.base",
    ),
    Mutant(
        "each worker of a generation counts its failure",
        _BOOK,
        "self._blamed = key",
        "self._blamed = None",
    ),
    Mutant(
        "a shard held in advance is to blame",
        _BOOK,
        "first, last = held[0]",
        "first, last = held[-1]",
    ),
    Mutant(
        "workers wait for one that waits for them",
        _BOUNDARY,
        "step if worker in self.waiting else step + 1 for",
        "step for",
    ),
)
