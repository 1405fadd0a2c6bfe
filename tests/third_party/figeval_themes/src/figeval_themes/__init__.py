"""A figeval plugin with a task type whose answers are sets of labels."""

from figeval import hookimpl


@hookimpl
def register_task_types(register):
    """Which labels does a text have?"""
    register(f"{__name__}.labelling:Themes", "themes")


@hookimpl
def register_tasks(register):
    """What are these sayings about?"""
    from figeval_themes.sayings import themes_sayings

    register(themes_sayings)
