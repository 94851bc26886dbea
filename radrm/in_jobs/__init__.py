"""The last folder on the PYTHONPATH of every job: `from radrm.report import Reporter` works there.

It holds one name, `radrm`, so it hides nothing else of a job's Python.
"""
