"""The kinds of jobs of the matrix: what each does, and what it must come to.

Every job runs `WITNESS`, which notes each start and each end in files of its own, and holds a lock
while anything of it lives. So the notes, not radrm, say what has run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from radrm.host.storage.spool import Envelope
from radrm.host.storage.submission import envelope_of
from radrm.jobfile.options import RawOptions
from radrm.jobfile.radfile import wrap_command
from tests.elastic.radrun.runs.place import PROGRAM

WITNESS = """\
name=$RADRM_JOB_NAME${RADRM_ARRAY_TASK_ID:+_$RADRM_ARRAY_TASK_ID}
exec 9>>"locks/$name"
flock -n 9 || echo "$name $RADRM_ATTEMPT" >>doubled
echo "$RADRM_ATTEMPT" >>"starts/$name"
times=$(grep -c . "starts/$name")
code=$3
case $1 in
    end) sleep "$2" ;;
    tree) setsid sleep 1000 & sleep "$2" ;;
    waits) setsid sleep "$2" & ;;
    oom) sleep "$2"; if [ "$times" = 1 ]; then
        echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB." >&2; code=1
    fi ;;
    retry) sleep "$2"; [ "$times" != 1 ] || code=3 ;;
    stay) trap : USR1; while :; do sleep 1000 & wait $!; kill $! ; done ;;
    stubborn) trap '' TERM; while :; do sleep 1; done ;;
    progress) for step in 1 2 3; do echo "step $step/3"; sleep "$2"; done ;;
    run) shift 3; "$@"; code=$? ;;
esac
echo "$RADRM_ATTEMPT $code" >>"ends/$name"
exit "$code"
"""

_TOGETHER = """
def together(step):
    mark = f"at-{os.getppid()}-{os.environ['RADRM_GENERATION']}-"
    with open(f".{mark}{os.environ['RANK']}", "w") as file:
        file.write(str(step))
    os.replace(f".{mark}{os.environ['RANK']}", f"{mark}{os.environ['RANK']}")
    for rank in range(int(os.environ["WORLD_SIZE"])):
        while not os.path.exists(f"{mark}{rank}") or int(open(f"{mark}{rank}").read()) < step:
            time.sleep(0.002)

data = """
_NOTED = "elastic.weight() else [])\n"
TRAINING = PROGRAM.replace("\ndata = ", _TOGETHER, 1).replace(
    _NOTED, f"{_NOTED}    together(step)\n", 1
)
"""The workers wait for one another in each step, as gradients have them wait: what one saves, all
have trained."""
SAMPLES, BATCH = 1600, 8
"""Of the training of an elastic job."""
_SUMMARY = """\
Layer (type:depth-idx)    Output Shape    Param #
Linear: 1-1               [64, 10]        7,850
Total params: 7,850
Trainable params: 7,850
Non-trainable params: 0
"""


@dataclass(slots=True)
class Submitted:
    """A submission. `acknowledged` False: its submit was killed, so it may exist or not."""

    name: str
    kind: str
    code: int
    ticket: str
    elements: int = 1
    acknowledged: bool = False
    asked: bool = False
    """A daemon may have been asked to cancel it."""
    cancelled: set[int] = field(default_factory=set)
    """The ids that a daemon has said to have cancelled."""
    again: bool = False
    """A user may have asked to run it again."""

    @property
    def names(self) -> list[str]:
        """The names under which its elements note what they do."""
        if self.kind != "array":
            return [self.name]
        return [f"{self.name}_{index}" for index in range(self.elements)]

    @property
    def endless(self) -> bool:
        """True for a job that ends only if somebody ends it."""
        return self.kind in ("stay", "stubborn")


_LIGHT: RawOptions = {"gpus": "0"}
_GPU: RawOptions = {"gpu-memory": "2G", "smact": "0.1"}
_SAVES: RawOptions = {**_GPU, "gpu-memory": "4G", "checkpoint": "signal", "requeue": True}
_OPTIONS: Mapping[str, RawOptions] = {
    "light": _LIGHT,
    "gpu": _GPU,
    "tree": _LIGHT,
    "waits": {**_LIGHT, "background": "wait"},
    "array": {**_LIGHT, "array": "0-3"},
    "after": _LIGHT,
    "again": {**_LIGHT, "requeue": True},
    "retry": {**_LIGHT, "retries": "2"},
    "oom": _GPU,
    "limit": {**_LIGHT, "time": "25s", "signal": "USR1@15"},
    "stay": _LIGHT,
    "stubborn": _LIGHT,
    "held": {**_LIGHT, "hold": True},
    "limited": {**_LIGHT, "cpus": "1", "memory": "256M"},
    "progress": {**_LIGHT, "progress-pattern": r"step (?P<step>\d+)"},
    "sim": {"gpu-memory": "4G", "smact": "0.2"},
    "summary": {"model-summary": "net.model", "batch-size": "64"},
    "saves": _SAVES,
    "restart": {**_SAVES, "gpus": "1-2", "retries": "9"},
    "elastic": {**_SAVES, "gpus": "1-4", "gpu-memory": "2G", "retries": "9"},
    # It has put a folder where `radrun` answers, so its resizes are withdrawn.
    "spoiled": {**_SAVES, "gpus": "1-4", "gpu-memory": "2G"},
}
_DOES = {"tree": "tree", "oom": "oom", "retry": "retry", "limit": "stay", "stay": "stay"}
_DOES |= {"stubborn": "stubborn", "progress": "progress", "waits": "waits"}
_RUNS = {
    "sim": "radrm-simjob --gpu-memory 3G --smact 0.2 --seconds 12 --ramp 2",
    "saves": "radrm-simjob --gpu-memory 3G --smact 0.2 --seconds 60 --ramp 2 --saves",
}
_RUNS["restart"] = f"{_RUNS['saves']} --gpus all"
_RADRUN = f"radrun train.py {SAMPLES} {BATCH} 0.01"
_SPOILS = f"mkdir $RADRM_ELASTIC_DIR/resized-2.json; exec {_RADRUN}"
_WEIGHTS = {"light": 6, "gpu": 4, "array": 2, "after": 2, "saves": 3, "stay": 2, "oom": 2}
_DEAR = ("elastic", "spoiled", "restart", "saves", "sim")
"""At most one of each at a time: they start Python."""


KINDS = tuple(_OPTIONS)


class Jobs:
    """Makes the jobs of one home, in the current folder, which is that of their work."""

    def __init__(self, chance: random.Random, environment: Mapping[str, str]) -> None:
        self.all: list[Submitted] = []
        self._chance = chance
        self._environment = environment
        for folder in ("locks", "starts", "ends"):
            os.mkdir(folder)
        for name, text in (
            ("witness.sh", WITNESS),
            ("net.model", _SUMMARY),
            ("train.py", TRAINING),
            ("saves", ""),
        ):
            with open(name, "w") as file:
                file.write(text)

    def make(self, unfinished: set[str]) -> tuple[Submitted, Envelope]:
        """Draw a job. `unfinished`: the names of jobs that have not ended."""
        busy = {job.kind for job in self.all if job.name in unfinished}
        kinds = [kind for kind in _OPTIONS if kind not in _DEAR or kind not in busy]
        weights = [_WEIGHTS.get(kind, 1) for kind in kinds]
        (kind,) = self._chance.choices(kinds, weights)
        return self.of_kind(kind)

    def of_kind(self, kind: str) -> tuple[Submitted, Envelope]:
        """Make a job of a kind."""
        chance, name = self._chance, f"{kind}{len(self.all)}"
        code = chance.choice((0, 0, 1, 42)) if kind in ("light", "gpu", "array", "tree") else 0
        options: RawOptions = {**_OPTIONS[kind], "name": name}
        there = [job.ticket for job in self.all[-5:] if job.acknowledged]
        if kind == "after" and there:
            options["after"] = [f"{chance.choice(there)}:any"]
        seconds = f"{chance.choice((0.01, 0.05, 0.2, 0.5))}"
        runs = _RUNS.get(kind)
        command = ["sh", "witness.sh", _DOES.get(kind, "run" if runs else "end"), seconds]
        command += [str(code), *(runs.split() if runs else [])]
        if kind in ("elastic", "spoiled"):
            command = _RADRUN.split() if kind == "elastic" else ["sh", "-c", _SPOILS]
            options["chdir"] = self._folder_of(name)
        job_file = wrap_command(command, options)
        envelope = envelope_of(job_file, None, None, options, environment=self._environment)
        made = Submitted(name, kind, code, envelope.ticket, 4 if kind == "array" else 1)
        self.all.append(made)
        return made, envelope

    @staticmethod
    def _folder_of(name: str) -> str:
        """A folder in which an elastic job notes the samples of each step."""
        folder = f"steps-{name}"
        os.mkdir(folder)
        for file in ("train.py", "saves"):
            os.symlink(f"../{file}", f"{folder}/{file}")
        return folder
