"""What `radrm gpus` and `radrm status --json` show of `--sm-share`."""

from __future__ import annotations

from pathlib import Path

import pytest

from radrm.core.words import Collocation
from radrm.daemon.views.device_documents import device_documents
from radrm.daemon.views.documents import JobDocuments
from radrm.errors import UsageError
from radrm.host.estimation.commands import fingerprint_of
from radrm.host.storage.store import Store
from radrm.jobfile.radfile import wrap_command
from tests.core.placements import MPS, SLICE, WHOLE, on, server, start
from tests.host.storage.test_submitted import envelope
from tests.world import GIB, gpus


@pytest.mark.parametrize(
    "mode, booked, unbound",
    [
        (MPS, 0.3, None),
        (SLICE, 0.0, "it is time-sliced and no MPS client"),
        (WHOLE, 0.0, "it has the GPU alone and is no MPS client"),
    ],
)
def test_it_is_shown_with_what_it_books(
    mode: Collocation, booked: float, unbound: str | None, tmp_path: Path
) -> None:
    world = server(*gpus(1, mps=mode is MPS))
    job = world.submit(GIB, sm_share=0.3)
    documents = JobDocuments(world.scheduler, Store(f"{tmp_path}/radrm.sqlite"))
    waits = documents.job(world.jobs[job.id], world.now, ())
    assert (waits.sm_share, waits.sm_share_unbound) == (0.3, None)
    start(world, job, on("GPU-0", mib=40 * GIB if mode is WHOLE else GIB, mode=mode))
    (device,) = device_documents(world.scheduler.snapshot, world.now)
    assert device.sm_booked == booked
    runs = documents.job(world.jobs[job.id], world.now)
    assert (runs.sm_share, runs.sm_share_unbound) == (0.3, unbound)


def test_runs_with_another_share_are_no_earlier_runs() -> None:
    """They show another SM activity and run time."""
    marks = [
        fingerprint_of(wrap_command(["true"], options), envelope(options=options))
        for options in ({}, {"sm-share": "30"}, {"sm-share": "30"}, {"sm-share": "60"})
    ]
    assert marks[1] == marks[2] and len(set(marks)) == 3


@pytest.mark.parametrize("text", ["0", "101", "-5", "0.3", "1e1", "", "30%"])
def test_it_is_a_whole_number_of_per_cent(text: str) -> None:
    with pytest.raises(UsageError, match="--sm-share: "):
        wrap_command(["true"], {"sm-share": text})
