"""How long it takes to save and to resume: `python -m benchmarks.checkpoint`.

train     the program that is measured: one of four small models, on the CPU
measure   run it, stop it after its saves and start it again
"""
