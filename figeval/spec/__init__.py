"""Definitions of tasks and suites in YAML or Python, and the construction of examples from rows."""

from figeval.spec.tasks import SuiteSpec, TaskSpec, task

__all__ = ["SuiteSpec", "TaskSpec", "task"]
