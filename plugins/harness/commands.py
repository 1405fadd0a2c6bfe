"""`figeval lm-eval`: our tasks and models in lm-eval."""

from __future__ import annotations

from pathlib import Path

import click


@click.group("lm-eval")
def lm_eval() -> None:
    """Run our tasks in lm-eval."""


@lm_eval.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...]) -> None:
    """`lm-eval run` with our tasks and models; all its flags.

    \b
    figeval lm-eval run --model hf --model_args pretrained=gpt2 --tasks figeval_epic_mcq
    figeval lm-eval run --model figeval-hf --model_args pretrained=gpt2 --tasks arc_easy
    """
    from .launch import launch

    try:
        launch(arguments)
    except SystemExit as ended:  # lm-eval's parser ends like this, after --help with 0
        click.get_current_context().exit(ended.code if isinstance(ended.code, int) else int(ended.code is not None))


@lm_eval.command()
@click.option(
    "--include_path",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with further task files of figeval.",
)
def stubs(include_path: tuple[Path, ...]) -> None:
    """Print the folder to give lm-eval as --include_path.

    \b
    lm-eval run --include_path "$(figeval lm-eval stubs)" --tasks figeval_epic_mcq --model hf --model_args …
    """
    from .stubs import stubs_folder

    click.echo(stubs_folder(include_path))
