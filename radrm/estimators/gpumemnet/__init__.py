"""GPUMemNet, the learned classifier of RAD-RM's thesis, chapter 5.

The files, in the order in which they may import one another:
    features   the input of the networks: a few figures of a model
    estimator  the networks (figures in, a bucket of memory out), and the estimator

`weights/` is data: the trained networks, written by `python -m benchmarks.gpumemnet.train`.
"""
