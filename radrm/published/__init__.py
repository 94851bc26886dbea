"""Planners of published systems.

The files, in the order in which they may import one another:
    flowcon      the CPUs of a server follow the growth of its jobs
    convergence  whether a job still improves, by the losses that it reports
    specon       jobs that hardly improve any more move to devices with less to do
    capacity     which jobs run now, on which servers, with how many GPUs (a folder)
    andreas      due times, weights and energy decide, and jobs that can save give way
    servers      what the planners of jobs with parameter servers have in common (a folder)
    dlrover      sizes follow from what one worker and its servers use
    nearchus     jobs grow as long as they use what they have
    wing         what it adds to radrm
"""
