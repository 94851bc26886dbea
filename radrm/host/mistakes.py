"""What a submission cannot mean: a program, a folder or a value that is not there.

Theory of operation. This process is the submitter on the server of the job, so it sees what the job
will see, with the same rights. What cannot work now is refused. A job that starts later by its own
options (`--after`, `--begin`, `--hold`) may find what is missing now, and a folder of logs may be
made meanwhile: then there is a note. A refusal of what a job may make names `--after`. The server
looks at all of this again when the job starts. `radrm submit` imports this file, so it imports
almost nothing.
"""

from __future__ import annotations

import os
import sys
from itertools import islice

from radrm.errors import CannotRun, NoProgram, UsageError
from radrm.host.storage.sources import MAX_SCRIPT, read_program, text_of
from radrm.jobfile import shell
from radrm.jobfile.languages import as_job_file, run_by, why_no_program
from radrm.jobfile.radfile import DEFAULT_INTERPRETER, JobFile
from radrm.jobfile.relations import is_param_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from radrm.jobfile.options import Options

_ENV = "env"
_OWN_PREFIX = "rad"
_INTERPRETERS = frozenset({*shell.SHELLS, "python", "torchrun", "Rscript", "julia"})
_MOST_PATHS = 100
"""Different paths of the logs of one sweep that are looked at."""
_WAY_OUT = ", or add --after=JOB if a job makes it"
"""Of a refusal: what is missing now may be there when the job starts."""
# `re` is imported where one of these is used: that takes a submission longer than to look.
_IMPORTED = (
    r"(?m)^[ \t]*(?:import[ \t]+([\w., \t]{1,500})"
    r"|from[ \t]+(\w[\w.]{0,100})[ \t]+import[ \t]*\(?([\w, \t]{0,500}))"
)
_MOST_IMPORTS = 200
_CLOSED = "is not yours to write to; name a file in another folder with --output"
_BY_ID = ("%j", "%A")
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*="
_SPLIT = r"(?:-S|--split-string[= ])\s*(.*)"
_OF_A_SHELL_LINE = r"[&|;<>$`*(]|(?:\A|\s)[A-Za-z_]\w*="
_OF_BASH = frozenset(
    {
        *("builtin", "caller", "command", "compgen", "complete", "coproc", "enable", "eval"),
        *("exec", "help", "history", "logout", "mapfile", "readarray", "time", "times", "typeset"),
    }
)
"""Words of bash that `NEVER_TRAINS` does not have."""
_OF_SHELLS = frozenset(
    {
        *("cd", "source", ".", "export", "alias", "eval", "exec", "pushd", "set", "unset"),
        *("ulimit", "umask", "trap", "module", "for", "while", "if"),
    }
)


def look_over(
    job_file: JobFile, folder: str, environment: Mapping[str, str], where: str
) -> JobFile:
    """Return a job file with notes on what is probably a mistake.

    `folder`: the one in which the job was submitted; `environment`: the job's. Raises `UsageError`
    for what can never work; `NoProgram` or `CannotRun` for its program.
    """
    asked = job_file.options
    cwd = os.path.join(folder, asked.chdir or "")
    notes = [*_of_sweep(job_file, cwd), *_of_modules(job_file, where), *_of_options(job_file, cwd)]
    notes += [*_of_program(job_file, cwd), *_of_targets(asked)]
    later = _later(asked)
    try:
        _check_folder(asked, cwd, where)
        runs_in = _folder_of_copy(asked, folder, cwd)
        _check_program(job_file, runs_in or cwd, {**environment, **dict(asked.env)}, where)
        notes += _of_logs(asked, cwd, where, lambda path: _paths(job_file, _known(path, job_file)))
        if asked.output is None and not asked.interactive and _is_closed(os.path.join(cwd, "")):
            notes.append(f"the folder of the log, {os.path.normpath(cwd)}, {_CLOSED}")
    except UsageError as error:
        if later is None:
            raise
        words = str(error).removeprefix(f"{where}: ").replace(_WAY_OUT, "")
        notes.append(f"{words} (before {later} lets it start)")
    return with_notes(job_file, notes)


def look_over_edit(asked: Options, folder: str) -> list[str]:
    """Return what the start of an edited job would meet. It waits, so what is missing may come.

    `asked`: what was changed; `folder`: the one in which it will run.
    """
    try:
        _check_folder(asked, folder, "")
        # Which values a parameter has is not known here: a path is looked at up to the first one.
        return _of_logs(asked, folder, "", lambda path: [path.replace("{", "%{")])
    except UsageError as error:
        return [str(error).removeprefix(": ").replace(_WAY_OUT, "")]


def _later(asked: Options) -> str | None:
    """Return the option by which a job starts later; None: it starts as soon as it can."""
    options = (
        ("--after", bool(asked.after)),
        ("--begin", asked.begin_s is not None),
        ("--hold", bool(asked.hold)),
    )
    return next((name for name, given in options if given), None)


def with_notes(job_file: JobFile, notes: Sequence[str]) -> JobFile:
    """Return a job file with more lines for its user."""
    if not notes:
        return job_file
    return JobFile(**{**job_file.as_dict(), "notes": (*job_file.notes, *notes)})


# ------------------------------------------------------------------ folders


def _check_folder(asked: Options, cwd: str, where: str) -> None:
    """Raise `UsageError` if the job's folder is not there."""
    if asked.chdir is None or os.path.isdir(cwd):
        return
    if os.path.exists(cwd):
        raise UsageError(f"{where}: --chdir={asked.chdir}: {cwd} is not a folder; name another")
    raise UsageError(
        f"{where}: the folder {cwd} does not exist; {_to_make(cwd)}, or name another with --chdir"
        f"{_WAY_OUT}"
    )


def _folder_of_copy(asked: Options, folder: str, cwd: str) -> str | None:
    """Return the folder whose copy a job with `--snapshot` runs in; None without one."""
    if asked.snapshot is None:
        return None
    source, runs_in = (os.path.realpath(os.path.join(folder, p)) for p in (asked.snapshot, cwd))
    return runs_in if os.path.commonpath([runs_in, source]) == source else source


def _of_logs(
    asked: Options, cwd: str, where: str, paths: Callable[[str], Sequence[str]]
) -> list[str]:
    """Return a note on logs that are links, and on folders of logs that are not there. Raises
    `UsageError` for a path that is a folder. `paths`: what a path is for the elements of an
    array."""
    notes: dict[str, str] = {}
    links: list[str] = []
    for option, path in (("output", asked.output), ("error", asked.error)):
        if path is None:
            continue
        full = [os.path.join(cwd, own) for own in paths(path)]
        if path.endswith("/") or any(_plain(own) == own and os.path.isdir(own) for own in full):
            raise UsageError(
                f"{where}: --{option}={path} is a folder; name a file in it, as "
                f"--{option}={os.path.join(path, '%j.out')}"
            )
        link = next((own for own in full if _plain(own) == own and os.path.islink(own)), None)
        if link is not None:
            links.append(
                f"--{option}: {link} is a symbolic link, and a job writes its log to none; remove "
                "it, or name another file"
            )
        above = paths(os.path.dirname(path))
        if any(pattern in own.replace("%%", "") for own in above for pattern in _BY_ID):
            step = "make one folder, and put the id into the name of the file"
            cause = "is named by the job's id, so nobody can make it"
            notes.setdefault(f"{above[0]}, {cause}; {step}", option)
            continue
        folders = (os.path.join(cwd, own, "") for own in above)
        known = dict.fromkeys(os.path.dirname(_plain(folder)) for folder in folders)
        missing = [folder for folder in known if not os.path.isdir(folder)]
        closed = next((own for own in full if _is_closed(_plain(own))), None)
        if missing:
            notes.setdefault(_missing(missing), option)
        elif closed is not None:
            notes.setdefault(f"{os.path.dirname(_plain(closed))}, {_CLOSED}", option)
    return [*links, *(f"the folder of --{option}, {words}" for words, option in notes.items())]


def _is_closed(path: str) -> bool:
    """Return whether this user may write neither the file nor a new one in its folder."""
    if path.endswith("/") or not os.path.lexists(path):
        path = os.path.dirname(path)
    return os.path.exists(path) and not os.access(path, os.W_OK)


def _of_targets(asked: Options) -> list[str]:
    """Return a note on each program of `--notify` that cannot run now."""
    if not asked.notify:
        return []
    from radrm.jobfile.targets import target_of  # few submissions name targets

    found = (target_of(each) for each in asked.notify)
    paths = (os.path.expanduser(each.address) for each in found if each.kind == "command")
    return [
        f"--notify: {path} {'is not executable' if os.path.exists(path) else 'does not exist'}"
        for path in paths
        if not os.access(path, os.X_OK)
    ]


def _missing(folders: Sequence[str]) -> str:
    more = f" (and {len(folders) - 1} more)" if len(folders) > 1 else ""
    cause = "is not a folder" if os.path.lexists(folders[0]) else "does not exist"
    return f"{folders[0]}{more}, {cause}; {_to_make(folders[0])} before the job starts"


def _to_make(folder: str) -> str:
    """Return what makes a missing folder right: no shell has read its name."""
    if any(name.startswith(("~", "$")) for name in folder.split("/")):
        return "no shell replaces ~ or $NAME here, so write the path itself, or make it"
    return "make it"


def _paths(job_file: JobFile, path: str) -> Sequence[str]:
    """Return what a path of logs is for the first elements of a sweep."""
    if "{" not in path or not _is_sweep(job_file):
        return [path]
    from radrm.jobfile.sweeps import paths_of  # few submissions are sweeps

    return paths_of(job_file, path, _MOST_PATHS)


def _plain(path: str) -> str:
    """Return a path up to its first pattern, of which only the job knows the value."""
    return path.replace("%%", "\0").partition("%")[0].replace("\0", "%")


def _known(path: str, job_file: JobFile) -> str:
    """Return a path of logs with the values of its patterns that are known now."""
    if "%x" not in path and "%u" not in path:
        return path
    import pwd  # few paths name users
    import re

    name = job_file.name  # of a sweep, it may have values
    values = {} if "{" in name else {"%x": name.replace("%", "%%")}
    try:
        values["%u"] = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        pass  # the user is not known here
    return re.sub(r"%.", lambda found: values.get(found[0], found[0]), path)


# ------------------------------------------------------------------ a Python script


def _of_modules(job_file: JobFile, file: str) -> list[str]:
    """Return a note on a module that a Python script imports from its own folder: not that of the
    copy that the job runs."""
    if "python" not in (job_file.interpreter or ""):
        return []
    folder = os.path.dirname(file)
    for name in dict.fromkeys(islice(_imported(job_file.script or ""), _MOST_IMPORTS)):
        path = os.path.join(folder, *name.split("."))
        if os.path.isfile(f"{path}.py") or os.path.isfile(os.path.join(path, "__init__.py")):
            return [
                f"the job runs a copy of the script, so it does not find the module {name} beside "
                f"it; write: radrm submit -- python {file}"
            ]
    return []


def _of_program(job_file: JobFile, cwd: str) -> list[str]:
    """Return a note on the script of an interpreter: it is not there, as `python trian.py`, or it
    chooses its GPU."""
    words = job_file.argv
    name = shell.base(words[0]) if words else ""
    if name.rstrip("0123456789.") not in _INTERPRETERS or job_file.options.snapshot is not None:
        return []
    for word in words[1:]:
        if word == "--" or (word[:1] == "-" != word[1:2] and ("c" in word or word[-1] == "m")):
            break  # also `bash -lc`
        if not word.startswith("-") and (run_by(word) or word.endswith(".sh")):
            if "{" in word:
                return []
            if not os.path.exists(path := os.path.join(cwd, word)):
                return [f"{_shown(word)} does not exist in {os.path.normpath(cwd)}"]
            data, _ = read_program(path) or (b"", 0)
            if b"CUDA_VISIBLE_DEVICES" not in data:
                return []
            from radrm.jobfile.surprises import own_gpu  # few programs choose their GPU

            return own_gpu(job_file, data.decode(errors="replace"))
    return []


def _of_options(job_file: JobFile, cwd: str) -> list[str]:
    """Return a note on what a script loses that a command runs: its options, which nobody reads,
    and plain line ends."""
    words = job_file.argv
    by_shell = bool(words) and shell.base(words[0]) in shell.SHELLS
    if by_shell:
        words = words[1:]  # an option before the script is rare, and then there is no note
    if not words or job_file.options.interactive or not os.path.isfile(os.path.join(cwd, words[0])):
        return []
    data, _ = read_program(os.path.join(cwd, words[0])) or (b"", 0)
    if any(line.startswith((b"#RAD ", b"#RAD\t")) for line in data.splitlines()):
        return [f"the #RAD lines of {_shown(words[0])} are not read; write: {as_job_file(words)}"]
    if by_shell and b"\r\n" in data[:MAX_SCRIPT]:
        return [f"{_shown(words[0])} has line ends of Windows; write: {as_job_file(words)}"]
    return []


def _imported(text: str) -> Iterator[str]:
    """Yield what the lines of a Python script import that may be modules, packages first."""
    import re

    for names, package, members in re.findall(_IMPORTED, text):
        for each in (names or members).split(","):
            word = (each.split() or [""])[0].strip(".")
            parts = ".".join(filter(None, (package, word))).split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


# ------------------------------------------------------------------ sweeps


def _is_sweep(job_file: JobFile) -> bool:
    return bool(job_file.options.param) or job_file.table is not None


def _of_sweep(job_file: JobFile, cwd: str) -> list[str]:
    if not _is_sweep(job_file):
        return []
    from radrm.jobfile.sweeps import likely_mistakes  # few submissions are sweeps

    words = job_file.argv or (job_file.script or "")[:MAX_SCRIPT].split()
    return likely_mistakes(job_file, text_of(words, cwd))


# ------------------------------------------------------------------ the program


def _check_program(job_file: JobFile, cwd: str, environment: Mapping[str, str], where: str) -> None:
    """Raise `NoProgram` or `CannotRun` if nothing can run the job's command or script."""
    words: Sequence[str] = job_file.argv
    is_script = job_file.script is not None
    if is_script:
        words = _behind_env(job_file.interpreter_words())
    elif job_file.options.interactive and "--" in words:
        words = words[words.index("--") + 1 :]  # the command that `radrm run` runs
    program = words[0] if words else ""
    unfilled = _unfilled(program) if not is_script else None
    if not program or (unfilled and _is_sweep(job_file)):
        return
    what = f"{where}: cannot run {_shown(program)}"
    if is_script:
        what = f"{where}: the interpreter {_shown(program)} of the script cannot run"
    found = [path for path in _candidates(program, cwd, environment) if os.path.lexists(path)]
    runs = _executable(found)
    if runs is not None and is_script and not (job_file.script or "").startswith("#!"):
        _check_first_command(job_file, cwd, environment, where)
    if runs is not None:
        data, _ = (read_program(runs) if "/" in program and not is_script else None) or (b"", 0)
        if (why := why_no_program(data, words)) is not None:
            raise CannotRun(f"{what}: {why}")
        return
    if not is_script and (meant := _meant(words)) is not None:
        raise NoProgram(f"{what}: {meant}")
    step = "correct the first line" if is_script else "correct its name"
    if not any(map(os.path.exists, found)):
        if unfilled:
            step = f"{{{unfilled}}} gets its values from --param={unfilled}=VALUE,VALUE"
        elif is_script and " " in program:
            step = f"write #!/usr/bin/env -S {program}"
        elif "/" not in program and not is_script and os.path.isfile(os.path.join(cwd, program)):
            step = f"for the file in this folder write {_as_command(f'./{program}')}"
        elif "/" not in program:
            step += " or the PATH"
        elif not is_script and job_file.options.snapshot is None:
            step += _WAY_OUT
        raise NoProgram(f"{what}: there is no such program; {step}")
    is_folder = all(os.path.isdir(path) for path in found)
    step_to_run = f"write {_as_command(program)}" if run_by(program) else f"chmod +x {found[0]}"
    cause = "it is a folder" if is_folder else f"it is not executable; {step_to_run}"
    raise CannotRun(f"{what}: {cause}{f'; {step}' if is_folder else ''}")


def _executable(paths: Sequence[str]) -> str | None:
    return next((p for p in paths if os.path.isfile(p) and os.access(p, os.X_OK)), None)


def _check_first_command(
    job_file: JobFile, cwd: str, environment: Mapping[str, str], where: str
) -> None:
    """Raise `NoProgram` if a text without `#!` begins with a command that no shell knows: it is a
    page, a list, a program of another language."""
    from radrm.jobfile.programs import NEVER_TRAINS  # few job files have no first line

    if job_file.interpreter != DEFAULT_INTERPRETER:
        return
    step = next((each for each in shell.steps(job_file.script or "") if each.words), None)
    words = step.program if step is not None else ()
    if step is None or not words or (step.end == "(" and len(words) == 1):
        return  # it sets a variable, or defines a function
    name = words[0]
    if name in NEVER_TRAINS or name in _OF_BASH or f"BASH_FUNC_{name}%%" in environment:
        return
    if any(mark in name for mark in ("/", "$", "`", "((")):
        return  # only bash knows what that means
    if _executable(_candidates(name, cwd, environment)) is None:
        raise NoProgram(
            f"{where}: bash runs it, as it does not begin with #!, and its first command, "
            f"{_shown(name[:40])}, is no program here; is it a job file?"
        )


def _unfilled(program: str) -> str | None:
    """Return the name of the first `{NAME}` in a program's name."""
    parts = (part.partition("}") for part in program.split("{")[1:])
    return next((name for name, closed, _ in parts if closed and is_param_name(name)), None)


def _as_command(program: str) -> str:
    """Return how to run a file, as `python ./train.py`."""
    return _shown(" ".join(filter(None, (run_by(program), program))))


def _meant(words: Sequence[str]) -> str | None:
    """Return the cause and the next step for a command that only a shell understands."""
    import re  # only a mistake needs it

    program = words[0]
    if program.startswith(("CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=", "CUDA_MPS_")):
        return "radrm sets that variable itself; leave it out (--prefer-gpus states a wish)"
    if found := re.match(_VARIABLE, program):
        return f"it sets a variable; use --env={found[0]}VALUE before --"
    if program in _OF_SHELLS:
        return "it is a word of the shell; write bash -c '...' or a job file"
    if len(program.split()) < 2:
        return None
    if re.search(_OF_A_SHELL_LINE, program):
        return "it is a line for a shell; write bash -c '...' or a job file"
    return "it is one quoted argument; leave the quotes out"


def _behind_env(words: Sequence[str]) -> Sequence[str]:
    """Return the program of `#!/usr/bin/env NAME`, also behind `-S` and variables.

    Where `env` gets other options, it is the program.
    """
    if len(words) != 2 or words[0].rpartition("/")[2] != _ENV or not os.access(words[0], os.X_OK):
        return words
    if not words[1].startswith("-"):  # the kernel gives `env` the rest of the line as one argument
        return words if "=" in words[1] else words[1:]
    import re

    split = re.match(_SPLIT, words[1])
    if split is None:
        return words
    if re.search(r"[\\$'\"#]", split[1]):
        return words
    rest = split[1].split()
    while rest and re.match(_VARIABLE, rest[0]) and not rest[0].startswith("PATH="):
        del rest[0]
    return words if not rest or rest[0].startswith("-") or "=" in rest[0] else rest


def _candidates(program: str, cwd: str, environment: Mapping[str, str]) -> list[str]:
    """Where the job looks for its program. At the end of its PATH are radrm's own programs."""
    if "/" in program:
        return [os.path.join(cwd, program)]
    folders = (environment.get("PATH") or os.defpath).split(os.pathsep)
    if program.startswith(_OWN_PREFIX):
        folders += [os.path.dirname(os.path.abspath(sys.argv[0])), os.path.dirname(sys.executable)]
    return [os.path.join(cwd, folder, program) for folder in folders]


def _shown(program: str) -> str:
    return program if program.isprintable() else repr(program)
