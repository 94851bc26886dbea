"""The rows of `make mutants`: defects that the tests must notice.

The files, in the order in which they may import one another:
    mutant  a row
    state   defects of what `step` remembers
    rules   defects of what it decides, and of rules
    saving  defects of requests to save, of migrations, and of the shard server of `radrun`
    growing defects of FlowCon
    durations  defects of run times
    due_times  defects of due times, of other limits of time, and of a reload
    energy  defects of energy
    capacity  defects of `andreas` and its optimizer
    elasticity  defects of the planner `elastic`
    ranges  defects of ranges and roles in job files
    servers  defects of `dlrover` and `nearchus`
"""
