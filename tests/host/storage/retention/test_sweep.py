"""Retention: what is old goes, in small pieces; what still matters stays."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest

from radrm.config import RetentionConfig
from radrm.core.records import ArrayElement, Instant, Job, OuterJob
from radrm.core.words import JobState
from radrm.errors import StoreError
from radrm.host.storage.database import LOG_RESERVE
from radrm.host.storage.paths import Paths, prepare
from radrm.host.storage.retention import rows as limits
from radrm.host.storage.retention.rows import Steady
from radrm.host.storage.retention.sweep import EVERY_S, FIRST_AFTER_S, Retention
from radrm.host.storage.runs import Run, Said
from radrm.host.storage.spool import Spool, has_envelope
from radrm.host.storage.store import Store
from radrm.host.storage.submitted import Submission
from radrm.host.storage.tickets import new_ticket
from radrm.structs import replace
from tests.host.storage.envelopes import envelope
from tests.host.storage.retention.test_refused import ticket_of
from tests.host.storage.stores import ended_attempt
from tests.world import World, gpus

NOW_S = 1.8e9
DAY_S = 86400.0
HOUR_S = 3600.0


class Site:
    """A store in a home, filled with ended jobs, and its sweeps on a clock that a test sets."""

    def __init__(self, folder: Path) -> None:
        self.paths = Paths(str(folder), f"{folder}/run")
        prepare(self.paths, False)
        self.store = Store(self.paths.database)
        self.now = Instant(1e6, NOW_S, "boot")
        world = World(gpus(1))
        job = world.submit(1000)
        world.end(job)
        self.template, self.done = world.jobs[job.id], world.decisions[-1]
        self.trust()

    def trust(self) -> None:
        """As after two days of a steady clock."""
        self.store.rows.note_steady(Steady(self.now.wall_s - 2 * DAY_S, self.now))

    def job(self, number: int, days: float, uid: int = 1000, **changes: object) -> Job:
        """A job that ended so many days ago, with one attempt whose serial is its id."""
        at = Instant(1.0, self.now.wall_s - days * DAY_S, "boot")
        spec = replace(self.template.spec, uid=uid, name=f"net{number}")
        given = {"ticket": new_ticket(), "spec": spec, "ended": at, **changes}
        return replace(self.template, id=number, **given)

    def save(self, jobs: Iterable[Job], runs: Iterable[Run] = (), env: str = "") -> None:
        records = list(jobs)
        attempts = [ended_attempt(j.id, 1000, j.id) for j in records if j.state.final]
        sent = {
            j.ticket: Submission(
                j.spec.uid, 1, envelope(ticket=j.ticket, environment={"N": env or str(j.spec.uid)})
            )
            for j in records
        }
        decision = replace(self.done, changed=(*records, *attempts))
        self.store.save([decision], sent.values(), runs=list(runs))

    def sweep(self, ready: bool = True, **settings: object) -> int:
        """All pieces of one sweep; how many."""
        at_s, pieces = 0.0, 0
        config = RetentionConfig(**settings)
        store = self.store
        retention = Retention(config, store.rows, store.energy, self.paths, lambda: at_s)
        while retention.due_in_s < EVERY_S / 2:
            at_s += retention.due_in_s + 1e-6
            retention.work(self.now, ready)
            pieces += 1
            assert pieces < 1000
        return pieces

    def ids(self) -> list[int]:
        return self.store.finished(10_000)

    def count(self, table: str) -> int:
        (found,) = self.store._db.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(found)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_an_old_job_goes_with_all_that_only_it_needed(site: Site) -> None:
    site.save([site.job(1, 200), site.job(2, 181, uid=7), site.job(3, 179, uid=7)])
    site.store.save([], edits=[(1, {"time": "90"}), (3, {"time": "60"})])
    kept = site.store.job(3), site.store.attempts(3), site.store.submissions.of_job(3)
    site.sweep()
    assert site.ids() == [3]
    assert (site.store.job(3), site.store.attempts(3), site.store.submissions.of_job(3)) == kept
    tables = ("attempts", "submissions", "blobs", "edits")
    assert [site.count(table) for table in tables] == [1, 1, 1, 1]
    assert site.store._db.execute("PRAGMA foreign_key_check").fetchall() == []
    assert [site.store.rows.was_removed(n) for n in range(5)] == [False, True, True, False, False]


def test_no_number_is_given_twice(site: Site) -> None:
    site.save(site.job(n, 200) for n in (1, 2, 9))
    site.sweep()
    site.store.close()
    again = Store(site.paths.database)
    assert (again.next_job_id(), again.next_serial()) == (10, 10)
    assert [again.rows.was_removed(n) for n in (2, 3, 8, 9)] == [True, False, False, True]


def test_the_ids_that_have_gone_are_a_few_ranges(site: Site) -> None:
    site.save(site.job(n, 400 - n % 7) for n in range(1, 200) if n != 100)
    site.sweep()
    ranges = site.store._db.execute("SELECT first, last FROM removed ORDER BY first").fetchall()
    assert ranges == [(1, 99), (101, 199)]


def array(site: Site, first: int, days: Iterable[float | None]) -> list[Job]:
    """An array whose elements ended so many days ago; None: it waits."""
    ticket, jobs = new_ticket(), []
    for index, ago in enumerate(days):
        element = ArrayElement(first, index)
        job = site.job(first + index, ago or 0, ticket=ticket, array=element)
        if ago is None:
            job = replace(job, state=JobState.PENDING, ended=None)
        jobs.append(job)
    return jobs


def test_an_array_goes_as_a_whole_once_its_last_element_is_old(site: Site) -> None:
    site.save(array(site, 10, [300, 200, None]))
    site.save(array(site, 20, [300, 200, 1]))
    site.save(array(site, 30, [300, 200, 190]))
    site.save(array(site, 1000, [300] * (limits.AT_ONCE + 5)))
    site.sweep()
    assert site.ids() == [10, 11, 20, 21, 22]
    assert [site.store.rows.was_removed(n) for n in (10, 20, 30, 1000, 1104)] == [
        False, False, True, True, True,
    ]  # fmt: skip


def test_it_is_known_from_when_on_all_jobs_are_there(site: Site) -> None:
    site.save([site.job(1, 179), site.job(2, 200), site.job(3, 185, uid=7)])
    assert site.store.rows.removed_until() is None
    site.sweep()
    assert site.store.rows.removed_until() == NOW_S - 185 * DAY_S
    site.save([site.job(4, 300), *array(site, 10, [300, 190]), *array(site, 20, [300, 184, 250])])
    site.sweep()
    assert site.ids() == [1] and site.store.rows.removed_until() == NOW_S - 184 * DAY_S


def test_an_array_that_goes_in_pieces_is_known_to_go(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first element goes last. From the first piece on nothing can follow it any more."""
    monkeypatch.setattr(limits, "AT_ONCE", 2)
    site.save(array(site, 10, [300] * 5))
    count, place = site.store.rows.remove(1000, NOW_S, limits.Place(), lambda: False)
    assert (count, site.ids(), site.store.rows.was_removed(10)) == (2, [10, 11, 12], True)
    assert place == limits.Place()
    site.sweep()
    assert site.ids() == [] and site.count("submissions") == 0


def test_an_attempt_that_has_a_folder_keeps_its_job(site: Site) -> None:
    site.save([site.job(1, 200), site.job(2, 200)])
    site.store.rows.has_folder = lambda serial: serial == 1
    site.sweep()
    assert site.ids() == [1]


def test_an_envelope_in_the_spool_keeps_its_job(site: Site) -> None:
    """It would become a second job. Names that are no envelopes do not count."""
    jobs = [site.job(n, 200) for n in (1, 2)]
    site.save([*jobs, *array(site, 10, [300, 300])])
    site.store.rows.has_envelope = lambda ticket: has_envelope(site.paths.spool, ticket)
    Spool(site.paths.spool).put([envelope(ticket=jobs[0].ticket)])
    os.mkdir(f"{site.paths.spool}/{jobs[1].ticket}.job")
    site.sweep()
    assert site.ids() == [1]


def test_estimators_read_the_same_as_before(site: Site) -> None:
    jobs = [site.job(n, 500 - n) for n in range(1, 41)]
    runs = [Run(n, 1000, "net", "A100", Said(told={"n": float(n)})) for n in range(1, 31)]
    runs += [Run(n, 1000, None, "A100", Said(told={"n": float(n)})) for n in range(31, 41)]
    site.save(jobs, runs)

    def read() -> list[object]:
        past = site.store.runs
        return [
            past.same("net", 1000, limits.RUNS_KEPT),
            past.recent("A100", 30),
            past.named("net40", 1000, 20),
        ]

    before = read()
    assert all(before)
    site.sweep()
    assert site.ids() == [] and read() == before
    assert site.count("runs") == site.count("learned") == limits.RUNS_KEPT + 10


def test_what_is_learned_has_a_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_LEARNED", 3)
    runs = [Run(n, 1000, f"net{n}", "A100", Said()) for n in range(1, 9)]
    site.save((site.job(n, 200) for n in range(1, 9)), runs)
    site.sweep()
    assert site.count("learned") == site.count("runs") == 3
    assert site.store.runs.same("net8", 1000, 1) and not site.store.runs.same("net1", 1000, 1)


def test_each_users_newest_jobs_stay(site: Site) -> None:
    site.save(site.job(n, 30 - n / 100) for n in range(1, 151))
    site.save(site.job(n, 60, uid=7) for n in range(200, 290))
    site.sweep(finished_jobs=100)
    assert site.ids() == [*range(51, 151), *range(200, 290)]


def test_none_goes_in_its_first_hour(site: Site) -> None:
    site.save(site.job(n, 0.9 / 24 - n / 1e6) for n in range(1, 130))
    site.save([site.job(200, -1.0)])
    site.sweep(finished_jobs=100)
    assert len(site.ids()) == 130
    site.now = Instant(site.now.boot_s + HOUR_S, site.now.wall_s + HOUR_S, "boot")
    site.sweep(finished_jobs=100)
    assert len(site.ids()) == 100


def later(now: Instant, ran_s: float, passed_s: float, boot: str = "boot") -> Instant:
    return Instant(now.boot_s + ran_s, now.wall_s + passed_s, boot)


@pytest.mark.parametrize(
    "ran_s, passed_s, boot, stays",
    [
        (HOUR_S, HOUR_S, "boot", False),
        (HOUR_S, 900 * DAY_S, "boot", True),  # somebody has set the clock
        (-1e6, 900 * DAY_S, "next", True),  # a server that starts with a wrong date
        (-1e6, 3 * DAY_S, "next", False),
        (-1e6, -3 * DAY_S, "next", True),
    ],
)
def test_a_clock_that_jumps_removes_nothing_for_a_day(
    site: Site, ran_s: float, passed_s: float, boot: str, stays: bool
) -> None:
    site.save([site.job(1, 300), site.job(2, -905)])
    site.now = later(site.now, ran_s, passed_s, boot)
    site.sweep()
    assert site.ids() == [1, 2] if stays else [2]
    for _ in range(25):
        site.now = later(site.now, HOUR_S, HOUR_S, boot)
        site.sweep()
    assert site.ids() == [2]


def test_a_new_store_waits_for_a_day_too(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.store._db.execute("DELETE FROM marks")
    site.save([site.job(1, 300)])
    site.sweep()
    assert site.ids() == [1]


def test_nothing_goes_before_the_spool_was_empty_once(site: Site) -> None:
    site.save([site.job(1, 300)])
    at_s, parts = 0.0, (site.store.rows, site.store.energy, site.paths)
    retention = Retention(RetentionConfig(), *parts, lambda: at_s)
    while at_s < HOUR_S:
        assert site.ids() == [1] and retention.due_in_s <= FIRST_AFTER_S
        at_s += retention.due_in_s
        retention.work(site.now, ready=False)
    while retention.due_in_s < EVERY_S / 2:
        at_s += retention.due_in_s + 1e-6
        retention.work(site.now, ready=False)
    assert site.ids() == [], "a user with too many envelopes does not keep all for ever"


def dump(site: Site) -> list[str]:
    """All rows but what a sweep notes of the clock."""
    return [line for line in site.store._db.connection.iterdump() if '"marks"' not in line]


def test_a_piece_that_is_cut_off_leaves_all_of_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a kill does, which leaves a transaction without its commit."""
    site.save(site.job(n, 300) for n in range(1, 21))
    before = dump(site)
    note, calls = site.store.rows._note_removed, []

    def fail(job_id: int) -> None:
        calls.append(job_id)
        if len(calls) == 10:
            raise sqlite3.OperationalError("database or disk is full")
        note(job_id)

    monkeypatch.setattr(site.store.rows, "_note_removed", fail)
    with caplog.at_level(logging.ERROR):
        site.sweep()
    (line,) = caplog.messages
    assert "are not removed now" in line and "disk is full" in line
    assert dump(site) == before
    monkeypatch.undo()
    site.sweep()
    assert site.ids() == []


def test_the_log_keeps_its_size_and_the_file_shrinks(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the log has its 8 MiB, and a sweep needs no more."""
    monkeypatch.setattr("radrm.host.storage.retention.sweep._FREE_PAGES", 100)
    for n in range(1, 601, 50):
        site.save((site.job(k, 300) for k in range(n, n + 50)), env=os.urandom(20_000).hex())
    site.store._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
    before = os.path.getsize(site.paths.database)
    pieces = site.sweep()
    assert site.ids() == [] and pieces > 3
    assert os.path.getsize(f"{site.paths.database}-wal") == LOG_RESERVE
    assert site.store._db.free_pages == 100
    site.store.close()
    assert os.path.getsize(site.paths.database) < before - 100 * 4096


def test_old_hours_of_energy_go(site: Site) -> None:
    old, young = int(NOW_S - 1200 * DAY_S), int(NOW_S - 900 * DAY_S)
    rows = [(hour + i, "GPU-0", 0, None, None, 1.0, 0.0, 1.0) for hour in (old, young)
            for i in range(250)]  # fmt: skip
    site.store._db.execute_many("INSERT INTO energy VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    site.sweep()
    assert site.count("energy") == 250 and site.store.energy.first_hour_s() == young


def test_old_refused_files_go_and_nothing_else(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = tmp_path / "refused"
    refused.mkdir(mode=0o700)
    old, young = (refused / f"{ticket_of(NOW_S - days * DAY_S, monkeypatch)}.job"
                  for days in (31, 29))  # fmt: skip
    young.write_bytes(b"x" * 300_000)
    old.write_text("a user's")
    os.utime(old, (NOW_S, NOW_S))  # a file's own times are its user's to set
    link = refused / f"{ticket_of(NOW_S - 40 * DAY_S, monkeypatch)}.job"
    link.symlink_to(tmp_path)
    (refused / "notes.txt").touch()
    site.sweep()
    assert sorted(refused.iterdir()) == sorted([young, link, refused / "notes.txt"])
    newer = refused / f"{ticket_of(NOW_S - 1 * DAY_S, monkeypatch)}.job"
    newer.write_bytes(b"x" * 900_000)
    site.sweep(refused_mib=1)
    assert not young.exists() and newer.exists()


def test_nothing_has_a_limit_of_zero(site: Site) -> None:
    site.save([site.job(1, 9000)])
    off = dict.fromkeys(("finished_days", "finished_jobs"), 0)
    site.sweep(**off)
    assert site.ids() == [1]
    assert RetentionConfig(**off).words == "no limit now"


def test_a_transaction_that_fails_is_synced_again_afterwards(site: Site) -> None:
    with pytest.raises(StoreError), site.store._db.not_synced(), site.store._db.writing("x"):
        raise sqlite3.OperationalError("disk I/O error")
    assert site.store._db.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_slurm_may_give_the_number_of_a_job_that_has_gone_again(site: Site) -> None:
    outers = [OuterJob("slurm", "c", str(n), 0, 2, 3, "boot") for n in (1, 2)]
    site.save([site.job(1, 200, outer=outers[0]), site.job(2, 1, outer=outers[1])])
    assert [site.store.job_of_outer(outer.name) for outer in outers] == [1, 2]
    site.sweep()
    assert [site.store.job_of_outer(outer.name) for outer in outers] == [None, 2]
