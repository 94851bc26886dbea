"""A training step made from a model's summary, in tensors and bytes, without PyTorch.

The files, in the order in which they may import one another:
    operations  the tensors that one operation, and each kind of layer, reads, makes and keeps
    tables      the operations of a summary with shapes, row by row
    trees       the operations of a transformer without shapes, from its modules as a tree
    replay      a step, replayed through the caching allocator
"""
