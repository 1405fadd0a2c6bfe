"""figeval as a Python library: what `import figeval` offers to programs, and what the command line calls.

`runs` has `figeval.run`, `load` and the `Run` that they return, `trainings` has `figeval.train` and `Training`,
`comparisons` has `figeval.compare` and `Comparison`, `frames` the DataFrames of all three.
"""
