"""Options of Slurm's `sbatch`, read and translated.

The files, in the order in which they may import one another:
    options      every option of sbatch, and what radrm makes of it
    amounts      times and amounts of memory
    words        options of a command line, of variables and of `#SBATCH` lines
    translation  from options of sbatch to options of radrm
"""

from radrm.jobfile.slurm.translation import MARK, Slurm, translate
from radrm.jobfile.slurm.words import Given, directives, of_variables, read

__all__ = [
    "MARK",
    "Given",
    "Slurm",
    "directives",
    "of_variables",
    "read",
    "translate",
]
