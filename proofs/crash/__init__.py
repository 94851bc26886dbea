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
    power     power failures: what is synced, and what comes of it (a folder)
    defects   what the matrix must find
    account   what is lost, doubled, orphaned or untrue at the end
    points    all fault points of the source, and those that no daemon on simulated GPUs reaches
    report    what a run found, in a few lines
"""
