"""figeval as a Python library: what `import figeval` offers to programs, and what the command line calls.

`run` has `figeval.run`, `load` and the `Run` that they return, `train` has `figeval.train` and `Training`, `comparison`
has `figeval.compare` and `Comparison`, `frames` the DataFrames of all three.
"""
