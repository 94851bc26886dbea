"""The simulator: its speed, and its results beside the published ones.

published         the published experiments, and the simulator's runs of them
power             the fit of the power curve
calibration       fits the constants of interference and power to the published runs
claims            the thesis' sentences as comparisons of rows
reproduction      prints docs/lab/reproduction.md
pictures          writes docs/lab/reproduction.svg
shipped           what a lab gets as installed, beside oracles; prints docs/lab/shipped.md
labs              its traces: published ones, dealt to users
lucid             its baseline: at most two jobs share a GPU
simulator         the time of a simulation, and how it grows
simulator_daemon  twenty jobs through the daemon and through the simulator
"""
