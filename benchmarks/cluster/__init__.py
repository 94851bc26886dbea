"""radrm under a real Slurm of three nodes on this server, with simulated GPUs.

The files, in the order in which they may import one another:
    place      the cluster with a daemon on each node; what Slurm and daemons say of ended jobs
    latency    from sbatch to the first instruction, beside Slurm alone
    kills      a thousand jobs while daemons and the controller end at random
    dead_node  how long until the jobs of a dead node run elsewhere
    requests   what radrm asks slurmctld, with twenty nodes
    trace      sixty jobs with and without sharing, real and simulated
"""
