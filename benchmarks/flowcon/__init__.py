"""FlowCon's published experiments, played in the simulator and on this server's CPUs.

python -m benchmarks.flowcon             prints its part of docs/lab/reproduction-flowcon-specon.md
python -m benchmarks.flowcon --real      three NumPy jobs under one CPU quota
"""
