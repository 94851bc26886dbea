"""Layer 1: job files and the options of a submission.

The files, in the order in which they may import one another:
    record        records that import quickly, for `radrm submit`
    moments       times as users write them
    targets       who is told about a job, the values of --notify
    values        parsers of the values of options
    relations     the values of --after, --array, --param and --max-fails
    options       the one table of options
    parsing       from words to options, from options to typed values
    shell         the commands of a shell script, its quoted texts and here-documents
    text          the text of a submitted file, and what is only data in it
    arguments     the one reader of command lines
    command_line  the arguments of `radrm submit` and `radrm run`
    sizes         ranges and roles: the tasks of a job, and whether `radrun` starts them
    languages     files that are no job files, but programs
    naming        the name of a job whose user gives none
    radfile       job files
    sweeps        one element of an array for each combination of values
    programs      the programs that a job names, and whether one may train a model
    surprises     what a script says that its user will not expect of a job
    confirmation  sizes and times of a submission, as they were understood
    slurm/        options of sbatch, read and translated
    inherited     what a job inherits of the one in which it was submitted
"""
