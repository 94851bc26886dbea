"""The crash matrix: `kill -9` at every fault point, and an account of every job afterwards.

    python -m proofs.crash [--kills N] [--seed S] [--hours H] [--at-once N]

The files:
    watcher   what the processes of radrm do at a fault point: note it, and kill where it is aimed
    runner    a runner that is watched
    place     one home: its daemon, forked from this process and watched, and its killed ones
    jobs      the kinds of jobs, and what each must come to
    requests  commands that come while jobs run
    leading   what leads to a fault point
    matrix    kills at one point after the other, until a home has had enough
    synced    what a power failure leaves of a home
    failures  cuts the power at fault points, and starts daemons from what is left
    defects   what the matrix must find
    account   what is lost, doubled, orphaned or untrue at the end
    points    all fault points of the source, and those that no daemon on simulated GPUs reaches
    report    what a run found, in a few lines
"""

KILLED, SHADOW = "killed", "shadow"
"""Names below the folder of a home: who was killed; what was synced."""
