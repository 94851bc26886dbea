"""Traces of jobs, in radrm's form and in all others, and the profiles beside them."""

from __future__ import annotations

import io
from collections.abc import Iterable

from proofs.fuzz.judging import Target
from radrm.jobfile.radfile import JobFile, read_job_file
from radrm.lab.simulator.traces.importers.aids import Aids, Alone, read_profile
from radrm.lab.simulator.traces.importers.forms import FORMS, read_any
from radrm.lab.simulator.traces.importers.gavel import read_throughputs
from radrm.lab.simulator.traces.trace import fitting, read_trace, trace_lines

_OWN = """submit_s,name,gpus,duration_s,memory_mib,smact,horus_mib,user,\
priority,due_s,weight,batch_size
0,resnet,1,3600,10240,0.62,12000,ann,0,7200,2.5,64
10.5,"a, b",2,60,512,0.1,,bob,-5,,,
20,tiny,1,5,100,0,1,,,,,
"""
_ELASTIC = """submit_s,name,gpus,duration_s,memory_mib,smact,\
gpus_max,cpus,cpus_max,io_s,compute_s,sync_s,saves
0,a,1,3600,10240,0.62,4,2,8,0.1,1,0.05,1
5,ps,0,600,1,0,,2,8,0.1,1,0.05,0
"""
_TIMED = """submit_s,name,gpus,duration_s,memory_mib,smact,duration_s@V100,duration_s@2xV100
0,a,1,3600,10240,0.62,3600,2000
"""
_PUBLISHED = """submit_s,model,job_name,dataset,batch_size,num_gpus,\
exclusive_duration_s,memory_mb,horus_mb
0,resnet50,resnet50_cifar,cifar10,64,1,300.5,8000,40000
"""
_PROTOTYPE = """#!/bin/bash
sleep 30
python ../submit.py --task jobs/resnet50.rad &
sleep 1.5m
python submit.py --task=jobs/vgg16.rad
"""
_PHILLY = """timestamp,num_gpus,duration,user,model_name
2017-10-09 07:01:55,2,3600,ann,resnet
100.5,1,60,bob,vgg
"""
_SLURM = """JobID|JobName|User|Submit|Elapsed|State|AllocTRES|TRESUsageInMax|TRESUsageInAve
12|train|ann|2024-01-31T18:00:00|1-02:03:04|COMPLETED|billing=4,cpu=4,gres/gpu=2,mem=8G||
12.batch|batch||2024-01-31T18:00:05|02:03:04|COMPLETED|cpu=4|gres/gpumem=20G|gres/gpuutil=87
13|prep|bob|2024-01-31T18:00:10|00:10:00|CANCELLED by 5|cpu=1||
14|old|bob|2024-02-01T18:00:10|00:10:00|COMPLETED|gpu:a100:1(IDX:0)||
"""
_ALIBABA_2020 = """job_name,task_name,inst_num,status,start_time,end_time,\
plan_cpu,plan_mem,plan_gpu,gpu_type
a,worker,2,Terminated,100,500,600,29,50,V100
b,tf,1,Terminated,120,900,600,29,100,T4
"""
_ALIBABA_2023 = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,\
qos,pod_phase,creation_time,deletion_time,scheduled_time
p1,1000,4096,1,460,,LS,Succeeded,0,500,10
p2,1000,4096,2,1000,V100,BE,Succeeded,5,900,20
"""
_GAVEL = (
    "ResNet-18 (batch size 32)\tpython main.py\t/w\t--steps\t0\t1000\t1\t1\t-1\t0.5\n"
    "LM (batch size 5)\tpython lm.py\t--steps\t500\t12.5\t2\n"
)
_RATES = {"('ResNet-18 (batch size 32)', 1)": 50.0, "('LM (batch size 5)', 2)": 3.5}
_SENSORS = """job_name,gpu_wrk_util,max_gpu_wrk_mem
a,55.5,8
b,100,15
"""
_PROFILE = "name,duration_s,smact,steady_mib\nresnet50,3600,0.62,9000\nvgg16,100,0.8,\n"
_THROUGHPUTS = {"v100": {"('LM', 1)": {"null": 3.5, "('LM', 1)": [1.0, 2.0]}}, "k80": {}}


def _job_file(name: str) -> JobFile:
    return read_job_file(b"#RAD --duration=60 --gpu-memory=4G\ntrue\n", name, {})


def _beside(name: str) -> Iterable[str] | None:
    return io.StringIO(_SENSORS) if "sensor" in name else None


_AIDS = Aids(
    profile={name: Alone(steps_per_s=rate) for name, rate in _RATES.items()},
    job_file=_job_file,
    beside=_beside,
)


def _read(form: str, text: str) -> None:
    trace = read_any(io.StringIO(text, newline=None), "trace.csv", form, _AIDS)
    assert trace.jobs and all(map(str.isprintable, trace.notes)), trace.notes
    assert all(job.submit_s >= 0 and job.duration_s > 0 for job in trace.jobs)
    again = read_trace(list(trace_lines(trace.jobs)), "again")
    assert len(again.jobs) == len(trace.jobs)
    fitting(trace.jobs, [40960] * 8)


def _profile(text: str) -> None:
    read_profile(io.StringIO(text), "profile.csv")


def _target(form: str, *examples: str) -> Target:
    return Target(f"trace-{form}", examples, lambda text: _read(form, text), most=1 << 18)


TARGETS = (
    _target("trace", _OWN, _ELASTIC, _TIMED),
    _target("published", _PUBLISHED),
    _target("prototype", _PROTOTYPE),
    _target("philly", _PHILLY),
    _target("slurm", _SLURM),
    _target("alibaba2020", _ALIBABA_2020, _ALIBABA_2020.partition("\n")[2]),
    _target("alibaba2023", _ALIBABA_2023),
    _target("gavel", _GAVEL),
    _target("auto", _OWN, _PUBLISHED, _PHILLY, _SLURM, _ALIBABA_2020, _ALIBABA_2023, _GAVEL),
    Target("trace-profile", (_PROFILE,), _profile),
    Target("throughputs", (_THROUGHPUTS,), lambda text: read_throughputs(text, "rates.json")),
)
assert {target.name for target in TARGETS} >= {f"trace-{form}" for form in FORMS}
