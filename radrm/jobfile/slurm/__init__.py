"""Translate the options of Slurm's `sbatch` into those of radrm.

Theory of operation
-------------------
`#SBATCH` lines and the command line of `sbatch` are read alike: each option gets its long name,
and the command line overrides the script. They become options of the table, variables for the
job, and flags of `radrm submit`. An option belongs to one of three kinds:

    it has a meaning here          it is translated
    it changes nothing on one      it is left out, and a note names it
    server without accounts
    the job would be another one   it is refused, and the error names ours

What the daemon reads is the translation: it knows nothing of Slurm, but for the variables that
only it can set (`radrm/daemon/launching.py`).

Source: sbatch(1) of Slurm 24.05, without its environment variables for input.

The files, in the order in which they may import one another:
    mark         the variable by which a daemon knows such a job
    amounts      times and amounts of memory as Slurm writes them
    words        from words and `#SBATCH` lines to options by their long names
    translation  from these to options of radrm
"""
