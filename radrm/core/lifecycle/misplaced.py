"""Jobs that use GPUs which they were not given: radrm warns their users, or cancels the jobs.

Theory of operation
-------------------
A job script sets `CUDA_VISIBLE_DEVICES` itself, or a program ignores it. Where the kernel does not
deny it the other GPUs (`host/isolation.py` needs root), the job then takes memory of its
neighbours. A reading proves that: it lists the attempts whose processes a device has, and
one of them does not hold the device.

That memory counts as used there, as that of unmanaged processes does (`ledger.py`). It is
no part of the attempt's own use, so such an attempt teaches nothing about what its job needs.

The warning has three steps. `TOLD_AFTER_S` after the first such reading the user is warned. With
`gpus.misplaced = "cancel"`, the user of a job that holds more than `CONTEXT_MIB` there is warned
that it is cancelled in `STOPPED_AFTER_S`; then it is. After the use has ended, the warning stays as
a record of the attempt (`Attempt.misplaced`), in the past tense and without another notice.

Invariants:
- No job is stopped without a warning, `STOPPED_AFTER_S` before, nor without a reading that shows
  its use then. Memory that the driver does not report stops no job: unknown is never too much.
- A user is warned once of the same GPUs, and once more if the job will be cancelled.

What may interleave: a task that leaves a device after a resize is still seen there for a moment.
A reading that failed, or that lists no processes, proves neither use nor its end.

What a restart sees: the stored warnings, so no user is warned twice. All other times start again
from zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from radrm.core.lifecycle.asking import stop
from radrm.core.lifecycle.timing import warn
from radrm.core.records import MISPLACED, Attempt, AttemptMemory, Reading
from radrm.core.state.readings import Track
from radrm.core.state.state import State
from radrm.core.units import gpus_named, show_mib, show_seconds
from radrm.core.words import StopReason

TOLD_AFTER_S = 10.0
"""A task that a resize has ended may be seen for so long: processes need seconds to leave."""
STOPPED_AFTER_S = 60.0
"""Time from the warning to the stop: for a user who looks on, and for a program that only passes
by."""
OVER_AFTER_S = 60.0
"""A job that was not seen for so long uses the GPU no more."""
CONTEXT_MIB = 1536
"""A job with at most this much is never stopped: it has opened a CUDA context and does not work
there. Contexts that PyTorch and NCCL open on GPU 0 by mistake were seen with 217 to 1227 MiB
(pytorch issues 3477, 7320, 49481, 135279; stylegan2-ada-pytorch issue 70)."""


def look(state: State, readings: Sequence[Reading]) -> None:
    """Warn the users of attempts that readings show on devices which are not theirs, and cancel
    those that stay, if the site is set so."""
    seen: dict[int, dict[str, int | None]] = {}
    for reading in readings:
        for attempt, memory in _not_given(state, reading):
            seen.setdefault(attempt.job_id, {})[reading.device] = memory.used_mib
    if not seen and not state.misplaced:
        return
    for job_id, track in tuple(state.misplaced.items()):
        if state.live_attempt(job_id, track.serial) is None:
            del state.misplaced[job_id]
    for job_id, where in seen.items():
        _seen(state, state.attempts[job_id], where)
    known = {r.device for r in readings if r.error is None and r.attempts is not None}
    for job_id, track in tuple(state.misplaced.items()):
        if job_id not in seen and track.most.keys() <= known:
            _not_seen(state, state.attempts[job_id], track)


def _not_given(state: State, reading: Reading) -> Iterator[tuple[Attempt, AttemptMemory]]:
    ledger = state.ledgers.get(reading.device)
    if ledger is None:
        return
    for memory in reading.attempts or ():
        if memory.job_id in ledger.occupants or not memory.shows_use(ledger.device):
            continue
        attempt = state.live_attempt(memory.job_id, memory.serial)
        if attempt is not None and reading.device not in attempt.devices:
            yield attempt, memory


def _seen(state: State, attempt: Attempt, where: Mapping[str, int | None]) -> None:
    now_s, warning = state.step.now.boot_s, attempt.warning(MISPLACED)
    track = state.misplaced.get(attempt.job_id)
    if track is None:
        track = state.misplaced[attempt.job_id] = Track(attempt.serial, now_s, now_s)
        # Of an earlier daemon: its user was told.
        track.told = frozenset(where) if warning is not None else frozenset()
    track.last_s = now_s
    for uuid, mib in where.items():
        track.most[uuid] = max(mib or 0, track.most.get(uuid) or 0) or None
    large = any((mib or 0) > CONTEXT_MIB for mib in where.values())
    if attempt.stop is not None or now_s - track.since_s < TOLD_AFTER_S:
        return
    track.large_s = now_s if large else track.large_s
    stops = large and state.settings.stops_misplaced
    text, past = (_text(state, attempt, where, verb) for verb in ("uses", "used"))
    if warning is None or not where.keys() <= track.told or (stops and not warning.does):
        track.told |= where.keys()
        does, in_s = ("it is cancelled", STOPPED_AFTER_S) if stops else ("", None)
        warn(state, attempt, MISPLACED, text, does, in_s, past=past)
    elif stops and (state.step.now.since(warning.at) or 0.0) >= STOPPED_AFTER_S:
        took = ", ".join(f"{show_mib(mib)} of {_named(state, [u])}" for u, mib in where.items())
        why = f"it used {took}, and was given {_given(state, attempt)} (gpus.misplaced)"
        stop(state, state.jobs[attempt.job_id], attempt, StopReason.CANCELLED, why)
    elif warning.does and now_s - track.large_s >= OVER_AFTER_S:
        warn(state, attempt, MISPLACED, text, tell=False, past=past)
    elif warning.text != text:
        warn(state, attempt, MISPLACED, text, warning.does, warning.in_s, tell=False, past=past)


def _not_seen(state: State, attempt: Attempt, track: Track) -> None:
    if state.step.now.boot_s - track.last_s < OVER_AFTER_S:
        return
    del state.misplaced[attempt.job_id]
    if attempt.warning(MISPLACED) is not None and attempt.stop is None:
        stayed = f"for {show_seconds(track.last_s - track.since_s)}"
        text = _text(state, attempt, track.most, "used", stayed)
        warn(state, attempt, MISPLACED, text, tell=False)


def _text(
    state: State, attempt: Attempt, where: Mapping[str, int | None], verb: str, stayed: str = ""
) -> str:
    said = " ".join(filter(None, (f"it {verb} {_named(state, where)}", stayed)))
    return f"{said}, and was given {_given(state, attempt)}; {_ADVICE[bool(attempt.devices)]}"


_ADVICE = {
    True: "leave CUDA_VISIBLE_DEVICES as it is set, and use cuda:0",
    False: "ask for one: --gpus=1",
}


def _given(state: State, attempt: Attempt) -> str:
    return _named(state, attempt.devices) if attempt.devices else "none"


def _named(state: State, uuids: Sequence[str] | Mapping[str, object]) -> str:
    known = [state.ledgers[uuid].device.index for uuid in uuids if uuid in state.ledgers]
    return gpus_named(known) if known else "a GPU"
