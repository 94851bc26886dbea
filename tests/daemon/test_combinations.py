"""Every policy with every estimator, way of sharing and recovery: they start, and agree.

They are put together as the daemon does it and driven in process: the whole product at night, on a
push every policy with every recovery and way, the estimators in turn. A sample in which every rule
and every way of sharing occurs is started for real.
"""

from __future__ import annotations

from itertools import cycle, product

import pytest

from radrm.config import Config
from radrm.core import events as ev
from radrm.core.records import Job, OutOfMemory
from radrm.core.words import Collocation, JobState, Outcome
from radrm.estimators import ESTIMATORS
from radrm.jobfile.radfile import read_job_file
from radrm.policies import POLICIES
from radrm.recovery import RECOVERIES
from radrm.wiring import (
    AUTO_CHAIN,
    describe,
    find_rule,
    make_estimating,
    make_rules,
    make_settings,
    settings_of,
)
from tests.daemon.harness import DaemonHome
from tests.world import GIB, World, gpus

WAYS = ("auto", "exclusive", "timeslice", "mps")
MEASURED_MIB, HORUS_MIB, FLOOR_MIB = 8000, 6000, 5120
PROTOTYPE = f"conda activate tf\npython a.py\na.model\nwiki\n8\nx\n1\n{MEASURED_MIB}\n{HORUS_MIB}\n"
RESERVED_MIB = {
    "declared": 9200,  # with its margin
    "auto": 9200,
    "horus": HORUS_MIB,
}
"""The others know nothing of such a job: the policy's floor is reserved, or all until it has
settled. (In a prototype's
file the measured memory counts as declared, and what is declared as nobody's estimate.)"""
TABLE = """\
        Layer (type)               Output Shape         Param #
================================================================
            Linear-1                 [-1, 1024]       1,048,576
================================================================
Total params: 1,048,576
"""


AT_ONCE = {"smact_warm_s": 0.0, "smact_after_exit_s": 0.0}


def world_of(config: Config, *, mps: bool = False) -> World:
    """One device, and the rules and settings that a daemon would make of `config`."""
    rules = make_rules(config)
    return World(
        gpus(1, mps=mps),
        planners=rules.planners,
        order=rules.order,
        recovery=rules.recovery,
        settings=make_settings(config),
    )


def submit(world: World, config: Config, text: str = PROTOTYPE, **options: str) -> Job:
    """A job file, read and estimated as at intake."""
    job_file = read_job_file(text.encode(), "a.rad", options)
    number = world.next_id
    world.next_id += 1
    job = Job(
        id=number,
        ticket=f"T{number}",
        spec=job_file.spec("ann", 1000),
        submitted=world.now,
        estimates=make_estimating(config).estimate(describe(job_file)),
    )
    world.step(ev.JobSubmitted(at=world.now, job=job))
    return job


def expected_way(policy: str, way: str, mps: bool) -> Collocation:
    if "exclusive" in (policy, way):
        return Collocation.EXCLUSIVE
    return Collocation.MPS if mps and way in ("auto", "mps") else Collocation.TIMESLICE


@pytest.mark.nightly
@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_combination_runs_jobs(policy: str, recovery: str) -> None:
    for estimator, way, mps in product(ESTIMATORS, WAYS, (False, True)):
        runs_jobs(policy, estimator, way, recovery, mps)


@pytest.mark.parametrize("policy", POLICIES)
def test_each_policy_runs_jobs_with_every_recovery_way_and_estimator(policy: str) -> None:
    estimators = cycle(ESTIMATORS)
    for recovery, way, mps in product(RECOVERIES, WAYS, (False, True)):
        runs_jobs(policy, next(estimators), way, recovery, mps)


def runs_jobs(policy: str, estimator: str, way: str, recovery: str, mps: bool) -> None:
    config = Config(
        policy=policy,
        estimator=estimator,
        collocation=Collocation(way),
        recovery=recovery,
        core=AT_ONCE,
    )
    world = world_of(config, mps=mps)
    mode = expected_way(policy, way, mps)

    first = submit(world, config)
    attempt = world.live(first)
    assert attempt is not None, world.why(first)
    (share,) = attempt.placement.shares
    whole = mode is Collocation.EXCLUSIVE
    assert attempt.placement.collocation is mode
    reserved = RESERVED_MIB.get(estimator, FLOOR_MIB)
    if mode is Collocation.MPS and estimator == "horus":
        reserved = round(reserved * make_settings(config).stretch)  # an estimate, and a cap
    trial = policy == "packing" and estimator not in RESERVED_MIB and not whole
    assert share.reserved_mib == (40 * GIB if whole or trial else reserved)

    if trial:
        world.used[first.id] = 4 * GIB
        world.read()
        world.pass_time(make_settings(config).settle_s)
    world.read()
    second = submit(world, config)
    assert (world.where(second) == ()) is whole, world.why(second)
    if whole:
        world.end(first)
    world.end(second, 1, oom=OutOfMemory("test", requested_mib=512))
    ended = world.jobs[second.id]
    if recovery == "none":
        assert (ended.state, ended.outcome) == (JobState.FAILED, Outcome.OOM)
        assert ended.reason == (
            "out of GPU memory when it asked for 512M more; recovery is off here (recovery = none)"
        )
        return
    if recovery in ("ladder", "doubling") and not whole:
        assert world.live(second) is not None or ended.state is JobState.RECOVERING
        world.end(first)
        assert world.end(second).state is JobState.COMPLETED
        return
    if not whole:
        assert ended.state is JobState.RECOVERING
        world.end(first)
    again = world.live(second)
    assert again is not None, world.why(second)
    way_back = Collocation.EXCLUSIVE if recovery == "own-device" else mode
    assert (again.number, again.placement.collocation) == (2, way_back)
    assert again.placement.shares[0].reserved_mib == 40 * GIB
    assert world.end(second).state is JobState.COMPLETED


@pytest.mark.parametrize("mps", [False, True])
def test_a_jobs_own_wish_for_mps_is_not_turned_into_another(mps: bool) -> None:
    """The configuration's `mps` falls to time-slices where MPS is off; a job's own does not."""
    config = Config(collocation=Collocation.MPS)
    world = world_of(config, mps=mps)
    job = submit(world, config, collocation="mps")
    attempt = world.live(job)
    if mps:
        assert attempt.placement.collocation is Collocation.MPS
    else:
        assert attempt is None
        assert world.state(job) is JobState.FAILED
        assert "no device here can run it" in (world.jobs[job.id].reason or "")


@pytest.mark.parametrize("conditions", [True, False])
@pytest.mark.parametrize(
    "policy",
    [name for name in POLICIES if "conditions" in settings_of(find_rule("policies", name))],
)
def test_only_without_conditions_more_is_reserved_than_there_is(
    policy: str, conditions: bool
) -> None:
    config = Config(policy=policy, policies={"sharing": {"conditions": conditions}}, core=AT_ONCE)
    world = world_of(config)
    jobs = [submit(world, config, **{"gpu-memory": "30G"}) for _ in range(2)]
    world.read()
    assert world.state(jobs[0]) is JobState.RUNNING
    assert world.state(jobs[1]) is (JobState.PENDING if conditions else JobState.RUNNING)
    assert world.why(jobs[1]) == (["memory", "count"] if conditions else [])


# ------------------------------------------------------------------ for real

# Every policy but `magm` (all other tests use it), way of sharing and recovery.
SAMPLE = [
    ("packing", "auto", "mps", "exclusive", True),
    ("rr", "none", "timeslice", "none", False),
    ("lug", "horus", "mps", "exclusive", True),
    ("mug", "auto", "mps", "ladder", False),
    ("first-fit", "declared", "exclusive", "own-device", False),
    ("best-fit", "auto", "auto", "doubling", True),
]
TOLD_BY = {"horus": "horus", "auto": "summary"}


@pytest.mark.daemon
@pytest.mark.parametrize("policy, estimator, way, recovery, mps", SAMPLE)
def test_a_daemon_starts_and_runs_a_job(
    home: DaemonHome, policy: str, estimator: str, way: str, recovery: str, mps: bool
) -> None:
    home.settings = [
        f"policy={policy}",
        f"estimator={estimator}",
        f"collocation={way}",
        f"recovery={recovery}",
        f"mps.enabled={str(mps).lower()}",
    ]
    home.start()
    home.file("a.model", TABLE)
    words = ["--model-summary=a.model", "--batch-size=8"]
    job = home.submit(*words, "--", "radrm-simjob", "--gpu-memory", "512M", "--seconds", "1")
    done = home.wait_end(job)
    assert done["state"] == "COMPLETED", done["reason"]
    assert done["collocation"] == expected_way(policy, way, mps).value
    assert done["estimate_source"] == TOLD_BY.get(estimator)
    if recovery == "none":
        words = ["--", "radrm-simjob", "--gpu-memory", "50G", "--seconds", "10"]
        done = home.wait_end(home.submit(*words))
        assert (done["state"], done["outcome"], done["attempts"]) == ("FAILED", "oom", 1)
        assert "recovery is off" in done["reason"]


def test_the_sample_holds_every_rule_and_way() -> None:
    policies, estimators, ways, recoveries, _ = (
        set(column) for column in zip(*SAMPLE, strict=True)
    )
    assert policies | {"exclusive", "magm"} == set(POLICIES)
    # Those that `auto` asks are started with it.
    assert estimators | set(AUTO_CHAIN) | {"faketensor"} == set(ESTIMATORS)
    assert ways == set(WAYS)
    assert recoveries == set(RECOVERIES)
