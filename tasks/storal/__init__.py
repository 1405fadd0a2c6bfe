"""STORAL: stories and their morals. See README.md beside this file."""

from __future__ import annotations

from importlib.resources import files

from figeval.hooks import (
    CommandLine,
    LayoutRegistrar,
    MetricRegistrar,
    PresetRegistrar,
    SourceRegistrar,
    TaskRegistrar,
    hookimpl,
)


@hookimpl
def register_tasks(register: TaskRegistrar) -> None:
    """Register the tasks defined by the YAML files of this folder."""
    register.folder(files(__name__))


@hookimpl
def register_sources(register: SourceRegistrar) -> None:
    """Register the source `storal:<name>`; storal_rows.py lists the names."""
    register("storal", f"{__name__}.storal_rows:open")


CLASSIFIER = "the folder of a classifier that `figeval train --task storal_faithfulness_en --output FOLDER` has made"


@hookimpl
def register_metrics(register: MetricRegistrar) -> None:
    """Register the paper's metrics of written texts, corrected versions and win rates."""
    from figeval.task_types.generation import Generation

    texts, outlines, preference = (
        f"{__name__}.{module}" for module in ("storal_metrics", "outline_metrics", "preference.win_rates")
    )
    for name in ("bleu_1", "bleu_2", "bleu_1_full_width", "bleu_2_full_width", "length_published"):
        register(name, f"{texts}:{name}", task_types=["generation"])
    for name in ("repetition_2", "repetition_4_published"):
        register(name, f"{texts}:{name}", higher_is_better=False, task_types=["generation"])
    for name in ("distinct_2_published", "distinct_4"):
        register(name, f"{texts}:{name}", task_types=["generation"], routes=Generation.written_routes)
    for name in ("coverage", "coverage_corrected", "order", "order_corrected", "phrases_found"):
        register(name, f"{outlines}:{name}", task_types=["generation"])
    for name in ("win_antonym", "win_synonym", "win_synonym_antonym", "win_difference"):
        register(name, f"{preference}:{name}", task_types=["choice"])
    for name in ("faithfulness", "faithfulness_probability", "faithfulness_references"):
        register(name, f"{__name__}.faithfulness:{name}", task_types=["generation"], argument=CLASSIFIER)


@hookimpl
def register_presets(register: PresetRegistrar) -> None:
    """Register the training settings of the paper's models."""
    register(files(__name__) / "storal.presets.yaml")


@hookimpl
def register_layouts(register: LayoutRegistrar) -> None:
    """Register the tables of the paper."""
    register(files(__name__) / "storal.layouts.yaml")


@hookimpl
def register_commands(cli: CommandLine) -> None:
    """Register `figeval benchmark build storal`, `build storal-items`, `analyze storal` and `analyze preference`."""
    building = f"{__name__}.building.build_storal"
    summary = "Build STORAL's tasks from your own stories and morals."
    cli.add_lazy_command("benchmark build storal", f"{building}:storal", summary)
    summary = "Rebuild the items of the built-in English tasks."
    cli.add_lazy_command("benchmark build storal-items", f"{building}:storal_items", summary)
    summary = "Recompute the statistics of STORAL."
    cli.add_lazy_command("benchmark analyze storal", f"{__name__}.analysis.analyze_storal:storal", summary)
    summary = "Test whether models prefer a moral to its rewritten versions."
    target = f"{__name__}.preference.analyze_preference:preference"
    cli.add_lazy_command("benchmark analyze preference", target, summary)
