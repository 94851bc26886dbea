"""The planner of jobs that change their size while they run."""

from __future__ import annotations

from radrm.wings import Wing

WING = Wing(planners={"elastic": "radrm.elastic.planner:Elastic"})
