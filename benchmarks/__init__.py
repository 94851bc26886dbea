"""How fast radrm is, measured beside what it is compared with, in one run.

make bench

table        one row of the table, and the numbers that go into it
real         a daemon of our own, and submissions without the command
submit       `radrm submit` beside `python -c pass`
launch       acknowledged to first instruction, end to next start
bulk         a thousand job files in one call
long_queue   a daemon and a scheduler with ten thousand waiting jobs
readings     one round of readings through NVML
idle         a daemon with nothing to do
events       function calls per event, by queue length: the same on every machine
run          all of them, as a table
attacks      what attacks on the socket cost other users and memory; by hand, as root

Beside them, how good estimates are on measured jobs:

models            factories for the models of the published jobs (a folder)
gpumemnet         training GPUMemNet's networks, and what they reach (a folder)
trace_accuracy    how near `trace` and `faketensor` come to measured memory
timm_tables       torchsummary tables of TIMM models (needs PyTorch)
summary_accuracy  how near `summary` comes
errors_seen       the errors that ship with radrm, and how good upper bounds are
"""
