"""A figeval plugin that brings a task type of its own, with all that belongs to one."""

from importlib.resources import files
from pathlib import Path

from figeval import hookimpl


@hookimpl
def register_task_types(register):
    """Token labelling, with its routes, metrics, default template and scaffold."""
    register(f"{__name__}.labelling:Tokens")


@hookimpl
def register_tasks(register):
    """Which words are meant figuratively?"""
    register.folder(files(__name__))


@hookimpl
def register_backends(register):
    """Whoever tags tokens: a trivial model, and what the learner below has trained."""
    register("tokens_majority", f"{__name__}.majority:MajorityTag", "the most frequent tag, for every token")
    register("tokens_tagger", f"{__name__}.tagger:Tagger", "a folder that `figeval train` made with --head tagger")


@hookimpl
def resolve_backend(model):
    """`--model FOLDER` of a trained tagger."""
    return "tokens_tagger" if (Path(model) / "tagger.json").is_file() else None


@hookimpl
def register_learners(register):
    """What can be trained on such tasks."""
    register("tokens", "tagger", f"{__name__}.tagger:TaggerLearner", "hashed words of a window; from scratch")
