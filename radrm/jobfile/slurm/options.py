"""Every option of `sbatch`: how it is spelled, and what radrm makes of it.

Theory of operation
-------------------
The table has the options of the manual page and those that sbatch takes without naming them. Each
has one fate:

    becomes    it has a meaning here, and `radrm.jobfile.slurm.translation` translates it
    nothing    it changes nothing on one server without partitions and accounts: a note names it
    refused    without it the job would be another one: the error names what to write instead

The reader of words (`radrm.jobfile.slurm.words`) takes spellings from here, the translation the
fates, and docs/sbatch.md its table.

Source: sbatch(1) and `slurm_opt.c` of Slurm 25.11.
"""

from __future__ import annotations

from radrm.jobfile.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASE = "25.11"
"""Of Slurm: the release whose options these are."""

BECOMES, NOTHING, REFUSED = "becomes", "nothing", "refused"

VALUE, MAYBE, NONE = "value", "maybe", "none"
"""Whether an option has a value. One that may be left out stands after a `=`."""


class SbatchOption(Record):
    """One option. `says`: what it becomes, or for a refused one what to write instead.

    `names` are other long names. `variable` is its variable for input, where that has not the
    option's name: `SBATCH_...`.
    """

    name: str
    fate: str
    says: str = ""
    short: str = ""
    takes: str = VALUE
    names: tuple[str, ...] = ()
    variable: str = ""

    @property
    def usage(self) -> str:
        """The option as documentation shows it: `-J --job-name`."""
        return f"-{self.short} --{self.name}" if self.short else f"--{self.name}"


def _all(*found: SbatchOption | tuple[SbatchOption, ...]) -> Iterator[SbatchOption]:
    for each in found:
        yield from each if isinstance(each, tuple) else (each,)


def _becomes(
    name: str,
    says: str,
    short: str = "",
    takes: str = VALUE,
    names: tuple[str, ...] = (),
    variable: str = "",
) -> SbatchOption:
    return SbatchOption(name, BECOMES, says, short, takes, names, variable)


def _nothing(takes: str, *names: str) -> tuple[SbatchOption, ...]:
    """Options without meaning here: `NAME`, or `S NAME` with a short one."""
    return tuple(
        SbatchOption(name.split()[-1], NOTHING, short=name[0] if " " in name else "", takes=takes)
        for name in names
    )


def _refused(name: str, says: str, short: str = "", takes: str = VALUE) -> SbatchOption:
    return SbatchOption(name, REFUSED, says, short, takes)


_OF_TASKS = "SLURM_NTASKS, and CPUs for so many tasks; srun starts them"
_GPUS = "--gpus=N --gpu-type=TYPE"
_IN_SCRIPT = "start the container in the script, as: apptainer exec IMAGE python train.py"
_ANOTHER = "submit as that user"

OPTIONS = tuple(
    _all(
        # GPUs, CPUs and memory
        _becomes("gpus", _GPUS, "G"),
        _becomes("gpus-per-node", _GPUS),
        _becomes("gpus-per-task", "--gpus: N for each task"),
        _becomes("gpus-per-socket", "--gpus: N for each of --sockets-per-node"),
        _becomes("gres", "--gpus=N --gpu-type=TYPE, or --mig-profile; others are left out"),
        _becomes("tres-per-task", "--gpus, --cpus and --memory: so much for each task"),
        _becomes(
            "constraint",
            "--gpu-type; ampere and others are all types of that architecture;"
            " features of nodes are left out",
            "C",
        ),
        _becomes("prefer", "--prefer-gpus, if it names types of GPU"),
        _becomes("cpus-per-task", "--cpus: N for each task", "c"),
        _becomes("cpus-per-gpu", "--cpus: N for each GPU"),
        _becomes("mincpus", "--cpus, if that is more"),
        _becomes("mem", "--memory", variable="SBATCH_MEM_PER_NODE"),
        _becomes("mem-per-cpu", "--memory: so much for each CPU"),
        _becomes("mem-per-gpu", "--memory: so much for each GPU"),
        _becomes("gpu-bind", "SLURM_GPU_BIND, by which srun chooses the GPUs of each task"),
        _becomes("exclusive", "--collocation=exclusive: no GPU is shared", takes=MAYBE),
        # Nodes and tasks
        _becomes("nodes", "one node; more are refused", "N"),
        _becomes("ntasks", _OF_TASKS, "n"),
        _becomes("ntasks-per-node", _OF_TASKS, names=("tasks-per-node",)),
        _becomes(
            "ntasks-per-gpu",
            "that many tasks for each GPU, or GPUs for --ntasks",
            names=("ntasks-per-tres",),
        ),
        _becomes("overcommit", "CPUs for one task only; srun starts more", "O", NONE),
        _becomes("nodelist", "nothing on this server; a note, if it names others only", "w"),
        _becomes("exclude", "nothing for other servers; refused, if it names this one", "x"),
        # When it runs
        _becomes("time", "--time; a plain number is minutes", "t", variable="SBATCH_TIMELIMIT"),
        _becomes("begin", "--begin", "b"),
        _becomes("deadline", "--due; a job that is late is not removed"),
        _becomes("hold", "--hold", "H", NONE),
        _becomes("nice", "--priority=-N", takes=MAYBE),
        _becomes(
            "dependency",
            "--after=12, 12:any, 12:failed (afterok, afterany, afternotok, aftercorr, singleton)",
            "d",
        ),
        _becomes("array", "--array", "a", variable="SBATCH_ARRAY_INX"),
        # Where and how it runs
        _becomes("job-name", "--name", "J"),
        _becomes("comment", "--comment"),
        _becomes("chdir", "--chdir", "D", names=("workdir",)),
        _becomes("output", "--output; %N is this server, %s %t are 0; no /dev/stdout", "o"),
        _becomes("error", "--error", "e"),
        _becomes("open-mode", "append, as radrm always does; truncate is named in a note"),
        _becomes("export", "--env=NAME=VALUE; NONE leaves a login's variables only"),
        _becomes("input", "/dev/null, as radrm always does; others are refused", "i"),
        _becomes("wrap", "the command /bin/sh -c ..."),
        # Its end
        _becomes("signal", "--signal"),
        _becomes("requeue", "--requeue", takes=MAYBE),
        _becomes("no-requeue", "the default", takes=NONE),
        _becomes("mail-type", "--notify: BEGIN is start, END end, FAIL fail; several add up"),
        _becomes("mail-user", "the target of --notify; without it, your own mailbox"),
        # What the command does
        _becomes("wait", "--wait", "W", NONE),
        _becomes("parsable", "--parsable", takes=NONE),
        _becomes("test-only", "--dry-run", takes=NONE),
        _becomes("help", "--help", "h", NONE),
        _becomes("usage", "--help", takes=NONE),
        _becomes("version", "the release of radrm", "V", NONE),
        # Refused: without it, the job would be another one
        _refused("export-file", "read the file in the script: set -a; source FILE; set +a"),
        _refused("container", _IN_SCRIPT),
        _refused("container-id", _IN_SCRIPT),
        SbatchOption(
            "bb",
            REFUSED,
            "there is no burst buffer; copy the files in the script",
            variable="SBATCH_BURST_BUFFER",
        ),
        _refused("bbf", "there is no burst buffer; copy the files in the script"),
        _refused("uid", f"{_ANOTHER}, as: sudo -u ada radrm submit ..."),
        _refused("gid", f"{_ANOTHER} in that group, as: sg GROUP -c 'radrm submit ...'"),
        _refused("external", "every job of radrm has a script or a command", takes=NONE),
        # No meaning on one server
        SbatchOption("clusters", NOTHING, short="M", names=("cluster",)),
        SbatchOption("cpu-freq", NOTHING, variable="SBATCH_CPU_FREQ_REQ"),
        SbatchOption("segment", NOTHING, variable="SBATCH_SEGMENT_SIZE"),
        SbatchOption("switches", NOTHING, variable="SBATCH_REQ_SWITCH"),
        SbatchOption("verbose", NOTHING, short="v", takes=NONE, variable="SBATCH_DEBUG"),
        SbatchOption("oversubscribe", NOTHING, short="s", takes=NONE, names=("share",)),
        _nothing(VALUE, "A account", "L licenses", "p partition", "q qos", "m distribution"),
        _nothing(VALUE, "B extra-node-info", "F nodefile", "S core-spec", "acctg-freq", "batch"),
        _nothing(VALUE, "cluster-constraint", "cores-per-socket", "delay-boot"),
        _nothing(VALUE, "gpu-freq", "gres-flags", "hint", "kill-on-invalid-dep", "mcs-label"),
        _nothing(VALUE, "mem-bind", "network", "ntasks-per-core", "ntasks-per-socket", "priority"),
        _nothing(VALUE, "profile", "reservation", "resources", "sockets-per-node", "thread-spec"),
        _nothing(VALUE, "threads-per-core", "time-min", "tmp", "tres-bind", "wait-all-nodes"),
        _nothing(VALUE, "wckey", "context", "cpu-bind", "extra", "power"),
        _nothing(NONE, "Q quiet", "contiguous", "consolidate-segments", "reboot"),
        _nothing(NONE, "ignore-pbs", "spread-job", "spread-segments", "stepmgr", "use-min-nodes"),
        _nothing(MAYBE, "k no-kill", "get-user-env", "oom-kill-step", "propagate", "resv-ports"),
    )
)
"""The options, by what they are about. Documentation shows them in this order."""

BY_NAME = {name: each for each in OPTIONS for name in (each.name, *each.names)}

_NO_VARIABLE = frozenset(
    {
        *("prefer", "cpus-per-task", "mincpus", "nodes", "ntasks", "ntasks-per-node", "hold"),
        *("ntasks-per-gpu", "nodelist", "exclude", "begin", "deadline", "nice", "dependency"),
        *("comment", "chdir", "wrap", "mail-type", "mail-user", "parsable", "test-only", "help"),
        *("usage", "version", "licenses", "export-file", "bbf", "uid", "gid", "external", "power"),
        *("oversubscribe", "extra-node-info", "nodefile", "extra", "cores-per-socket", "context"),
        *("kill-on-invalid-dep", "mcs-label", "ntasks-per-core", "ntasks-per-socket", "quiet"),
        *("priority", "resources", "sockets-per-node", "time-min", "tmp", "cpu-bind", "reboot"),
        *("contiguous", "stepmgr", "oom-kill-step", "propagate", "resv-ports"),
    }
)
BY_VARIABLE = {
    each.variable or f"SBATCH_{each.name.replace('-', '_').upper()}": each
    for each in OPTIONS
    if each.name not in _NO_VARIABLE
}
"""The variables of sbatch for input."""

OF_PYXIS = "container-"
"""How the options of a common plugin of Slurm begin, which starts containers."""


def why_unknown(name: str) -> str:
    """Return why an option is refused that is none of these."""
    if name.startswith(OF_PYXIS):
        return f"of a plugin of Slurm (pyxis); {_IN_SCRIPT}"
    return f"no option of sbatch in Slurm {RELEASE}; correct its name"
