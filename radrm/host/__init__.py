"""Floor 3: the real world. Clocks, processes, files, sockets and GPUs.

The files, in the order in which they may import one another:
    clock          both clocks, scaled for software GPUs
    paths          where things lie
    files          writing so that a crash leaves the old or the new, never half
    sockets        AF_UNIX sockets of any path depth; who is at the other end
    processes      identity of a process; all processes of an attempt
    source         what any source of GPU readings must offer
    nvml           real GPUs, read through NVML
    software       software GPUs (a folder)
    attempts       the folder of one attempt: claim, lock, records
    runner         the small program that runs one attempt and outlives the daemon
    launcher       starts, adopts, signals and ends attempts
    tickets        names for submissions that sort by time
    spool          envelopes: how a submission reaches the daemon
    store          everything that must survive, in SQLite
"""
