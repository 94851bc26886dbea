"""The energy report: what it adds up, what it costs, and what it says is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core import events as ev
from radrm.core.records import (
    AttemptMemory,
    Device,
    DeviceEnergy,
    EnergyPart,
    Instant,
    Reading,
)
from radrm.core.settings import CoreSettings
from radrm.daemon.answers.past import energy as answers
from radrm.daemon.answers.past import gather
from radrm.daemon.answers.past.energy import energy
from radrm.daemon.serving.turns import finish
from radrm.daemon.views.device_documents import device_documents
from radrm.deadlines import Costs, Zone
from radrm.errors import Refused, UsageError
from radrm.host.storage.store import Store
from tests.examples import some
from tests.host.storage.stores import submission_of
from tests.world import GIB, World, gpus

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
START = 400 * DAY_S
"""Midnight, in UTC."""
KWH = 3.6e6
TWO_PRICES = Costs(pue=1.0, prices=((0, 0.1), (360, 0.3)))


@dataclass
class Site:
    """A daemon's loop, as far as the report uses it, with a real store."""

    store: Store
    now_s: float = START
    costs: Costs = TWO_PRICES
    uuids: tuple[str, ...] = ("GPU-0",)

    def use(
        self, joules: dict[int | None, float], hours: float = 1.0, device: str = "GPU-0"
    ) -> None:
        """Some time passes, in which this was used."""
        self.now_s += hours * HOUR_S
        parts = tuple(EnergyPart(job, each) for job, each in joules.items())
        at = Instant(self.now_s, self.now_s)
        self.store.energy.note([DeviceEnergy(device, at, hours * HOUR_S, parts)])

    def ask(self, by: str = "user", **words: Any) -> Any:
        devices = [
            SimpleNamespace(device=Device(uuid, n, "A100", 1)) for n, uuid in enumerate(self.uuids)
        ]
        loop: Any = SimpleNamespace(
            clock=SimpleNamespace(now=lambda: Instant(self.now_s, self.now_s)),
            store=self.store,
            scheduler=SimpleNamespace(
                snapshot=SimpleNamespace(devices=devices, job=lambda job_id: None)
            ),
            parts=SimpleNamespace(costs=self.costs),
            save_volatile=self.store.save_volatile,
        )
        return finish(energy(loop, {"by": by, "since": START, **words}, 1000))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    store = Store(str(tmp_path / "store"))
    world = World(gpus(1))
    jobs = [
        world.submit(GIB, user=user, group=group)
        for user, group in (("ann", "lab"), ("ann", "lab"), ("bob", None))
    ]
    store.save(world.decisions, [submission_of(job) for job in jobs])
    store.energy = type(store.energy)(store._db)
    return Site(store)


def figures(answer: Any, by: str) -> dict[Any, tuple[float, float]]:
    return {row[by]: (row["kwh"], row["cost"]) for row in answer["rows"]}


def test_each_hour_has_its_price(site: Site) -> None:
    site.use({1: KWH, 3: KWH, None: 0.0}, hours=1)
    site.use({}, hours=5)
    site.use({1: KWH}, hours=1)
    answer = site.ask()
    assert figures(answer, "user") == {
        "ann": (2.0, pytest.approx(0.4)),
        "bob": (1.0, pytest.approx(0.1)),
    }
    assert [row["share"] for row in answer["rows"]] == pytest.approx([2 / 3, 1 / 3])
    assert answer["total"]["cost"] == pytest.approx(0.5)


def test_it_is_added_up_by_what_was_asked_for(site: Site) -> None:
    site.uuids = ("GPU-0", "GPU-1")
    site.use({1: KWH, 2: 2 * KWH}, hours=1)
    site.use({3: 3 * KWH, None: KWH}, hours=24, device="GPU-1")
    by = {what: site.ask(what) for what in ("user", "group", "job", "gpu", "day")}
    assert {row["user"]: row["kwh"] for row in by["user"]["rows"]} == {"ann": 3, "bob": 3}
    assert {row["group"]: row["kwh"] for row in by["group"]["rows"]} == {"lab": 3, None: 3}
    assert [(r["job"], r["kwh"], r["user"]) for r in by["job"]["rows"]] == [
        (3, 3, "bob"),
        (2, 2, "ann"),
        (1, 1, "ann"),
    ]
    per_gpu = [(r["gpu"], r["index"], r["kwh"], r["idle_kwh"]) for r in by["gpu"]["rows"]]
    assert sorted(per_gpu) == [("GPU-0", 0, 3, 0), ("GPU-1", 1, 3, 1)]
    assert [(r["day"], round(r["kwh"], 3), round(r["idle_kwh"], 3)) for r in by["day"]["rows"]] == [
        ("1971-02-05", 5.875, 0.958),
        ("1971-02-06", 0.125, 0.042),
    ]
    for answer in by.values():
        parts = [*answer["rows"], answer["idle"], answer["more"]]
        for figure in ("kwh", "cost", "share"):
            assert sum(p[figure] for p in parts) == pytest.approx(answer["total"][figure])
        assert answer["idle"]["kwh"] == pytest.approx(1)


def test_only_hours_of_that_time_count(site: Site) -> None:
    for _ in range(5):
        site.use({1: KWH})
    assert site.ask(since=START + HOUR_S, until=START + 3 * HOUR_S)["total"]["kwh"] == 2
    answer = site.ask(since=START + 1.5 * HOUR_S, until=START + 2.5 * HOUR_S)
    assert answer["total"]["kwh"] == 2, "whole hours"
    assert (answer["since"], answer["until"]) == (START + HOUR_S, START + 3 * HOUR_S)
    assert site.ask(since=-1e9)["total"]["kwh"] == 5
    assert site.ask(since=site.now_s - 1, until=site.now_s + 9e9)["until"] == site.now_s


def test_days_and_prices_are_local_also_where_summer_time_begins(site: Site) -> None:
    """The hour from 2:00 to 3:00 does not exist: 3:00 local is one hour after 1:00."""
    change_s = START + HOUR_S
    site.costs = Costs(
        pue=1.0, prices=((0, 1.0), (180, 5.0)), zone=Zone((0.0, change_s), (HOUR_S, 2 * HOUR_S))
    )
    site.store.energy.zone = site.costs.zone
    for _ in range(4):
        site.use({1: KWH})  # from 1:00, 3:00, 4:00 and 5:00 on
    assert site.ask()["total"]["cost"] == pytest.approx(1 + 3 * 5)
    (row,) = site.ask("day")["rows"]
    assert row["day"] == "1971-02-05"


def test_an_empty_book_and_one_that_begins_later(site: Site) -> None:
    site.now_s += HOUR_S
    answer = site.ask()
    assert (answer["first"], answer["rows"], answer["total"]["kwh"]) == (None, [], 0.0)
    assert answer["unread"] == [{"gpu": "GPU-0", "index": 0, "seconds": None}]
    site.use({1: KWH})
    assert site.ask()["first"] == START + HOUR_S


def test_time_without_readings_is_unknown(site: Site) -> None:
    site.uuids = ("GPU-0", "GPU-1")
    for device in ("GPU-0", "GPU-1", "GPU-9"):
        site.now_s = START
        site.use({1: KWH}, hours=2.0, device=device)
    site.now_s += 3 * HOUR_S
    site.use({1: KWH}, hours=1.0)
    unread = {each["gpu"]: each["seconds"] for each in site.ask()["unread"]}
    assert unread == {"GPU-0": 3 * HOUR_S, "GPU-1": 4 * HOUR_S}, "one that is gone is not missed"


def test_the_answer_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_ROWS", 2)
    site.use({1: KWH, 2: 2 * KWH, 3: 4 * KWH, None: KWH})
    answer = site.ask("job")
    assert [row["job"] for row in answer["rows"]] == [3, 2]
    assert (answer["more"]["rows"], answer["more"]["kwh"]) == (1, 1.0)
    monkeypatch.setattr(gather, "MOST_KEYS", 2)
    with pytest.raises(Refused, match="--since 1d"):
        site.ask("job")


BAD: list[dict[str, Any]] = [
    {"by": "colour"},
    {"by": None},
    {"by": ["user"]},
    {"since": "7d"},
    {"since": float("nan")},
    {"since": True},
    {"until": 1e300},
    {"since": START + 10, "until": START + 10},
]


@pytest.mark.parametrize("words", BAD)
def test_a_bad_request_is_refused(site: Site, words: dict[str, Any]) -> None:
    site.use({1: KWH})
    with pytest.raises(UsageError):
        site.ask(**{"by": "user", **words})


uses = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from([None, 1, 2, 3, 77]), st.floats(0, 1e7), max_size=4),
        st.floats(0.01, 30.0),
        st.sampled_from(["GPU-0", "GPU-1"]),
    ),
    max_size=8,
)


@settings(max_examples=some(25), deadline=None)
@given(life=uses)
def test_all_rows_are_all_energy(tmp_path_factory: pytest.TempPathFactory, life: list[Any]) -> None:
    site = Site(Store(str(tmp_path_factory.mktemp("book") / "store")))
    for joules, hours, device in life:
        site.use(joules, hours, device)
    used_j = sum(sum(joules.values()) for joules, _, _ in life)
    for by in answers.COLUMNS:
        answer = site.ask(by, until=site.now_s + 1)
        rows = [*answer["rows"], answer["idle"]]
        assert sum(row["kwh"] for row in rows) == pytest.approx(used_j / KWH)
        assert sum(row["cost"] for row in rows) == pytest.approx(answer["total"]["cost"])
    site.store.close()


def test_gpus_say_how_the_jobs_on_them_divide_it() -> None:
    world = World(gpus(1), settings=CoreSettings(smact_warm_s=0))

    def split() -> str | None:
        (document,) = device_documents(world.scheduler.snapshot, world.now)
        return document.energy_split

    world.submit(4 * GIB, smact=0.1)
    world.pass_time(1.0)
    assert split() is None, "one job alone has all of it"
    world.submit(4 * GIB, smact=0.1)
    world.pass_time(1.0)
    assert split() == "equal"
    both = tuple(AttemptMemory(job, job, 1, 0.1) for job in (1, 2))
    world.step(ev.ReadingsTaken(at=world.now, readings=(Reading("GPU-0", world.now, 2, both),)))
    assert split() == "activity"
