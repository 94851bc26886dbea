"""Run copies of a program on one GPU, and measure them.

The files, in the order in which they may import one another:
    numbers  the figures of a measurement, and the progress of a program from its log
    mixed    those of different programs
    server   the daemon of a measurement
    place    choose the GPU of a measurement
    rounds   run copies at once and watch them, with their traffic, to their end
    measure  measure every number of copies in every mode, and what the default policy makes of them
"""
