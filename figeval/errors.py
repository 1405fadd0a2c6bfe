"""Errors that a user can mend, each a `FigevalError`: one line on stderr with the cure, exit 2. All else is a bug."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class FigevalError(Exception):
    """Something the user can mend; the message is one line and says how."""


class FigevalWarning(UserWarning):
    """Something that does not stop figeval, and that a Python program hears of through `warnings`."""


class OptionError(FigevalError, ValueError):
    """An option of a Python function, such as `figeval.run`, has a value that makes no sense."""


class UnknownName(FigevalError):
    """A task, model, metric … that nobody registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, see: str) -> None:
        super().__init__(f"unknown {kind} {name!r}{near(name, known)}; see `{see}`")


class DuplicateName(FigevalError):
    """Two owners claim one name; the message names both."""


class PluginError(FigevalError):
    """A plugin does not keep to the hooks, or names something that cannot be imported."""


class DataError(FigevalError):
    """A data file, row or field is not what the task says it is."""


class TaskError(FigevalError):
    """A task definition or template is wrong."""


class ModelError(FigevalError):
    """A model cannot be found, loaded or used for what was asked."""


class OptionNeeded(ModelError):
    """A model cannot be used without an option; `problem` is why, for those who open models and cannot pass any."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(f"{problem}; {cure}")
        self.problem = problem


class BudgetExhausted(ModelError):
    """The next request would cost more than the run may; what was answered is kept."""


class CapabilityError(FigevalError):
    """No route leads from what the task asks to what the model can do."""


class TrainError(FigevalError):
    """A training cannot begin, go on or end."""


class RecordError(FigevalError):
    """A run folder cannot be written, read or continued."""


def near(name: str, known: Iterable[str], cutoff: float = 0.5) -> str:
    """`; did you mean 'a' or 'b'?` for the up to three nearest names, empty when none is near (`cutoff`, 0 to 1)."""
    spelled = {str(one).lower(): str(one) for one in known}
    matches = get_close_matches(name.lower(), spelled, n=3, cutoff=cutoff)
    return f"; did you mean {' or '.join(repr(spelled[match]) for match in matches)}?" if matches else ""
