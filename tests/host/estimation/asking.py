"""Questions to estimators, and programs that a tracer runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from radrm.config import Config, EstimationConfig
from radrm.core.records import JobSpec
from radrm.core.words import Quantity
from radrm.estimators.interface import Description
from radrm.host.estimation.asking import Answer
from radrm.host.estimation.tracing import TraceRequest, trace, tracer_arguments
from radrm.jobfile.parsing import typed

HASTY = Config(estimation=EstimationConfig(time_limit_s=0.3, trace_limit_s=20.0))


def said(request: TraceRequest, limits: EstimationConfig | None = None) -> Any:
    """What a program says in the document of its trace."""
    document = json.loads(trace(request, limits or EstimationConfig()))
    assert "said" in document, document
    return document["said"]


def description(**told: object) -> Description:
    return Description(spec=JobSpec(name="a", user="ann", uid=1000), **told)


def sources(answer: Answer) -> list[str]:
    return [e.source for e in answer.estimates if e.quantity is Quantity.MEMORY]


def request(program: Path, text: str, cwd: Path | None = None) -> TraceRequest:
    program.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{text}\n")
    program.chmod(0o755)
    options = typed({"model-factory": "nets:make", "batch-size": "8", "input-shape": "3x4"})
    return TraceRequest(
        arguments=tracer_arguments(options),
        cwd=str(cwd or program.parent),
        environment={"PATH": str(program.parent), "THEIRS": "1"},
        umask=0o022,
    )


SAY = """
def say(document):
    path = sys.argv[2].removeprefix('--output=')
    with open(path + '.part', 'w') as file:
        json.dump(document, file)
    os.rename(path + '.part', path)
"""
