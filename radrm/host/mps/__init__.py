"""CUDA's Multi-Process Service (MPS): its control daemons, and the jobs that are clients.

Each GPU has its own control daemon, so a fault ends no client on another GPU; jobs on several GPUs
are no clients. Control daemons and their servers outlive radrm's daemon, as jobs do; the next
daemon adopts them. Each has a keeper with its own thread, so a hanging control daemon blocks no
other.

The files, in the order in which they may import one another:
    control       one control daemon: start it, ask it, end it
    removal       removes the work of clients that a signal is about to end
    end_clients   the program by which a runner does that
    launches      what a keeper has seen; launches that wait for their server
    keeper        keeps one control daemon alive and working
    interface     what the daemon calls of MPS, and MPS of the daemon
    service       all control daemons of this server: a stage of the readings
"""
