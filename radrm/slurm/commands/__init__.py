"""Commands of Slurm's wing, and for people and scripts that come from Slurm.

The files, in the order in which they may import one another:
    cluster     `--cluster`: submit to a Slurm cluster, and look at its jobs
    pilots      `--pilot`: submit to one's own pilots, and look at them
    names       radrm's words for those of sbatch, squeue, scancel, salloc, srun
    shown       jobs as Slurm's commands show them
    scontrol    `scontrol`: hosts, jobs, and commands about them
    accounting  `sacct` and `seff`
    sbcast      `sbcast`: copy a file
    slurm       `radrm slurm`, `install-slurm-names`
    slurm_step  `radrm slurm-step`
    pilot       `radrm pilot`
"""
