"""Rows → examples: what a task is, written as YAML or Python."""

from figeval.spec.tasks import SuiteSpec, TaskSpec, task

__all__ = ["SuiteSpec", "TaskSpec", "task"]
