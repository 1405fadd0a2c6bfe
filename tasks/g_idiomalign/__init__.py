"""G-IdiomAlign: idioms and their equivalents in other languages. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import RouteRegistrar, SourceRegistrar, TaskRegistrar, TaskTypeRegistrar, hookimpl

TYPE = "g_idiomalign_choice"


@hookimpl
def register_task_types(register: TaskTypeRegistrar) -> None:
    """Register the choice in which every copy of the right option is right."""
    register(f"{__name__}.repeated_options:RepeatedChoice", TYPE)


@hookimpl
def register_routes(register: RouteRegistrar) -> None:
    """Register the route that other plugins add to choices."""
    from figeval.builtin.plugins.encoders.option_lists import BY_MARKERS

    register(TYPE, BY_MARKERS)


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `g_idiomalign:<direction>`; g_idiomalign_rows.py lists the directions."""
    register("g_idiomalign", f"{__name__}.g_idiomalign_rows:open")
