"""Rows → examples: what a task is, written as YAML or Python."""

from figeval.taskdef.decorator import task
from figeval.taskdef.spec import SuiteSpec, TaskSpec

__all__ = ["SuiteSpec", "TaskSpec", "task"]
