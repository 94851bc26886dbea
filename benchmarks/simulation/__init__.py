"""The simulator: its speed, and its results beside the published ones.

published         the published experiments, and the simulator's runs of them
power             the fit of the power curve
calibration       fits the constants of interference and power to the published runs
reproduction      writes docs/reproduction.md
waiting           what orders, backfill and packing bring, part by part
rate              events per second, beside another commit in the same run
simulator         the time of a simulation, and how it grows
simulator_daemon  twenty jobs through the daemon and through the simulator
"""
