"""figeval as a Python library: the functions that `import figeval` offers and that the command line calls.

`runs` has `figeval.run`, `load` and the `Run` that they return, `trainings` has `figeval.train` and `Training`,
`comparisons` has `figeval.compare` and `Comparison`, and `frames` has the DataFrames of all three.
"""
