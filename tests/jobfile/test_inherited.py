"""What a job that is submitted inside another one inherits of its environment."""

from __future__ import annotations

import pytest

from radrm.jobfile.inherited import (
    SET,
    SET_FOR_TASK,
    SUBMITTED_WITH,
    drop_outer,
    list_of,
    named_in,
    submit_with,
)

SET_THERE = {"OMP_NUM_THREADS": "2", "SLURM_ARRAY_TASK_ID": "7", "RADRM_GPUS": "1"}
USERS = {"PATH": "/bin", "HOME": "/home/ann"}


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        ({}, {}),
        ({"OMP_NUM_THREADS": "8"}, {"OMP_NUM_THREADS": "8"}),  # its user's wish
        ({"OMP_NUM_THREADS": ""}, {"OMP_NUM_THREADS": ""}),
        ({"MY_NAME": "x", "SLURM_JOB_ID": "9"}, {"MY_NAME": "x", "SLURM_JOB_ID": "9"}),
        ({SET_FOR_TASK: list_of({"RADRM_GPUS": "3"}), "RADRM_GPUS": "3"}, {}),
        ({SET: "nonsense : :: A:zz OMP_NUM_THREADS:0"}, SET_THERE),
        ({SET: ""}, SET_THERE),
    ],
)
def test_only_what_is_unchanged_is_dropped(changed: dict[str, str], left: dict[str, str]) -> None:
    environment = {**USERS, **SET_THERE, SET: list_of(SET_THERE), **changed}
    drop_outer(environment)
    assert environment == {**USERS, **left}


def test_what_a_submission_adds_is_listed_and_survives_it() -> None:
    """Also where the outer job had the same."""
    outer = {**USERS, "SLURM_SUBMIT_DIR": "/work", "SLURM_NTASKS": "4"}
    outer[SET] = list_of({"SLURM_SUBMIT_DIR": "/work", "SLURM_NTASKS": "4"})
    submit_with(outer, {"SLURM_SUBMIT_DIR": "/work"})
    drop_outer(outer)
    assert outer.keys() == {*USERS, "SLURM_SUBMIT_DIR", SUBMITTED_WITH}
    assert named_in(outer, SUBMITTED_WITH) == {"SLURM_SUBMIT_DIR": "/work"}


def test_values_that_are_no_utf8() -> None:
    environment = {"A": "\udcff", SET: list_of({"A": "\udcff"})}
    drop_outer(environment)
    assert environment == {}
