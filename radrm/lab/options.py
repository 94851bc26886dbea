"""Options that `simulate`, `compare` and `replay` share."""

from __future__ import annotations

from collections.abc import Sequence

from radrm.cli.parameters import FLAG, NUMBER, REAL, TEXT, TEXTS, Parameter
from radrm.lab.simulator.servers import HASH
from radrm.lab.simulator.traces.draw import MOST_USERS

MOST_SEEDS = 1000
MOST_SERVERS = 1024

USUAL_GPUS = "sim:4xA100-40GB"
GPUS = Parameter(
    "gpus",
    TEXT,
    "The GPUs of the simulated server, or of several, as sim:5*2xV100-32GB/1xT4-16GB "
    f"[default: {USUAL_GPUS}]",
    *("sim:SPEC", ("--gpus",)),
)
CPUS = Parameter(
    *("cpus", REAL),
    "The CPUs of each server, for jobs with the column cpus; by default without limit.",
    *("N", ("--cpus",)),
    least=0.1,
    most=100_000,
)
ORDER = Parameter("order", TEXT, "The order of the queue.", "NAME", ("--order",))
ORDERS = Parameter("order", TEXTS, "Orders of the queue to compare: a,b.", "NAME", ("--order",))
PLANNER = Parameter(
    *("planner", TEXT, "The planner; + joins several: strict+mine.", "NAME", ("--planner",))
)
PLANNERS = Parameter(
    *("planner", TEXTS, "Planners to compare: a,b; + joins those of one run: a+b."),
    *("NAME", ("--planner",)),
)
ESTIMATOR = Parameter(
    *("estimator", TEXT),
    "What is known of the jobs' memory: auto (by default, as the daemon: columns such as "
    "trace_mib, and earlier runs of the user and name), oracle (declared as the trace says), "
    "none, the NAME of a column NAME_mib, or an estimator whose errors are recorded.",
    *("NAME", ("--estimator",)),
)
KNOWN = Parameter(
    *("known", TEXTS),
    "What is known of each job, and its relative error: --known smact,duration=0.3,"
    "declared=0.08; without an error it is exact. memory is an estimate, declared is what "
    "users declare with --gpu-memory.",
    *("WHAT[=ERROR]", ("--known",)),
)
MODE = Parameter(
    *("collocation", TEXT, "mps, timeslice, exclusive; by default as configured."),
    *("MODE", ("--collocation",)),
)
RECOVERY = Parameter(
    *("recovery", TEXT, "The recovery from GPU out-of-memory.", "NAME", ("--recovery",))
)
FIDELITY = Parameter(
    *("fidelity", TEXT),
    "The scheduling loop: radrm (as the daemon), published (as the prototype).",
    *("LOOP", ("--fidelity",)),
    initial="radrm",
)


def seeds(initial: int | None) -> Parameter:
    """`--seeds`, which is `initial` by default."""
    advised = "" if initial else " (1 by default; 6 and 6 more with --advise)"
    about = f"Run N times, with the seeds 0 to N-1{advised}."
    bounds = {"least": 1, "most": MOST_SEEDS}
    return Parameter("seeds", NUMBER, about, "N", ("--seeds",), **bounds, initial=initial)


ADVISE = Parameter(
    *("advise", FLAG, "Try many settings; name the best one, its gain, and the lines to set it."),
    flags=("--advise",),
)
OBJECTIVE = Parameter(
    *("objective", TEXT),
    "What --advise makes small: completion (time; by default), makespan, energy.",
    *("WHAT", ("--objective",)),
    initial="completion",
)
POLICY = Parameter(
    *("policy", TEXT, "The policy; by default the configured one.", "NAME", ("--policy",))
)
POLICIES = Parameter(
    *("policy", TEXTS, "Policies: repeat it, or use a,b,c; all by default."),
    *("NAME", ("--policy",)),
)
SET = Parameter(
    *("settings", TEXTS),
    "A setting, as policy.max_smact=0.75, core.settle_s=60 or life.start_up_s=20.",
    *("KEY=VALUE", ("--set",)),
)
SERVERS = Parameter(
    *("servers", NUMBER, "N such servers; jobs are distributed.", "N", ("--servers",)),
    least=1,
    most=MOST_SERVERS,
    initial=1,
)
DEALER = Parameter(
    *("dealer", TEXT),
    "Who gives jobs to several servers: `hash`, or `gpumem`: a queue that counts GPU "
    "memory, as Slurm's (radrm help cluster).",
    *("NAME", ("--dealer",)),
    initial=HASH,
)
SCENARIO = Parameter(
    *("scenario", NUMBER),
    "--import andreas: nodes of 2 V100 or 1 T4 (1, by default), of 4 or 2 (2).",
    *("1|2", ("--scenario",)),
)
NODES = Parameter(
    *("nodes", NUMBER, "--import andreas: 2 to 100 nodes; 10 by default.", "N", ("--nodes",))
)
LOAD = Parameter(
    *("load", REAL, "--import andreas: the rate of arrivals; 0.5 by default.", "L", ("--load",))
)
FIRST_SEED = Parameter(
    *("seed", NUMBER, "--import andreas: the seed of the first draw.", "N", ("--seed",))
)
_FORMS = "Format of the trace: auto, trace, published, philly, slurm"
FORM = Parameter("form", TEXT, f"{_FORMS}.", "FORM", ("--import",), initial="auto")
MIX_FORM = Parameter(
    *("form", TEXT, f"{_FORMS}; or andreas: jobs drawn as published, without a file."),
    *("FORM", ("--import",)),
    initial="auto",
)
PROFILE = Parameter(
    *("profile", TEXTS),
    "Jobs measured alone: CSV of name,duration_s,smact,steady_mib.",
    *("FILE", ("--profile",)),
)
FILL = Parameter(
    *("fill", TEXT, "Typical jobs for missing values: memory_mib,smact,share."),
    *("CSV", ("--fill",)),
)
FILL_SEED = Parameter(
    *("fill_seed", NUMBER, "Seed of the random choice among typical jobs."),
    *("N", ("--fill-seed",)),
    least=0,
    initial=0,
)
USERS = Parameter(
    *("users", NUMBER),
    "Deal the jobs to N users, in unequal shares; jobs of one name belong to one user.",
    *("N", ("--users",)),
    least=1,
    most=MOST_USERS,
)


def names(given: Sequence[str]) -> list[str]:
    """Names, each once, from an option that is repeated or has a list with commas."""
    words = [word.strip() for each in given for word in each.split(",")]
    return list(dict.fromkeys(word for word in words if word))
