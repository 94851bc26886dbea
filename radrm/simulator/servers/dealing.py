"""Who deals the jobs to several servers: `--dealer`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from radrm.errors import UsageError
from radrm.simulator.run import Run
from radrm.simulator.scenario import Scenario
from radrm.simulator.servers.gpumem import simulate_dealt
from radrm.simulator.servers.hashed import Lot, in_turn, simulate_servers
from radrm.simulator.traces.job import TraceJob

HASH, GPUMEM = "hash", "gpumem"
DEALERS = (HASH, GPUMEM)


def simulate_many(
    jobs: Sequence[TraceJob],
    scenario: Scenario,
    servers: int,
    dealer: str = HASH,
    each: Callable[[Callable[[Lot], Run], Sequence[Lot]], Iterable[Run]] = in_turn,
) -> Run:
    """Simulate `jobs` on servers, to which this dealer deals them. `each` as in `simulate_servers`.

    Raises what they raise, and `UsageError` for an unknown dealer.
    """
    if dealer not in DEALERS:
        raise UsageError(f"--dealer={dealer[:40]}: choose {' or '.join(DEALERS)}")
    if dealer == GPUMEM:
        return simulate_dealt(jobs, scenario, servers)
    return simulate_servers(jobs, scenario, servers, each)
