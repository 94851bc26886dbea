"""Parameters that several commands have. The kinds are those of `radrm.jobfile.arguments`."""

from __future__ import annotations

from radrm.jobfile.arguments import (
    BEHIND,
    COMMAND,
    FLAG,
    NUMBER,
    OF_JOBS,
    REAL,
    SWITCH,
    TEXT,
    TEXTS,
    WORD,
    WORDS,
    Parameter,
)

__all__ = [
    "BEHIND",
    "CHOSEN_JOBS",
    "CLUSTER",
    "COMMAND",
    "DEVICES",
    "FLAG",
    "FORMAT",
    "JOB",
    "JOBS",
    "JSON",
    "NO_HEADER",
    "NUMBER",
    "OF_JOBS",
    "REAL",
    "REFERENCES",
    "STATE",
    "SWITCH",
    "TEXT",
    "TEXTS",
    "USER",
    "WORD",
    "WORDS",
    "YES",
    "Parameter",
]

REFERENCES = "ids (12), arrays (12), elements (12_3), tickets, names, globs ('sweep-*'), @ (last)"

JSON = Parameter("as_json", FLAG, "One JSON document on standard output.", flags=("--json",))
JOB = Parameter("job", WORD, "A job: id (12), element (12_3), ticket or name.", "JOB", least=1)
JOBS = Parameter("jobs", WORDS, f"Jobs: {REFERENCES}.", "JOB...", least=1)
CHOSEN_JOBS = Parameter(
    "jobs", WORDS, f"Jobs: {REFERENCES}; or choose by --user, --state.", "JOB..."
)
USER = Parameter(
    *("user", TEXT, "Only jobs of this user; without a JOB, your own by default.", "NAME"),
    flags=("--user",),
)
STATE = Parameter(
    *("state", TEXT, "Only jobs in these states, as running,pending.", "STATE,..."),
    flags=("--state",),
)
CLUSTER = Parameter(
    "cluster", FLAG, "Of Slurm, in the partition that shares GPUs.", flags=("--cluster",)
)
FORMAT = Parameter(
    "layout",
    *(TEXT, "Rows as squeue's --format: '%.10i %j %T', or '{id} {name}' (radrm help others)."),
    *("FORMAT", ("--format", "-o")),
)
NO_HEADER = Parameter(
    "no_header", FLAG, "With --format: without the line of headings.", flags=("--no-header",)
)
DEVICES = Parameter(
    "devices", WORDS, "GPU indices (0-3,5) or UUIDs; all GPUs by default.", "DEVICE..."
)
YES = Parameter("yes", FLAG, "All GPUs, without asking.", flags=("--yes", "-y", "--all"))
