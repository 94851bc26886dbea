"""A live run as the simulator's record of a run, so that both have the same metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from radrm.client.text import Document
from radrm.core.words import Outcome
from radrm.lab.simulator.metrics import Metrics, metrics
from radrm.lab.simulator.run import AttemptRun, DeviceRun, DeviceStep, JobRun, Run
from radrm.lab.simulator.traces.job import TraceJob
from radrm.structs import replace


class _Device(Struct):
    """One device's readings. Times are epoch seconds."""

    name: str
    total_mib: int
    steps: list[DeviceStep] = field(default_factory=list)


class Readings(Struct):
    """The devices over time: each reading holds until the next.

    `activity`, `power`: whether each reading had them. What was never read is unknown, not 0.
    """

    activity: bool = True
    power: bool = True
    _devices: dict[str, _Device] = field(default_factory=dict)

    def add(self, now_s: float, documents: Sequence[Document]) -> None:
        """Add the documents of `gpus`. A device that cannot be read keeps its last reading."""
        for each in documents:
            if each["used_mib"] is None:
                continue
            self.activity &= each["smact"] is not None
            self.power &= each["power_w"] is not None
            device = self._devices.setdefault(
                each["uuid"], _Device(str(each["name"]), int(each["total_mib"]))
            )
            step = DeviceStep(
                now_s, float(each["used_mib"]), each["smact"] or 0.0, each["power_w"] or 0.0
            )
            last = device.steps[-1] if device.steps else None
            if last is None or replace(step, at_s=last.at_s) != last:
                device.steps.append(step)

    def runs(self, begin_s: float) -> tuple[DeviceRun, ...]:
        """The devices, with times since `begin_s`. What was read before holds at the begin."""
        return tuple(
            DeviceRun(
                device.name,
                device.total_mib,
                tuple(
                    replace(step, at_s=max(0.0, step.at_s - begin_s))
                    for at, step in enumerate(device.steps)
                    if at + 1 == len(device.steps) or device.steps[at + 1].at_s > begin_s
                ),
            )
            for device in self._devices.values()
        )

    def places(self) -> Mapping[str, int]:
        """The position of each device in `runs`, by its UUID."""
        return {uuid: at for at, uuid in enumerate(self._devices)}


def run_of(
    jobs: Sequence[TraceJob],
    explained: Sequence[Document | None],
    readings: Readings,
    indices: Mapping[int, str],
) -> Run:
    """Return the record of a run, from the answer to `explain` of each job; None: not taken in.

    `indices`: the UUID of each device index. Times count from the first submission. A job that
    did not complete has no end, but a reason.
    """
    known = [each for each in explained if each is not None]
    begin_s = min((each["job"]["submitted_at"] for each in known), default=0.0)
    places = readings.places()
    found = []
    ended_s, ooms = 0.0, 0
    for job, each in zip(jobs, explained, strict=True):
        if each is None:
            found.append(JobRun(job, reason="the daemon did not take it in"))
            continue
        document = each["job"]
        attempts = tuple(
            _attempt(attempt, each["now"], begin_s, places, indices) for attempt in each["attempts"]
        )
        completed = document["state"] == "COMPLETED"
        end_s = document["ended_at"] - begin_s if completed else None
        ended_s = max(ended_s, *(a.ended_s for a in attempts), end_s or 0.0)
        ooms += document["oom_count"]
        reason = None if completed else document["reason"] or document["state"]
        submit_s = document["submitted_at"] - begin_s
        found.append(JobRun(replace(job, submit_s=submit_s), attempts, end_s, reason))
    return Run(tuple(found), readings.runs(begin_s), ended_s, ooms)


def _attempt(
    attempt: Document,
    now_s: float,
    begin_s: float,
    places: Mapping[str, int],
    indices: Mapping[int, str],
) -> AttemptRun:
    uuids = [indices.get(at, str(at)) for at in attempt["devices"]]
    end_s = now_s if attempt["ended_at"] is None else attempt["ended_at"]
    return AttemptRun(
        started_s=attempt["launched_at"] - begin_s,
        ended_s=end_s - begin_s,
        devices=tuple(places[uuid] for uuid in uuids if uuid in places),
        outcome=Outcome(attempt["outcome"] or Outcome.CANCELLED.value),
        collocation=attempt["collocation"],
        reserved_mib=attempt["reserved_mib"] or 0,
    )


def measured(run: Run, readings: Readings) -> Metrics:
    """Return the metrics of a live run. What was not measured is None."""
    found = metrics(run)
    return replace(
        found,
        energy_j=found.energy_j if readings.power else None,
        gpu_smact_mean=found.gpu_smact_mean if readings.activity else None,
    )
