"""Processes of this machine: which is which, whose they are, how to end them.

The files, in the order in which they may import one another:
    procfs       reads of /proc, each with a bound
    calls        calls of the C library for which Python has no function
    naming       what other processes see of this one: name, command line, environment
    affinity     the CPUs near a job's GPUs, on which its processes run
    cgroups      a control group for processes, where one can be made
    controllers  where CPUs and host memory can be limited; the daemon's own group
    limits       limit the CPUs and the host memory of an attempt, and weigh its CPUs
    counted      read what an attempt has used of the server
    identity     identify a process, and signal that very process
    tree         find all processes of an attempt, signal them, end them
    client_work  has the work of MPS clients removed before they are signalled
    errand       a short process that works as a user: started, read, ended
    stop         ask the processes of an attempt to end, in an order that lets them save
"""
