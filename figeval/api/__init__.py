"""figeval as a Python library: the functions that `import figeval` offers and that the command line calls.

There is one module per function or pair of functions, with the class of its result: `runs` has `figeval.run`, `load`
and `Run`, `comparisons` has `figeval.compare` and `Comparison`, and so on. `frames` has the DataFrames of runs,
comparisons and trainings.
"""
