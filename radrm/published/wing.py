"""The planners of published systems."""

from __future__ import annotations

from radrm.wings import Wing

WING = Wing(
    planners={
        "flowcon": "radrm.published.flowcon:FlowCon",
        "specon": "radrm.published.specon:SpeCon",
        "andreas": "radrm.published.andreas:Andreas",
        "dlrover": "radrm.published.dlrover:DLRover",
        "nearchus": "radrm.published.nearchus:Nearchus",
    }
)
