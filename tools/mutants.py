"""Break rules of radrm on purpose, and check that the tests fail: `make mutants`.

    python -m tools.mutants [NAME ...] [--tests PATH ...]

Each row of `MUTANTS` puts a defect into one file of a copy of the package, and runs the tests on
it. A row whose old text does not occur exactly once fails: the rule has moved, and you must
change the row. The exit code is 1 if the tests miss a defect.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ("tests/core", "tests/policies")
LIMIT_S = 300.0
"""Seconds for one run of the tests. A longer run on a busy machine proves nothing."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A defect: `old`, which occurs once in `file` (below `radrm/core`), becomes `new`."""

    name: str
    file: str
    old: str
    new: str


MUTANTS = (
    Mutant(
        name="a shared second counts twice",
        file="state/holding.py",
        old="holding.part_beside(others).seconds += until_s - since_s",
        new="holding.part_beside(others).seconds += 2 * (until_s - since_s)",
    ),
    Mutant(
        name="shared time has any number of parts",
        file="state/holding.py",
        old="if key not in self.beside and len(self.beside) >= MOST_BESIDE:",
        new="if key not in self.beside and len(self.beside) >= 99 * MOST_BESIDE:",
    ),
    Mutant(
        name="a cold reading shows the activity of shared time",
        file="state/ledger.py",
        old="if reading.smact is not None and self.is_quiet and self.load.counts(reading):",
        new="if reading.smact is not None and self.is_quiet:",
    ),
    Mutant(
        name="first minutes replace a declared activity",
        file="lifecycle/outcomes.py",
        old="or smact is None or declared or slowed:",
        new="or smact is None or slowed:",
    ),
    Mutant(
        name="a job that was slow elsewhere shows its activity",
        file="lifecycle/outcomes.py",
        old="or smact is None or declared or slowed:",
        new="or smact is None or declared:",
    ),
    Mutant(
        name="each job on a shared device pays for all of it",
        file="state/use.py",
        old="            1.0 / len(self._jobs_on[uuid])",
        new="            1.0",
    ),
    Mutant(
        name="a restart forgets the use while no daemon ran",
        file="state/use.py",
        old="            return  # the stored rate was the present one",
        new="            pass",
    ),
    Mutant(
        name="a copy of the queue follows later ranks",
        file="state/queue/ranked.py",
        old="found = RankedQueue(lambda spec: ranks[spec.uid])",
        new="found = RankedQueue(self._rank_of)",
    ),
    Mutant(
        name="a worse rank stands before a better one",
        file="state/queue/ranked.py",
        old="last = (_BEHIND,) if theirs < mine else ()",
        new="last = (_BEHIND,) if theirs > mine else ()",
    ),
    Mutant(
        name="an owner's reservations add up",
        file="state/reserved/of_device.py",
        old="largest[owner] = max(mib, largest.get(owner, 0))",
        new="largest[owner] = mib + largest.get(owner, 0)",
    ),
    Mutant(
        name="a reservation for later counts now",
        file="state/reserved/claims.py",
        old="        if claim.start_s <= at_s < claim.end_s:",
        new="        if at_s < claim.end_s:",
    ),
    Mutant(
        name="only the start of an interval counts",
        file="state/reserved/claims.py",
        old="    return [start_s, *sorted(starts)]",
        new="    return [start_s]",
    ),
    Mutant(
        name="figures undo a decision",
        file="state/state.py",
        old="if volatile and name not in step.changed:",
        new="if volatile:",
    ),
    Mutant(
        name="a record is durable and volatile",
        file="state/state.py",
        old="            step.volatile.pop(name, None)\n",
        new="",
    ),
    Mutant(
        name="a report of progress is durable",
        file="state/state.py",
        old='self._note("job", job.id, job, volatile=True)',
        new='self._note("job", job.id, job)',
    ),
    Mutant(
        "clamped to the largest of mixed devices",
        "constraints/need.py",
        "if wanted and shortage(large) is None:",
        "if wanted:",
    ),
    Mutant(
        "clamped to the smallest of mixed devices",
        "constraints/need.py",
        "for mib in sorted({device.capacity_mib for device in devices}, reverse=True):",
        "for mib in sorted({device.capacity_mib for device in devices}):",
    ),
    Mutant(
        "what is declared is clamped",
        "constraints/need.py",
        "return need if not largest else max(certain, min(need, largest))",
        "return need if not largest else min(need, largest)",
    ),
    Mutant(
        "availability ends, and no limit says when the job does",
        "constraints/overlap.py",
        "return now_s, FOREVER if limit_s is None else now_s + limit_s",
        "return now_s, now_s if limit_s is None else now_s + limit_s",
    ),
    Mutant(
        "a second move during a migration",
        "constraints/proposal.py",
        "if moves and (job.target is not None or attempt.target is not None):",
        "if moves and attempt.target is not None:",
    ),
    Mutant(
        "a second move during a resize",
        "constraints/proposal.py",
        "if moves and (job.target is not None or attempt.target is not None):",
        "if moves and job.target is not None:",
    ),
    Mutant(
        "CPUs beyond those of the node are booked",
        "constraints/nodes.py",
        "if there is not None and needed > max(there, has):",
        "if False:",
    ),
    Mutant(
        "a resize books the new tasks without the old ones",
        "constraints/nodes.py",
        "booked_by((*nodes.placements_of(job.id), placement)).items()",
        "booked_by((placement,)).items()",
    ),
    Mutant(
        "jobs elsewhere hold the turn of one that lacks CPUs",
        "constraints/turns.py",
        "refuse_size(state, job, leaving=ledger.holdings) is None",
        "True",
    ),
    Mutant(
        "a role that must yield loses its best devices",
        "planning/assembly.py",
        "for offer in reversed(chosen))",
        "for offer in chosen)",
    ),
    Mutant(
        "the policy chooses before the preferences",
        "planning/assembly.py",
        "if least == most == rank.avoided and len(tier) >= ask.gpus:",
        "if len(tier) >= ask.gpus:",
    ),
    Mutant(
        "a job recovers where its need does not fit",
        "constraints/placement.py",
        "need = effective_need_mib(state, job, role) if job.recovers else None",
        "need = None",
    ),
    Mutant(
        "the victim of a neighbour is to blame",
        "lifecycle/recovery.py",
        "victim_count=job.victim_count + evidence.of_neighbour,",
        "victim_count=job.victim_count,",
    ),
    Mutant(
        "a task that stays reserves again what it gave back",
        "lifecycle/resizing.py",
        "occupy(state, job, attempt, both, new=more)",
        "occupy(state, job, attempt, both)",
    ),
    Mutant(
        "a whole device that is not idle",
        "constraints/placement.py",
        "if wanted.whole_device and not idle_for(state, job, ledger):",
        "if False:",
    ),
    Mutant(
        "settled although it grows",
        "state/ledger.py",
        "quiet_s = boot_s - max(holding.grew_s, holding.since_s)",
        "quiet_s = boot_s - holding.since_s",
    ),
    Mutant(
        "settled for good",
        "state/holding.py",
        "                self.settled = False\n",
        "",
    ),
    Mutant(
        "warm at once after an exit",
        "state/load.py",
        "latest_s + self._settings.smact_warm_s, left_s + self._settings.smact_after_exit_s",
        "latest_s + self._settings.smact_warm_s, float('-inf')",
    ),
    Mutant(
        "one KILL and no other",
        "lifecycle/stops.py",
        "    state.wake(Timer(again, KILL, attempt.job_id, attempt.serial))\n",
        "",
    ),
    Mutant(
        "a void launch was a start",
        "lifecycle/ending.py",
        "    started = job.started if attempt.number > 1 else None\n",
        "    started = job.started\n",
    ),
    Mutant(
        "a void launch forgets the start before it",
        "lifecycle/ending.py",
        "    started = job.started if attempt.number > 1 else None\n",
        "    started = None\n",
    ),
    Mutant(
        "the lowest exit code",
        "lifecycle/outcomes.py",
        "return max((c for c in codes if c is not None), default=None)",
        "return min((c for c in codes if c is not None), default=None)",
    ),
    Mutant(
        "usage dropped at the end",
        "lifecycle/ending.py",
        "            usage=usage,\n",
        "",
    ),
    Mutant(
        "usage dropped by a resize",
        "lifecycle/resizing.py",
        "usage=merged(attempt.usage, usage)))",
        "usage=attempt.usage))",
    ),
    Mutant(
        "usage counted twice",
        "state/holding.py",
        "return tuple({u.device: u for u in (*usage, *newer)}.values())",
        "return (*usage, *newer)",
    ),
    Mutant(
        "a stale proposal carried out",
        "planning/planners.py",
        "            if is_stale:\n",
        "            if False:\n",
    ),
    Mutant(
        "a plan that comes too late",
        "planning/thoughts.py",
        "if thought is None or thought.number != number:",
        "if thought is None:",
    ),
    Mutant(
        "two thoughts at once",
        "planning/thoughts.py",
        "if name in self._under_way or now_s < soonest_s:",
        "if now_s < soonest_s:",
    ),
    Mutant(
        "a thought without a deadline",
        "planning/planners.py",
        "if self._thoughts.overdue(name):",
        "if False:",
    ),
    Mutant(
        "a rule interrupted in the core's code",
        "planning/interrupt.py",
        "        if cores:\n            return False\n",
        "",
    ),
    Mutant(
        "planners' wake-ups pruned",
        "state/state.py",
        "return not timer.job_id or timer.job_id in self.attempts or waits",
        "return timer.job_id in self.attempts or waits",
    ),
    Mutant(
        "limits before ends, after a restart",
        "scheduler.py",
        "            self._adoption.defer(event)\n            return self.state.finish()\n",
        "            self._adoption.defer(event)\n",
    ),
    Mutant(
        "an action without an end",
        "lifecycle/pending.py",
        "    state.wake(Timer(due_s, DEADLINE, job.id, attempt.serial))\n    return pending\n",
        "    return pending\n",
    ),
    Mutant(
        "any late failure is an answer",
        "applying.py",
        "        if action_of(attempt, pending) == action:\n",
        "        if type(action_of(attempt, pending)) is type(action):\n",
    ),
    Mutant(
        "a second reservation at a target",
        "lifecycle/launching.py",
        "    drop_target(state, job)  # the attempt gets reservations of its own\n",
        "",
    ),
    Mutant(
        "a job that may still run is run again",
        "lifecycle/ending.py",
        "    finish(state, job, _END_OF_STOP[reason], attempt)\n",
        "    return_to_queue(state, job)\n",
    ),
    Mutant(
        "a stop that came too late",
        "lifecycle/ending.py",
        "    stop = standing(attempt.stop, event, end)\n",
        "    stop = attempt.stop\n",
    ),
    Mutant(
        "an end is when it is heard of",
        "lifecycle/ending.py",
        "            ended=end,\n",
        "            ended=state.step.now,\n",
    ),
    Mutant(
        "what was seen before a restart weighs as one reading",
        "state/holding.py",
        "self.smact_count = max(1, usage.smact_count)",
        "self.smact_count = 1",
    ),
    Mutant(
        "the energy of one that leaves is its neighbours'",
        "state/ledger.py",
        "        left_s = now_s if left_s is None else left_s\n"
        "        self._count_before(left_s)\n",
        "        left_s = now_s if left_s is None else left_s\n",
    ),
    Mutant(
        name="jobs pass a head for ever",
        file="../planners/backfill.py",
        old="            if view.now.wall_s >= slot.until_s:\n                return\n",
        new="",
    ),
    Mutant(
        name="no job that passes is compared with the head's start",
        file="../planners/backfill.py",
        old="most_s = before_s if lower else max(before_s, until_s)",
        new="most_s = inf",
    ),
    Mutant(
        name="packing believes readings of a saturated GPU",
        file="../policies/packing.py",
        old="shown >= _SATURATED * self.ceiling or ",
        new="",
    ),
    Mutant(
        "an offer from before a reading",
        "state/ledger.py",
        "        self.version += 1\n        self.reading, self.load",
        "        self.reading, self.load",
    ),
    Mutant(
        "an offer with a holder's old record",
        "constraints/offers.py",
        "jobs.get(job_id) is not holder.job or ",
        "",
    ),
    Mutant(
        "an offer with a stale reading",
        "constraints/offers.py",
        "ledger.is_stale(state.step.now.boot_s) or ",
        "",
    ),
    Mutant(
        "an offer to another user",
        "constraints/offers.py",
        "return need, job.spec.uid, 0,",
        "return need, 0, 0,",
    ),
    Mutant("an offer with another job's need", "constraints/offers.py", '"capacity", ', ""),
    Mutant(
        "an offer out of turn", "constraints/offers.py", " or is_contested(state, ledger):", ":"
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("names", nargs="*", help="mutants whose name has one of these words")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="what is to notice them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    args = parser.parse_args()
    wanted = [m for m in MUTANTS if not args.names or any(n in m.name for n in args.names)]
    sound = verdict_on(None, args.tests)
    if sound is not None:
        print(f"FAIL  the tests fail without any mutant: {sound}")
        return 1
    alive = not wanted
    with ThreadPoolExecutor(args.jobs) as pool:
        verdicts = pool.map(lambda mutant: verdict_on(mutant, args.tests), wanted)
        for mutant, verdict in zip(wanted, verdicts, strict=True):
            alive = alive or verdict is not None
            said = f"FAIL  {mutant.name}: {verdict}" if verdict else f"ok    {mutant.name}"
            print(said, flush=True)
    return 1 if alive else 0


def verdict_on(mutant: Mutant | None, tests: Sequence[str]) -> str | None:
    """The error of a row; None if the tests notice the defect. Without a mutant, the failure of
    the unchanged tests."""
    with tempfile.TemporaryDirectory(prefix="radrm-mutant-") as folder:
        copy = Path(folder)
        for path in ROOT.iterdir():
            if path.is_dir() and not path.name.startswith("."):
                shutil.copytree(path, copy / path.name, ignore=_CACHES)
            elif path.is_file():
                shutil.copy(path, copy)
        if mutant is None:
            passed, said = _run(copy, tests)
            return None if passed else said
        file = copy / "radrm" / "core" / mutant.file
        text = file.read_text()
        if (count := text.count(mutant.old)) != 1:
            return f"radrm/core/{mutant.file} has its old text {count} times; move the row"
        file.write_text(text.replace(mutant.old, mutant.new))
        passed, said = _run(copy, tests)
        if said == _NO_END:
            return said
        return f"no test of {' '.join(tests)} notices it" if passed else None


_NO_END = f"no end within {LIMIT_S:.0f} s; run it alone"
_CACHES = shutil.ignore_patterns("__pycache__")


def _run(copy: Path, tests: Sequence[str]) -> tuple[bool, str]:
    """Whether the tests pass on a copy, and the end of their output."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return False, _NO_END
    return done.returncode == 0, (done.stdout + done.stderr).strip()[-300:]


if __name__ == "__main__":
    sys.exit(main())
