"""figeval as a Python library: what `import figeval` offers to notebooks, and what the command line calls.

`calls` has the functions `run`, `train`, `load` and `compare`, `results` what they return, `frames` the DataFrames of
these, and `options` the keyword arguments, which are the flags of the command line.
"""

from figeval.api.calls import compare, load, run, train
from figeval.api.results import Comparison, Run, Training

__all__ = ["Comparison", "Run", "Training", "compare", "load", "run", "train"]
