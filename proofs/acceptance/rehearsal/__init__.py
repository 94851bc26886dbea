"""The acceptance run without a GPU, so that the code of its steps has run once.

    python -m proofs.acceptance.rehearsal [--layout two|mig|caps] [--part N] [--only NAME ...]
                                             [--out FOLDER]

Nothing that it prints is a measurement. The stand-ins of tests/standins answer for NVML and MPS;
here are the rest:

bin/docker       runs the command here, with the variables that a container would have
bin/nvidia-smi   what the stand-in of NVML says, as nvidia-smi prints it
modules/torch    as much of PyTorch as tests/gpu/programs use; its work is sleep
cuda.c           libcuda: launches that take time, and the bad one
"""
