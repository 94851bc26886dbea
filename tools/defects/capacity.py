"""Defects of `andreas` and its optimizer."""

from __future__ import annotations

from tools.defects.mutant import Mutant

_PROBLEM, _RANDOM, _SITUATION, _CARRYING, _MEMORY, _DURATIONS = (
    f"../planners/capacity/{name}.py"
    for name in ("problem", "randomized", "situation", "carrying", "memory", "durations")
)
_ANDREAS = "../planners/andreas.py"

MUTANTS = (
    Mutant(
        "the least pressing job is planned first",
        _PROBLEM,
        "(-each.priority, -each.pressure_s, each.job_id)",
        "(-each.priority, each.pressure_s, each.job_id)",
    ),
    Mutant(
        "pressure comes before priority",
        _PROBLEM,
        "(-each.priority, -each.pressure_s, each.job_id)",
        "(-each.pressure_s, -each.priority, each.job_id)",
    ),
    Mutant(
        "a late job gets the cheapest configuration",
        _PROBLEM,
        "return configuration.time_s if self.is_late(configuration) else configuration.cost",
        "return configuration.cost",
    ),
    Mutant(
        "a job that must wait costs nothing",
        _PROBLEM,
        "return self.rho * work.rate * work.worst_late_s",
        "return 0.0",
    ),
    Mutant(
        "energy counts until the last end on a server",
        _RANDOM,
        "np.minimum(self._first_s[places, columns], times)",
        "np.maximum(self._first_s[places, columns], times)",
    ),
    Mutant(
        "GPUs are not taken",
        _RANDOM,
        "        self._count[before, columns] = last\n",
        "",
    ),
    Mutant(
        "the largest server is given first",
        _RANDOM,
        "            for free in range(largest, 0, -1):\n",
        "            for free in range(1, largest + 1):\n",
    ),
    Mutant(
        "heavy jobs give way as often as light ones",
        _RANDOM,
        "np.where(self._rates > 0, _SWAP * least / self._rates, _SWAP)",
        "np.where(self._rates > 0, _SWAP, _SWAP)",
    ),
    Mutant(
        "jobs of lower priority pass",
        _RANDOM,
        "        swap &= self._priorities[ahead] == self._priorities[following]\n",
        "",
    ),
    Mutant(
        "any construction is chosen",
        _RANDOM,
        "best = int(equal[np.argmax(state.stays[equal])])",
        "best = 0",
    ),
    Mutant(
        "of equal plans any counts",
        _RANDOM,
        "best = int(equal[np.argmax(state.stays[equal])])",
        "best = int(equal[0])",
    ),
    Mutant(
        "the program draws from all configurations",
        _RANDOM,
        "_DRAWN = 0.05\n",
        "_DRAWN = 1.0\n",
    ),
    Mutant(
        "a job that cannot save is moved",
        _SITUATION,
        "            and job.spec.checkpoint.kind is not CheckpointKind.NONE\n",
        "",
    ),
    Mutant(
        "a baseline stops jobs",
        _ANDREAS,
        "moves=self.method not in _BASELINES,",
        "moves=True,",
    ),
    Mutant(
        "an edit leads to no plan",
        _SITUATION,
        "*(job.id, spec.due_s, spec.weight,",
        "*(job.id, spec.weight,",
    ),
    Mutant(
        "a drained GPU is used",
        _SITUATION,
        "    if each.vanished or each.drained is not None:\n",
        "    if each.vanished:\n",
    ),
    Mutant(
        "memory does not count",
        _SITUATION,
        "return self._is_of_kind(job, sample) and self._need_mib(job) <= sample.capacity_mib",
        "return self._is_of_kind(job, sample)",
    ),
    Mutant(
        "a job that has just started is stopped",
        _CARRYING,
        "            if young_s > 0 or busy or",
        "            if busy or",
    ),
    Mutant(
        "a job that does not save is asked for ever",
        _CARRYING,
        "        if failed >= _TRIES or before[3] >= _REJECTED:\n",
        "        if False:\n",
    ),
    Mutant(
        "a job that cannot start keeps its GPUs",
        _CARRYING,
        "if now_s - memory.tried.setdefault(job_id, now_s) >= _HOLD_S:",
        "if memory.tried.setdefault(job_id, now_s) < 0:",
    ),
    Mutant(
        "small jobs take the CPUs that a large one waits for",
        _CARRYING,
        "                self._full.add(node)\n                return False\n",
        "                return False\n",
    ),
    Mutant(
        "every plan has the same chance",
        _ANDREAS,
        "memory.made, memory.seen, memory.calls = now, seen, memory.calls + 1",
        "memory.made, memory.seen = now, seen",
    ),
    Mutant(
        "another seed goes on with the old plan",
        _MEMORY,
        'if not isinstance(state, dict) or state.get("seed") != seed:',
        "if not isinstance(state, dict):",
    ),
    Mutant(
        "servers that are alike are not exchanged",
        _CARRYING,
        "packed = _packed(situation.problem, plan, stays) if stays and not whole else None",
        "return _devices(situation, plan)",
    ),
    Mutant(
        "a job that has run on one kind of GPU never runs on another",
        _DURATIONS,
        "return assumed_on | found",
        "return found",
    ),
    Mutant(
        "a job's own pace on a kind without a profile does not count",
        _DURATIONS,
        "assumed_on[here] = max(LEAST_S, left.value_s)",
        "pass",
    ),
    Mutant(
        "the planner looks every second while a job saves",
        _CARRYING,
        "self._wait(ANSWER_S if self._held(uuids) else SOON_S)",
        "self._wait()",
    ),
)
