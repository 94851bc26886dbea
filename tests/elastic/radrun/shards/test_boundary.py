"""All pause at one step, whatever the order of reports, and nobody waits for ever."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.elastic.radrun.shards.book import Worker
from radrm.elastic.radrun.shards.service import Boundary
from tests.examples import some

WORKERS: list[Worker] = [("main", i) for i in range(4)]


@settings(max_examples=some(150), deadline=None)
@given(st.integers(1, 4), st.lists(st.integers(0, 1000), min_size=90, max_size=90))
def test_lockstep(count: int, choices: list[int]) -> None:
    """Workers, of which none ends a step before all have begun it, and messages under way.

    Each choice lets one worker end a step, receive the hold, or have its report arrive.
    """
    workers = WORKERS[:count]
    done = dict.fromkeys(workers, 0)
    seen = dict.fromkeys(workers, False)
    waits: set[Worker] = set()
    reports: dict[Worker, list[tuple[int, bool]]] = {worker: [] for worker in workers}
    boundary: Boundary | None = None

    def possible() -> list[tuple[str, Worker]]:
        found = []
        for worker in workers:
            # A step needs all: those that do not wait, or will not begin it, hold it back.
            if worker not in waits and done[worker] == min(done.values()):
                found.append(("step", worker))
            if boundary is not None and not seen[worker]:
                found.append(("hold", worker))
            if reports[worker]:
                found.append(("report", worker))
        return found

    for at, choice in enumerate(choices):
        if at == choices[0] % 20:
            boundary = Boundary(lockstep=True)
        options = possible()
        if not options:
            break
        what, worker = options[choice % len(options)]
        if what == "step":
            done[worker] += 1
            reports[worker].append((done[worker], seen[worker]))
            if seen[worker]:
                waits.add(worker)
        elif what == "hold":
            seen[worker] = True
        else:
            step, saw = reports[worker].pop(0)
            if boundary is None:
                continue
            for each in workers:
                if each not in boundary.waiting:
                    boundary.expect(each, 0)
            waits -= set(boundary.report(worker, step, saw))
            waits -= set(boundary.release())
        if boundary is not None and boundary.waiting and boundary.complete():
            assert len(set(boundary.waiting.values())) == 1
            assert set(done.values()) == {boundary.step}
            return
    assert options or boundary is None, "all wait, and nothing will come"


def test_one_that_had_not_seen_the_hold_takes_all_one_step_further() -> None:
    boundary = Boundary(lockstep=True)
    boundary.expect(WORKERS[0], 4)
    boundary.expect(WORKERS[1], 4)
    assert boundary.report(WORKERS[0], 5, seen=True) == []
    assert not boundary.complete()
    assert boundary.report(WORKERS[1], 5, seen=False) == [WORKERS[0]]
    assert boundary.report(WORKERS[1], 6, seen=True) == []
    assert not boundary.complete()
    assert boundary.report(WORKERS[0], 6, seen=True) == []
    assert boundary.complete() and boundary.step == 6


def test_asynchronous_workers_pause_where_they_are() -> None:
    boundary = Boundary(lockstep=False)
    for worker in WORKERS:
        boundary.expect(worker, 0)
    assert boundary.report(WORKERS[0], 5, seen=True) == []
    assert boundary.report(WORKERS[1], 900, seen=True) == []
    boundary.forget(WORKERS[2])
    assert not boundary.complete()
    assert boundary.complete(idle=[WORKERS[3]])
