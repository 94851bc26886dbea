"""Elastic jobs beside the published figures of DLRover and NEARCHUS.

    python -m benchmarks.elastic           prints docs/lab/reproduction-elastic.md: some minutes
    python -m benchmarks.elastic --real    a real training that grows and shrinks

The files, in the order in which they may import one another:
    training_cluster  NEARCHUS' limits of a cluster
    models        the jobs and clusters of both papers: published, implied, fitted or assumed
    limits        NEARCHUS' measurements in the model: the check before any claim
    recommenders  DLRover's experiments with one job
    search        ways to find a layout: NEARCHUS, Optimus with and without a network, FA-BF
    cluster       jobs that share a cluster
    shared        one job alone, and forty
    stepped       the planners themselves under Scheduler.step
    gpus          our own rule beside fixed sizes
    rows          published, reached, assumed
    planned       the rows of the planners themselves
    real_training the training of `real`
    real          a real training that grows and shrinks
    page          docs/lab/reproduction-elastic.md
    __main__      the command
"""
