"""What `radrm submit` says about a submitted job: the amounts as they were understood."""

from __future__ import annotations

from radrm.core.units import is_decimal, show_mib, show_seconds
from radrm.jobfile.options import BY_NAME, MOMENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.jobfile.options import Options, RawOptions
    from radrm.jobfile.radfile import JobFile

_CLEAR_MIB, _CLEAR_S = 1024, 3600
"""From these on a number without a unit is hardly meant in a larger one."""


_JOINED = ("&&", ">&", "<&", "&>", "|&")
"""With `&`, but they leave nothing in the background."""
_MAY_SURPRISE = (
    *("&", "$0", "${0", "BASH_SOURCE", "%x", "__file__"),
    *("tmux", "screen", "setsid", "docker", "podman", "CUDA_VISIBLE_DEVICES"),
)
"""Without one of these, a text says nothing of `surprises`."""


def understood(options: Options, raw: RawOptions) -> str:
    """The sizes and times of a job: `, GPU memory 8.0G, time limit 2h00m, due ...`; "" for none."""
    parts = []
    if options.gpu_memory_mib is not None:
        most = options.gpu_memory_max_mib
        up_to = "" if most is None else f", limit {show_mib(most)}"
        parts.append(f"GPU memory {show_mib(options.gpu_memory_mib)}{up_to}")
    if options.memory_mib is not None:
        most = options.memory_max_mib
        up_to = "" if most is None else f" to {show_mib(most)}"
        parts.append(f"host memory {show_mib(options.memory_mib)}{up_to}")
    if options.duration_s is not None:
        parts.append(f"run time {show_seconds(options.duration_s)}")
    if options.time_s is not None:
        parts.append(f"time limit {show_seconds(options.time_s)}")
    if options.silent_limit_s is not None:
        parts.append(f"silent limit {show_seconds(options.silent_limit_s)}")
    if options.begin_s is not None:
        parts.append(f"begins at {raw['begin']}")
    if options.due_s is not None:
        parts.append(f"due {raw['due']}")
    return "".join(f", {part}" for part in parts)


def unit_notes(raw: RawOptions) -> list[str]:
    """A note on each small amount without a unit, which may be meant in a larger unit."""
    notes = []
    for name, text in raw.items():
        unit = "" if name in MOMENTS else BY_NAME[name].unit
        if not unit or not isinstance(text, str) or not is_decimal(text):
            continue
        if unit == "_mib" and float(text) < _CLEAR_MIB:
            notes.append(f"--{name}={text} is {text} MiB; for GiB write {text}G")
        elif unit == "_s" and float(text) < _CLEAR_S:
            notes.append(f"--{name}={text} is {text} seconds; for minutes write {text}m")
    return notes


def notes_on(job_file: JobFile) -> list[str]:
    """All notes for the submitter of a job."""
    notes = [*job_file.notes, *unit_notes(job_file.raw)]
    text = job_file.script or " ".join(job_file.argv)
    for joined in _JOINED:
        text = text.replace(joined, "")
    if any(mark in text for mark in _MAY_SURPRISE):
        from radrm.jobfile.surprises import container_notes, surprises  # few have any

        notes += [*container_notes(job_file), *surprises(job_file)]
    return notes
