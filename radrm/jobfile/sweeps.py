"""Sweeps: `--param` and `--params` make an array with one element per combination of values.

Theory of operation. Each `--param` is an *axis*: a parameter and its values. The rows of a
`--params` file are one more axis, of several parameters. The elements are the cross product of the
axes: the file's rows change slowest, then the first `--param`, and the last one fastest. The
number of an element is its `RADRM_ARRAY_TASK_ID`.

A value reaches the job in three ways: as the variable `RADRM_PARAM_NAME`; in each argument of a
command after `--`; and in the name and the paths of logs. Only `{NAME}` of a known parameter is
replaced, so other braces of a program stay. An argument stays one argument, whatever a value
holds: no shell reads it.

The client reads the file, and the daemon checks all of it again. `radrm submit` imports this
file only for a sweep.
"""

from __future__ import annotations

import re

from radrm.errors import UsageError
from radrm.jobfile.record import Record
from radrm.jobfile.relations import (
    MAX_ARRAY,
    PARAM_VARIABLE,
    ArrayOption,
    is_param_name,
    param_option,
)
from radrm.jobfile.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from radrm.jobfile.radfile import JobFile

MAX_PARAMS = 16
MAX_VALUE = 4096
"""Characters of one value."""
MAX_TABLE = 1024 * 1024
"""Characters of a file with values."""
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of the values of all elements together: each element's record has its own."""
LINE = "line"
"""The parameter of `--lines`: the whole line."""
OF_LINES = ("/bin/bash", "-c", f"{{{LINE}}}")
"""The command of `--lines`: a shell reads each line as its user wrote it."""

_NO_RANGE = " (times, ratios and other values with colons go into a --params file)"
_RANGE = r"(-?[0-9]{1,9}):(-?[0-9]{1,9})(?::([0-9]{1,9}))?"


class Axis(Record):
    """Parameters that change together, and the rows of their values."""

    names: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Sweep(Record):
    """The cross product of the axes; the last one changes fastest."""

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        count = 1
        for axis in self.axes:
            count *= len(axis.rows)
        return count

    @property
    def names(self) -> list[str]:
        """The names of the parameters."""
        return [name for axis in self.axes for name in axis.names]

    def values(self, number: int) -> tuple[tuple[str, str], ...]:
        """Return the parameters of element `number` (0 is the first), with its values."""
        found: list[tuple[str, str]] = []
        for axis in reversed(self.axes):
            number, place = divmod(number, len(axis.rows))
            found[:0] = zip(axis.names, axis.rows[place], strict=True)
        return tuple(found)


def sweep_of(job_file: JobFile) -> Sweep | None:
    """Return the values of each element; None for a job that is no sweep.

    Raises `UsageError` for values that are wrong or too many.
    """
    asked, where = job_file.options, job_file.name
    if not asked.param and asked.params is None:
        return None
    if asked.params is not None and job_file.table is None:
        raise UsageError(f"{where}: --params: its values were not submitted; submit it again")
    axes = []
    if asked.params is not None and job_file.table is not None:
        axes.append(_read_table(job_file.table, where))
    try:
        axes += [axis_of(text) for text in asked.param]
    except ValueError as cause:
        raise UsageError(f"{where}: --param: {cause}") from None
    sweep = Sweep(tuple(axes))
    names = sweep.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{where}: parameter {twice} is given twice; keep one of them")
    if len(names) > MAX_PARAMS:
        raise UsageError(f"{where}: {len(names)} parameters; a sweep has at most {MAX_PARAMS}")
    if len(sweep) > MAX_ARRAY:
        raise UsageError(
            f"{where}: {len(sweep)} combinations of values; an array has at most {MAX_ARRAY} "
            "elements: give fewer values"
        )
    size = sum(len(sweep) // len(axis.rows) * _bytes(axis) for axis in axes)
    if size > MAX_BYTES:
        raise UsageError(
            f"{where}: the values of all {len(sweep)} elements have {size} bytes, and the most is "
            f"{MAX_BYTES}; give shorter or fewer values"
        )
    return sweep


def array_of(job_file: JobFile) -> ArrayOption | None:
    """Return the elements, of `--array` or of a sweep; None for one job. Raises `UsageError`."""
    given, sweep = job_file.options.array, sweep_of(job_file)
    if sweep is not None:
        return ArrayOption(0, len(sweep) - 1, job_file.options.at_once)
    return given


def with_table(job_file: JobFile, table: str | None) -> JobFile:
    """Return a job file with the text of its `--params` file. Raises `UsageError`."""
    found = job_file.but(table=table)
    sweep_of(found)
    return found


def with_values(job_file: JobFile, values: Sequence[tuple[str, str]]) -> JobFile:
    """Return the job file of one element of a sweep, with its values filled in.

    Its raw options stay as they are, so an edit comes first.
    """
    own, asked = dict(values), job_file.options
    paths = {
        name: filled_path(path, own)
        for name, path in (("output", asked.output), ("error", asked.error))
        if path is not None
    }
    return job_file.but(
        name=filled_name(job_file.name, own),
        argv=tuple(filled(word, own) for word in job_file.argv),
        arguments=tuple(filled(word, own) for word in job_file.arguments),
        options=asked.but(**paths, env=(*variables(values), *asked.env)),
    )


def _bytes(axis: Axis) -> int:
    names = sum(map(len, axis.names))
    return sum(names + sum(len(value.encode()) for value in row) for row in axis.rows)


# ------------------------------------------------------------------ reading


def axis_of(text: str) -> Axis:
    """Return the axis of `NAME=VALUE,VALUE` or `NAME=FIRST:LAST[:STEP]`. Raises ValueError."""
    name, _, words = param_option(text).partition("=")
    values: list[str] = []
    for word in words.split(","):
        values += _range(word) or [_value(name, word.strip())]
        if len(values) > MAX_ARRAY:
            raise ValueError(f"{name} has more than {MAX_ARRAY} values; give fewer")
    return Axis((name,), [(value,) for value in values])


def _range(word: str) -> list[str]:
    """Return the numbers of `FIRST:LAST[:STEP]`, with both ends; empty for another value."""
    found = re.fullmatch(_RANGE, word.strip())
    if found is None:
        return []
    first, last, step = int(found[1]), int(found[2]), int(found[3] or 1)
    if step == 0:
        raise ValueError(f"{shown(word)} has a step of 0; write 1 or more there{_NO_RANGE}")
    if first > last:
        raise ValueError(
            f"{shown(word)} has the larger number first; a range has it last{_NO_RANGE}"
        )
    numbers = range(first, last + 1, step)
    if len(numbers) > MAX_ARRAY:
        raise ValueError(f"{shown(word)} has {len(numbers)} numbers; the most is {MAX_ARRAY}")
    return [str(number) for number in numbers]


def _value(name: str, value: str) -> str:
    if not value:
        raise ValueError(f"a value of {name} is empty; write it, or leave out the comma")
    if len(value) > MAX_VALUE or not value.replace("\t", " ").isprintable():
        raise ValueError(
            f"value {shown(value)} of {name} is not printable text of 1 to {MAX_VALUE} characters"
        )
    return value


def _read_table(text: str, where: str) -> Axis:
    """Return the axis of a CSV file, whose first line names the parameters."""
    import csv  # few sweeps have a file
    import io

    if len(text) > MAX_TABLE:
        raise UsageError(f"{where}: --params: larger than {MAX_TABLE} characters; use fewer rows")
    lines = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), skipinitialspace=True)
    rows: list[tuple[str, ...]] = []
    names: list[str] | None = None
    try:
        for words in lines:
            if not any(word.strip() for word in words):
                continue
            if names is None:
                names = [_name(word.strip()) for word in words]
                continue
            if len(words) != len(names):
                raise ValueError(f"{len(words)} values for {len(names)} parameters")
            pairs = zip(names, words, strict=True)
            rows.append(tuple(_value(name, word.strip()) for name, word in pairs))
            if len(rows) > MAX_ARRAY:
                raise ValueError(f"more than {MAX_ARRAY} rows; an array has no more elements")
    except (ValueError, csv.Error) as cause:
        raise UsageError(f"{where}: --params line {max(1, lines.line_num)}: {cause}") from None
    if not rows or names is None:
        raise UsageError(
            f"{where}: --params: no values; write the names on the first line, then a row for each "
            "element"
        )
    return Axis(tuple(names), rows)


def _name(word: str) -> str:
    if not is_param_name(word):
        raise ValueError(
            f"{shown(word)} is not a parameter's name of letters, digits and _; the first line "
            "has the names, separated by commas"
        )
    return word


def table_of_lines(text: str, where: str) -> str:
    """Return the table of `--lines`: a row per line that is not empty. Raises `UsageError`."""
    import csv
    import io

    commands = [line.strip() for line in text.split("\n")]
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([[c] for c in [LINE, *filter(None, commands)]])
    if not any(commands):
        raise UsageError(f"{where}: --lines: no command; write one per line")
    return out.getvalue()


# ------------------------------------------------------------------ filling


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with each `{NAME}` of a known parameter replaced by its value."""
    if not values or "{" not in text:
        return text
    names = "|".join(map(re.escape, values))
    return re.sub(rf"\{{({names})\}}", lambda found: values[found[1]], text)


def filled_name(text: str, values: Mapping[str, str]) -> str:
    """Return a job's name with values. It can become part of a file's name."""
    shown = {name: value.replace("/", "_").replace("\t", " ") for name, value in values.items()}
    name = filled(text, shown)[:128]
    return name if name.strip(" .") else "job"


def filled_path(text: str, values: Mapping[str, str]) -> str:
    """Return the path of a log with values. None leads out of the folder that the path names."""
    plain = {name: value if value.strip(".") else "_" for name, value in values.items()}
    return filled(text, {n: v.replace("/", "_").replace("%", "%%") for n, v in plain.items()})


def paths_of(job_file: JobFile, path: str, most: int) -> list[str]:
    """Return the different paths of a log that the elements of a sweep have; at most `most`."""
    sweep = sweep_of(job_file)
    axes = () if sweep is None else sweep.axes
    named = Sweep(tuple(a for a in axes if any(f"{{{name}}}" in path for name in a.names)))
    numbers = range(min(len(named), most))
    return list(dict.fromkeys(filled_path(path, dict(named.values(i))) for i in numbers))


def variables(values: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the variables by which a job gets its values."""
    return tuple((f"{PARAM_VARIABLE}{name}", value) for name, value in values)


# ------------------------------------------------------------------ likely mistakes

_PLACEHOLDER = re.compile(r"(?<![${])\{([A-Za-z_][A-Za-z0-9_]{0,31})\}")
_ONLY = re.compile(r"(?:--?[A-Za-z0-9_.-]+=)?\{[A-Za-z0-9_]+\}")
"""An argument that is a placeholder and nothing else, perhaps as the value of an option."""
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_NEARLY_RANGE = re.compile(rf"({_NUMBER}):({_NUMBER})(?::({_NUMBER}))?")
_MOST_SHOWN = 10
_TIME = re.compile("(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?")


def likely_mistakes(job_file: JobFile, programs: str) -> list[str]:
    """Return a note on each parameter that nothing uses, and on each `{NAME}` that none fills.

    `programs`: the text of the job's own programs, which may read the variables. Raises
    `UsageError` for what can only be a mistake.
    """
    sweep = sweep_of(job_file)
    if sweep is None:
        return []
    for text in job_file.options.param:
        _refuse_nearly_range(text, job_file.name)
    asked = job_file.options
    texts = [*job_file.argv, job_file.name, asked.output or "", asked.error or ""]
    named = {name: None for text in texts for name in _PLACEHOLDER.findall(text)}
    names = sweep.names
    filled_in = {name for name in names if any(f"{{{name}}}" in text for text in texts)}
    unused = [n for n in names if n not in filled_in and not _is_read(n, job_file, programs)]
    notes = [note for text in asked.param for note in _of_times(text)]
    for word in (word for word in named if word not in names):
        near = _nearest(word, names)
        what = f"{{{word}}} stays as it is: the sweep has {', '.join(names)}"
        if near is not None and near in unused:
            raise UsageError(f"{job_file.name}: {what}, which nothing uses; write {{{near}}}")
        if near is not None or any(
            _ONLY.fullmatch(t) and f"{{{word}}}" in t for t in job_file.argv
        ):
            notes.append(what + (f"; did you mean {{{near}}}?" if near is not None else ""))
    return [*(_unused(name, job_file) for name in unused), *notes]


def _of_times(text: str) -> list[str]:
    """Return a note if a parameter has ranges that look like times of day, as `12:30`."""
    name, _, words = text.partition("=")
    found = next(filter(_TIME.fullmatch, map(str.strip, words.split(","))), None)
    if found is None:
        return []
    numbers = _range(found)
    many = f"the {len(numbers)} numbers from {numbers[0]} to {numbers[-1]}"
    one = f"the number {numbers[0]}"
    return [f"parameter {name}: {found} is {one if len(numbers) == 1 else many}{_NO_RANGE}"]


def _unused(name: str, job_file: JobFile) -> str:
    variable = f"{PARAM_VARIABLE}{name}"
    if job_file.script is None:
        return (
            f"parameter {name}: the command has no {{{name}}}, so the job gets it only as the "
            f"variable {variable}"
        )
    if f"{{{name}}}" in job_file.script.replace(f"${{{name}}}", ""):
        return f"parameter {name}: a script's {{{name}}} is not replaced; write ${variable} there"
    return f"parameter {name}: the script has no ${variable}, so nothing in it depends on {name}"


def _is_read(name: str, job_file: JobFile, programs: str) -> bool:
    """Return whether a text of the job names the variable of a parameter, or of all of them."""
    variable = re.compile(rf"{PARAM_VARIABLE}(?:{re.escape(name)}\b|(?![A-Za-z0-9_]))")
    return any(map(variable.search, (*job_file.argv, job_file.script or "", programs)))


def _nearest(word: str, names: Sequence[str]) -> str | None:
    from difflib import get_close_matches  # only a mistake needs it

    lowered = {name.lower(): name for name in names}
    near = get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return lowered[near[0]] if near else None


def _refuse_nearly_range(text: str, where: str) -> None:
    """Raise `UsageError` for `0.1:0.5:0.1`, which would be one value."""
    name, _, words = text.partition("=")
    for word in map(str.strip, words.split(",")):
        found = _NEARLY_RANGE.fullmatch(word)
        if found is None or re.fullmatch(_RANGE, word):
            continue
        first, last, step = float(found[1]), float(found[2]), float(found[3] or 1)
        count = int((last - first) / step + 1e-9) + 1 if step else 0
        shown_ones = range(min(count, _MOST_SHOWN) if count > 1 else 0)
        values = ",".join(f"{first + i * step:.10g}" for i in shown_ones)
        more = ",..." if count > _MOST_SHOWN else ""
        raise UsageError(
            f"{where}: --param: {shown(word)} is not a range of whole numbers; write "
            f"{name}={values or 'VALUE,VALUE'}{more}{_NO_RANGE}"
        )
