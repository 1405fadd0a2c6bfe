"""The order of things, and the only package that knows it:

data → taskdef → prompt → protocols → backends → metrics → records.

`plan` settles everything that can be wrong before a model's weights are touched; `run` then puts one task after the
other to the model; `scoring` sums up what was written down.
"""

from figeval.pipeline.harness import Harness
from figeval.pipeline.plan import Plan, prepare
from figeval.pipeline.run import Observer, run

__all__ = ["Harness", "Observer", "Plan", "prepare", "run"]
