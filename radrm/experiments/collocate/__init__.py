"""Run copies of a program on one GPU, and measure them.

The files, in the order in which they may import one another:
    steps    read the progress of a program from its log
    numbers  the figures of a measurement
    mixed    those of different programs
    advice   what the default policy makes of them
    pcie     measure traffic between host and GPU while copies run
    server   the daemon of a measurement
    place    choose the GPU of a measurement
    rounds   run copies at once and watch them to their end
    measure  measure every number of copies in every mode
"""
