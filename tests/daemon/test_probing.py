"""When a CUDA context is to be measured, and by which job. No daemon is started."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from radrm.core.decision import Decision
from radrm.core.records import Estimate, Instant, Job, JobSpec
from radrm.core.words import Collocation, Quantity
from radrm.daemon.probing import Probing
from radrm.errors import StoreError
from radrm.host.estimation.probe import driver_version, options
from radrm.host.storage.runs import Run, Said, context_mark
from radrm.host.storage.spool import Envelope
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission
from tests.host.storage.stores import ended_attempt

NOW = Instant(0.0, 0.0)
MARK = context_mark("550.54", "12.4")
THEIRS = Envelope(
    ticket="01ARZ3NDEKTSV4RRFFQ69G5FAV", file="/w/a.rad",
    script="#RAD --env=SITE=1\npython a.py\n", command=None, options={}, cwd="/w", umask=0o027,
    environment={"PATH": "/venv/bin"}, submitted_s=0.0,
)  # fmt: skip


def job(number: int = 5, **changes: Any) -> Job:
    spec = JobSpec(name="a", user="nobody", uid=65534)
    return Job(**{"id": number, "ticket": "t", "spec": spec, "submitted": NOW, **changes})


def told(**changes: Any) -> Estimate:
    known = {"quantity": Quantity.MEMORY, "value": 5.0, "upper": 5.0, "source": "trace"}
    return Estimate(**{**known, "context_mib": 1439.0, "cuda": "12.4", **changes})


@dataclass
class Loop:
    """What the probing needs of a loop, and what it is given."""

    jobs: dict[int, Job] = field(default_factory=lambda: {5: job()})
    unsaved: bool = False
    broken: bool = False
    events: list[Any] = field(default_factory=list)
    submissions: list[Submission] = field(default_factory=list)
    fails: bool = False

    @property
    def scheduler(self) -> Any:
        jobs = tuple(self.jobs.values())
        return SimpleNamespace(snapshot=SimpleNamespace(job=self.jobs.get, jobs=jobs))

    @property
    def clock(self) -> Any:
        return SimpleNamespace(now=lambda: NOW)

    @property
    def store(self) -> Any:
        submissions = SimpleNamespace(of_job=self.submission)
        return SimpleNamespace(submissions=submissions, next_job_id=lambda: 77)

    def submission(self, job_id: int) -> Submission:
        if self.fails:
            raise StoreError("it is gone")
        return Submission(65534, 65534, THEIRS)

    def process(self, events: Any, submissions: Any = ()) -> None:
        self.events += events
        self.submissions += submissions


def probing(
    wanted: bool = True, driver: str | None = "550.54", kind: str | None = "A100",
    known: dict[str, float] | None = None, simulated_s: float | None = None,
) -> Probing:  # fmt: skip
    estimation = SimpleNamespace(
        driver=driver, device_kind=lambda: kind, contexts=lambda uid: known or {}
    )
    return Probing(cast(Any, estimation), wanted, simulated_s)


def test_the_probe_is_an_ordinary_job_of_the_same_user_behind_all_others() -> None:
    loop = Loop()
    probing().look(loop, [3, 5], [told(quantity=Quantity.SMACT), told()])
    (event,), (submission,) = loop.events, loop.submissions
    made, envelope = event.job, submission.envelope
    assert event.refused is None and made.id == 77
    assert (made.fingerprint, made.estimates, made.estimating) == (MARK, (), False)
    spec = made.spec
    assert (spec.uid, spec.gpus, spec.collocation) == (65534, 1, Collocation.EXCLUSIVE)
    assert spec.priority == -1000 and spec.time_limit_s == 120 and not spec.retries
    assert envelope.command[0] == "python3" and Path(envelope.command[1]).is_file()
    assert envelope.environment == {"PATH": "/venv/bin", "SITE": "1"}
    assert (submission.uid, envelope.cwd, envelope.umask) == (65534, "/w", 0o027)
    assert envelope.ticket != THEIRS.ticket and made.ticket == envelope.ticket


@pytest.mark.parametrize(
    ("loop", "settings", "estimate"),
    [
        (Loop(), {"wanted": False}, told()),
        (Loop(), {"driver": None}, told()),
        (Loop(), {"kind": None}, told()),
        (Loop(), {"known": {"12.4": 500.0}}, told()),
        (Loop(), {}, told(cuda=None)),
        (Loop(), {}, told(cuda="none")),
        (Loop(), {}, told(cuda="12.4 x")),
        (Loop(), {}, told(context_mib=None, source="history")),
        (Loop(), {}, told(quantity=Quantity.DURATION)),
        (Loop(jobs={}), {}, told()),
        (Loop(unsaved=True), {}, told()),
        (Loop(jobs={5: job(), 6: job(6, fingerprint=MARK)}), {}, told()),
        (Loop(fails=True), {}, told()),
    ],
)
def test_it_is_submitted_only_where_it_tells_something(
    loop: Loop, settings: dict[str, Any], estimate: Estimate
) -> None:
    probing(**settings).look(loop, [5], [estimate])
    assert not loop.events and not loop.submissions


def test_it_is_submitted_once_for_a_users_cuda() -> None:
    loop, it = Loop(), probing(known={"11.8": 900.0})
    for _ in range(3):
        it.look(loop, [5], [told()])
    assert len(loop.events) == 1
    it.look(loop, [5], [told(cuda="13.0")])
    assert len(loop.events) == 2, "another CUDA has another context"


def test_on_simulated_gpus_it_lasts_for_some_rounds_of_readings() -> None:
    loop = Loop()
    probing(simulated_s=50.0).look(loop, [5], [told()])
    command = loop.submissions[0].envelope.command
    assert command[command.index("--seconds") + 1] == "300"
    assert options(50.0)["time"] == "1200s"


def test_what_the_store_knows_of_contexts(tmp_path: Path) -> None:
    """The user's own measurement, else the middle of the others'; no job learns from them."""
    store = Store(str(tmp_path / "store.db"))
    rows = [
        (1, 7, MARK, 500), (2, 8, MARK, 520), (3, 9, MARK, 9999), (4, 7, MARK, 510),
        (5, 7, context_mark("550.54", "11.8"), 900), (6, 7, context_mark("470", "12.4"), 1700),
        (7, 7, "0" * 32, 4000), (8, 7, None, 5000),
    ]  # fmt: skip
    runs = [Run(at, uid, mark, "A100", Said()) for at, uid, mark, _ in rows]
    attempts = [ended_attempt(at, mib, job_id=5) for at, _, _, mib in rows]
    changed = Decision((), (job(ticket=THEIRS.ticket), *attempts), (), None, ())
    store.save([changed], [Submission(7, 7, THEIRS)], runs=runs)
    assert store.runs.contexts("A100", "550.54", 7) == {"12.4": 510.0, "11.8": 900.0}
    assert store.runs.contexts("A100", "550.54", 99) == {"12.4": 520.0, "11.8": 900.0}
    assert store.runs.contexts("H100", "550.54", 7) == store.runs.contexts("A100", "550.5", 7) == {}
    for kind in ("A100", None):
        assert [run.peak_mib for run in store.runs.recent(kind, 10)] == [5000, 4000]
    store.close()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 2024\n"
            "GCC version:  gcc version 12.3.0\n",
            "550.54.14",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57  Release\n", "575.57"),
        ("nothing of the kind", None),
        ("", None),
    ],
)
def test_the_drivers_version(tmp_path: Path, text: str, version: str | None) -> None:
    (tmp_path / "version").write_text(text)
    assert driver_version(str(tmp_path / "version")) == version
    assert driver_version(str(tmp_path / "absent")) is None


def test_estimates_and_runs_of_the_last_release_load() -> None:
    kept = b'{"quantity": "memory", "value": 5.0, "upper": 6.0, "source": "trace", "raw": 4.0}'
    estimate = msgspec.json.decode(kept, type=Estimate)
    assert (estimate.guesses, estimate.context_mib, estimate.cuda) == ((), None, None)
    said = msgspec.json.decode(b'{"peak_mib": 5, "device_kind": "A100"}', type=Said)
    assert (said.told, said.driver, said.cuda) == ({}, None, None)
