"""A training step made from a model's summary, in tensors and bytes, without PyTorch.

The files, in the order in which they may import one another:
    operations      the tensors that one operation reads, makes and keeps
    kinds           the tensors that each kind of layer keeps
    settings        optimizer and precision of a job, in bytes
    kernels         the inputs that fit a convolution, and its workspace
    row_tensors     the tensors of a table, and which of them a row has read
    row_layers      rows of layers without matrices
    row_weights     rows of layers with matrices
    row_containers  rows of containers
    tables          the operations of a summary with shapes
    nodes           modules as a tree, and the parts of a transformer
    token_tensors   the tensors of a transformer, and the operations of its leaves
    attention       the operations of an attention module
    trees           the operations of a transformer without shapes
    replay          a step, replayed through the caching allocator
"""
