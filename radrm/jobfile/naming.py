"""The name of a job whose user gives none: what a person would call its command.

A person calls `python train.py --lr 1` train.py, `torchrun --nproc-per-node 2 -m pkg.train`
pkg.train and `bash -c 'cd x; ./run.sh'` run.sh. So the command is read from the left: a program
that only runs another one (`env`, `uv run`, `torchrun`) or a file (`python`, `bash`) gives way to
that. The options of such programs are not known in full. Of an unknown option without `=` the next
word is taken for its value, unless that has the ending of a program. Where nothing is left the
program names the job itself, so a wrong guess costs a good name and nothing else.
"""

from __future__ import annotations

from radrm.jobfile import shell
from radrm.jobfile.languages import run_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_DEEPEST = 8
"""Programs that run each other."""
_MOST_WORDS = 1000
"""Words of a command that are looked at, and commands of a text for a shell."""
_FLAGS = frozenset(
    {
        *("-0", "-F", "-a", "-f", "-i", "-it", "-l", "-q", "-v", "-w", "--active", "--args"),
        *("--cleanenv", "--cpu", "--debug", "--exact", "--frozen", "--isolated", "--live-stream"),
        *("--locked", "--multi_gpu", "--nv", "--offline", "--oversubscribe", "--preserve-status"),
        *("--quiet", "--rm", "--standalone", "--verbose", "--wait-for-client"),
    }
)
"""Options without a value, and those that begin with `--no`."""
_VALUED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("mpirun", "mpiexec", "horovodrun"), ("-np", "-host", "-hostfile", "-H")),
    "env": ("-u", "-C", "-S"),
    "time": ("-f", "-o"),
    "stdbuf": ("-i",),
    "numactl": ("-i",),
}
"""Options of one program that take a value, though they look like a flag."""

_RUNNERS: dict[str, int] = {
    **dict.fromkeys(("builtin", "command", "env", "exec", "ionice", "nice", "nohup"), 0),
    **dict.fromkeys(("numactl", "setsid", "stdbuf", "time", "unbuffer", "xvfb-run"), 0),
    **dict.fromkeys(("chrt", "taskset", "timeout"), 1),
    **dict.fromkeys(("composer", "deepspeed", "horovodrun", "mpiexec", "mpirun", "prun"), 0),
    **dict.fromkeys(("radrun", "srun", "torchrun", "uvx", "papermill"), 0),
    **dict.fromkeys(("compute-sanitizer", "gdb", "ncu", "nvprof", "strace", "kernprof"), 0),
    **dict.fromkeys(("coverage", "debugpy", "scalene", "viztracer", "cProfile", "profile"), 0),
    **dict.fromkeys(("pdb", "ipdb", "pudb", "trace", "memory_profiler", "bottleneck"), 0),
}
"""Programs, and modules of `python -m`, that run the command that follows, and how many words
stand before that: of `timeout 2h` one."""
_OF_IMAGES = ("apptainer", "singularity")
"""Programs whose first word is an image."""
_BY_WORD: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("conda", "hatch", "mamba", "micromamba", "pdm", "pipenv"), ("run",)),
    **dict.fromkeys(("pixi", "poetry", "rye", "uv", "colossalai", "fabric", "lightning"), ("run",)),
    **dict.fromkeys(_OF_IMAGES, ("exec", "run")),
    "accelerate": ("launch",),
    "nsys": ("profile", "launch"),
    "py-spy": ("record",),
    "jupyter": ("execute", "nbconvert"),
}
"""The same of programs that do it by a word: `conda run`, `accelerate launch`."""
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "torch.utils.bottleneck": "bottleneck",
    "accelerate.commands.launch": "torchrun",
    "deepspeed.launcher.runner": "deepspeed",
}
"""Modules of `python -m` that are known by another name."""
_PYTHONS = ("python", "pypy", "ipython", "pythonw")
_OTHERS = frozenset({"Rscript", "julia", "perl", "ruby", "node", "lua"})
_SILENT = frozenset(
    {
        *(".", ":", "cd", "conda", "declare", "echo", "eval", "export", "mamba", "mkdir"),
        *("module", "ml", "printf", "pushd", "set", "shopt", "sleep", "source", "trap", "true"),
        *("ulimit", "umask", "unset", "wait", "nvidia-smi", "date", "hostname", "exit"),
        *("test", "["),
        *("for", "case", "select", "in", "done", "fi", "esac", "}", "[["),
    }
)
"""Commands in a text for a shell after which nobody calls it."""


def called(words: Sequence[str]) -> str:
    """Return what a person calls a command: a file without its folder, or a module."""
    own = _base(words[0]) if words else ""
    return _called(tuple(words[:_MOST_WORDS]), 0) or own


def _base(word: str) -> str:
    return shell.base(word.rstrip("/"))


def _called(words: Sequence[str], depth: int) -> str:
    """Return the name of a command; "" where nothing is left that could name it."""
    while words and shell.is_assignment(words[0]):
        words = words[1:]
    if not words or depth > _DEEPEST:
        return ""
    name, rest = _base(words[0]), words[1:]
    if name in shell.SHELLS:
        return _of_shell(words, depth) or name
    if name.rstrip("0123456789.") in _PYTHONS:
        return _of_python(rest, depth) or name
    if name in _OTHERS:
        return next((_base(word) for word in rest if run_by(word)), name)
    before = _RUNNERS.get(name)
    if before is None and name in _BY_WORD:
        at = next((at for at, word in enumerate(rest) if word in _BY_WORD[name]), None)
        if at is None:
            return name
        before, rest = int(name in _OF_IMAGES), rest[at + 1 :]
    return name if before is None else _of_runner(name, rest, before, depth) or name


def _of_runner(name: str, words: Sequence[str], before: int, depth: int) -> str:
    """Return the name of what a program runs; `before`: words that stand before that."""
    takes = False
    for at, word in enumerate(words):
        if word in ("-m", "--module") and at + 1 < len(words):
            return _of_module(words[at + 1], words[at + 2 :], depth)
        if word == "--":
            return _called(words[at + 1 :], depth + 1)
        if word.startswith("-"):
            takes = _takes_value(name, word)
        elif _is_program(word):
            return _called(words[at:], depth + 1)
        elif takes:
            takes = False
        elif shell.is_assignment(word):
            continue
        elif before:
            before -= 1
        else:
            return _called(words[at:], depth + 1)
    return ""


def _takes_value(name: str, option: str) -> bool:
    if option in _VALUED.get(name, ()):
        return True
    joined = "=" in option or (option[1:2] != "-" and (len(option) > 2 or option[1:].isdigit()))
    flag = option in _FLAGS or option.startswith("--no") or name in ("setsid", "taskset")
    return not (joined or flag)


def _is_program(word: str) -> bool:
    return run_by(word) is not None or word.endswith(".sh")


def _of_module(module: str, words: Sequence[str], depth: int) -> str:
    known = _MODULES.get(module, module)
    if known not in _RUNNERS:
        return module
    return _of_runner(known, words, 0, depth + 1) or module


def _of_python(words: Sequence[str], depth: int) -> str:
    """Return the file or module of a Python; "" without one, as with `-c`."""
    rest = iter(enumerate(words))
    for at, word in rest:
        if word in ("-", "--"):
            return _base(words[at + 1]) if word == "--" and at + 1 < len(words) else ""
        if not word.startswith("-"):
            return _base(word)
        if word == "--check-hash-based-pycs":
            next(rest, None)
        # Options of one letter may be joined, and the last one may have its value joined.
        for place, letter in enumerate(word[1:], 1) if word[1] != "-" else ():
            if letter == "c":
                return ""
            if letter == "m":
                left = [*filter(None, [word[place + 1 :]]), *words[at + 1 :]]
                return _of_module(left[0], left[1:], depth) if left else ""
            if letter in "WX":
                if not word[place + 1 :]:
                    next(rest, None)
                break
    return ""


def _of_shell(words: Sequence[str], depth: int) -> str:
    """Return the file of a shell, or the first command of its text that does the work."""
    text = shell.text_for_shell(words)
    if text is not None:
        for step, _ in zip(shell.steps(text), range(_MOST_WORDS), strict=False):
            program = step.program
            if program and _base(program[0]) == "exec":
                program = program[1:]
            if program and (_base(program[0]) not in _SILENT or "run" in program):
                return _called(program, depth + 1)
        return ""
    rest = iter(words[1:])
    for word in rest:
        if word in ("-o", "-O", "+o", "+O", "--rcfile", "--init-file"):
            next(rest, None)
        elif word == "-s":
            return ""
        elif not word.startswith(("-", "+")):
            return _base(word)
    return ""
