"""Runs the jobs of a sweep as an array of radrm. Hydra reports what came of them."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, filter_overrides, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from omegaconf import DictConfig, OmegaConf, open_dict

from hydra_plugins.radrm_launcher.config import RadrmLauncherConf

if TYPE_CHECKING:
    from hydra.types import HydraContext, TaskFunction

__all__ = ["RadrmLauncher", "RadrmLauncherConf"]
log = logging.getLogger(__name__)


class RadrmLauncher(Launcher):
    """One sweep. It is pickled, and called once in each of its jobs."""

    def __init__(self, submitit_folder: str, max_num_timeout: int = 0, **parameters: Any) -> None:
        self.folder, self.max_num_timeout = submitit_folder, max_num_timeout
        self.parameters = parameters

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Submit the jobs, wait for them, and return what Hydra reports. A job that died raises
        submitit's `UncompletedJobError`, with the verdict."""
        from radrm.api.submitit_plugin import RadrmExecutor  # Hydra imports all plugins at once

        executor = RadrmExecutor(self.folder, max_num_timeout=self.max_num_timeout)
        executor.update_parameters(**self._parameters())
        place = Path(str(self.config.hydra.sweep.dir))
        place.mkdir(parents=True, exist_ok=True)
        if mode := self.config.hydra.sweep.get("mode"):
            os.chmod(place, int(str(mode), 8))
        calls = []
        for number, overrides in enumerate(job_overrides, initial_job_idx):
            log.info(f"\t#{number} : {' '.join(filter_overrides(overrides))}")
            calls.append((list(overrides), number, Singleton.get_state()))
        jobs = executor.map_array(self, *zip(*calls, strict=True))
        log.info(f"radrm runs {len(jobs)} jobs, from {jobs[0].job_id}; logs in {place}/.submitit")
        return [job.result() for job in jobs]

    def _parameters(self) -> dict[str, Any]:
        plain = OmegaConf.to_container(OmegaConf.create(self.parameters), resolve=True)
        assert isinstance(plain, dict)
        given = {str(name): value for name, value in plain.items()}
        given |= given.pop("options", None) or {}
        return {name: value for name, value in given.items() if value is not None}

    def __call__(self, overrides: list[str], number: int, state: dict[Any, Any]) -> JobReturn:
        """Run one job of the sweep, in the job."""
        Singleton.set_state(state)
        setup_globals()
        config = self.hydra_context.config_loader.load_sweep_config(self.config, overrides)
        with open_dict(config):
            config.hydra.job.id = os.environ.get("RADRM_JOB_ID", str(number))
            config.hydra.job.num = number
        done = run_job(
            hydra_context=self.hydra_context,
            task_function=self.task_function,
            config=config,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
        )
        if done.status is JobStatus.FAILED:
            done.return_value = to_raise(done._return_value)
        return done

    def checkpoint(self, *arguments: Any) -> Any:
        """The same call again, for submitit: after a time limit the job starts anew."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, *arguments)


def to_raise(error: Exception) -> Any:
    """What is unpickled as this exception, or else as one that says what it was."""
    from radrm.api.records import JobFailed
    from radrm.api.run_call import in_words, portable

    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return portable(error)[0] or JobFailed(f"the job raised {in_words(error)}\n{trace}", None)
