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
from radrm.jobfile.options import Options
from radrm.jobfile.radfile import JobFile
from radrm.jobfile.record import Record
from radrm.jobfile.relations import MAX_ARRAY, PARAM_NAME, PARAM_VARIABLE, ArrayOption, param_option
from radrm.jobfile.values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
    names = [name for axis in axes for name in axis.names]
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
    if given is None or job_file.options.at_once is None:
        return given
    return ArrayOption(given.first, given.last, job_file.options.at_once, given.listed)


def with_table(job_file: JobFile, table: str | None) -> JobFile:
    """Return a job file with the text of its `--params` file. Raises `UsageError`."""
    found = JobFile(**{**job_file.as_dict(), "table": table})
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
    options = {**asked.as_dict(), **paths, "env": (*variables(values), *asked.env)}
    changed = {
        "name": filled_name(job_file.name, own),
        "argv": tuple(filled(word, own) for word in job_file.argv),
        "options": Options(**options),
    }
    return JobFile(**{**job_file.as_dict(), **changed})


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
        raise ValueError(f"{shown(word)} has a step of 0; write 1 or more after the second colon")
    if first > last:
        raise ValueError(f"{shown(word)} has the larger number first; write {last}:{first}")
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
    if not re.fullmatch(PARAM_NAME, word):
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


def variables(values: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the variables by which a job gets its values."""
    return tuple((f"{PARAM_VARIABLE}{name}", value) for name, value in values)
