"""Testing tools for plugin authors: fake models, and checks that a plugin fulfils its contract.

    from figeval.testing import check_model

    def test_the_model():
        check_model(Trigrams)

Each check raises an `AssertionError` whose message says what is wrong and what would be right. figeval's own models,
metrics, learners and wings are tested with the same checks.
"""

from figeval.models.capabilities import ask, capabilities
from figeval.prompts import load_template
from figeval.testing.learners import check_learner
from figeval.testing.metrics import check_metric
from figeval.testing.models import CapabilityCheck, check_model
from figeval.testing.task_types import check_task_type
from figeval.testing.trials import harness, predict
from figeval.testing.wings import check_wing

__all__ = [
    "CapabilityCheck",
    "ask",
    "capabilities",
    "check_learner",
    "check_metric",
    "check_model",
    "check_task_type",
    "check_wing",
    "harness",
    "load_template",
    "predict",
]
