"""Layer 6: radrm from Python programs: `from radrm import Client, Executor`.

The files, in the order in which they may import one another:
    option_types     the options of a submission for type checkers, made by `make generated`
    options          Python values as options, by the one option table
    records          what is returned: jobs, GPUs, answers
    client           `Client`: submit jobs, watch them, command them
    run_call         makes a call in a job; it imports nothing of radrm
    executor         `Executor`: functions as jobs, with futures
    submitit_plugin  the plugin of submitit: `AutoExecutor(folder, cluster="radrm")`
"""
