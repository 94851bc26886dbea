"""A training step made from a model's summary, in tensors and bytes, without PyTorch.

The files, in the order in which they may import one another:
    operations     the records: what one operation reads, makes and keeps for backward
    kinds          which kind of layer keeps what
    settings       optimizer and precision, as a job names them, in bytes
    kernels        what a convolution can have read, and what it borrows
    tables         operations of a summary with shapes, in order
    nodes          modules as a tree, and which part of a transformer each is
    trees          operations of a transformer without shapes, from its modules
    replay         a step, replayed through the caching allocator
"""
