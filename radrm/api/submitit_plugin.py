"""The plugin of submitit, by its entry points: `submitit.AutoExecutor(folder, cluster="radrm")`.

Theory of operation. submitit writes the pickles, and a script that its own job runs. This file
makes the script a job file, submits it with `radrm submit`, and says what became of the job. One
question tells it of all jobs. The log and the pickles lie in submitit's folder, where submitit
looks for them.

- A value counts as soon as submitit has saved it; an exception once the job has ended, because
  radrm may run the job again.
- Before its time limit a job gets submitit's signal: it saves, asks for `requeue`, and goes on.
  With `radrm_checkpoint="exit"` TERM has it save and end, so that planners may stop it.
"""

from __future__ import annotations

import os
import shlex
import signal
import stat
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from submitit.core import core, job_environment, logger, utils

from radrm.api.client import Client
from radrm.api.options import raw_options
from radrm.api.records import Job, JobFailed
from radrm.errors import RadrmError, Refused, UsageError, plain
from radrm.jobfile.options import BY_NAME, OF_ARRAYS, SHOWN, RawOptions
from radrm.jobfile.parsing import typed

_STATES = {"LAUNCHING": "RUNNING", "STOPPING": "COMPLETING", "RECOVERING": "REQUEUED"}
"""Words of submitit for states that it does not know."""
_ASKED = 1000
_OWN = frozenset({"setup", "array_parallelism", "signal_delay_s", "python"})
_SET_HERE = OF_ARRAYS | {"output", "error", "signal"}
"""Options that this plugin sets itself."""
_DEFAULT_MIN = 5
"""submitit's time limit without `timeout_min`."""


class RadrmInfoWatcher(core.InfoWatcher):
    """Knows the states of all jobs by one question, at most every 2 s unless forced."""

    def __init__(self, delay_s: int = 10) -> None:
        super().__init__(delay_s)
        self._jobs: dict[str, Job] = {}

    def update(self) -> None:
        """Ask about the jobs that had not ended. Without a daemon, what was known stays."""
        self._num_calls += 1
        open_jobs = sorted(self._registered - self._finished)
        try:
            with Client() as client:
                for i in range(0, len(open_jobs), _ASKED):
                    self._jobs |= {job.label: job for job in _known(client, open_jobs[i:][:_ASKED])}
        except RadrmError as error:
            logger.get_logger().warning(f"Call #{self.num_calls} - states may be old: {error}")
        self._last_status_check = time.time()
        self._finished |= {name for name in open_jobs if self.is_done(name, mode="cache")}

    def get_info(self, job_id: str, mode: str = "standard") -> dict[str, str]:
        super().get_info(job_id, mode)
        job = self._jobs.get(job_id)
        return {} if job is None else {k: str(v) for k, v in job.document.items() if v is not None}

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        state = self.get_info(job_id, mode).get("state", "UNKNOWN")
        return _STATES.get(state, state)

    def job(self, job_id: str) -> Job | None:
        """The job as it was seen last."""
        return self._jobs.get(job_id)

    def clear(self) -> None:
        super().clear()
        self._jobs = {}


def _known(client: Client, names: Sequence[str]) -> list[Job]:
    """These jobs, without those that the daemon does not know any more."""
    try:
        return client.jobs(*names)
    except Refused:
        if len(names) == 1:
            return []
        half = len(names) // 2
        return _known(client, names[:half]) + _known(client, names[half:])


class RadrmJob(core.Job[core.R]):
    """A job of radrm, or an element of an array (`12_3`)."""

    watcher = RadrmInfoWatcher()
    _results_timeout_s = 2

    def done(self, force_check: bool = False) -> bool:
        """Whether the job has ended. A failure that radrm runs again is no end."""
        if self._sub_jobs:
            return all(job.done() for job in self._sub_jobs)
        mode = "force" if force_check or self.paths.result_pickle.exists() else "standard"
        return bool(self.watcher.is_done(self.job_id, mode=mode))

    def cancel(self, check: bool = True) -> None:
        """Cancel the job. `check`: raise `radrm.errors.Refused` if it has ended."""
        with Client() as client:
            client.cancel(self.job_id, check=check)

    def _get_logs_string(self, name: str) -> str | None:
        """The logs of all attempts: radrm gives each attempt a file of its own."""
        found = super()._get_logs_string(name)
        path: Path = getattr(self.paths, name)
        number = 2
        while (later := path.with_suffix(f".attempt{number}{path.suffix}")).exists():
            found = (found or "") + later.read_text("utf-8", "replace")
            number += 1
        return found

    def _get_outcome_and_result(self) -> tuple[str, Any]:
        path = self.paths.result_pickle
        if path.exists() and path.stat().st_uid not in (0, os.geteuid()):
            raise utils.UncompletedJobError(f"{path} belongs to another user; it is not read")
        try:
            return super()._get_outcome_and_result()
        except utils.UncompletedJobError as error:
            job = self.watcher.job(self.job_id)
            if job is None:
                raise
            raise utils.UncompletedJobError(f"{JobFailed.of(job)}\n{error}") from None


class RadrmExecutor(core.PicklingExecutor):
    """Submits functions to radrm. `python`: the command that starts Python in the job.

    Parameters: those that all executors of submitit share (`timeout_min`, `mem_gb`,
    `gpus_per_node`, `cpus_per_task`, `name`, `stderr_to_stdout`); every option of `radrm submit`
    as `radrm_OPTION`, as `radrm_gpu_memory="8G"`; `radrm_setup` (commands before Python),
    `radrm_array_parallelism` (elements at once), `radrm_signal_delay_s` (seconds between the
    signal and the time limit; 90).
    """

    job_class = RadrmJob

    def __init__(
        self,
        folder: str | Path,
        max_num_timeout: int = 3,
        max_pickle_size_gb: float = 1.0,
        python: str | None = None,
    ) -> None:
        super().__init__(folder, max_num_timeout, max_pickle_size_gb)
        self._throttling = 0.0
        self.python = shlex.quote(sys.executable) if python is None else python

    @classmethod
    def affinity(cls) -> int:
        """2 while a daemon answers, as a cluster's; else -1."""
        with Client() as client:
            return 2 if client.connection.is_up() else -1

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        names = {option.name for option in SHOWN} - _SET_HERE
        return {name.replace("-", "_") for name in names} | _OWN

    def _internal_update_parameters(self, **kwargs: Any) -> None:
        """Set parameters. Raises `UsageError` (radrm.errors) for one that does not work."""
        if wrong := sorted(kwargs.keys() - self._valid_parameters() - _SHARED.keys()):
            raise UsageError(
                f"unknown parameters {', '.join(wrong)}; valid are: "
                f"{', '.join(sorted(self._valid_parameters() | _SHARED.keys()))}"
            )
        for name in ("nodes", "tasks_per_node"):
            if kwargs.get(name, 1) != 1:
                raise UsageError(
                    f"{name}={kwargs[name]}: a job of radrm is one task on one server; start "
                    "processes in it, as with torchrun"
                )
        parameters = {**self.parameters, **kwargs}
        if "time" in kwargs:  # submitit counts time limits in minutes
            limit_s = BY_NAME["time"].value(str(kwargs["time"]), "radrm_time")
            parameters["timeout_min"] = float(str(limit_s)) / 60
        elif "timeout_min" in kwargs:
            parameters.pop("time", None)
        _options_of(parameters)
        self.parameters.clear()  # AutoExecutor holds the same dictionary
        self.parameters.update(parameters)

    def _internal_process_submissions(
        self, delayed_submissions: list[utils.DelayedSubmission]
    ) -> list[core.Job[Any]]:
        if len(delayed_submissions) == 1:
            return super()._internal_process_submissions(delayed_submissions)
        folder = utils.JobPaths.get_first_id_independent_folder(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        pickles = []
        for delayed in delayed_submissions:
            path = folder / f"{uuid.uuid4().hex}.pkl"
            delayed.set_timeout(
                self.parameters.get("timeout_min", _DEFAULT_MIN), self.max_num_timeout
            )
            delayed.dump(path)
            pickles.append(path)
        array = self._submit_array(len(pickles))
        for job, path in zip(array, pickles, strict=True):
            job.paths.move_temporary_file(path, "submitted_pickle")
        return array

    def _submit_array(self, count: int) -> list[core.Job[Any]]:
        first = self._submit_command(self._submitit_command_str, count)
        number = first.job_id.partition("_")[0]
        return [self.job_class(self.folder, f"{number}_{i}") for i in range(count)]

    def _submit_command(self, command: str, count: int = 0) -> core.Job[Any]:
        """Submit the command as a job, or as an array of `count` jobs; return the first one."""
        folder = utils.JobPaths.get_first_id_independent_folder(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_mode & stat.S_IWOTH:
            raise UsageError(
                f"{plain(str(folder))}: everybody can write there, and the jobs run what they "
                "find in it; take another folder"
            )
        script = folder / f".submission_file_{uuid.uuid4().hex}.sh"
        script.write_text(self._make_submission_file_text(command, "", count), "utf-8")
        # Held until the folders are there: a log in a folder that is not there ends the job.
        held = bool(self.parameters.get("hold"))
        with Client() as client:
            client.connection.connect()  # the job's number must be known: raises without a daemon
            asked = client.submit(script, hold=True)
            names = [f"{asked.id}_{i}" for i in range(count)] or [str(asked.id)]
            jobs: list[core.Job[Any]] = [self.job_class(self.folder, name) for name in names]
            for job in jobs:
                job.paths.folder.mkdir(parents=True, exist_ok=True)
            if not held:
                client.release(asked)
        jobs[0].paths.move_temporary_file(script, "submission_file", keep_as_symlink=True)
        return jobs[0]

    @property
    def _submitit_command_str(self) -> str:
        words = "-u -m submitit.core._submit"
        return f"exec {self.python} {words} {shlex.quote(str(self.folder))}"

    def _num_tasks(self) -> int:
        return 1

    def _make_submission_file_text(self, command: str, uid: str, count: int = 0) -> str:
        """The job file. `count`: of the elements of an array."""
        raw = _options_of(self.parameters)
        paths = utils.JobPaths(self.folder)
        raw["output"] = _pattern(paths.stdout, count)
        if not self.parameters.get("stderr_to_stdout"):
            raw["error"] = _pattern(paths.stderr, count)
        if count:
            at_once = self.parameters.get("array_parallelism")
            raw["array"] = f"0-{count - 1}" + (f"%{at_once}" if at_once else "")
        lines = ["#!/bin/bash"]
        for name, value in sorted(raw.items()):
            for one in value if isinstance(value, list) else [value]:
                word = f"--{name}" if one is True else f"--{name}={one}"
                lines.append(f"#RAD {shlex.quote(word)}")
        setup = self.parameters.get("setup") or []
        return "\n".join([*lines, "export SUBMITIT_EXECUTOR=radrm", *setup, command, ""])

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        return [sys.executable, "-m", "radrm", "submit", str(submission_file_path)]

    @staticmethod
    def _get_job_id_from_submission_command(string: bytes | str) -> str:
        raise NotImplementedError("radrm's client knows the number")


_SHARED: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "name": lambda value: {"name": value},
    "timeout_min": lambda value: {"time": value * 60},
    "mem_gb": lambda value: {"memory": f"{round(value * 1024)}M"},
    "cpus_per_task": lambda value: {"cpus": value},
    "gpus_per_node": lambda value: {"gpus": value},
    "nodes": lambda _: {},
    "tasks_per_node": lambda _: {},
    "stderr_to_stdout": lambda _: {},
}
"""The parameters that all executors share, as options of radrm."""


def _options_of(parameters: Mapping[str, Any]) -> RawOptions:
    """The options of a job with these parameters. Raises `UsageError`."""
    given: dict[str, Any] = {"name": "submitit", "time": _DEFAULT_MIN * 60}
    if "gpus_per_node" not in parameters:
        given["gpus"] = 0  # as with submitit's other executors
    for name, value in parameters.items():
        if name in _SHARED:
            given |= _SHARED[name](value)
    own = {k: v for k, v in parameters.items() if k not in _SHARED and k not in _OWN}
    raw = raw_options(given | own, "submitit")
    limit_s = typed(raw).time_s or 0.0
    delay_s = min(parameters.get("signal_delay_s", 90), limit_s / 2)
    name = job_environment.JobEnvironment.USR_SIG
    return raw | raw_options({"signal": f"{name}@{delay_s:g}"}, "submitit")


def _pattern(path: Path, count: int) -> str:
    """A path of submitit as a pattern of radrm's logs: one log for all attempts has no `%t`."""
    text = str(path).replace("%t", "0")
    job = "%A_%a" if count else "%j"
    known = text.replace("%j", "\0j").replace("%A", "\0A").replace("%a", "\0a")
    return known.replace("%", "%%").replace("\0j", job).replace("\0", "%")


class RadrmJobEnvironment(job_environment.JobEnvironment):
    """What a function in a job learns of the job."""

    _env = {
        "job_id": "RADRM_JOB_ID",
        "array_job_id": "RADRM_ARRAY_ID",
        "array_task_id": "RADRM_ARRAY_TASK_ID",
        "num_tasks": "SUBMITIT_RADRM_TASKS",
        "num_nodes": "SUBMITIT_RADRM_NODES",
        "node": "SUBMITIT_RADRM_NODE",
        "global_rank": "SUBMITIT_RADRM_RANK",
        "local_rank": "SUBMITIT_RADRM_LOCAL_RANK",
    }

    def _handle_signals(self, paths: utils.JobPaths, submission: utils.DelayedSubmission) -> None:
        """Handle submitit's signal; and TERM, if that asks it to save (`checkpoint="exit"`)."""
        super()._handle_signals(paths, submission)
        if os.environ.get("RADRM_CHECKPOINT_SIGNAL") == str(int(signal.SIGTERM)):
            handler = job_environment.SignalHandler(self, paths, submission)
            signal.signal(signal.SIGTERM, handler.checkpoint_and_exit)

    def _requeue(self, countdown: int) -> None:
        with Client() as client:
            client.requeue(self.job_id)
        logger.get_logger().info(f"Requeued job {self.job_id} ({countdown} remaining timeouts)")
