"""The launcher's configuration, `hydra.launcher`. Its names are those of submitit's launcher.

Hydra runs this file before it is a module, so its annotations cannot be texts.
"""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore


@dataclass
class RadrmLauncherConf:
    """What each job of a sweep asks for. None: radrm's own default."""

    _target_: str = "hydra_plugins.radrm_launcher.launcher.RadrmLauncher"
    submitit_folder: str = "${hydra.sweep.dir}/.submitit/%j"
    name: str = "${hydra.job.name}"
    timeout_min: int = 60
    cpus_per_task: float | None = None
    gpus_per_node: int | None = None
    mem_gb: float | None = None
    gpu_memory: str | None = None
    stderr_to_stdout: bool = False
    signal_delay_s: int = 90
    max_num_timeout: int = 0
    array_parallelism: int | None = None
    setup: list[str] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """More options of `radrm submit`: `hydra.launcher.options.retries=2`, with + before."""


ConfigStore.instance().store(
    group="hydra/launcher", name="radrm", node=RadrmLauncherConf(), provider="radrm"
)
