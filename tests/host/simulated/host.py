"""A run folder with its simulated driver, and the jobs of one test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from radrm.errors import Unreachable
from radrm.host.simulated.client import DriverClient
from radrm.host.simulated.simulated_gpus import SimulatedGpus
from radrm.host.simulated.start_driver import ensure_driver
from tests.waiting import wait_until

SPEC = "sim:2xA100-40GB"
SCALE = 100.0


def nobody(pid):
    return None


class Host:
    """A run folder with its driver, and the jobs of one test."""

    def __init__(self, folder):
        self.folder = folder
        self.driver = ensure_driver(folder, SPEC, SCALE)
        self.path = self.driver.socket
        self.gpus = SimulatedGpus(self.path)
        self.uuids = [device.uuid for device in self.gpus.devices()]
        self.jobs = []

    def simjob(self, *words, **environment):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_")}
        job = subprocess.Popen(
            [sys.executable, "-m", "radrm.host.simulated.simjob", *map(str, words)],
            env={**clean, "RADRM_SIMULATED_GPUS": str(self.path), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.jobs.append(job)
        return job

    def read(self, owner_of=nobody):
        return self.gpus.read(self.uuids, self.driver.clock.now(), owner_of)

    def used(self):
        return [reading.used_mib for reading in self.read()]

    def end_jobs(self):
        for job in self.jobs:
            if job.poll() is None:
                job.kill()
            job.communicate()
        self.jobs.clear()
        wait_until(lambda: self.used() == [0, 0])

    def close(self):
        for job in self.jobs:
            job.kill()
            job.communicate()
        self.gpus.close()
        try:
            client = DriverClient(self.path)
        except Unreachable:
            return
        os.kill(client.hello().pid, signal.SIGTERM)
        client.close()
        wait_until(lambda: not self.path.exists())
