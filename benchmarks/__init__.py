"""Measure how fast radrm is, always beside a thing to compare with, in one run.

make bench

table        one row of the table, and the numbers that go into it
real         a daemon of our own, and submissions without the command
commands     everyday commands beside `python -c pass`
launch       acknowledged to first instruction, end to next start
bulk         a thousand job files in one call
long_queue   a daemon and a scheduler with ten thousand waiting jobs
readings     one round of readings through NVML
saving       transactions while jobs only report progress and grow
reports      reports of progress, for the job and for the daemon
idle         a daemon with nothing to do
events       function calls per event, by queue length: the same on every machine
run          all of them, as a table
peers        beside task-spooler, nq, HyperQueue, runqd and Slurm: docs/lab/speed.md
growth       by the number of jobs, users and devices: the same page
deadlines    one call of the optimizer of andreas, at 10 and 100 nodes (a folder)
simulation   the simulator's speed, and the published tables beside its own (a folder)
micro        what a GPU's figures say of kernels of known size (Figure 3.1 of RAD-RM); needs a GPU
checkpoint   seconds to save and to resume four small models; needs PyTorch (a folder)
serving      pages for fifty terminals; by hand: the web page, and, as root, attacks (a folder)

Published systems beside ours (folders flowcon, specon, deadlines, elastic, simulation):

markdown        a table in Markdown
pages           runs the commands of their pages, and compares (`make pages`)
published_rows  each published figure, and where ours stands on the pages
truth           docs/lab/what-is-true.md

The accuracy of estimates on measured jobs:

models       the models of the published jobs, and a program that trains one (a folder)
gpumemnet    train GPUMemNet's networks, and test them (a folder)
estimates    compare estimates with measured memory (a folder)
"""
