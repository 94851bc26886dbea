"""The name of a job whose user gives none: what a person would call its command.

A person calls `python train.py --lr 1` train.py, `torchrun --nproc-per-node 2 -m pkg.train`
pkg.train and `bash -c 'cd x; ./run.sh'` run.sh. So a program that only runs another one gives way
to the first word behind it that looks like a program, wherever it stands. A wrong guess costs a
good name and nothing else.
"""

from __future__ import annotations

from radrm.jobfile.languages import run_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_WORDS = 1000
_RUNNERS = frozenset(
    {
        *("sh", "bash", "dash", "zsh", "ksh", "python", "pypy", "ipython", "pythonw"),
        *("Rscript", "julia", "perl", "ruby", "node", "lua", "jupyter", "papermill"),
        *("env", "exec", "ionice", "nice", "nohup", "numactl", "setsid", "stdbuf", "time"),
        *("chrt", "taskset", "timeout", "unbuffer", "xvfb-run", "composer", "deepspeed"),
        *("horovodrun", "mpiexec", "mpirun", "prun", "radrun", "srun", "torchrun", "accelerate"),
        *("colossalai", "fabric", "lightning", "apptainer", "singularity", "conda", "hatch"),
        *("mamba", "micromamba", "pdm", "pipenv", "pixi", "poetry", "rye", "uv", "uvx"),
        *("compute-sanitizer", "gdb", "ncu", "nvprof", "nsys", "py-spy", "strace", "kernprof"),
        *("coverage", "debugpy", "scalene", "viztracer", "cProfile", "profile", "pdb", "ipdb"),
        *("pudb", "trace", "memory_profiler", "bottleneck", "torch.distributed.run"),
        *("torch.distributed.launch", "torch.utils.bottleneck", "accelerate.commands.launch"),
        *("deepspeed.launcher.runner",),
    }
)
"""Programs, and modules of `python -m`, that run another program."""
_AROUND = "'\"();&|"


def called(words: Sequence[str]) -> str:
    """Return what a person calls a command: a file without its folder, or a module."""
    own = _base(words[0]) if words else ""
    if own.rstrip("0123456789.") not in _RUNNERS:
        return own
    # The words of a text for a shell, too.
    rest = [part.strip(_AROUND) for word in words[1:_MOST_WORDS] for part in word.split()]
    for at, word in enumerate(rest):
        if not word.startswith("-") and (run_by(word) is not None or word.endswith(".sh")):
            return _base(word)
        is_module = word == "--module" or (word[:1] == "-" != word[1:2] and word[-1] == "m")
        module = "".join(rest[at + 1 : at + 2])
        if is_module and module and module not in _RUNNERS:
            return module
    paths = (word for word in rest if "/" in word and "=" not in word and word[0] != "-")
    return _base(next(paths, own))


def _base(word: str) -> str:
    return word.rstrip("/").rpartition("/")[2]
