"""`radrm explain`: show why a job waits, GPU by GPU, or where and how it ran."""

from __future__ import annotations

from radrm.cli.parameters import CLUSTER, JOB, JSON
from radrm.cli.show.styled import show
from radrm.client.connection import Client
from radrm.client.text import print_json

EXPLAIN_PARAMETERS = (JOB, CLUSTER, JSON)


def explain(job: str, cluster: bool, as_json: bool) -> None:
    """Say why a job waits, or where and how it ran.

    For each GPU: the first rule that refuses the job, what the job needs, what is available.

    \b
    Examples:
      radrm explain 12
      radrm explain 12_3 --json
      radrm explain --cluster 4711
    """
    if cluster:
        from radrm.cli.slurm.cluster import show_explanation  # few look at a cluster

        show_explanation(job, as_json)
        return
    with Client() as client:
        answer = client.ask("explain", jobs=[job])
    if as_json:
        print_json(answer)
        return
    from radrm.cli.show.card import explanation

    show(*explanation(answer))
