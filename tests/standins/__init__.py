"""Stand-ins for what only a server with NVIDIA GPUs has, driven by files that tests write.

nvml/            a small C library that answers as libnvidia-ml.so.1 does
nvml_library     builds it, and writes what it answers
bin/             commands of the driver, as scripts
"""
