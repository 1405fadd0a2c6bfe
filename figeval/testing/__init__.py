"""What the author of a plugin tests with: fakes in the place of models, and checks of what a plugin has to keep to.

    from figeval.testing import check_model

    def test_the_model():
        check_model(Trigrams)

Each check raises an `AssertionError` whose message names what is wrong and what would be right. figeval's own models,
metrics and learners go through the same checks.
"""

from figeval.testing.learners import check_learner
from figeval.testing.metrics import check_metric
from figeval.testing.models import CapabilityCheck, check_model
from figeval.testing.task_types import check_task_type

__all__ = ["CapabilityCheck", "check_learner", "check_metric", "check_model", "check_task_type"]
