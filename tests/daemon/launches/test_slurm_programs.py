"""Which jobs find programs with Slurm's names."""

from __future__ import annotations

import os

from radrm import wings
from radrm.daemon.launching import _with_slurm


def test_only_jobs_as_slurms_find_them_and_first() -> None:
    programs = wings.programs("slurm")
    assert programs is not None and os.access(os.path.join(programs, "srun"), os.X_OK)
    own = f"/opt/slurm/bin{os.pathsep}/bin"
    assert _with_slurm(own, True) == f"{programs}{os.pathsep}{own}"
    assert _with_slurm(f"{programs}{os.pathsep}{own}", True) == f"{programs}{os.pathsep}{own}"
    assert _with_slurm(own, False) == own
    # A job that is submitted inside one of Slurm's has its PATH.
    assert _with_slurm(f"{programs}{os.pathsep}{own}", False) == own
