"""Stand-ins for what only a server with NVIDIA GPUs has, driven by files that tests write.

nvml/            a small C library that answers as libnvidia-ml.so.1 does
nvml_library     builds it, and writes what it answers
layouts/         recorded answers of NVIDIA's own mock of NVML, for servers of seven models
bin/             commands of the driver, as scripts
pytorch          the optimizer of PyTorch, as far as it counts steps
"""
