"""The soak: a real daemon, thousands of short jobs, random faults and hostile users, for hours.

    python -m proofs.soak --hours 1 [--seed S]        (make soak HOURS=1)

- `__main__.py`: the command. It enters a mount namespace of its own and collects orphans.
- `ground.py`: where it happens: private folders, users, control groups.
- `daemon.py`: the daemon, its driver and its processes; how they are killed.
- `jobs.py`: the kinds of jobs, and how each may end. `witness.sh` goes before each of them.
- `ledger.py`: what was acknowledged, and what became of it.
- `users.py`: submits as each user; `prober.py`: asks and submits as a user would, and takes times.
- `faults.py`, `hostile.py`: what goes wrong, and who means harm.
- `samples.py`: what the daemon holds and what is left behind.
- `verdict.py`: findings from all of that: pure functions, tested with numbers made by hand.
- `report.py`: the report for people.
- `run.py`: the schedule.
"""
