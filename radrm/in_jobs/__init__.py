"""The last folder on the PYTHONPATH of every job: `from radrm.report import Reporter` works there.

It holds two names: `radrm`, and a `sitecustomize` that tells of a program's first steps. Both make
way for what they hide of a job's Python.
"""
