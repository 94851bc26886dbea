"""Due times and costs: ANDREAS' published simulations and ours, and what one server gains.

    python -m benchmarks.deadlines             prints docs/lab/reproduction-andreas.md: an hour
    python -m benchmarks.deadlines --quick     3 seeds, few loads
    python -m benchmarks.deadlines --part real eight jobs through a real daemon

`make bench-deadlines` writes the page.

The files, in the order in which they may import one another:
    methods     the ways to schedule that are compared
    runs        simulates them over loads and seeds, one process a core
    sizes       10 to 100 nodes: costs, times, seconds of the optimizer
    server      one server with four GPUs: order `due` beside `fifo`
    real        eight jobs through a daemon on simulated GPUs
    claims      what is to be reached, and what is
    page        docs/lab/reproduction-andreas.md
    pictures    docs/lab/reproduction-andreas.svg
    calls       rows of `make bench`: a call of the optimizer
"""
