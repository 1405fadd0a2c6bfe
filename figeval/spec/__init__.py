"""Rows → examples: what a task is, written as YAML or Python."""

from figeval.spec.decorator import task
from figeval.spec.tasks import SuiteSpec, TaskSpec

__all__ = ["SuiteSpec", "TaskSpec", "task"]
