"""Errors that a user can fix, each a `FigevalError`: one line on stderr with the cure, exit 2. All else is a bug."""

from __future__ import annotations

from collections.abc import Iterable

from figeval.io.text import near


class FigevalError(Exception):
    """An error that the user can fix; the message is one line and says how.

    Attributes:
        exit_code: the code with which a command ends.
    """

    exit_code = 2


class FigevalWarning(UserWarning):
    """A problem that does not stop figeval; a Python program receives it through `warnings`."""


class OptionError(FigevalError, ValueError):
    """An option of a Python function, such as `figeval.run`, has an invalid value."""


class UnknownName(FigevalError):
    """A task, model, metric … that is not registered; `or_else` is what may help beside the list of `see`."""

    def __init__(self, kind: str, name: str, names: Iterable[str], *, see: str, or_else: str = "") -> None:
        cure = f"see `{see}`{or_else and f', or {or_else}'}"
        super().__init__(f"unknown {kind} {name!r}{near(name, names)}; {cure}")


class DuplicateName(FigevalError):
    """Two plugins register the same name; the message names both."""


class PluginError(FigevalError):
    """A plugin does not follow the hooks, or names something that cannot be imported."""


class DataError(FigevalError):
    """A data file, row or field is missing, damaged or does not match the task definition."""


class MissingData(DataError):
    """A data file is not on this machine and cannot be downloaded."""


class MissingCopy(MissingData):
    """The rows are read from a user's own copy, since figeval cannot fetch them, and there is none.

    A run leaves such tasks of a suite out with the warning `cure`, which tells where to get a copy. `searched` are the
    folders of the copies that lack it, which the message names; None to name none.
    """

    def __init__(self, problem: str, cure: str, searched: Iterable[object] | None = None) -> None:
        if searched is not None:
            problem = f"{problem} ({', '.join(map(str, searched)) or 'no folder was given'})"
        super().__init__(f"{problem}; {cure}")
        self.cure = cure


class RowError(DataError):
    """A row cannot become an example; `problem` is the end of the message, which other rows may share."""

    def __init__(self, location: str, problem: str) -> None:
        super().__init__(f"{location}{problem}")
        self.problem = problem


class MissingPackage(FigevalError, ImportError):
    """A package of one of figeval's extras is not installed; the message names the extra."""

    def __init__(self, module: str, extra: str, purpose: str = "", alternative: str = "") -> None:
        begin = f"{purpose} needs {module}, which is not installed" if purpose else f"{module} is not installed"
        cures = [f"pip install 'figeval[{extra}]'", *filter(None, [alternative])]
        super().__init__(f"{begin}: {', or '.join(cures)}")


class TaskError(FigevalError):
    """A task definition or template is wrong."""


class MissingTemplate(TaskError):
    """There is no template of this `name`, which may be that of a template that another one includes."""

    def __init__(self, name: str) -> None:
        super().__init__(f"template {name!r:.200} is neither next to its task nor built in")
        self.name = name


class ModelError(FigevalError):
    """A model cannot be found, loaded or used for a request."""


class OptionNeeded(ModelError):
    """A model needs an option; `problem` says why, for callers that open models and cannot pass any."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(f"{problem}; {cure}")
        self.problem = problem


class BudgetExhausted(ModelError):
    """The next request would exceed the budget of the run; earlier answers are kept."""


class NotFinished(ModelError):
    """A batch is still being processed; the same command collects its answers later."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h: try again later


class CapabilityError(FigevalError):
    """The model lacks the capabilities that the routes of the task need."""


class ExampleError(CapabilityError):
    """A route cannot put one example to any model, such as one with more options than letters; others it can."""


class TrainError(FigevalError):
    """A training cannot start, resume or finish."""


class RecordError(FigevalError):
    """A run folder cannot be written, read or continued."""


class FolderInUse(RecordError, TrainError):
    """Another process is writing to the folder of a run or a training; the same command works once it has ended."""
