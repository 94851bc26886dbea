"""Jobs can open no GPU that they were not given.

The files, in the order in which they may import one another:
    program    the instructions that allow or deny a device file
    bpf        load such a program into the kernel, and attach it to a control group
    numbers    the numbers of NVIDIA's device files
    isolation  which device files a job may open, and where that can be enforced
"""
