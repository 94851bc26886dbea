"""radrm under a real Slurm, which the tests start themselves (`cluster.py`).

What Slurm 22.05.8 was seen to do there (proctrack/linuxproc), and `radrm slurm-step` rests on:

- **Signals.** slurmstepd, as root, sends them all. `scancel ID`, the time limit, `scontrol
  requeue` and preemption by requeue send CONT, then TERM, to every process of the step, children
  with a session of their own too. KillWait later comes KILL, if the batch process lives. If that
  one ends first, its children that still run survive: nobody ends them. `scancel -b -s SIGNAL`
  and `--signal=B:SIGNAL@N` reach the batch process alone (the second also with a CONT, up to a
  minute early), `scancel -f -s SIGNAL` its process group, `scancel -s SIGNAL` nothing. Limits are
  looked at twice a minute.
- **Why TERM came**, by `scontrol -o show job ID` in its handler (10 ms). Always COMPLETING.
  Limit: `Reason=TimeLimit`. Requeue and preemption: `Restarts` is one more than
  SLURM_RESTART_COUNT, which is not set at first, and `EndTime=Unknown`. scancel: neither.
  `scancel -b -s TERM`: RUNNING.
- **Environment.** There is no SLURM_JOB_END_TIME and no SLURM_JOB_START_TIME: `scontrol show job`
  has both. Elements of an array have a SLURM_JOB_ID each.
- **`scontrol listpids ID NODE`** names all processes of the step, takes 10 ms, and is anybody's.
  Of a job that the node does not have: exit code 1.
- **Rights.** The owner may set `Comment` of a running job and lower its limit, not set
  `ExcNodeList` (`Job is no longer pending execution`). After a `scontrol requeue`, which the step
  may call, both can be set while the job is COMPLETING, and hold for its next run. No comment
  after the end.
- **Suspend** sends TSTP to all processes of the step, and STOP two seconds later. A stopped step
  that gets an attempt begins it at its resume (CONT).
- **Control groups of version 2.** Their plugin ends slurmd where those of version 1 are mounted.
  With that check removed (25.11.7) a step is in `/system.slice/NODE_slurmstepd.scope/job_ID/...`.
- **Requeue.** The next run starts after `AuthInfo=cred_expire=N` (120) seconds and one more.
- **Completion log** (jobcomp/filetxt): a line for each run, those that were requeued with
  `JobState=PENDING`. No comment; exit code 3 is `3:0`.
- **slurmctld** saves its state each five seconds. Killed, it forgets jobs submitted since then,
  and shows jobs that ended since then as RUNNING.
- **A killed node** with SlurmdTimeout=20 is down after 43 s; then its jobs are requeued.
"""
