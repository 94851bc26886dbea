"""The rows of `make mutants`: defects that the tests must notice.

The files, in the order in which they may import one another:
    mutant  a row
    state   defects of what `step` remembers
    rules   defects of what it decides, and of rules
    saving  defects of requests to save, of migrations, and of the shard server of `radrun`
    sharing  defects of memory caps, SM shares and failures that may pass
    planners  defects of the planners that change running jobs
    deadline  defects of `deadline`
    durations  defects of run times
    due_times  defects of due times, and of other limits of time
    energy  defects of energy
    capacity  defects of `andreas` and its optimizer
    elasticity  defects of the planner `elastic`
    resizes  defects of elastic jobs: of sizes, resizes, and host memory
    ranges  defects of ranges and roles in job files
    servers  defects of `dlrover` and `nearchus`
"""
