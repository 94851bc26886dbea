"""What a script says that its user will not expect of a job: notes at its submission.

Only what the text shows, so a note may be missing; and a note is said only where something is
lost. The text was read into commands (`shell`).

    left in the background   a job ends with its script
    its own folder           a job runs a copy of its script, so `$0` is not the submitted file
    its own GPU              the job has another one, unless Slurm's way of counting from 0 is meant
"""

from __future__ import annotations

import re
from itertools import pairwise

from radrm.jobfile import shell
from radrm.jobfile.shell import Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from radrm.jobfile.radfile import JobFile


_MOST_COMMANDS = 20_000
_CONTAINER = r"(?m)^[^#\n]*\b(docker|podman) (?:container )?run\b"
_LONGEST_LOOK = 64 * 1024
"""Characters of a script that are searched for a container."""
_LONGEST_SHOWN = 60


def container_notes(job_file: JobFile) -> list[str]:
    """A note on a container that is started without radrm's arguments."""
    text = (job_file.script or " ".join(job_file.argv))[:_LONGEST_LOOK]
    found = re.search(_CONTAINER, text)
    if found is None or "RADRM_CONTAINER_ARGS" in text or job_file.options.gpus == 0:
        return []
    return [
        f"`{found[1]} run` without $RADRM_CONTAINER_ARGS: radrm may not know whose the container "
        "is, and it is no client of MPS and has no memory cap (radrm help containers)"
    ]


def surprises(job_file: JobFile) -> list[str]:
    """Return a note on each surprise in the script of a job, or in the text for its shell."""
    text, is_copy = job_file.script, job_file.script is not None
    if text is None:
        text = shell.text_for_shell(job_file.argv)
        if text is None and any(map(_chooses_gpu, job_file.argv)):
            return own_gpu(job_file)
    elif not _names(job_file) & shell.SHELLS:
        return _of_python(job_file)
    if text is None:
        return []
    found = [each for each, _ in zip(shell.steps(text), range(_MOST_COMMANDS), strict=False)]
    notes = []
    if job_file.options.background != "wait" and (left := left_running(found)) is not None:
        keep = "write `wait` at its end, or add --background=wait"
        if _is_container(left):
            keep = "let it run in the foreground"
        notes.append(
            f"the script ends while `{_shown(left)}` still runs in the background, and radrm "
            f"then stops it; {keep}"
        )
    elif never_ends(found):
        notes.append(
            "`tail -f` at the end of the script never ends, so the job runs until its time limit; "
            "write `wait` in its place"
        )
    if is_copy and any(map(asks_for_own_place, found)):
        notes.append(
            "the job runs a copy of the script, so $0 and BASH_SOURCE are not in its folder; write "
            '"${RADRM_SCRIPT:-$0}" in their place'
        )
    if any(_chooses_gpu(word) for each in found for word in each.words):
        notes += own_gpu(job_file)
    return notes


def _chooses_gpu(word: str) -> bool:
    name, _, value = word.partition("=")
    return name == "CUDA_VISIBLE_DEVICES" and value.replace(",", "").isdigit()


def own_gpu(job_file: JobFile, program: str | None = None) -> list[str]:
    """A note that a job names its GPU itself. `program`: the text of a Python program that may."""
    if job_file.options.gpus == 0:
        return []
    if program is not None:
        lines = (line.partition("#")[0] for line in program.split("\n"))
        if not any("CUDA_VISIBLE_DEVICES" in line and _OWN_GPU.search(line) for line in lines):
            return []
    return [
        "it sets CUDA_VISIBLE_DEVICES to numbers of the server's GPUs, which it may not get; leave "
        "that out (--prefer-gpus states a wish)"
    ]


_OWN_GPU = re.compile(r"""environ\[["']CUDA_VISIBLE_DEVICES["']\]\s*=\s*f?["'][0-9]""")


def _names(job_file: JobFile) -> set[str]:
    """Return the names in the line of a script's interpreter, as `env` and `bash`."""
    return {shell.base(word) for word in (job_file.interpreter or "").split()}


def _shown(words: Sequence[str]) -> str:
    text = " ".join(" ".join(words).split())
    text = "".join(each if each.isprintable() else "?" for each in text)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


# ------------------------------------------------------------------
# What a script leaves running.


_WAITS = frozenset({"wait", "fg", "kill", "pkill", "killall"})
"""Who uses one of these looks after what was begun before."""
_FOR_EVER = frozenset({("while", "true"), ("while", ":"), ("until", "false")})
"""A loop that ends, if ever, when what was begun before does."""
_LOOKS = frozenset({"jobs", "pgrep", "ps"})
"""The same, but only in a loop: else they show once that it runs."""
_LOOKS_IN_QUOTES = re.compile(r"\$\((?:jobs|pgrep|ps)\b")
_SHORT = frozenset(
    {
        *("cat", "cd", "conda", "cp", "date", "deactivate", "declare", "disown", "echo", "exit"),
        *("export", "grep", "head", "hostname", "let", "local", "ls", "mkdir", "module", "mv"),
        *("popd", "printf", "pushd", "pwd", "read", "readonly", "return", "rm", "set", "shift"),
        *("shopt", "source", "squeue", "test", "touch", "tmux", "trap", "true", "false", "ulimit"),
        *("umask", "unset", "nvidia-smi", ":", ".", "[", "[[", "$!", "for", "case", "select"),
        *("fi", "done", "esac", "}", "else", "continue", "break"),
    }
)
"""Commands that take no time, so what was begun before them is still running."""
_CLOSING = frozenset({"fi", "done", "esac", "}"})
_SHORT_SLEEP_S = 600.0
"""Nobody keeps a training alive by a sleep as short as this."""
_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def left_running(commands: Sequence[Step]) -> tuple[str, ...] | None:
    """Return the last command that runs on when a script ends; None if it waits for all.

    A program in the foreground is taken to run longer than what was begun before it, unless the
    same runs in the background, too. What a script with functions leaves is not known.
    """
    if _defines_functions(commands):
        return None
    left: tuple[str, ...] | None = None
    before: tuple[str, ...] = ()
    loops = 0
    for command in commands:
        words = command.program
        name = shell.base(words[0]) if words else ""
        loops += _loops(command)
        if name == "trap" and any(re.search(r"\b(kill|wait)\b", word) for word in words):
            return None
        if name in _WAITS or command.words[:2] in _FOR_EVER or (loops > 0 and _looks(command)):
            left = None
        elif command.end == "&" and (words or before):
            left = before if not words or name in _CLOSING else words
        elif _detaches(words):
            left = words
        elif words and not _is_short(words) and (left is None or words[:2] != left[:2]):
            left = None
        if words and name not in _CLOSING:
            before = words
    return left


def _loops(command: Step) -> int:
    """Return how many loops begin with a command, less one if a loop ends."""
    words = command.program
    leading = command.words[: len(command.words) - len(words)]
    begin = leading.count("while") + leading.count("until") + (words[:1] == ("for",))
    return begin - (words[:1] == ("done",))


def _looks(command: Step) -> bool:
    words = command.program
    named = bool(words) and shell.base(words[0]) in _LOOKS
    return named or any(map(_LOOKS_IN_QUOTES.search, words))


def never_ends(steps: Sequence[Step]) -> bool:
    """Return whether a script that has work in the background ends by following a file."""
    last = next((words for each in reversed(steps) if (words := each.program)), ())
    follows = any(re.fullmatch(r"-[0-9qv]*[fF]|--follow(=.*)?", word) for word in last[1:])
    waits = any(word.startswith("--pid") for word in last)
    beside = any(each.end == "&" for each in steps)
    return beside and bool(last) and shell.base(last[0]) == "tail" and follows and not waits


def _is_short(words: Sequence[str]) -> bool:
    name = shell.base(words[0])
    if name != "sleep":
        return name in _SHORT or name in _LOOKS or name.isdigit()
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]*)?)([smhd]?)", words[1] if len(words) > 1 else "")
    return found is not None and float(found[1]) * _UNITS_S[found[2]] <= _SHORT_SLEEP_S


def _detaches(words: Sequence[str]) -> bool:
    """Return whether a command goes into the background by itself."""
    name = shell.base(words[0]) if words else ""
    options = [word for word in words[1:8] if word.startswith("-")]
    if name == "setsid":
        return any(word in ("-f", "--fork") for word in options)
    if name == "screen":
        return any(re.fullmatch(r"-[A-Za-z]*d[A-Za-z]*m[A-Za-z]*|-m", word) for word in options)
    if name == "tmux":
        return any(word in ("new", "new-session") for word in words) and "-d" in options
    return _is_container(words)


def _is_container(words: Sequence[str]) -> bool:
    name = shell.base(words[0]) if words else ""
    if name not in ("docker", "podman") or "run" not in words[:4]:
        return False
    return any(re.fullmatch(r"--detach|-[it]*d[it]*", word) for word in words)


def _defines_functions(steps: Sequence[Step]) -> bool:
    named = any(step.words[:1] == ("function",) for step in steps)
    return named or any(
        len(head.words) == 1 and head.end == "(" and after == Step((), ")")
        for head, after in pairwise(steps)
    )


# ------------------------------------------------------------------
# A script that looks for its own folder.


_OWN = r"(?:\$\{?0\b|\bBASH_SOURCE\b)"
_OWN_PLACE = re.compile(
    rf"\b(?:dirname|realpath|readlink|cd|source)\b.*{_OWN}"
    r"|\$\{(?:0|BASH_SOURCE(?:\[[0@]\])?)(?:%|:[aAhP])|\$\{\(%\):-%x\}"
)


def asks_for_own_place(command: Step) -> bool:
    """Return whether a command wants the folder of its script, as `dirname "$0"` does."""
    text = " ".join(command.words)
    found = "0" in text or "BASH_SOURCE" in text or "%x" in text
    return found and "RADRM_SCRIPT" not in text and _OWN_PLACE.search(text) is not None


_OWN_FILE = re.compile(r"__file__|(?:dirname|abspath|realpath|Path)\(.*\bargv\[0\]")


def _of_python(job_file: JobFile) -> list[str]:
    """A note on a Python script that looks for its own folder, where its modules may lie."""
    if not any(re.fullmatch(r"python[0-9.]*", name) for name in _names(job_file)):
        return []
    notes = own_gpu(job_file, job_file.script or "")
    lines: Iterable[str] = (job_file.script or "").split("\n")
    if not any(_OWN_FILE.search(line.partition("#")[0]) for line in lines):
        return notes
    return [
        *notes,
        "the job runs a copy of the script, so __file__ and sys.argv[0] are not in its folder; "
        "submit the command in its place: radrm submit -- python FILE",
    ]
