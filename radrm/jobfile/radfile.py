"""Parse the bytes of a job file to a `JobFile`. Nothing here reads a disk or starts a process.

A submission has one of three forms:
    directive   a script with `#RAD` lines before its first command
    positional  a file of the published prototype: the position of a line gives its meaning
    command     a command line without a script
"""

from __future__ import annotations

from radrm.core.units import WHOLE_DEVICE_MIB, is_digits
from radrm.errors import BadFile, UsageError
from radrm.jobfile.languages import refuse_program, run_by
from radrm.jobfile.options import Options, RawOptions
from radrm.jobfile.parsing import dated, edited, merged, parse_words, typed_whole
from radrm.jobfile.record import Record
from radrm.jobfile.text import MAX_BYTES as MAX_BYTES
from radrm.jobfile.text import Text, read_text
from radrm.jobfile.values import MAX_GPUS, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from radrm.core.records import JobSpec
    from radrm.jobfile.moments import Here

# The time that shlex needs grows with the square of a line's length.
MAX_DIRECTIVE = 8192
NOTIFY_VARIABLE = "RADRM_NOTIFY"
"""Of the submitter: the targets of notices of jobs that name none."""
DEFAULT_INTERPRETER = "/bin/bash"
LOGIN_SHELL = "/bin/bash -l"

_PUBLISHED_WHOLE_DEVICE = 40000

_DIRECTIVE = "#RAD"
_OF_QUEUES = {
    "#SBATCH": "Slurm",
    "#PBS": "PBS",
    "#$ -": "Grid Engine",
    "#BSUB -": "LSF",
    "#MSUB -": "Moab",
    "#COBALT -": "Cobalt",
    "#OAR -": "OAR",
    "#PJM -": "a Fujitsu queue",
}
"""What lines with options of other queues begin with."""
_POSITIONS = (
    "command",
    "model summary",
    "dataset",
    "batch size",
    "policy",
    "GPUs",
    "measured memory",
    "Horus estimate",
    "FakeTensor estimate",
    "GPUMemNet estimate",
)


class Program(Record):
    """What runs a job: the words of a command; or a script's text, the words of the program that
    reads it (None: its first line says so, or it is `/bin/sh`), and the script's arguments."""

    words: tuple[str, ...] | None
    script: str | None = None
    interpreter: tuple[str, ...] | None = None


class JobFile(Record):
    """One submission: its program and its options.

    `interpreter` (a `#!` line without the `#!`) runs the text `script`, with `arguments`. In the
    form `command` both are None, and `argv` is the command. `measured`, `horus`, `faketensor` and
    `gpumemnet` are a prototype file's figures in MiB per GPU; None if it has none.
    `summary` is the text of the model summary, `table` that of the `--params` file. `notes` are
    lines for the user.
    """

    form: str
    name: str
    raw: RawOptions
    options: Options
    script: str | None = None
    interpreter: str | None = None
    argv: tuple[str, ...] = ()
    dataset: str | None = None
    measured: float | None = None
    horus: float | None = None
    faketensor: float | None = None
    gpumemnet: float | None = None
    summary: str | None = None
    notes: tuple[str, ...] = ()
    table: str | None = None
    arguments: tuple[str, ...] = ()

    def interpreter_words(self) -> tuple[str, ...]:
        """Return the interpreter's program and its one argument, split as the kernel does."""
        return tuple((self.interpreter or "").split(None, 1))

    def program(self) -> Program:
        """Return what runs this job."""
        has_line = (self.script or "").startswith("#!")
        words = self.argv or self.arguments or None
        # The kernel reads a `#!` line itself, so its errors name the script's own interpreter.
        interpreter = None if has_line else self.interpreter_words() or None
        return Program(words, self.script, interpreter)

    def with_summary(self, summary: str | None) -> JobFile:
        """Return this job file with the text of its model summary."""
        return self.but(summary=summary)

    def edited(self, changes: RawOptions) -> JobFile:
        """Return this job file with changed options. Raises `UsageError`."""
        raw = edited(self.raw, changes)
        options = typed_whole(raw, "edited options")
        edit = self.but(name=options.name or self.name, raw=raw, options=options)
        return edit._sized("edited options", {})

    def dated(self, here: Here, where: str, past: bool = False) -> JobFile:
        """Return this job file with absolute moments (see `parsing.dated`). Raises `UsageError`."""
        raw = dated(self.raw, here, where, past)
        return self if raw is self.raw else self.but(raw=raw, options=typed_whole(raw, where))

    def with_default_targets(self, words: str) -> JobFile:
        """Return this job file with these targets of notices, separated by spaces (those of
        `NOTIFY_VARIABLE`), unless it names its own. Raises `UsageError`."""
        if "notify" in self.raw or not words.strip():
            return self
        return self.with_words("notify", words.split(), NOTIFY_VARIABLE)

    def with_words(self, name: str, words: Sequence[str], where: str) -> JobFile:
        """Return this job file with other values of an option. Raises `UsageError`."""
        raw: RawOptions = {**self.raw, name: list(words)}
        return self.but(raw=raw, options=typed_whole(raw, where))

    def _sized(self, where: str, places: Mapping[str, str]) -> JobFile:
        """Return this job file. Raises `UsageError` if its ranges or roles are impossible.

        `places`: where an option was given, if not just `where`.
        """
        if self.options.of_tasks:
            from radrm.jobfile.sizes import problem

            found = problem(
                self.options, self.raw, self.script, self.interpreter_words(), self.argv
            )
            if found is not None:
                raise UsageError(f"{places.get(found[0], where)}: {found[1]}")
        return self

    def spec(self, user: str, uid: int) -> JobSpec:
        """Return the core's record of what the job asks for."""
        # Imported here, since `submit` reads job files but does not need the records.
        from radrm.core.records import Checkpoint, EarlySignal, JobSpec
        from radrm.core.words import CheckpointKind, Collocation
        from radrm.jobfile.sizes import memory_range, resizing_of, roles_of

        asked, signal = self.options, self.options.signal
        own: dict[str, Any] = {
            "name": self.name,
            "roles": roles_of(asked),
            "collocation": Collocation(asked.collocation or "auto"),
            "time_limit_s": asked.time_s,
            "checkpoint": Checkpoint(
                CheckpointKind(asked.checkpoint or "none"),
                asked.checkpoint_cost_s,
                asked.checkpoint_signal,
            ),
            "signal": None if signal is None else EarlySignal(signal.number, signal.seconds),
            "gpu_types": asked.gpu_type or (),
            "sm_share": None if asked.sm_share is None else asked.sm_share / 100,
            "resizing": resizing_of(asked, self.script, self.interpreter_words(), self.argv),
            "memory_range_mib": memory_range(asked),
        }
        # Any other field has the value of the option that is named as it is.
        same = {
            field: value
            for field in JobSpec.__struct_fields__
            if (value := getattr(asked, field, None)) is not None
        }
        return JobSpec(user=user, uid=uid, **(same | own))


def read_job_file(
    data: bytes,
    filename: str,
    overrides: RawOptions,
    slurm: bool = False,
    arguments: Sequence[str] = (),
) -> JobFile:
    """Read a job file. `overrides`, the options of the command line, override its options.

    `slurm`: the `#SBATCH` lines were read, and are among these. `arguments`: of the script. Raises
    `BadFile` for a file that is not a job file, and `UsageError` for a wrong option.
    """
    base = filename.rpartition("/")[2]
    where = _printable(base) or "job file"
    refuse_program(data, filename)
    text = read_text(data, where)
    lines, commands = text.lines, text.commands
    if not commands:
        raise BadFile(f"{where}: holds no command; write the command that starts the job")
    interpreter = _interpreter(lines[0], where)
    directives, places, notes = _directives(text, commands[0][0], where)
    notes = [*text.notes, *notes, *_of_other_queues(text, commands[0][0], slurm)]
    activates = _activates(commands[0][1])
    if interpreter is None and directives is None and activates and _is_positional(commands):
        return _positional(commands, base, where, overrides, notes)
    if interpreter is None and activates:
        interpreter = LOGIN_SHELL  # no other shell knows `conda activate`
        notes.append(f"{LOGIN_SHELL} runs the script, as it activates an environment of conda")
    if interpreter is None:
        notes += _late_interpreter(lines[: commands[0][0] - 1])
    raw = merged(directives or {}, overrides)
    options = typed_whole(raw, where)
    return JobFile(
        form="directive",
        name=options.name or name_of_file(base),
        raw=raw,
        options=options,
        script=text.text,
        interpreter=interpreter or DEFAULT_INTERPRETER,
        arguments=tuple(arguments),
        notes=tuple(notes),
    )._sized(where, {**places, **dict.fromkeys(overrides, "command line")})


def wrap_command(argv: Sequence[str], overrides: RawOptions) -> JobFile:
    """Return a job that runs one command with its arguments unchanged. Raises `UsageError`."""
    if not argv or not argv[0]:
        raise UsageError("command line: no command after --; write the command to run")
    if any("\0" in word for word in argv):
        raise UsageError("command line: an argument has a NUL byte, which no program can take")
    options = typed_whole(overrides, "command line")
    return JobFile(
        form="command",
        name=options.name or name_of(argv),
        raw=dict(overrides),
        options=options,
        argv=tuple(argv),
    )._sized("command line", {})


# --------------------------------------------------------------------------- any file


def _interpreter(first_line: str, where: str) -> str | None:
    if not first_line.startswith("#!"):
        return None
    line = first_line[2:].strip()
    if not line.startswith("/") or line.split()[0].endswith("/"):
        raise BadFile(
            f"{where} line 1: interpreter {shown(line)} is not an absolute path; "
            "write #!/bin/bash or #!/usr/bin/env NAME"
        )
    return line


def _activates(line: str) -> bool:
    """True for `conda activate ENV`."""
    words = line.split()
    return (
        len(words) == 3 and words[:2] == ["conda", "activate"] and not set(";&|#") & set(words[2])
    )


def _late_interpreter(lines: Sequence[str]) -> list[str]:
    """A note on a `#!` line that is not the first one, which alone has an effect."""
    late = next((number for number, line in enumerate(lines, 1) if line.startswith("#!")), None)
    if late is None:
        return []
    return [
        f"line {late} ({shown(lines[late - 1])}) is not the first one, so {DEFAULT_INTERPRETER} "
        "runs the script; move it to the top"
    ]


def _directives(
    text: Text, first_command: int, where: str
) -> tuple[RawOptions | None, dict[str, str], list[str]]:
    """Return the options of the `#RAD` lines (None: no such line), where each is, and notes."""
    raw: RawOptions | None = None
    places: dict[str, str] = {}
    notes = []
    for number, line in enumerate(text.lines[: first_command - 1], 1):
        head, *rest = line.split(None, 1)[:2] or [""]
        here = f"{where} line {number}"
        if head == _DIRECTIVE:
            if len(line) > MAX_DIRECTIVE:
                raise BadFile(
                    f"{here}: longer than {MAX_DIRECTIVE} characters; use several #RAD lines"
                )
            try:
                words = _split(rest[0] if rest else "")
            except ValueError as cause:
                step = "close the quotes"
                if line.endswith("\\"):
                    step = "leave the backslash out, and begin each line with #RAD"
                raise BadFile(f"{here}: {str(cause).lower()}; {step}") from None
            raw = parse_words(words, here, raw)
            places |= {word[2:].partition("=")[0]: here for word in words if word[:2] == "--"}
        elif _is_nearly("rad", line) or _is_nearly("radrm", line):
            notes.append(f"line {number} is only a comment; lines with options begin with #RAD")
    for number in text.matching_from(first_command, _DIRECTIVE, whole=True):
        raise BadFile(
            f"{where} line {number}: #RAD after the first command (line {first_command}) has "
            "no effect; move it above that line"
        )
    return raw, places, notes


def _of_other_queues(text: Text, first_command: int, slurm: bool) -> list[str]:
    """Notes on lines with options of other queues that are not read. `slurm`: those of Slurm
    before the first command are."""
    notes = []
    head = list(enumerate(text.lines[: first_command - 1], 1))
    for word, queue in _OF_QUEUES.items():
        before = [number for number, line in head if line.startswith(word)]
        late = text.matching_from(first_command, word)
        if slurm and queue == "Slurm":
            for number, line in head:
                if number not in before and _is_nearly("sbatch", line):
                    notes.append(f"line {number} is only a comment; write #SBATCH at its start")
            if late:
                notes.append(
                    f"{_lines(late)} after the first command (line {first_command}), where sbatch "
                    "reads none; move #SBATCH lines above that line"
                )
        elif before or late:
            step = "write #SBATCH" if slurm else "write #RAD"
            if queue == "Slurm":
                step = "submit the file with --slurm, or write #RAD"
            notes.append(f"{_lines([*before, *late])} for {queue} and not read here; {step}")
    return notes


def _lines(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]} is"
    return f"lines {numbers[0]}-{numbers[-1]} are"


def _split(text: str) -> list[str]:
    """Return words as a shell splits them, up to a comment. Raises ValueError for quotes that are
    not closed."""
    words: list[str] = []
    if not any(mark in text for mark in "'\"\\"):
        for word in text.replace("\t", " ").replace("\r", " ").split(" "):
            if word[:1] == "#":
                break
            words += [word] if word else []
        return words
    import io
    import shlex  # slow to import, and few lines need it

    source = io.StringIO(text)
    pieces = shlex.shlex(source, posix=True)
    pieces.whitespace_split, pieces.commenters = True, ""
    while text[source.tell() :].lstrip()[:1] not in ("", "#"):
        words.append(next(pieces))
    return words


def _is_nearly(word: str, line: str) -> bool:
    """True for a comment that was meant as options, as `# rad --gpus=2` and `#RADRM: --gpus=2`.
    Two `#` are how people switch a line off."""
    words = line.strip().lower().removeprefix("#").lstrip()
    if not words.startswith(word):
        return False
    behind = words.removeprefix(word).removeprefix(":").lstrip()
    option = behind.removeprefix("-").removeprefix("-")
    return option != behind and option[:1].isalpha()


def _printable(name: str) -> str:
    """Return at most 128 characters of `name`, with unprintable ones replaced by `?`."""
    return "".join(c if c.isprintable() else "?" for c in name)[:128]


def name_from(file: str) -> str:
    """Return a job's name made from the name of a file or program."""
    name = _printable(file).replace("?", "_").strip()
    return name if name.strip(".") else "job"


def name_of_file(file: str) -> str:
    """Return the name of the job of a file: the file's own, without radrm's ending `.rad`."""
    return name_from(file.rpartition("/")[2].removesuffix(".rad"))


def name_of(argv: Sequence[str]) -> str:
    """Return the name of a job that runs this command: `train.py` of `python train.py`."""
    from radrm.jobfile.naming import called  # job files do not need it

    return name_from(called(argv))


# --------------------------------------------------------------------------- positional form


def _is_positional(commands: Sequence[tuple[int, str]]) -> bool:
    """Return whether lines after `conda activate` are of the prototype's form, not of a script: the
    second one, if there is any, is the name of a file, and no program."""
    if len(commands) < 3:
        return True
    summary = commands[2][1]
    name, _, ending = summary.rpartition(".")
    is_file = bool(name) and ending.isalnum() and not set(summary) & set(" \t;|&<>$()=`")
    return is_file and not (run_by(summary) or ending == "sh")


def _positional(
    commands: Sequence[tuple[int, str]],
    base: str,
    where: str,
    overrides: RawOptions,
    notes: list[str],
) -> JobFile:
    """Read the prototype's form. Only its command is required; later lines may be missing.

    A file with a `#!` line is a script and never read in this form.
    """
    activate, fields = commands[0][1], commands[1:]
    if not fields:
        raise BadFile(f"{where}: no command after {shown(activate)}; write it on the next line")
    if len(fields) > len(_POSITIONS):
        raise BadFile(
            f"{where} line {fields[len(_POSITIONS)][0]}: more lines than the positional form has; "
            "begin a script with #!/bin/bash -l"
        )
    found = {what: (line, word) for what, (line, word) in zip(_POSITIONS, fields, strict=False)}
    notes = [*notes, "read in the prototype's form, line by line; a script begins with #!"]
    if "policy" in found:
        policy = shown(found["policy"][1])
        notes.append(f"policy {policy} in the file is ignored; the server's configuration decides")

    lines: RawOptions = {}
    if "model summary" in found:
        lines["model-summary"] = found["model summary"][1]
    for what, option, low, high in (
        ("batch size", "batch-size", 1, 10**9),
        ("GPUs", "gpus", 0, MAX_GPUS),
    ):
        if what in found:
            lines[option] = _count(*found[what], what, low, high, where)
    raw = merged(lines, overrides)
    options = typed_whole(raw, where)
    measured, horus, faketensor, gpumemnet = (
        _mib(*found[what], what, where) if what in found else None for what in _POSITIONS[6:]
    )
    command = found["command"][1]
    return JobFile(
        form="positional",
        name=options.name or name_of_file(base),
        raw=raw,
        options=options,
        script=f"#!{LOGIN_SHELL}\n{activate}\n{command}\n",
        interpreter=LOGIN_SHELL,
        dataset=found["dataset"][1] if "dataset" in found else None,
        measured=measured,
        horus=horus,
        faketensor=faketensor,
        gpumemnet=gpumemnet,
        notes=tuple(notes),
    )._sized(where, dict.fromkeys(overrides, "command line"))


def _count(line: int, word: str, what: str, low: int, high: int, where: str) -> str:
    if not is_digits(word, 12) or not low <= int(word) <= high:
        raise BadFile(
            f"{where} line {line}: {what} {shown(word)} is not a whole number from {low} to {high}"
        )
    return word


def _mib(line: int, word: str, what: str, where: str) -> float:
    import re  # only the prototype's files have such lines

    plain = re.fullmatch(r"[0-9]{1,12}(\.[0-9]{0,18})?([eE][+-]?[0-9]{1,2})?", word)
    value = float(word) if plain else 0.0
    if value == _PUBLISHED_WHOLE_DEVICE:
        return float(WHOLE_DEVICE_MIB)
    if not 0 < value < WHOLE_DEVICE_MIB:
        raise BadFile(f"{where} line {line}: {what} {shown(word)} is not a size in MiB")
    return value
