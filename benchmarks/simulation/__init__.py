"""The simulator: its speed, and its results beside the published ones.

published         the published experiments, and the simulator's runs of them
reproduction      writes docs/reproduction.md
waiting           what orders, backfill and packing bring, part by part
simulator         the time of a simulation, and how it grows
simulator_daemon  twenty jobs through the daemon and through the simulator
"""
