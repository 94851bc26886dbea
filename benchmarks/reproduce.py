"""The published tables: where their data come from, and those that need none: `make reproduce`.

    python -m benchmarks.reproduce [--data FOLDER] [--seeds 3]

Traces of others are not shipped: their licences differ. FOLDER has them, as
`benchmarks.simulation.published` names them. Without it, what this project draws itself is run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Source:
    """A published experiment, where its data come from, and the command that repeats it."""

    paper: str
    data: str
    page: str
    command: str


SOURCES = (
    Source(
        "ANDREAS (arXiv 2105.05080)",
        "drawn by radrm from the paper's tables",
        "docs/lab/reproduction-andreas.md",
        "make bench-deadlines",
    ),
    Source(
        "RAD-RM (arXiv 2508.19073)",
        "traces heavy60, mix90 and the solo profile of the authors",
        "docs/lab/reproduction.md",
        "python -m benchmarks.simulation.reproduction --data FOLDER",
    ),
    Source(
        "FlowCon, SpeCon",
        "drawn by radrm",
        "docs/lab/reproduction-flowcon-specon.md",
        "python -m benchmarks.flowcon; python -m benchmarks.specon",
    ),
    Source(
        "Philly (Jeon et al., ATC'19)",
        "github.com/msr-fiddle/philly-traces; Pollux's: github.com/petuum/adaptdl, osdi21-artifact",
        "docs/simulation.md",
        "radrm compare FILE --import philly",
    ),
    Source(
        "Alibaba 2020, 2023",
        "github.com/alibaba/clusterdata, cluster-trace-gpu-v2020 and -v2023",
        "docs/simulation.md",
        "radrm compare FILE --import alibaba2023",
    ),
    Source(
        "Gavel (OSDI'20)",
        "github.com/stanford-futuredata/gavel",
        "docs/simulation.md",
        "radrm compare FILE --import gavel --profile simulation_throughputs.json",
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder with the authors' traces")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    for each in SOURCES:
        print(f"{each.paper}\n  data: {each.data}\n  run:  {each.command}\n  page: {each.page}\n")
    sys.stdout.flush()
    if given.data is not None:
        words = ["benchmarks.simulation.reproduction", "--stdout", "--data", str(given.data)]
    else:
        print("Here: ANDREAS' jobs at load 1.1, under FIFO, EDF and PS. All rows: its page.\n")
        sys.stdout.flush()
        words = ["radrm", "compare", "--import", "andreas", "--load=1.1", "--planner=strict"]
    command = [sys.executable, "-m", *words, f"--seeds={given.seeds}"]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
