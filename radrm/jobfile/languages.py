"""Files that are no job files, but programs: refused, with the line that runs them.

A text without `#!` is run by a shell, so a Python program would fail in it line by line. The ending
of its name says what it is, or else its first words where no shell script could begin with them.
All else without `#!` is a shell script.
"""

from __future__ import annotations

from radrm.errors import BadFile, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_RUN_BY = {
    "py": "python",
    "ipynb": "jupyter execute",
    "r": "Rscript",
    "jl": "julia",
    "pl": "perl",
    "rb": "ruby",
    "js": "node",
    "mjs": "node",
    "lua": "lua",
}
_DATA = frozenset({"json", "jsonl", "yaml", "yml", "toml", "csv"})
_EXAMPLE = ["python", "train.py"]
_NAMES = {
    "python": "a Python program",
    "jupyter execute": "a notebook",
    "Rscript": "an R program",
    "julia": "a Julia program",
}
# Compiled where a script is looked at: most of what is submitted is none.
_BEGINS = (
    (r"import [\w.]+(?: as \w+)?(?:, *[\w.]+(?: as \w+)?)*\s*(?:#.*)?$", "python"),
    (r"from [\w.]+ import \S", "python"),
    (r"(?:async )?def \w+\(.*:\s*$|class \w+(?:\(.*\))?:\s*$|print\(.*\)", "python"),
    (r"[rRbBuU]?(?:\"\"\"|''')", "python"),
    (r"(?:if|for|with) .*[\w)\]\"']:\s*$|try:\s*$|@\w[\w.]*(?:\(.*\))?\s*$", "python"),
    (r"\w+ = \S", "python"),
    (r"\w+ <- \S", "Rscript"),
    (r"(?:library|require|suppressPackageStartupMessages)\(\S", "Rscript"),
    (r"using [A-Z]\w*(?:[,:] *\w+)*\s*$", "julia"),
)
_NOTEBOOK = rb'(?s)\A\s*\{.*"nbformat"'
_ELF = b"\x7fELF"
_MOST_LOOKED_AT = 1 << 16
_MOST_LINES = 500


def refuse_program(data: bytes, filename: str) -> None:
    """Raise `BadFile` for a file that is a program of another language than a shell's."""
    name = "FILE" if filename in ("-", "job") or filename.startswith("/proc/") else filename
    where = plain(name.rpartition("/")[2]) or "job file"
    if data.startswith(_ELF):
        program = name if "/" in name else f"./{name}"
        raise BadFile(f"{where}: a program, not a job file; write: {submit_line('--', program)}")
    start = data[:_MOST_LOOKED_AT].lstrip(b"\xef\xbb\xbf")
    if start.startswith(b"#!"):
        return
    if is_data(name):
        step = f"submit the program that reads it: {submit_line('--', *_EXAMPLE)}"
        raise BadFile(f"{where}: not a job file; {step}")
    runs = run_by(name) or _by_its_text(data, start)
    if runs is None:
        return
    what = _NAMES.get(runs, f"a program for {runs}")
    step = f"write: {submit_line('--', *runs.split(), name)}"
    if "jupyter" not in runs:
        step += f"; or begin it with #!/usr/bin/env {runs}"
    raise BadFile(f"{where}: {what}, not a shell script; {step}")


def run_by(name: str) -> str | None:
    """Return what runs a file of this name, as `python`; None if its ending does not tell."""
    return _RUN_BY.get(_ending(name))


def why_no_program(data: bytes, words: Sequence[str]) -> str | None:
    """Return why the kernel cannot run the file that is the program of a command, and the next
    step; None: it can.

    `data`: how the file begins. A shell would run a text without `#!` line by line.
    """
    first = data.partition(b"\n")[0]
    if first.startswith(b"#!"):
        if not first.endswith(b"\r"):
            return None
        return f"its lines end as in Windows; submit it as a job file: {as_job_file(words)}"
    if not data or b"\0" in data:
        return None
    runs = run_by(words[0]) or _by_its_text(data, data.lstrip(b"\xef\xbb\xbf")) or "bash"
    return f"it does not begin with #!; write: {submit_line('--', *runs.split(), *words)}"


def as_job_file(words: Sequence[str]) -> str:
    """Return the line that submits the program of a command as a job file."""
    return submit_line(words[0], *(["--", *words[1:]] if words[1:] else []))


def is_data(name: str) -> bool:
    """Return whether the ending of a file's name says that it holds data, as `.yaml`."""
    return _ending(name) in _DATA


def _ending(name: str) -> str:
    return name.rpartition(".")[2].lower() if "." in name else ""


def submit_line(*words: str) -> str:
    """Return a line that submits something, for a message."""
    import shlex  # only a mistake needs it

    return plain(shlex.join(["radrm", "submit", *words]))


def _by_its_text(data: bytes, start: bytes) -> str | None:
    """Return what runs a text, by its first line that is no comment; None for a shell."""
    import re  # only a file without #! is looked at

    if re.match(_NOTEBOOK, data):
        return "jupyter execute"
    for line in start.decode("utf-8", "replace").split("\n", _MOST_LINES)[:_MOST_LINES]:
        if line.startswith("#!"):
            return None  # not the first line, and another note says so
        if line.strip() and not line.startswith("#"):
            return next((runs for begins, runs in _BEGINS if re.match(begins, line)), None)
    return None
