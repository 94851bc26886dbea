"""One launch of a job: its folder, its runner, its processes, its end.

The files, in the order in which they may import one another:
    owners        which attempt a process belongs to
    containers    which container a process is in, and whether an attempt started it
    folder        the folder of one attempt: claim, lock, records
    job_process   the job's own process, from the fork to its first instruction
    engines       container engines: their arguments, and telling them to end a container
    log_watcher   the process that reads a job's progress from its log
    tails         the last lines that an attempt has printed
    leftovers     what a job has left when its main process has ended
    redirected    the files to which its script sends output
    elastic       the folder in which the daemon and `radrun` speak about tasks (a folder)
    saved         what a job has proven to have saved
    runner        the small program that runs one attempt and outlives the daemon
    forker        the process that has imported what a runner needs, and forks one per attempt
    forking       the daemon's side of it
    evidence      what an attempt's folder proves
    waiting       attempts that the step of a Slurm job runs
    plan          what one launch needs, and its launch record
    live          a live attempt as its launcher knows it
    launcher      start, adopt, signal and end attempts
"""
