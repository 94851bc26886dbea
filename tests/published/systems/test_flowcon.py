"""FlowCon through `step`: Algorithms 1 and 2 of the thesis (section 5.1.2), and what differs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radrm.core import actions as act
from radrm.core import events as ev
from radrm.core.records import HostUse, Job, Node
from radrm.published.flowcon import COMPLETING, NEW, WATCHING, FlowCon, Growth, soft_parts
from radrm.structs import replace
from tests.examples import some
from tests.world import World, default_planner, gpus

CPUS = 8.0
PAPER = {"measure": "paper"}


class Server(World):
    """A server of eight CPUs with FlowCon. Each job uses `part` of the CPUs."""

    def __init__(self, **rule: object) -> None:
        rule = {"alpha": 0.05, **rule}
        planners = (default_planner(), FlowCon(**rule))
        super().__init__(gpus(4), planners=planners, node=Node(cpus=CPUS))
        self.cpu_s: dict[int, float] = {}

    def start(self, **spec: object) -> Job:
        return self.submit(4000, smact=0.1, **spec)

    def interval(self, *losses: tuple[Job, float | None], part: float = 0.5, s: float = 20) -> None:
        """Pass an interval in which each job uses `part` of the CPUs, and report losses."""
        self.boot_s += s - 0.2
        for job, loss in losses:
            self.uses(job, part * CPUS * s)
            if loss is not None:
                self.report(job, loss=loss)
        self.pass_time(0.201)

    def uses(self, job: Job, more_s: float) -> None:
        attempt = self.live(job)
        assert attempt is not None
        self.cpu_s[job.id] = self.cpu_s.get(job.id, 0.0) + more_s
        use = HostUse(at=self.now, cpu_s=self.cpu_s[job.id])
        self.step(ev.HostUsed(at=self.now, uses=((job.id, attempt.serial, use),)))

    @property
    def memory(self) -> dict:
        return self.rule_states["planner", "flowcon"].state

    def which(self, job: Job) -> str:
        return self.note(job).which

    def note(self, job: Job) -> Growth:
        return Growth(*self.memory["jobs"][str(job.id)])

    def part(self, job: Job) -> float:
        """The part of the CPUs that a job gets by the weights while all want more."""
        weights = {
            a.job_id: a.placement.shares[0].cpu_weight or 1.0
            for a in self.attempts.values()
            if a.ended is None
        }
        return weights[job.id] / sum(weights.values())


# ------------------------------------------------------------------ the letter


def test_a_job_moves_one_list_a_run_and_back_at_once() -> None:
    world = Server(**PAPER)
    job, other = world.start(), world.start()
    fast = 100.0
    world.interval((job, 1.0), (other, fast))
    assert world.which(job) == NEW
    seen = []
    for loss in (0.99, 0.98, 0.97, 0.2):
        fast -= 10
        world.interval((job, loss), (other, fast))
        seen.append(world.which(job))
    assert seen == [WATCHING, COMPLETING, COMPLETING, NEW]
    assert world.scheduler.view.remarks(job.id) == ("flowcon: new",)


def test_growth_is_the_change_of_loss_over_time_and_cpus() -> None:
    world = Server(**PAPER)
    job = world.start()
    world.interval((job, 3.0))
    world.interval((job, 1.0), part=0.25)
    assert world.note(job).growth == pytest.approx(2 / 20.2 / 0.25, rel=1e-3)


def test_growth_at_alpha_is_growth() -> None:
    world = Server(**{**PAPER, "alpha": 0.1})
    job = world.start()
    world.interval((job, 4.0))
    world.interval((job, 1.999))
    assert world.which(job) == NEW


def test_limits_follow_the_lists() -> None:
    """Lines 18 to 26. Figure 6.5: beside a new job a completing one has 0.25, the new one 1."""
    world = Server(**PAPER)
    old = world.start()
    for loss in (1.0, 0.99, 0.98):
        world.interval((old, loss))
    assert world.which(old) == COMPLETING
    young = world.start()
    assert world.note(old).limit == 1.0, "its G is all that is known"
    world.interval((old, 0.979), (young, 9.0))
    world.interval((old, 0.978), (young, 5.0))
    assert world.note(old).limit == pytest.approx(1 / (2 * 2))
    assert world.note(young).limit == pytest.approx(1.0, abs=0.01)
    assert world.part(old) == pytest.approx(1 / 4, abs=0.01)
    world.interval((old, 0.977), (young, 4.999))  # now watched: its limit stays
    assert world.which(young) == WATCHING
    assert world.note(young).limit == pytest.approx(1.0, abs=0.01)


def test_the_first_evaluation_is_that_at_the_start() -> None:
    """Figure 6.5: VAE alone is completing at its third run, when another job comes."""
    world = Server(**PAPER)
    old = world.start()
    world.uses(old, 0.0)
    world.report(old, loss=1.0)
    for loss in (0.9, 0.8):
        world.interval((old, loss))
    assert (world.note(old).runs, world.which(old)) == (3, COMPLETING)


@pytest.mark.parametrize(
    ("limits", "parts"),
    [
        ((0.25, 1.0), (0.25, 0.75)),
        ((1.0, 1.0), (0.5, 0.5)),
        ((0.2, 1.0, 1.0), (0.2, 0.4, 0.4)),
        ((0.1, 0.3), (0.4, 0.6)),  # what no limit asks for is divided alike
        ((0.0, 0.0), (0.5, 0.5)),
    ],
)
def test_soft_limits(limits: tuple[float, ...], parts: tuple[float, ...]) -> None:
    assert soft_parts(limits) == pytest.approx(parts)


def test_when_all_are_completing_limits_go_and_the_interval_doubles_once_a_run() -> None:
    world = Server(**PAPER)
    one, two = world.start(), world.start()
    for loss in (1.0, 0.99, 0.98):
        world.interval((one, loss), (two, loss))
    assert world.memory["times"] == 2.0, "once, not once per job"
    assert world.part(one) == pytest.approx(0.5)
    world.interval((one, 0.97), (two, 0.97))
    assert world.memory["times"] == 2.0, "the next run is after 40 s"
    world.interval((one, 0.96), (two, 0.96))
    assert world.memory["times"] == 4.0


@pytest.mark.parametrize("comes", [True, False])
def test_a_job_that_comes_or_goes_resets_the_interval_and_runs_at_once(comes: bool) -> None:
    world = Server(**PAPER)
    one, two = world.start(), world.start()
    for loss in (1.0, 0.99, 0.98):
        world.interval((one, loss), (two, loss))
    runs = world.note(one).runs
    if comes:
        world.start()
        assert world.memory["times"] == 1.0
    else:
        world.end(two)
        # The one that is left is completing: the interval has doubled again.
        assert world.memory["times"] == 2.0 and str(two.id) not in world.memory["jobs"]
    assert world.note(one).runs == runs + 1


# ------------------------------------------------------------------ what differs


def test_a_converged_job_gives_its_cpus_to_a_growing_one_and_none_idles() -> None:
    world = Server(alpha=0.02)
    old, young = world.start(), world.start()
    world.interval((old, 1.0), (young, 900.0))
    for step in range(1, 9):
        world.interval((old, 0.5 + 0.001 / step), (young, 900.0 - 10.0 * step**2))
    assert world.which(old) == COMPLETING
    assert world.part(old) == pytest.approx(1 / 4, abs=0.05)
    assert world.part(young) == pytest.approx(3 / 4, abs=0.05)


def test_losses_of_different_kinds_weigh_the_same() -> None:
    world = Server()
    one, two = world.start(), world.start()
    for step in range(6):
        world.interval((one, 1.0 - 0.1 * step), (two, 5000.0 - 500.0 * step))
    assert world.part(one) == pytest.approx(0.5, abs=0.01)


def test_a_job_that_reports_once_per_epoch_does_not_look_converged() -> None:
    world = Server(alpha=0.01)
    job, other = world.start(), world.start()
    for epoch in range(4):
        loss = 0.5**epoch
        world.interval((job, loss), (other, 100.0 - epoch))
        for _ in range(4):
            world.interval((job, None), (other, None))
            assert world.which(job) == NEW


def test_a_new_job_has_what_is_beyond_the_floors_until_it_is_measured() -> None:
    world = Server()
    old = world.start()
    for loss in (1.0, 0.6, 0.5):
        world.interval((old, loss))
    young = world.start()
    assert world.part(young) == pytest.approx(3 / 4)
    for _ in range(4):
        world.interval((old, None), (young, None))
    assert world.part(young) < 0.6, "it has reported nothing"


def test_completion_puts_the_job_with_the_least_work_left_first() -> None:
    world = Server(goal="completion")
    long, short = world.start(), world.start()
    for step in range(1, 3):
        world.boot_s += 19.99
        for job, done in ((long, 0.01), (short, 0.1)):
            world.uses(job, 80.0)
            world.report(job, work_done=done * step)
        world.pass_time(0.011)
    assert world.part(short) == pytest.approx(3 / 4)
    assert world.part(long) == pytest.approx(1 / 4)


def test_booked_cpus_are_kept() -> None:
    world = Server()
    booked, young = world.start(cpus=6.0), world.start()
    assert world.part(booked) == pytest.approx(6 / 8)
    assert world.part(young) == pytest.approx(2 / 8)


def test_a_server_that_cannot_set_shares_is_not_asked() -> None:
    world = Server()
    world.see_nodes(replace(world.node or Node(), shares_refused="no control groups"))
    one, two = world.start(), world.start()
    for step in range(5):
        world.interval((one, 1.0 - 0.1 * step), (two, 1.0))
    assert not [a for a in world.actions if isinstance(a, act.ApplyShares)]


def test_an_attempt_whose_shares_failed_is_not_asked_again() -> None:
    world = Server()
    one = world.start()
    for loss in (1.0, 0.5):
        world.interval((one, loss))
    world.obey = False
    two = world.start()
    world.step(ev.AttemptStarted(at=world.now, job_id=two.id, serial=world.live(two).serial))
    asked = [a for a in world.actions if isinstance(a, act.ApplyShares)]
    assert asked
    for action in asked:
        world.step(ev.ActionFailed(at=world.now, action=action, reason="no cgroup"))
    for step in range(6):
        world.interval((one, 1.0 - 0.1 * step), (two, 1.0))
    assert [a for a in world.actions if isinstance(a, act.ApplyShares)] == asked


def test_its_memory_survives_a_restart_and_a_reboot_begins_an_interval() -> None:
    world = Server()
    one, two = world.start(), world.start()
    for loss in (1.0, 0.5, 0.25):
        world.interval((one, loss), (two, 1.0))
    before = world.memory["jobs"]
    world.restart()
    assert world.memory["jobs"] == before
    world.boot_s = 5.0  # the clock of another boot
    world.restart()
    world.pass_time(25.0)
    assert world.memory["last_s"] <= 30.0


# ------------------------------------------------------------------ for all courses


LOSSES = st.one_of(st.none(), st.floats(-1e6, 1e6))


@given(
    st.sampled_from(("growth", "completion")),
    st.floats(1.0, 10.0),
    st.lists(
        st.tuples(st.sampled_from(("start", "end", "run")), st.integers(0, 3), LOSSES),
        max_size=12,
    ),
)
@settings(max_examples=some(30), deadline=None)
def test_no_job_is_below_its_floor(
    goal: str, beta: float, moves: list[tuple[str, int, float | None]]
) -> None:
    world = Server(goal=goal, beta=beta)
    jobs = [world.start(), world.start()]
    live = list(jobs)
    for move, at, loss in moves:
        if move == "start" and len(jobs) < 6:
            jobs.append(world.start(cpus=float(at) or None))
        elif move == "end" and len(live) > 1:
            ended = live[at % len(live)]
            jobs.remove(ended)
            world.end(ended)
            world.interval()  # one that waited has started while the others' shares were set
        else:
            world.interval((live[at % len(live)], loss))
        live = [job for job in jobs if world.live(job) is not None]  # the others wait for CPUs
        for job in live:
            assert world.part(job) >= 0.98 / (beta * len(live))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"alpha": 0.0}, "above 0"),
        ({"beta": 0.5}, "from 1 to 100"),
        ({"interval_s": 0.5}, "from 1 to 3600"),
    ],
)
def test_wrong_settings_are_refused_with_the_range(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        FlowCon(**wrong)
