"""How PyTorch uses a GPU's memory, in figures and without PyTorch.

The files, in the order in which they may import one another:
    allocator   the caching allocator
    overheads   the CUDA context and the workspaces of libraries, by kind of GPU
    workspaces  the memory that one convolution borrows while it runs
"""
