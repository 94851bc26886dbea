"""The decisions of NEARCHUS' section IV. Pure arithmetic, all amounts in CPUs.

A layout is the paper's DT-config (n_ps, n_wk, r_ps, r_wk), with the CPUs of each task. `used` is a
layout, too: what each task uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from radrm.planners.servers.layout import Layout, Limits, shared_out

ANY = Limits()


def first_layout(
    cpus: float, servers: Limits = ANY, workers: Limits = ANY, counts: tuple[int, int] = (1, 2)
) -> Layout:
    """Return where a job starts: one server and two workers share R0 = `cpus` evenly."""
    n_ps, n_wk = servers.count(counts[0]), workers.count(counts[1])
    each = cpus / (n_ps + n_wk)
    return Layout((servers.cpus(each),) * n_ps, (workers.cpus(each),) * n_wk)


def is_stable(samples: Sequence[float], count: int = 5, most: float = 0.05) -> bool:
    """Return whether the last `count` samples have a coefficient of variation below `most`."""
    last = samples[-count:]
    if len(last) < count:
        return False
    mean = sum(last) / count
    if mean <= 0:
        return False
    return sqrt(sum((each - mean) ** 2 for each in last) / count) / mean < most


def efficiency(used: Sequence[float], given: Sequence[float]) -> float:
    """Return e: the part of the given CPUs that is used; 0 without any."""
    total = sum(given)
    return sum(used) / total if total else 0.0


def is_network_bound(
    samples: Sequence[float], count: int = 30, part: float = 0.1, high: float = 0.9
) -> bool:
    """Return whether more than `part` of a server's last samples of its network exceed `high`.

    The samples (0..1 of the network's speed) are those since the last change; `count` of them are
    looked at.
    """
    last = samples[-count:]
    return bool(last) and sum(each > high for each in last) > part * len(last)


def scaled_up(
    layout: Layout, ratio: float, room: float, servers: Limits = ANY, workers: Limits = ANY
) -> Layout:
    """Return the layout with `ratio` (R_up, 0.5) more CPUs, at most `room` more.

    Each task gets its part in proportion to what it has.
    """
    more = max(0.0, min(ratio * layout.total, room))
    factor = 1 + more / layout.total
    return Layout(
        shared_out(sum(layout.servers) * factor, layout.servers, servers),
        shared_out(sum(layout.workers) * factor, layout.workers, workers),
    )


def with_server(layout: Layout, limits: Limits = ANY) -> Layout | None:
    """Return the layout with one server more; all servers share out theirs evenly.

    None if there may be no more.
    """
    count = limits.next(len(layout.servers))
    return None if count is None else layout.with_servers(_evenly(layout.servers, count, limits))


def with_worker(layout: Layout, limits: Limits = ANY) -> Layout | None:
    """Return the layout with one worker more; all workers share out theirs evenly.

    None if there may be no more.
    """
    count = limits.next(len(layout.workers))
    return None if count is None else layout.with_workers(_evenly(layout.workers, count, limits))


def _evenly(cpus: Sequence[float], count: int, limits: Limits) -> tuple[float, ...]:
    return (limits.cpus(sum(cpus) / count),) * count


def reassigned(
    layout: Layout,
    used: Layout,
    least: float = 0.8,
    headroom: float = 0.1,
    servers: Limits = ANY,
    workers: Limits = ANY,
) -> Layout:
    """Return the layout after the *resource assignment adjustment*; the same if none is needed.

    Within a role: if a task uses less than `least` of its CPUs, all of the role's are shared out in
    proportion to what its tasks use. Then between the roles: if one uses less than `least` and the
    other does not, all CPUs are shared out in proportion to use, where the servers count with
    `headroom` more. The paper gives away what is idle. Read literally, a role is then left with
    exactly what it has used, so it cannot use more, and the next round takes from the other one.
    """
    found = layout.with_servers(_within(layout.servers, used.servers, least, servers))
    found = found.with_workers(_within(found.workers, used.workers, least, workers))
    e_ps, e_wk = (
        efficiency(used.servers, found.servers),
        efficiency(used.workers, found.workers),
    )
    if (e_ps < least) is (e_wk < least):
        return found
    wanted_ps, wanted_wk = sum(used.servers) * (1 + headroom), sum(used.workers)
    if wanted_ps + wanted_wk <= 0:
        return found
    for_servers = found.total * wanted_ps / (wanted_ps + wanted_wk)
    by_use = shared_out(for_servers, used.servers, servers)
    rest = shared_out(found.total - sum(by_use), used.workers, workers)
    # What the workers cannot take, the servers keep.
    return Layout(shared_out(found.total - sum(rest), used.servers, servers), rest)


def _within(
    given: Sequence[float], used: Sequence[float], least: float, limits: Limits
) -> tuple[float, ...]:
    if all(u >= least * a for u, a in zip(used, given, strict=True)):
        return tuple(given)
    return shared_out(sum(given), used, limits)
