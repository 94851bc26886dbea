"""What users submit: job files, options, command lines, moments, envelopes; and what jobs print."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import msgspec

from proofs.fuzz.judging import Target
from radrm.cli.commands.edit import EDIT_PARAMETERS
from radrm.core.records import Exit, JobSpec
from radrm.core.units import parse_mib, parse_seconds
from radrm.excuses import excuse_of
from radrm.hints import hint
from radrm.host.storage.database import encoded
from radrm.host.storage.spool import Envelope
from radrm.host.storage.submitted import parse_envelope
from radrm.jobfile.arguments import parse as read_words
from radrm.jobfile.command_line import SUBMIT_FLAGS, parse_submit
from radrm.jobfile.moments import Here, absolute, read, refuse_past
from radrm.jobfile.options import BY_NAME
from radrm.jobfile.parsing import typed
from radrm.jobfile.radfile import JobFile, read_job_file, wrap_command
from radrm.jobfile.relations import MAX_ARRAY
from radrm.jobfile.sizes import runs_radrun
from radrm.jobfile.slurm import directives, translate
from radrm.jobfile.slurm import read as read_sbatch
from radrm.jobfile.sweeps import sweep_of, with_table, with_values
from radrm.jobfile.targets import target_of
from radrm.jobfile.values import job_name
from radrm.oom import classify
from radrm.progress_lines import Finder, Lines, progress_pattern

SCRIPT = """#!/bin/bash -l
#RAD --name=train --gpus=2 --gpu-memory=12G
#RAD --time=4:00:00 --retries=2 --requeue
#RAD --output='logs/%x-%j.out' --env=A=1 --env="B=two words"
# rad --gpus=3
set -euo pipefail
radrun python train.py --lr 0.1 <<END
END
"""
ROLES = """#!/usr/bin/env bash
#RAD --gpus=0 --role=ps:1-2,cpus=2 --role=worker:2-4,gpus=1,cpus=1-4
#RAD --memory=8G-64G --checkpoint=signal --checkpoint-signal=USR2 --checkpoint-cost=30s
#RAD --due=2030-01-31T18:00:00+01:00 --weight=2.5 --after=12:ok --array=0-9%4
#RAD --progress-pattern='(?P<step>\\d+)/(?P<total>\\d+)' --mig-profile=1g.5gb
OMP_NUM_THREADS=1 exec radrun --workers 2 python train.py
"""
_PROTOTYPE = """conda activate env
python /home/ann/train.py --epochs 3
/home/ann/summary.txt
cifar10
64
exclusive
1
10240.5
11000
40000
1.2e4
"""
HERE = Here(1_900_000_000.0, lambda _: 3600.0)


def _job_file(data: bytes) -> None:
    _use(read_job_file(data, "dir/train.sh", {"priority": "5"}))


def _use(job: JobFile) -> None:
    """Use a job file as the daemon does: it must be storable, and make a record for the core."""
    job = job.dated(HERE, "job", past=True)
    spec = job.spec("ann", 1000)
    assert msgspec.json.decode(encoded(spec), type=JobSpec) == spec
    job.edited({"priority": "7"})
    job.interpreter_words()


def _option(text: str) -> None:
    name, equals, value = text.partition("=")
    option = BY_NAME.get(name)
    if option is not None:
        option.value(value if equals else "", "command line")


def _moment(text: str) -> None:
    moment = absolute(text, HERE)
    assert moment == "none" or read(moment).absolute_s is not None, moment
    refuse_past(moment, HERE)


def _target(text: str) -> None:
    found = target_of(text)
    assert found.address.isprintable() and not found.address.startswith("-")


def _date(text: str) -> None:
    """A date and time with an offset means what the standard library's calendar says."""
    at_s = read(text).absolute_s
    if at_s is None:
        return
    try:
        known = datetime.fromisoformat(text)
    except ValueError:
        return
    if known.tzinfo is not None:
        epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
        assert (known - epoch) / timedelta(seconds=1) == at_s, text


def _quantity(text: str) -> None:
    for parse in (parse_mib, parse_seconds):
        try:
            found = parse(text)
        except ValueError:
            continue
        assert 0 < found < float("inf"), (text, found)


def _submission(words: list[str]) -> None:
    request = parse_submit(words)
    if request.command:
        _use(wrap_command(request.command, request.raw_options))


def _sbatch(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    first, _, rest = text.partition("\n")
    options, words = read_sbatch(first.split(" "), "command line", SUBMIT_FLAGS)
    slurm = translate([*directives(rest, "job.sbatch"), *options], "/home/ann", "box", SUBMIT_FLAGS)
    typed(slurm.raw, "sbatch")
    assert all(note.isprintable() and len(note) < 1500 for note in slurm.notes)
    assert all(isinstance(word, str) for word in words)


def _sweep(text: str) -> None:
    """Read a table and a parameter as the daemon does; the bounds hold for what comes of them."""
    param, _, table = text.partition("\n")
    asked = wrap_command(("echo", "{lr}", "{a}"), {"param": [param], "params": "-"})
    sweep = sweep_of(with_table(asked, table))
    assert 0 < len(sweep) <= MAX_ARRAY
    for number in {0, len(sweep) // 2, len(sweep) - 1}:
        one = with_values(asked, sweep.values(number))
        assert len(one.argv) == 3 and "/" not in one.name
        job_name(one.name)


def _launcher(text: str) -> None:
    runs_radrun(text, ("/bin/bash", "-l"), ())
    runs_radrun(None, (), text.split(" "))


def _envelope(data: bytes) -> None:
    envelope = Envelope.from_bytes(data)
    assert Envelope.from_bytes(envelope.to_bytes()) == envelope
    _use(parse_envelope(envelope))


def _progress_lines(data: bytes) -> None:
    lines, finder = Lines(), Finder(None)
    for at in range(0, len(data), 4096):
        for line in lines.feed(data[at : at + 4096]):
            for number in finder.find(line).values():
                assert number - number == 0, line


def _output(text: str) -> None:
    found = classify(Exit(code=1), text)
    assert found is None or found.requested_mib is None or found.requested_mib > 0
    told = hint(Exit(code=1), text)
    assert told is None or text.count("int() with base 10")
    passes = excuse_of(Exit(code=1), text)
    assert passes is None or passes.endswith(")")


ENVELOPE: dict[str, Any] = {
    "radrm_envelope": 1,
    "ticket": "01M80TA4D4JDCEV010A4H87B41",
    "file": "/home/ann/train.sh",
    "script": SCRIPT,
    "command": None,
    "options": {"priority": "3", "env": ["C=1", "D=2"], "hold": True},
    "cwd": "/home/ann",
    "umask": 18,
    "environment": {"PATH": "/bin", "ODD": "\udcff"},
    "submitted_s": 1.9e9,
    "summary": "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n)",
    "sources": "train.py 12 abc",
}
COMMAND = {**ENVELOPE, "script": None, "file": None, "command": ["radrun", "a.py", "--x=1"]}
OF_SLURM = {
    **COMMAND,
    "outer": {
        "engine": "slurm", "cluster": "c", "id": "4711", "restart": 1, "pid": 99,
        "start_ticks": 7, "boot_id": "0b1c", "end_s": 1.9e9,
    },
}  # fmt: skip
_LOG = """Epoch 1/3
 62%|██████▏   | 62/100 [00:10<00:06, 6.1it/s, loss=0.31]
{'loss': 0.42, 'epoch': 1.5, 'global_step': 30, 'max_steps': 90}
62/100 ━━━━━━━━━━ 3s 5ms/step - loss: 0.31
Traceback (most recent call last):
  File "train.py", line 3, in <module>
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total
"""
_ENGINE_LOG = """(Core pid=4) ERROR 08-12 01:36:12 [core.py:718] Traceback (most recent call last):
(Engine pid=374) ERROR 08-12 01:36:12 [core.py:718] ValueError: Free memory on device (1
(EngineCore_DP0 pid=374) ValueError: invalid literal for int() with base 10: 'GPU-52a3a85d'
Traceback (most recent call last):
RuntimeError: Engine core initialization failed. See root cause above.
a.py:1: UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 807: MPS
RuntimeError: CUDA error: MPS server is not ready to accept new MPS client requests
"""

TARGETS = (
    Target("job-file", (SCRIPT, ROLES, _PROTOTYPE), _job_file, bytes=True, most=(1 << 20) + 64),
    Target(
        "submit",
        (
            ("--gpus=1-4", "--gpu-memory", "4G", "--json", "--", "radrun", "train.py"),
            ("--time=1-00:00:00", "--signal=USR1@60", "--after=7:any", "--wait", "a.sh", "b.sh"),
            ("--role=ps:1", "--gpus=0", "--", "bash", "-c", "radrun x"),
            ("--hold", "--env=A=1", "--env", "B=2", "--memory=1G", "--cpus=2", "--", "true"),
        ),
        _submission,
    ),
    Target(
        "sbatch",
        (
            "-J a --gres=gpu:a100:2 job.sbatch\n#!/bin/sh\n#SBATCH -t 1-2:30 --mem=16G\ntrue\n",
            "-d afterok:12:13,afterany:14 -a 0-9%2 x\n#SBATCH --export=ALL,A=1 -o %x-%4j.%t\n",
            "--signal=B:USR1@60 --nice=5 -p gpu\n#SBATCH -N1 -n 1 -c 4 --mem-per-cpu=2G\n",
            "-n 4 --gpus-per-task=1 x\n#SBATCH -C 'a100|v100' --mail-type=ALL,NONE # no\n",
            '--tres-per-task=cpu=2,gres/gpu:1 x\n#SBATCH --begin="01/31/30-5:30 PM" -C gpu\n',
        ),
        _sbatch,
        bytes=True,
    ),
    Target(
        "edit",
        (("7", "8_3", "--priority=10", "--env=A=1"), ("train*", "--due=none", "--after", "none")),
        partial(read_words, EDIT_PARAMETERS, where="edit"),
    ),
    Target(
        "option",
        (
            *("gpus=1-4", "gpu-memory=12G", "smact=0.5", "duration=90s", "collocation=mps"),
            *("mig-profile=1g.5gb+me", "gpu-type=a6000|a100", "prefer-gpus=a100,0", "time=1:30"),
            *("max-slowdown=1.3", "priority=-1000", "hold", "after=12_3:failed", "array=0-9%4"),
            *("param=lr=1,2", "params=a.csv", "at-once=3", "max-fails=3@60s"),
            *("output=logs/%x-%j.out", "env=NAME=VALUE", "cpus=0.5-4", "memory=1G-2.5T"),
            *("role=worker:2-8,cpus=4,memory=8G,gpus=1", "signal=USR1@60", "checkpoint=exit"),
            *("checkpoint-signal=SIGHUP", "progress-pattern=(?P<step>\\d+)", "batch-size=64"),
            *("model-factory=a.b:make", "input-shape=3x224x224", "optimizer=adam", "weight=1"),
            *("due=fri 9:00", "comment=a note", "precision=bf16", "device-ids=uuid"),
        ),
        _option,
    ),
    Target(
        "moment",
        (
            *("2031-01-31T18:00", "2032-02-29 18:00:30+01:00", "18:00", "tomorrow 9:00", "+90m"),
            *("fri 23:59:59", "2031-12-31T23:59Z", "today 23:00", "+1-00:00:00"),
        ),
        _moment,
        (ValueError,),
    ),
    Target(
        "notice-target",
        ("ada@x.org:fail", "https://h:8/p?q=1:end,oom", "~/bin/tell", "exec:/a b:start", "mail"),
        _target,
        (ValueError,),
    ),
    Target(
        "date",
        ("2031-01-31T18:00:00+01:00", "1999-02-28 00:00-0330", "2400-02-29T23:59:59Z"),
        _date,
        (ValueError,),
    ),
    Target(
        "quantity",
        ("4G", "4096 MiB", "0.5t", "90", "1:30", "1-00:00:00.5", "1d 2h 5m 90s", "1e3"),
        _quantity,
    ),
    Target(
        "sweep",
        (
            'lr=1e-3,1e-4\na,b\n1,"x, y"\n2,z\n',
            "seed=0:9:3\nname,opt\nr/50,adam\n",
            'x=-3:3,a\nline\n"echo a | b"\n',
        ),
        _sweep,
    ),
    Target("launcher", (SCRIPT, ROLES, "cat <<-'A' <<B\nA\nB\nradrun x"), _launcher, most=1 << 20),
    Target("envelope", (ENVELOPE, COMMAND, OF_SLURM), _envelope, bytes=True, most=(8 << 20) + 64),
    Target("progress-lines", (_LOG,), _progress_lines, bytes=True),
    Target(
        "progress-pattern",
        ("(?P<step>\\d+)/(?P<total>\\d+)", "step (?P<step>[0-9]{1,9}) (?i:loss=(?P<loss>.*))"),
        progress_pattern,
        (ValueError,),
    ),
    Target("output", (_LOG, _ENGINE_LOG), _output),
)
