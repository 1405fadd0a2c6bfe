"""`figeval lm-eval`: lm-eval's own command line, in this process, with our tasks and models registered."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import click

from figeval.errors import ModelError, UnknownName
from figeval.io.text import near


@click.group("lm-eval")
def lm_eval() -> None:
    """Run figeval's tasks in lm-eval."""


@lm_eval.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...]) -> None:
    """Call `lm-eval run` with figeval's tasks and models; accepts all its flags.

    \b
    figeval lm-eval run --model hf --model_args pretrained=gpt2 --tasks figeval_epic_mcq
    figeval lm-eval run --model figeval-hf --model_args pretrained=gpt2 --tasks arc_easy
    """
    try:
        launch(arguments)
    except SystemExit as ended:  # lm-eval's parser exits like this, after --help with 0
        click.get_current_context().exit(ended.code if isinstance(ended.code, int) else int(ended.code is not None))


@lm_eval.command()
@click.option(
    "--include_path",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with additional task files of figeval.",
)
def stubs(include_path: tuple[Path, ...]) -> None:
    """Print the folder to pass to lm-eval as --include_path.

    \b
    lm-eval run --include_path "$(figeval lm-eval stubs)" --tasks figeval_epic_mcq --model hf --model_args …
    """
    from .stubs import stubs_folder

    click.echo(stubs_folder(include_path))


def launch(arguments: Sequence[str]) -> None:
    """Run `lm-eval run ARGUMENTS` with our stubs added to its --include_path.

    lm-eval reads its 14,000 task files only if one of its own tasks is requested, because that takes seconds.

    Raises:
        UnknownName: an unknown task with our prefix.
        ModelError: an unknown model.
    """
    from .lm_eval_models import model_registry
    from .releases import without_its_tasks
    from .stubs import PREFIX, stubs_folder

    registry = model_registry()
    import_module("lm_eval.utils").setup_logging()
    command = import_module("lm_eval._cli").HarnessCLI()
    with as_arguments(["lm-eval", "run", *arguments]):
        flags = command.parse_args()
    settings: dict[str, object] = {}
    if getattr(flags, "config", None):
        settings = import_module("lm_eval.config.evaluate_config").EvaluatorConfig.load_yaml_config(flags.config)
    settings = {**settings, **{key: value for key, value in vars(flags).items() if value}}  # flags override the file
    model = settings.get("model")
    if isinstance(model, str) and model not in registry and not settings.get("plugins"):  # they add models later
        raise ModelError(f"lm-eval has no model {model!r}{near(model, registry)}; it has {', '.join(sorted(registry))}")
    folder, include_paths = stubs_folder(), [str(path) for path in _as_list(settings.get("include_path"))]
    has_stubs = any(Path(path).parent == folder.parent for path in include_paths)  # perhaps of more tasks
    flags.include_path = [*([] if has_stubs else [str(folder)]), *include_paths]
    tasks = [name for text in _as_list(settings.get("tasks")) for name in str(text).replace(",", " ").split()]
    figeval_tasks = [name for name in tasks if name.startswith(PREFIX)]
    if not include_paths:
        _check(figeval_tasks, [file.stem for file in folder.glob("*.yaml")])
    if tasks and figeval_tasks == tasks:
        with without_its_tasks(flags):
            command.execute(flags)
    else:
        command.execute(flags)


def _as_list(value: object) -> list[object]:
    if not value:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _check(tasks: Sequence[str], task_names: Sequence[str]) -> None:
    for name in tasks:
        if name not in task_names and not set(name) & set("*?["):
            raise UnknownName("task", name, task_names, see="figeval ls tasks")


@contextmanager
def as_arguments(arguments: list[str]) -> Iterator[None]:
    """Set `sys.argv` within this context, because lm-eval's parser reads nothing else."""
    original, sys.argv = sys.argv, arguments
    try:
        yield
    finally:
        sys.argv = original
