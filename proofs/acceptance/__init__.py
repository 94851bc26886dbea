"""The acceptance run on a rented GPU: `make gpu-accept` (docs/lab/acceptance.md).

It runs steps in six parts of under ten minutes. It changes no compute mode and no MIG, resets
nothing, needs no package index and leaves no process. A step that is skipped has failed.

main        the parts: which steps run, one line each, what is left at the end
children    a step as a child with a time limit, and what it has left
plan        the steps: name, part, limit, what it settles
step        one step in its own process: what it records, what it checks
suites      the steps that are tests of tests/gpu
first       steps of part 1: the driver and its readings
sharing     steps of part 2: MPS, without radrm
daemon      steps of parts 2 to 4: radrm's daemon
guards      what keeps jobs apart: devices, caps, faults of neighbours
hardware    steps of part 4: what only some machines have
thesis      steps of parts 5 and 6: chapters 3 to 5 of the thesis of RAD-RM
report      the page for docs/lab, and the raw outputs
rehearsal/  stand-ins to run all that without a GPU
"""
