"""Read measured jobs, to try estimators on: a folder of job files, a table, or the history.

    FOLDER    job files of the prototype's form, each with its measured memory
    TABLE     CSV with a header; its columns:
                  measured_mib                  needed (also: actual_mib)
                  file, or summary              a job file, or a model summary, beside the table
                  factory                       MODULE:FUNCTION
                  batch_size sequence_length input_shape optimizer precision gpus
                  NAME_mib                      the recorded estimate of the estimator NAME
                  valid                         0: the row is skipped
    history   the runs that the daemon has recorded

A dataset may contain anything: each unusable row becomes a message with its line.
"""

from __future__ import annotations

import csv
import os
from dataclasses import replace

from msgspec import Struct, field

from radrm.client.estimates import learned
from radrm.core.units import WHOLE_DEVICE_MIB
from radrm.errors import BadFile, RadrmError
from radrm.jobfile.options import RawOptions
from radrm.jobfile.parsing import typed
from radrm.jobfile.radfile import JobFile, read_job_file, wrap_command

MAX_ROWS = 1_000_000
MAX_FILE = 8 << 20
_MEASURED = ("measured_mib", "actual_mib")
_OPTIONS = (
    *("batch_size", "sequence_length", "input_shape", "optimizer", "precision", "gpus"),
    "factory",
)


class Measured(Struct, frozen=True):
    """A job whose need was measured. `recorded`: earlier estimates in MiB, by estimator.

    `job_file` is None if only figures are known. Its paths are relative to `folder`.
    """

    name: str
    measured_mib: float
    job_file: JobFile | None = None
    folder: str = "."
    recorded: dict[str, float] = field(default_factory=dict)


class Dataset(Struct):
    """The jobs, and a line about each row or file that is unusable."""

    jobs: list[Measured] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def read_dataset(path: str, options: RawOptions | None = None) -> Dataset:
    """The dataset at a path. `options` override those of the jobs. Raises `RadrmError` if it has
    no measured job."""
    beside = options or {}
    if path == "history":
        found = _history()
    elif os.path.isdir(path):
        found = _folder(path, beside)
    else:
        found = _table(path, beside)
    if not found.jobs:
        what = f" ({found.errors[0]})" if found.errors else ""
        raise BadFile(f"{path}: holds no job whose memory was measured{what}")
    return found


# ------------------------------------------------------------------ the history


def _history() -> Dataset:
    runs = learned(None).recent
    if not runs:
        raise BadFile("history: no run is recorded, or no daemon answers; see `radrm status`")
    jobs = [
        Measured(f"run {at}", float(run.peak_mib), recorded=dict(run.told))
        for at, run in enumerate(runs, 1)
    ]
    return Dataset(jobs)


# ------------------------------------------------------------------ a folder of job files


def _folder(folder: str, options: RawOptions) -> Dataset:
    found = Dataset()
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".rad"):
            continue
        try:
            job_file = _job_file(os.path.join(folder, name), options)
        except RadrmError as error:
            found.errors.append(str(error))
            continue
        measured = job_file.measured
        if measured is None or measured >= WHOLE_DEVICE_MIB:
            found.errors.append(f"{name}: has no measured memory")
            continue
        job_file, cause = _with_summary(job_file, folder)
        if cause:
            found.errors.append(f"{name}: {cause}")
        recorded = {
            "horus": job_file.horus,
            "faketensor": job_file.faketensor,
            "gpumemnet": job_file.gpumemnet,
        }
        known = {key: mib for key, mib in recorded.items() if mib is not None}
        found.jobs.append(Measured(name, measured, job_file, folder, known))
    return found


def _job_file(path: str, options: RawOptions) -> JobFile:
    return read_job_file(_bytes(path), path, options)


def _with_summary(job_file: JobFile, folder: str) -> tuple[JobFile, str | None]:
    """The job with the text of its summary. Published job files spell some names in another case,
    so a single match without regard to case is accepted."""
    named = job_file.options.model_summary
    if named is None:
        return job_file, None
    path = os.path.join(folder, named)
    if not os.path.exists(path) and os.path.isdir(os.path.dirname(path) or "."):
        same = [
            other
            for other in os.listdir(os.path.dirname(path) or ".")
            if other.lower() == os.path.basename(path).lower()
        ]
        if len(same) == 1:
            path = os.path.join(os.path.dirname(path), same[0])
    try:
        text = _bytes(path).decode("utf-8", "replace")
    except RadrmError as error:
        return job_file, str(error)
    return replace(job_file, summary=text), None


# ------------------------------------------------------------------ a table


def _table(path: str, options: RawOptions) -> Dataset:
    found = Dataset()
    folder = os.path.dirname(path) or "."
    try:
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            rows = csv.DictReader(file)
            known = [n.strip() for n in rows.fieldnames or []]
            rows.fieldnames = known
            measured = next((n for n in _MEASURED if n in known), None)
            if measured is None:
                raise BadFile(
                    f"{path}: no column measured_mib; its first line must name the columns, "
                    "among them measured_mib"
                )
            for row in rows:
                if rows.line_num > MAX_ROWS:
                    found.errors.append(f"line {rows.line_num}: this and later rows are skipped")
                    break
                _take(found, row, rows.line_num, measured, folder, options)
    except OSError as error:
        raise BadFile(f"cannot read the dataset {path}: {error.strerror}") from None
    except csv.Error as error:
        raise BadFile(f"{path}: not a CSV table: {error}") from None
    return found


def _take(
    found: Dataset,
    row: dict[str, str | None],
    line: int,
    measured: str,
    folder: str,
    options: RawOptions,
) -> None:
    if (row.get("valid") or "1").strip() == "0":
        return
    mib = _number(row.get(measured))
    if mib is None or mib <= 0:
        found.errors.append(f"line {line}: {measured} is not a number above zero")
        return
    recorded = {
        name.removesuffix("_mib"): value
        for name in row
        if name and name.endswith("_mib") and name != measured
        if (value := _number(row[name])) is not None
    }
    name = row.get("name") or row.get("model") or row.get("file") or f"line {line}"
    try:
        job_file = _of_row(row, folder, options)
    except RadrmError as error:
        found.errors.append(f"line {line}: {error}")
        job_file = None
    found.jobs.append(Measured(name, mib, job_file, folder, recorded))


def _of_row(row: dict[str, str | None], folder: str, options: RawOptions) -> JobFile | None:
    """The job that a row describes; None if it names neither file, summary nor factory."""
    given: RawOptions = {
        "model-factory" if name == "factory" else name.replace("_", "-"): value.strip()
        for name in _OPTIONS
        if (value := row.get(name))
    }
    if row.get("summary"):
        given["model-summary"] = str(row["summary"])
    given |= options
    if row.get("file"):
        job_file = _job_file(os.path.join(folder, str(row["file"])), dict(given))
    elif "model-summary" in given or "model-factory" in given:
        typed(given, "its options")
        job_file = wrap_command(["true"], dict(given))
    else:
        return None
    job_file, cause = _with_summary(job_file, folder)
    if cause:
        raise BadFile(cause)
    return job_file


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < 1e12 else None


def _bytes(path: str) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise BadFile(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_FILE:
        raise BadFile(f"{path}: larger than 8 MiB")
    return data
