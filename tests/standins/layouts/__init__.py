"""Servers with GPUs of seven models, as NVIDIA's mock of NVML shows them: recorded, and played."""
