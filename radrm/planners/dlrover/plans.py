"""The formulas of DLRover's sections 4.1 and 4.2. Pure arithmetic, all amounts in CPUs.

`w` is what one worker uses, `s` what all servers together use for one worker (the paper's w-hat and
s-hat).

Rounding: the paper gives none. These are the ones with which table 1 follows from its own samples
(2.5 and 5.7 for Wide & Deep, 19.4 and 3.1 for xDeepFM, 200 CPUs: 24 x 3 + 8 x 16 and 8 x 20 +
2 x 16). N_w is rounded down after equation 10 with the CPUs that were used; a worker then gets
whole CPUs, rounded up; and equation 11 counts these, with whole servers, rounded down.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Plan:
    """`workers` of `worker_cpus` each, and `servers` of `server_cpus` each."""

    workers: int
    worker_cpus: float
    servers: int
    server_cpus: float

    @property
    def total(self) -> float:
        """The CPUs of all tasks together."""
        return self.workers * self.worker_cpus + self.servers * self.server_cpus


def plan_from(w: float, s: float, quota: float, ps_cpus: float = 16.0) -> Plan:
    """Return the plan of a sampled job (equations 10 and 11).

    `w`, `s`: CPUs that one worker, and all servers for it, have used (above 0). `quota`: the CPUs
    that the job may have (C_total). `ps_cpus`: the CPUs of a server; a job that needs fewer has one
    server with what is left.

    Equation 10 counts what a worker uses, but it gets whole CPUs. Where those would leave the
    servers less than one server, and less than these workers need, there are fewer workers. Where
    the quota does not even suffice for one, that one gets what the servers leave.
    """
    each = whole(w)
    workers = max(1, floor(quota / (w + s) + _ROUNDING))
    while workers > 1 and workers * each + min(ps_cpus, max(1.0, workers * s)) > quota + _ROUNDING:
        workers -= 1
    if workers == 1:
        each = min(each, max(1.0, floor(quota - min(ps_cpus, max(1.0, s)))))
    left = quota - workers * each
    servers = max(1, floor(left / ps_cpus + _ROUNDING))
    return Plan(workers, each, servers, min(ps_cpus, max(left, 1.0)))


def workers_beside(w: float, s: float, quota: float, servers_cpus: float) -> int:
    """Return the workers of a job whose servers have these CPUs together: at least 1.

    The second half of the stage *optimize*: the servers have been scaled, and `w` is measured
    anew.
    """
    by_need = floor(quota / (w + s) + _ROUNDING)
    by_room = floor((quota - servers_cpus) / whole(w) + _ROUNDING)
    return max(1, min(by_need, by_room))


def more_workers(workers: int, used: float, servers_cpus: float, limit: int) -> int:
    """Return the number of workers that make full use of servers with idle CPUs (*adjust*).

    `used`: the CPUs that all servers use with these `workers`. So s = used / workers, and the
    number is min(servers_cpus / s, limit), never fewer than there are. It is rounded up: xDeepFM
    uses 27.4 of 32 CPUs with 8 workers (9.3), and the paper adds two.
    """
    if used <= 0:
        return workers
    wanted = ceil(servers_cpus / (used / workers) - _ROUNDING)
    return max(workers, min(wanted, limit))


def hot_cpus(hot: float, used: float, s: float, workers: int, most: float = 32.0) -> float:
    """Return the CPUs of a server that replaces a hot one (*adjust*), rounded up.

    `hot`: what the hot server uses; `used`: what all servers use; `s`: what all servers used for
    one worker. `most`: the most CPUs of one task (C_max).
    """
    if used <= 0:
        return most
    return min(whole(hot / used * s * workers), most)


def whole(cpus: float) -> float:
    """Return at least one whole CPU, rounded up."""
    return float(max(1, ceil(cpus - _ROUNDING)))
