"""How many tasks a job has, and what each needs: ranges (`--gpus=1-4`) and roles (`--role`).

A job with a range has one worker per GPU, in the role `main`. All ranges need a way to another
size: the launcher `radrun`, or saved work with which another attempt goes on.
"""

from __future__ import annotations

from radrm.jobfile import shell
from radrm.jobfile.values import MAX_TASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from radrm.core.records import Role
    from radrm.core.words import Resizing
    from radrm.jobfile.options import Options, RawOptions

# ------------------------------------------------------------------
# Whether a job starts its program with `radrun`, as its script or its command says.
#
# A command is the word behind assignments (`A=1`), keywords (`then`) and programs that run another
# one (`exec`, `env`, `timeout`); `shell.py` cuts the script into commands. A name in a variable
# (`$LAUNCHER`) is not found, nor is one in another language than a shell's: such a job needs
# `--checkpoint`.


_RADRUN = "radrun"
_RUN_ANOTHER = frozenset(
    {
        *("builtin", "chrt", "command", "conda", "env", "exec", "ionice", "mamba", "micromamba"),
        *("nice", "nohup", "numactl", "pdm", "pipenv", "pixi", "poetry", "setsid", "stdbuf"),
        *("taskset", "timeout", "uv"),
    }
)
"""Programs of which a later word may be the program that they run."""


def runs_radrun(script: str | None, interpreter: Sequence[str], argv: Sequence[str]) -> bool:
    """Return whether a command of the script, or the command `argv`, is `radrun`.

    `interpreter` has the words of the script's interpreter.
    """
    if script is None:
        return _is_radrun(argv)
    names = {shell.base(word) for words in interpreter for word in words.split()}
    return bool(names & shell.SHELLS) and _in_text(script)


def _is_radrun(words: Sequence[str]) -> bool:
    for place, word in enumerate(words):
        name = shell.base(word)
        if name == _RADRUN:
            return True
        if name in shell.SHELLS:
            return _in_text(shell.text_for_shell(words[place:]) or "")
        if name in _RUN_ANOTHER:
            return _RADRUN in map(shell.base, words[place + 1 :])
        if name not in shell.KEYWORDS and not shell.is_assignment(word):
            return False
    return False


def _in_text(text: str) -> bool:
    """Return whether a command of a text for a shell is `radrun`."""
    return _RADRUN in text and any(_is_radrun(step.words) for step in shell.steps(text))


# ------------------------------------------------------------------
# How many tasks it has, and what each needs.

_SAVES = ("signal", "exit")


def problem(
    options: Options,
    raw: RawOptions,
    script: str | None,
    interpreter: Sequence[str],
    argv: Sequence[str],
) -> tuple[str, str] | None:
    """Return the option by which a job can have no such size, and what is wrong with it.

    None: nothing is. The text begins with the option as written.
    """
    found = _contradiction(options)
    if found is None and options.of_tasks and not runs_radrun(script, interpreter, argv):
        found = _without_radrun(options)
    if found is None:
        return None
    name, text = found
    given = raw.get(name)
    return name, f"--{name}={given} {text}" if isinstance(given, str) else f"--{name} {text}"


def _contradiction(options: Options) -> tuple[str, str] | None:
    roles, names = options.role, [role.name for role in options.role]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return "role", f"names role {twice} twice; keep one of them"
    if roles and options.gpus:
        return "gpus", "does not go with --role; write --gpus=0, and gpus=1 in a role that has GPUs"
    if roles and options.memory_mib is not None and any(role.memory_mib for role in roles):
        return "memory", "is of the whole job; leave memory= out of the roles, or leave this out"
    most = sum(role.count_max or role.count for role in roles)
    if most > MAX_TASKS:
        return "role", f"makes {most} tasks in all, and {MAX_TASKS} is the most; write lower counts"
    mig = options.mig_profile is not None or options.collocation == "mig"
    if mig and options.gpus_max is not None:
        return "gpus", "is a range, which does not go with MIG instances; write one number"
    return None


def _without_radrun(options: Options) -> tuple[str, str] | None:
    """What is wrong with a job of ranges or roles that is not started by `radrun`."""
    if options.role:
        return "role", "needs radrun, which starts its tasks; start the program with radrun"
    if options.checkpoint in _SAVES:
        return None
    name = next(
        name
        for name, most in (
            ("gpus", options.gpus_max),
            ("cpus", options.cpus_max),
            ("memory", options.memory_max_mib),
        )
        if most is not None
    )
    return name, (
        "is a range, and a running job gets another size only by radrun or by saved work; start "
        "the program with radrun, or add --checkpoint=signal"
    )


def smaller_ends(raw: RawOptions, script: str | None) -> str:
    """Return what to lower in a job that is too large at its start, with the lines of its script.

    As `lower the smaller end of --gpus=5-8 (line 2)`.
    """
    found = []
    for name in ("gpus", "role", "cpus", "memory"):
        given = raw.get(name)
        for text in given if isinstance(given, list) else [given]:
            if isinstance(text, str) and text != "0":
                found.append(f"--{name}={text}{_line(script, name, text)}")
    return f"lower the smaller end of {' or '.join(found)}"


def _line(script: str | None, name: str, text: str) -> str:
    """Return ` (line 2)` for an option of a script's `#RAD` lines, "" for one of another source."""
    for number, line in enumerate((script or "").splitlines(), 1):
        words = line.split()
        given = f"--{name}={text}" in words or f" --{name} {text} " in f"{' '.join(words)} "
        if words[:1] == ["#RAD"] and given:
            return f" (line {number})"
    return ""


def roles_of(options: Options) -> tuple[Role, ...]:
    """Return the kinds of tasks of a job, each with its numbers of tasks and its needs."""
    from radrm.core.records import Needs, Role

    shared: dict[str, Any] = {
        "gpu_memory_mib": options.gpu_memory_mib,
        "gpu_memory_max_mib": options.gpu_memory_max_mib,
        "smact": options.smact,
    }
    if options.role:
        return tuple(
            Role(
                name=role.name,
                count_min=role.count,
                count_max=role.count_max or role.count,
                needs=Needs(
                    gpus=role.gpus,
                    cpus=options.cpus if role.cpus is None else role.cpus,
                    cpus_max=options.cpus_max if role.cpus is None else role.cpus_max,
                    memory_mib=role.memory_mib,
                    mig_profile=options.mig_profile if role.gpus else None,
                    **(shared if role.gpus else {}),
                ),
            )
            for role in options.role
        )
    gpus = options.least_gpus
    workers = gpus if options.of_tasks and gpus else 1
    needs = Needs(
        gpus=min(gpus, 1) if options.of_tasks else gpus,
        cpus=options.cpus,
        cpus_max=options.cpus_max,
        memory_mib=None if options.of_tasks else options.memory_mib,
        mig_profile=options.mig_profile,
        **shared,
    )
    return (Role(count_min=workers, count_max=options.gpus_max or workers, needs=needs),)


def memory_range(options: Options) -> tuple[int, int] | None:
    """Return the host memory of a whole job of ranges or roles, in MiB: least and most."""
    if not options.of_tasks or options.memory_mib is None:
        return None
    return options.memory_mib, options.memory_max_mib or options.memory_mib


def resizing_of(
    options: Options, script: str | None, interpreter: Sequence[str], argv: Sequence[str]
) -> Resizing:
    """Return how a job gets another size while it runs."""
    from radrm.core.words import Resizing

    if not options.of_tasks:
        return Resizing.NONE
    return Resizing.LIVE if runs_radrun(script, interpreter, argv) else Resizing.RESTART
