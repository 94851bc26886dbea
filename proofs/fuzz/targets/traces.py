"""Traces of jobs, in radrm's form and in all others, and the profiles beside them."""

from __future__ import annotations

import io

from proofs.fuzz.judging import Target
from radrm.lab.simulator.traces.importers.aids import Aids, Alone, read_profile
from radrm.lab.simulator.traces.importers.forms import FORMS, read_any
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
_PROFILE = "name,duration_s,smact,steady_mib\nresnet50,3600,0.62,9000\nvgg16,100,0.8,\n"
_AIDS = Aids(profile={"resnet50_cifar": Alone(smact=0.5)})


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
    _target("philly", _PHILLY),
    _target("slurm", _SLURM),
    _target("auto", _OWN, _PUBLISHED, _PHILLY, _SLURM),
    Target("trace-profile", (_PROFILE,), _profile),
)
assert {target.name for target in TARGETS} >= {f"trace-{form}" for form in FORMS}
