"""The list of past jobs, the newest last, and their sums: `radrm history`.

A job that its user had run again after its end has a row for each run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import merge
from itertools import islice

from msgspec import Struct, field

from radrm.core.words import JobState, Outcome
from radrm.daemon.answers.device_commands import find_device
from radrm.daemon.answers.past.energy import moment
from radrm.daemon.answers.past.gather import Figures, add_end, gather
from radrm.daemon.answers.status import BYTES, documents_of
from radrm.daemon.loop import Loop
from radrm.daemon.serving.turns import Pace, Work
from radrm.daemon.views.arguments import Words, is_text, page, states
from radrm.daemon.views.device_documents import are_simulated
from radrm.daemon.views.documents import Document
from radrm.daemon.views.references import MAX_PATTERN, Globs
from radrm.daemon.views.rows import EndedRun, Line
from radrm.errors import UsageError
from radrm.host.storage.ended import PastAttempt, PastJob

_NEVER_S = float("inf")


class _Found(Struct):
    """The jobs that match, and their sums."""

    begin_s: float
    end_s: float
    keep: Callable[[PastJob, Sequence[PastAttempt]], bool]
    ends: list[list[tuple[float, int, int]]] = field(default_factory=list)
    """The end, the job and the number of each run, in lists that are sorted: mostly one for each
    user."""
    sums: Figures = field(default_factory=Figures)

    def visit(self, job: PastJob, attempts: Sequence[PastAttempt]) -> Figures | None:
        ended_s = job.ended.wall_s if job.ended is not None else _NEVER_S
        if not self.begin_s <= ended_s < self.end_s or not self.keep(job, attempts):
            return None
        place = ended_s, job.id, job.run
        if not self.ends or self.ends[-1][-1] > place:
            self.ends.append([])
        self.ends[-1].append(place)
        add_end(job, self.sums)
        self.sums.oom += sum(each.outcome is Outcome.OOM for each in attempts)
        return self.sums


def history(loop: Loop, words: Words, uid: int) -> Work[Document]:
    """One page of the runs that ended between two times, and the sums of all of them.

    The first page has the newest, the newest last.
    """
    now_s = loop.clock.now().wall_s
    since_s, until_s = moment(words, "since", now_s), moment(words, "until", now_s)
    if since_s >= until_s:
        raise UsageError("the history begins before it ends")
    offset, limit = page(words)
    found = _Found(since_s, until_s, _filter(loop, words))
    return (yield from loop.past.do(_history(loop, found, offset, limit), uid))


def _history(loop: Loop, found: _Found, offset: int, limit: int) -> Work[Document]:
    now, read = loop.clock.now(), loop.store.ended.attempts
    held = yield from gather(loop, found.begin_s, found.end_s, now, found.visit, read)
    yield from held.divide()
    newest = merge(*(reversed(each) for each in found.ends), reverse=True)
    pace = Pace()
    runs: list[Line] = []
    while len(runs) < offset + limit and (some := list(islice(newest, 500))):
        runs += [EndedRun(job_id, run) for _, job_id, run in some]
        yield from pace.rest_if_spent()
    shown = runs[offset : offset + limit]
    documents, _ = yield from documents_of(loop, shown, False, 8 * BYTES)
    return {
        "jobs": documents[::-1],
        "total": found.sums.runs,
        "sums": found.sums.document(),
        "since": found.begin_s,
        "until": found.end_s,
        "removed_until": loop.store.rows.removed_until(),
        "devices": {d.device.uuid: d.device.index for d in loop.scheduler.snapshot.devices},
        "simulated": are_simulated(loop.scheduler.snapshot),
    }


def _filter(loop: Loop, words: Words) -> Callable[[PastJob, Sequence[PastAttempt]], bool]:
    """Return a test of a job and its attempts. Raises `UsageError` for an unusable argument."""
    user, name, gpu = (_text(words, key) for key in ("user", "name", "gpu"))
    wanted = states(words)
    for state in wanted:
        if not state.final:
            ends = ", ".join(each.value for each in JobState if each.final)
            raise UsageError(
                f"{state.value} is not the end of a job: the history has {ends}; radrm status "
                "shows jobs that have not ended"
            )
    globs = Globs([name]) if name is not None else None
    device = None if gpu is None else find_device(loop.scheduler.snapshot.devices, gpu).device.uuid

    def keep(job: PastJob, attempts: Sequence[PastAttempt]) -> bool:
        return (
            (user is None or job.spec.user == user)
            and (not wanted or job.state in wanted)
            and (globs is None or bool(globs.matching(job.spec.name)))
            and (device is None or any(device in each.devices for each in attempts))
        )

    return keep


def _text(words: Words, name: str) -> str | None:
    found = words.get(name)
    if found is not None and (not is_text(found) or len(found) > MAX_PATTERN):
        raise UsageError(f"the request takes {name} as a text of at most {MAX_PATTERN} characters")
    return found
