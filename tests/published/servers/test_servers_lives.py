"""Random lives of jobs with parameter servers under both rules: what must hold, holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import Job
from radrm.core.words import JobState
from radrm.published.dlrover import DLRover
from radrm.published.nearchus import Nearchus
from radrm.published.servers.layout import Layout, span_of
from tests.examples import some
from tests.published.servers.cluster import POLICY, Cluster, Work, roles

DEEDS = ("run", "train", "plain", "end", "restart", "fail", "mute", "obey")
deeds = st.lists(
    st.tuples(st.sampled_from(DEEDS), st.integers(0, 5), st.integers(1, 12)),
    min_size=3,
    max_size=15,
)


def model(layout: Layout) -> Work:
    """Workers use at most 6 CPUs each, and the first server has half more to do."""
    busy = [min(given, 6.0) for given in layout.workers]
    count = len(layout.servers)
    parts = [(1.5 if at == 0 else 1.0) / (count + 0.5) for at in range(count)]
    wanted = [sum(busy) * 0.4 * part for part in parts]
    slowed = min(1.0, *(g / want for g, want in zip(layout.servers, wanted, strict=True)))
    used = Layout(tuple(w * slowed for w in wanted), tuple(b * slowed for b in busy))
    return Work(sum(busy) * slowed, used, (0.95 * slowed,) * count)


def check(cluster: Cluster, interval_s: float) -> None:
    """What holds after each deed."""
    for node in cluster.scheduler.snapshot.nodes:
        assert node.cpus_booked <= (node.node.cpus or 0.0) + 1e-6
    for job, attempt in cluster.scheduler.view.running():
        span = span_of(job)
        if span is None:
            continue
        counts = attempt.placement.tasks()
        for limits, role in ((span.servers, "ps"), (span.workers, "worker")):
            assert limits.least <= counts[role] <= limits.most
        for share in attempt.placement.shares:
            assert 1.0 <= (share.cpus or 0.0) <= 16.0
    resizes = [at for at, action in cluster.when if type(action) is act.Resize]
    assert len(resizes) <= 10 + 8 * (cluster.boot_s - 1000.0) / interval_s, "nothing spins"


class Life(Cluster):
    """A cluster that notes when each action was asked for."""

    def __init__(self, *words: Any) -> None:
        self.when: list[tuple[float, act.Action]] = []
        super().__init__(*words)

    def step(self, event: ev.Event) -> Any:
        decision = super().step(event)
        self.when += [(self.boot_s, action) for action in decision.actions]
        return decision

    def pending(self) -> list[act.Resize]:
        found = []
        for job, attempt in self.scheduler.view.running():
            if attempt.target is not None:
                found.append(self.asked(act.Resize, job)[-1])
        return found


def live(cluster: Life) -> list[Job]:
    return [job for job in cluster.jobs.values() if job.state is JobState.RUNNING]


def play(cluster: Life, deed: str, which: int, size: int) -> None:
    jobs = live(cluster)
    if deed == "run":
        cluster.run(30.0 * size)
    elif deed == "train":
        cluster.train(roles=roles(4, 6, most=16.0), fingerprint=f"program {which % 2}")
    elif deed == "plain":
        cluster.submit(gpus=0, cpus=size)
    elif deed == "end" and jobs:
        cluster.end(jobs[which % len(jobs)])
    elif deed == "restart":
        cluster.restart()
    elif deed == "fail":
        for asked in cluster.pending():
            cluster.step(ev.ActionFailed(at=cluster.now, action=asked, reason="it hangs"))
    elif deed in ("mute", "obey"):
        cluster.obey = deed == "obey"
        for asked in cluster.pending() if cluster.obey else ():
            cluster._do(asked)


@pytest.mark.parametrize("rule", [DLRover, Nearchus])
@given(script=deeds)
@settings(max_examples=some(15), deadline=None)
def test_no_life_breaks_the_rules(rule: Any, script: list[tuple[str, int, int]]) -> None:
    cluster = Life(rule(POLICY, POLICY), model, 32.0, 16.0)
    cluster.train(roles=roles(4, 6, most=16.0))
    for deed, which, size in script:
        play(cluster, deed, which, size)
        check(cluster, 60.0)
    kinds = {refusal.rule for each in cluster.decisions for _, refusal in each.rejections}
    assert kinds <= {"pause", "cpus"}, "the rules know what they may ask for"
    assert not cluster.scheduler.view.isolation.rests("planner", cluster.rules.planners[0].name)
