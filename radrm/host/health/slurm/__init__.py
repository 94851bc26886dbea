"""The checks of `radrm doctor --slurm`: whether a cluster and radrm fit together.

All facts come from Slurm's own commands, one question each, and from the radrm daemon of this node.

The files, in the order in which they may import one another:
    facts     what Slurm says of its configuration, a partition and nodes
    checks    what fits jobs that share GPUs, and what does not
"""
