"""The order of things, and the only package that knows it:

data → spec → prompts → task_types → models → answers → metrics → records.

`plan` settles everything that can be wrong before a model's weights are touched; `run` then puts one task after the
other to the model; `scoring` sums up what was written down.
"""

from figeval.evaluation.harness import Harness
from figeval.evaluation.plan import Plan, prepare
from figeval.evaluation.run import Observer, run

__all__ = ["Harness", "Observer", "Plan", "prepare", "run"]
